//! Blame of made-up recordings.

use super::*;
use crate::off_cpu::{OffCpuSource, RelatedThread, RunSample, ThreadBirth, ThreadTotals, Wait};
use crate::profile::Task;
use crate::table::{Dso, DsoKind, Frame, FrameId};
use perfdata::off_cpu::{State, WaitSums, flag};
use std::ops::Range;

/// A recording under construction.
struct Recorded {
    profile: Profile,
}

impl Recorded {
    fn new(threads: &[&str]) -> Self {
        let mut profile = Profile::default();
        for (tid, name) in (1..).zip(threads) {
            let comm = profile.strings.intern(name);
            profile.push_task(Task { pid: 1, tid, process: 0, comm });
            profile.last_comms.insert(tid, comm);
        }
        profile.off_cpu.source = Some(OffCpuSource::Tally);
        let dso = profile.dsos.intern(Dso {
            kind: DsoKind::File,
            path: "/app".to_owned(),
            short_name: "app".to_owned(),
            build_id: None,
            level: '.',
            start_avma: 0,
        });
        for addr in 0..200 {
            profile.frames.intern(Frame { dso, addr, lookup: addr, first_avma: addr });
        }
        Self { profile }
    }

    fn site(&mut self, frame: usize) -> CallsiteId {
        let path = [FrameId::from_index(frame)];
        self.profile.callsites.intern_leaf_first(&path).expect("a path of one frame")
    }

    /// A wait of its length that `waker` (a thread's number, 0 for none) ended.
    fn wait(&mut self, thread: usize, state: State, span: Range<u64>, waker: u32) -> &mut Wait {
        let callsite = self.site(thread * 10 + usize::from(state.code()));
        let comm = self.profile.strings.intern("");
        let woken_from = self.site(100 + waker as usize);
        let other = RelatedThread { pid: 1, tid: waker, comm, callsite: Some(woken_from) };
        self.profile.off_cpu.waits.push(Wait {
            callsite: Some(callsite),
            state,
            since_ns: span.start,
            length_ns: span.end - span.start,
            weight_ns: span.end - span.start,
            syscall: Some(202),
            other: Some(other).filter(|_| waker > 0 && state == State::Sleep),
            ..Wait::of(TaskId::from_index(thread))
        });
        self.profile.off_cpu.waits.last_mut().expect("just pushed")
    }

    fn ran(&mut self, thread: usize, frame: usize, times: impl IntoIterator<Item = u64>) {
        let callsite = self.site(frame);
        for time_ns in times {
            let task = TaskId::from_index(thread);
            self.profile.off_cpu.seen_running.push(RunSample {
                task,
                time_ns,
                callsite,
                period: 10,
                cpu: None,
            });
        }
    }

    /// Totals of each thread's life; all time without a wait is running.
    fn end(&mut self, end_ns: u64) {
        for thread in 0..self.profile.tasks().len() {
            let task = TaskId::from_index(thread);
            let mut total_ns = [0; 8];
            for wait in self.profile.off_cpu.waits.iter().filter(|wait| wait.task == task) {
                total_ns[usize::from(wait.state.code())] += wait.weight_ns;
            }
            total_ns[0] = end_ns - total_ns.iter().sum::<u64>();
            self.profile.off_cpu.totals.push(ThreadTotals {
                task,
                start_ns: 0,
                end_ns,
                total_ns,
                switches: 1,
            });
        }
    }

    /// (names of the chain, leaf frame, end, ns) of a thread's time.
    fn blamed(&self, thread: &str) -> Vec<(String, Option<usize>, BlameEnd, u64)> {
        let found = blame(&self.profile, Some(thread));
        let row = |path: &BlamePath| {
            let links = found.links(path);
            let chain = links.iter().map(|link| thread_name(&self.profile, link.waited_for));
            let leaf = path.callsite.map(|site| self.profile.callsites.of(site).frame.index());
            (chain.collect::<Vec<_>>().join(">"), leaf, path.end.clone(), path.ns)
        };
        found.paths.iter().map(row).collect()
    }
}

#[test]
fn a_wait_is_for_what_the_thread_before_the_waker_did_meanwhile() {
    // feeder computes 100..600 and sleeps 600..900; worker waits for it up to 900, works to 1000, then wakes main.
    let mut of = Recorded::new(&["main", "worker", "feeder"]);
    of.wait(0, State::Sleep, 100..1000, 2);
    of.wait(1, State::Sleep, 0..900, 3);
    of.wait(2, State::Sleep, 600..890, 0).other = None;
    of.ran(0, 1, [50]);
    of.ran(1, 2, [950]);
    of.ran(2, 3, (5..60).map(|at| at * 10));
    of.end(1100);
    let rows = of.blamed("main");
    let unknown = BlameEnd::WakerUnknown(Part::Blocked(WaitReason::Futex));
    assert_eq!(
        rows,
        [
            ("worker>feeder".to_owned(), Some(3), BlameEnd::Ran, 510),
            ("worker>feeder".to_owned(), Some(23), unknown, 290),
            (String::new(), Some(1), BlameEnd::Ran, 200),
            ("worker".to_owned(), Some(2), BlameEnd::Ran, 100),
        ]
    );
}

#[test]
fn time_without_a_sample_has_the_stack_of_the_wake_up_and_says_so() {
    let mut of = Recorded::new(&["main", "worker"]);
    of.wait(0, State::Sleep, 100..150, 2);
    of.ran(0, 1, [50]);
    of.end(200);
    let rows = of.blamed("main");
    assert_eq!(rows[1], ("worker".to_owned(), Some(102), BlameEnd::RanUnsampled, 50));
    assert_eq!(blame(&of.profile, Some("main")).unknown_ns(), 50);
}

#[test]
fn a_chain_with_next_to_no_time_ends_under_a_name_of_its_own() {
    let mut of = Recorded::new(&["main", "worker"]);
    of.wait(0, State::Sleep, 100..150, 2);
    of.wait(0, State::Sleep, 1000..21_000, 2);
    of.ran(0, 1, [50]);
    of.ran(1, 2, [120, 5000]);
    of.end(40_000_000);
    // Both waits are at one place: together they are enough.
    assert_eq!(of.blamed("main")[1], ("worker".to_owned(), Some(2), BlameEnd::Ran, 20_050));
    of.profile.off_cpu.waits[0].callsite = Some(of.site(150));
    assert_eq!(
        of.blamed("main")[1..],
        [
            ("worker".to_owned(), Some(2), BlameEnd::Ran, 20_000),
            (String::new(), Some(150), BlameEnd::TooLittle, 50),
        ]
    );
    assert_eq!(blame(&of.profile, Some("main")).unknown_ns(), 50);
}

/// main waits 100..1000 for worker, which is preempted 200..500 and waits 500..900 for feeder.
fn preempted_worker() -> Recorded {
    let mut of = Recorded::new(&["main", "worker", "feeder"]);
    of.wait(0, State::Sleep, 100..1000, 2);
    of.wait(1, State::Preempted, 200..500, 0);
    of.wait(1, State::Sleep, 500..900, 3);
    of.ran(1, 2, [150, 950]);
    of.ran(2, 3, (15..90).map(|at| at * 10));
    of
}

#[test]
fn a_preempted_waker_whose_own_waker_works_meanwhile_delays_nobody() {
    let mut of = preempted_worker();
    of.end(1100);
    let rows = of.blamed("main");
    assert!(rows.contains(&("worker>feeder".to_owned(), Some(3), BlameEnd::Ran, 700)), "{rows:?}");
    assert!(rows.contains(&("worker".to_owned(), Some(2), BlameEnd::Ran, 200)), "{rows:?}");
}

#[test]
fn a_preempted_waker_whose_own_waker_sleeps_meanwhile_delays_main() {
    let mut of = preempted_worker();
    of.wait(2, State::Sleep, 250..450, 0).flags = flag::OPEN_RIGHT;
    of.end(1100);
    let rows = of.blamed("main");
    let preempted = BlameEnd::Waited(Part::Preempted);
    assert!(rows.contains(&("worker>feeder".to_owned(), Some(3), BlameEnd::Ran, 500)), "{rows:?}");
    assert!(rows.contains(&("worker".to_owned(), Some(12), preempted, 200)), "{rows:?}");
}

#[test]
fn a_preemption_before_a_chance_meeting_counts() {
    let mut of = preempted_worker();
    // The wait for feeder is short.
    of.profile.off_cpu.waits[2].since_ns = 880;
    of.profile.off_cpu.waits[2].length_ns = 20;
    of.profile.off_cpu.waits[2].weight_ns = 20;
    of.end(1100);
    let rows = of.blamed("main");
    let is_preempted = |(_, _, end, ns): &(String, Option<usize>, BlameEnd, u64)| {
        (end, *ns) == (&BlameEnd::Waited(Part::Preempted), 300)
    };
    assert!(rows.iter().any(is_preempted), "{rows:?}");
}

#[test]
fn before_a_thread_began_the_thread_that_made_it_is_waited_for() {
    let mut of = Recorded::new(&["main", "maker", "worker"]);
    of.wait(0, State::Sleep, 100..1000, 3);
    of.ran(1, 2, [150, 250]);
    of.ran(2, 3, [500, 700]);
    of.end(1100);
    (of.profile.off_cpu.totals[2].start_ns, of.profile.off_cpu.totals[2].total_ns[0]) = (400, 700);
    assert!(of.blamed("main").contains(&("worker".to_owned(), None, BlameEnd::Unborn, 300)));
    of.profile.off_cpu.births.push(ThreadBirth { tid: 3, parent_tid: 2, time_ns: 400 });
    let rows = of.blamed("main");
    assert!(rows.contains(&("worker>maker".to_owned(), Some(2), BlameEnd::Ran, 300)), "{rows:?}");
    assert!(rows.contains(&("worker".to_owned(), Some(3), BlameEnd::Ran, 600)), "{rows:?}");
}

#[test]
fn the_thread_s_own_preemption_is_its_own() {
    let mut of = preempted_worker();
    of.end(1100);
    let own = of.blamed("worker");
    assert!(
        own.iter().any(|(_, _, end, ns)| (end, *ns) == (&BlameEnd::Waited(Part::Preempted), 300)),
        "{own:?}"
    );
}

#[test]
fn a_sampled_wait_counts_for_all_that_it_represents() {
    let mut of = Recorded::new(&["main", "worker"]);
    let wait = of.wait(0, State::Sleep, 500..600, 2);
    wait.weight_ns = 400;
    wait.sums = Some(Box::new(WaitSums { since_ns: 100, count: 4, ..WaitSums::default() }));
    of.ran(1, 3, [550]);
    of.end(1000);
    let rows = of.blamed("main");
    assert!(rows.contains(&("worker".to_owned(), Some(3), BlameEnd::Ran, 400)), "{rows:?}");
}

#[test]
fn waits_that_could_not_be_have_their_time_divided_among_the_others() {
    // In sums, half of worker's life is waits for main, a quarter waits for feeder: while main waits, the latter are half.
    let mut of = Recorded::new(&["main", "worker", "feeder"]);
    of.wait(1, State::Sleep, 0..10, 1).weight_ns = 500;
    of.wait(1, State::Disk, 10..20, 0).weight_ns = 250;
    for at in [0, 1] {
        let wait = &mut of.profile.off_cpu.waits[at];
        wait.sums = Some(Box::new(WaitSums { since_ns: 1, count: 50, ..WaitSums::default() }));
        wait.since_ns = 1000;
        wait.length_ns = 0;
    }
    of.wait(0, State::Sleep, 400..800, 2);
    of.end(1000);
    let rows = of.blamed("main");
    let of_worker: Vec<u64> =
        rows.iter().filter(|(chain, ..)| chain == "worker").map(|(.., ns)| *ns).collect();
    assert_eq!(of_worker, [200, 200], "{rows:?}");
}

#[test]
fn a_thread_that_hardly_runs_did_not_run_where_its_sums_are_less_than_all_time() {
    // 950 of 1000 are waits, of which 300 are in the first half of its life: it runs for 5 % of its time, not for 40 %.
    let mut of = Recorded::new(&["main", "worker"]);
    for (at, (since_ns, end_ns, weight_ns)) in [(1, 500, 300), (500, 1000, 650)].into_iter().enumerate() {
        of.wait(1, State::Disk, 0..10, 0);
        let wait = &mut of.profile.off_cpu.waits[at];
        wait.sums = Some(Box::new(WaitSums { since_ns, count: 50, ..WaitSums::default() }));
        (wait.since_ns, wait.length_ns, wait.weight_ns) = (end_ns, 0, weight_ns);
    }
    of.wait(0, State::Sleep, 100..400, 2);
    of.end(1000);
    let rows = of.blamed("main");
    let ran = rows.iter().find(|(chain, _, end, _)| chain == "worker" && *end == BlameEnd::RanUnsampled);
    assert!(ran.is_some_and(|(.., ns)| (15..30).contains(ns)), "{rows:?}");
}

#[test]
fn threads_that_wait_for_each_other_are_a_knot() {
    let mut of = Recorded::new(&["a", "b"]);
    of.wait(0, State::Sleep, 100..500, 2);
    of.wait(1, State::Sleep, 0..600, 1);
    of.end(1000);
    let knot = ("b".to_owned(), Some(13), BlameEnd::Knot(TaskId::from_index(0)), 400);
    assert!(of.blamed("a").contains(&knot), "{:?}", of.blamed("a"));
}

#[test]
fn without_a_name_the_thread_that_no_other_made_is_meant() {
    let mut of = Recorded::new(&["main"]);
    let comm = of.profile.strings.intern("child");
    of.profile.push_task(Task { pid: 2, tid: 2, process: 1, comm });
    of.end(1000);
    of.profile.off_cpu.births.push(ThreadBirth { tid: 2, parent_tid: 1, time_ns: 3 });
    assert_eq!(blame(&of.profile, None).roots, [TaskId::from_index(0)]);
}

/// Random waits, sums and wakers: whatever they are, no nanosecond is lost or made.
#[test]
fn paths_add_up_to_the_thread_s_time_whatever_was_recorded() {
    let mut seed = 7u64;
    let mut random = |most: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % most
    };
    for round in 0..60 {
        let names = ["a", "b", "c", "d", "e"];
        let mut of = Recorded::new(&names);
        let end = 1_000_000 + random(1_000_000);
        for thread in 0..names.len() {
            let mut now = random(1000);
            loop {
                let (ran, length) = (random(9000), 1 + random(30_000));
                let states = [State::Runnable, State::Preempted, State::Sleep, State::Sleep, State::Disk];
                let (from, to) = (now + ran, now + ran + length);
                if to > end {
                    break;
                }
                let waker = random(7) as u32;
                let wait = of.wait(thread, states[random(5) as usize], from..to, waker);
                match random(4) {
                    0 => {
                        wait.weight_ns += ran / 2;
                        wait.sums = Some(Box::new(WaitSums { since_ns: now, ..WaitSums::default() }));
                    }
                    1 => {
                        wait.length_ns = 0;
                        wait.flags = flag::REST;
                    }
                    _ => {}
                }
                of.ran(thread, 50 + thread, (now..from).step_by(1000));
                now = to;
            }
        }
        of.end(end);
        for name in names {
            let found = blame(&of.profile, Some(name));
            let sum: u64 = found.paths.iter().map(|path| path.ns).sum();
            assert_eq!((sum, found.total_ns), (end, end), "{name} in round {round}");
            let opts = CriticalOpts { thread: Some(name.to_owned()), ..CriticalOpts::default() };
            let path = critical_path(&of.profile, &opts);
            let mut now = 0;
            for piece in &path.pieces {
                assert_eq!(piece.from_ns, now, "{name} in round {round}");
                now = piece.to_ns;
            }
            assert_eq!((now, path.parts.total_ns), (end, end), "{name} in round {round}");
            let mut now = 0;
            let mut of_thread = vec![0u64; names.len()];
            path.parts.paths.iter().for_each(|of| of_thread[path.parts.culprit(of).index()] += of.ns);
            for stretch in critical_strip(&of.profile, &opts, 5).1 {
                assert_eq!(stretch.from_ns, now, "{name} in round {round}");
                now = stretch.to_ns;
                let sum: u64 = stretch.parts.iter().map(|part| part.ns).sum();
                assert_eq!(sum, now - stretch.from_ns, "{name} in round {round}");
                stretch.parts.iter().for_each(|part| {
                    of_thread[part.task.index()] -= part.ns.min(of_thread[part.task.index()])
                });
            }
            // Each thread has as much of the strip as of the path.
            assert!(of_thread.iter().sum::<u64>() < end / 200, "{name} in round {round}: {of_thread:?}");
            assert_eq!(now, end, "{name} in round {round}");
        }
    }
}

/// (thread, state, from, to) of a path.
fn pieces(of: &Recorded, opts: &CriticalOpts) -> Vec<(String, BlameEnd, u64, u64)> {
    let path = critical_path(&of.profile, opts);
    let row = |piece: &CriticalPiece| {
        (thread_name(&of.profile, piece.task).to_owned(), piece.state.clone(), piece.from_ns, piece.to_ns)
    };
    path.pieces.iter().map(row).collect()
}

#[test]
fn the_critical_path_passes_from_a_sleeper_to_its_waker_and_a_thread_to_its_maker() {
    let mut of = Recorded::new(&["main", "worker", "feeder"]);
    of.wait(0, State::Sleep, 100..1000, 2);
    of.wait(1, State::Sleep, 50..900, 3);
    of.wait(0, State::Runnable, 1000..1010, 0);
    of.end(1100);
    of.profile.off_cpu.totals[2].start_ns = 80;
    of.profile.off_cpu.births.push(ThreadBirth { tid: 3, parent_tid: 1, time_ns: 80 });
    let ran = |thread: &str, from, to| (thread.to_owned(), BlameEnd::Ran, from, to);
    assert_eq!(
        pieces(&of, &CriticalOpts { thread: Some("main".to_owned()), ..CriticalOpts::default() }),
        [
            ran("main", 0, 80),
            ran("feeder", 80, 900),
            ran("worker", 900, 1000),
            ("main".to_owned(), BlameEnd::Waited(Part::Runnable), 1000, 1010),
            ran("main", 1010, 1100),
        ]
    );
}

#[test]
fn a_thread_that_polls_half_of_its_time_explains_nothing() {
    let of = |reason: WaitReason, polled_ns: u64, but: Option<TaskId>| {
        let path = |end, ns| BlamePath { root: TaskId(0), link: None, callsite: None, end, ns };
        let polled = path(BlameEnd::WaitedFor(Part::Blocked(reason), "epoll of socket 80".into()), polled_ns);
        let ran = path(BlameEnd::Ran, 100 - polled_ns);
        Blame { total_ns: 100, paths: vec![polled, ran], ..Blame::default() }.mostly_polls(but)
    };
    assert!(of(WaitReason::Poll, 50, None) && !of(WaitReason::Poll, 49, None));
    assert!(of(WaitReason::Timer, 50, Some(TaskId(1))) && !of(WaitReason::Futex, 90, None));
    // The busiest thread's own waits are what there is to know.
    assert!(!of(WaitReason::Poll, 95, Some(TaskId(0))));
    assert!(!Blame::default().mostly_polls(None));
}

/// The threads that these waits lead to, as if each were for an interpreter's global lock.
fn holders(of: &Recorded, waits: &[usize]) -> Vec<Option<usize>> {
    let mut lines = Timelines::of(&of.profile);
    lines.parts.iter_mut().for_each(|part| *part = Part::Blocked(WaitReason::Gil));
    let leads = Walk::leads(&lines);
    let to = |lead: &walk::Lead| match lead {
        walk::Lead::To(thread, _) => Some(*thread),
        walk::Lead::End(_) | walk::Lead::HandedOver(..) => None,
    };
    waits.iter().map(|&wait| to(&leads[wait])).collect()
}

#[test]
fn a_wait_for_the_interpreters_lock_that_its_limit_ends_is_for_the_thread_that_lets_go_next() {
    // holder computes to 120 and lets go; waiter looks up at 50 and 100; other asks from 60 on.
    let mut of = Recorded::new(&["waiter", "holder", "other"]);
    of.wait(0, State::Sleep, 0..50, 0);
    of.wait(0, State::Sleep, 51..100, 0);
    of.wait(0, State::Sleep, 101..120, 2);
    of.wait(2, State::Sleep, 60..200, 1);
    of.end(200);
    assert_eq!(holders(&of, &[0, 1, 2, 3]), [Some(1), Some(1), Some(1), Some(0)]);
}

#[test]
fn a_thread_that_is_blocked_itself_does_not_have_the_interpreters_lock() {
    // The next to let go, at 150, only got the lock at 120: who had it at 50 is not known.
    let mut of = Recorded::new(&["waiter", "late"]);
    of.wait(0, State::Sleep, 0..50, 0);
    of.wait(1, State::Sleep, 20..120, 0);
    of.wait(0, State::Sleep, 60..150, 2);
    of.end(200);
    assert_eq!(holders(&of, &[0, 1, 2]), [None, None, Some(1)]);
    // Awake at 50, or not there yet.
    of.profile.off_cpu.waits.remove(1);
    assert_eq!(holders(&of, &[0]), [Some(1)]);
    of.profile.off_cpu.totals[1].start_ns = 55;
    assert_eq!(holders(&of, &[0]), [None]);
}

/// main wakes feeder at 100 ms and is preempted by it until 700 ms; feeder computes up to 600 ms. `woken_by`: number of the
/// thread that woke feeder.
fn preempted_by_feeder(woken_by: u32, syscall: Option<u32>) -> Recorded {
    let ms = 1_000_000;
    let mut of = Recorded::new(&["main", "other", "feeder"]);
    let comm = of.profile.strings.intern("feeder");
    let feeder = RelatedThread { pid: 1, tid: 3, comm, callsite: None };
    let preempted = of.wait(0, State::Preempted, 100 * ms..700 * ms, 0);
    (preempted.other, preempted.syscall) = (Some(feeder), syscall);
    of.wait(2, State::Sleep, 0..100 * ms, woken_by);
    of.wait(2, State::Sleep, 600 * ms..800 * ms, 0).other = None;
    of.ran(0, 1, [50 * ms, 750 * ms]);
    of.ran(2, 3, (10..60).map(|at| at * 10 * ms));
    of.end(800 * ms);
    of
}

#[test]
fn a_preemption_by_a_thread_just_woken_is_for_what_that_one_does() {
    let of = preempted_by_feeder(1, Some(202));
    let (ms, preempted) = (1_000_000, BlameEnd::PreemptedBy("feeder".to_owned()));
    assert_eq!(
        of.blamed("main"),
        [
            ("feeder".to_owned(), Some(3), BlameEnd::Ran, 500 * ms),
            (String::new(), Some(1), BlameEnd::Ran, 200 * ms),
            (String::new(), Some(2), preempted.clone(), 100 * ms),
        ]
    );
    let opts = CriticalOpts { thread: Some("main".to_owned()), ..CriticalOpts::default() };
    let path = critical_path(&of.profile, &opts);
    let pieces = path.pieces.iter().map(|piece| {
        (thread_name(&of.profile, piece.task), piece.state.clone(), piece.from_ns / ms, piece.to_ns / ms)
    });
    assert_eq!(
        pieces.collect::<Vec<_>>(),
        [
            ("main", BlameEnd::Ran, 0, 100),
            ("feeder", BlameEnd::Ran, 100, 600),
            ("main", preempted, 600, 700),
            ("main", BlameEnd::Ran, 700, 800),
        ]
    );
}

#[test]
fn a_preemption_by_a_thread_that_another_woke_is_want_of_a_cpu() {
    let preempted = BlameEnd::PreemptedBy("feeder".to_owned());
    for of in [preempted_by_feeder(2, Some(202)), preempted_by_feeder(1, None)] {
        let rows = of.blamed("main");
        assert!(rows.contains(&(String::new(), Some(2), preempted.clone(), 600_000_000)), "{rows:?}");
    }
}

#[test]
fn a_thread_just_woken_that_wants_a_cpu_itself_stays_on_the_critical_path() {
    let ms = 1_000_000;
    let mut of = preempted_by_feeder(1, Some(202));
    of.wait(2, State::Preempted, 300 * ms..500 * ms, 0);
    let opts = CriticalOpts { thread: Some("main".to_owned()), ..CriticalOpts::default() };
    let preempted = |thread: &str, by: BlameEnd, from, to| (thread.to_owned(), by, from * ms, to * ms);
    let ran = |thread: &str, from, to| preempted(thread, BlameEnd::Ran, from, to);
    assert_eq!(
        pieces(&of, &opts),
        [
            ran("main", 0, 100),
            ran("feeder", 100, 300),
            preempted("feeder", BlameEnd::Waited(Part::Preempted), 300, 500),
            ran("feeder", 500, 600),
            preempted("main", BlameEnd::PreemptedBy("feeder".to_owned()), 600, 700),
            ran("main", 700, 800),
        ]
    );
}

#[test]
fn a_wait_that_the_kernels_network_thread_ended_is_a_cause_of_its_own() {
    for is_recorded in [true, false] {
        let mut of = Recorded::new(if is_recorded { &["main", "ksoftirqd/0"] } else { &["main"] });
        let comm = of.profile.strings.intern("ksoftirqd/0");
        of.wait(0, State::Sleep, 0..600, 2).other.as_mut().expect("it has a waker").comm = comm;
        of.end(600);
        let rows = of.blamed("main");
        let is_own = |(chain, _, end, ns): &(String, Option<usize>, BlameEnd, u64)| {
            chain.is_empty() && matches!(end, BlameEnd::Waited(Part::Blocked(_))) && *ns == 600
        };
        assert!(rows.len() == 1 && is_own(&rows[0]), "{rows:?}");
    }
}

#[test]
fn a_row_is_called_by_the_program_that_had_the_cpu_and_not_by_a_thread_of_the_kernel() {
    let mut of = Recorded::new(&["main", "rcu_preempt", "rustc", "make"]);
    let preempted = |of: &mut Recorded, tid: u32, span: Range<u64>| {
        let comm = of.profile.last_comms[&tid.cast_signed()];
        of.wait(0, State::Preempted, span, 0).other =
            Some(RelatedThread { pid: 1, tid, comm, callsite: None });
    };
    preempted(&mut of, 2, 0..500);
    of.end(500);
    let called = |of: &Recorded| {
        let rows = causes(&of.profile, &blame(&of.profile, Some("main")));
        rows.iter().map(|row| row.state_words(&of.profile)).collect::<Vec<_>>()
    };
    assert_eq!(called(&of), ["preempted by rcu_preempt"]);
    preempted(&mut of, 3, 500..700);
    preempted(&mut of, 4, 700..800);
    of.profile.off_cpu.totals.clear();
    of.end(800);
    assert_eq!(called(&of), ["preempted by rustc and others"]);
}
