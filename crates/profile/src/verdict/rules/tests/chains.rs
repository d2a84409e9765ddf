//! Rules about threads that hold each other up.

use super::super::*;
use super::{UNIT, check};
use crate::off_cpu::{WaitReason, known_lock};
use crate::verdict::rules::examples::firing;
use crate::verdict::verdict;

fn changed(number: u8, change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = firing(number);
    change(&mut facts);
    facts
}

fn names(facts: &Facts) -> Vec<&'static str> {
    verdict(facts).iter().map(|finding| finding.name).collect()
}

#[test]
fn goroutines_that_wait_for_a_lock_are_reported_with_the_function_that_takes_it() {
    let of = |average| {
        changed(28, |f| {
            f.waits.goroutines.iter_mut().for_each(|of| of.rows[0].average = average);
        })
    };
    check(28, firing(28), changed(28, |f| f.waits.goroutines = None));
    // A sixth of all; and one of two, which is what a lock is for.
    check(28, firing(28), of(8.0));
    let alone = |f: &mut Facts| {
        f.waits.goroutines.iter_mut().for_each(|of| (of.average, of.rows[0].average) = (2.0, 1.0));
    };
    check(28, firing(28), changed(28, alone));
    // Threads that wait for the lock show it with its share.
    let both = changed(8, |f| f.waits.goroutines = firing(28).waits.goroutines);
    assert_eq!(
        names(&both).iter().filter(|name| ["goroutines", "lock-contention"].contains(name)).count(),
        1
    );
    let found = verdict(&firing(28));
    let finding = found.iter().find(|finding| finding.name == "goroutines").expect("it fires");
    assert_eq!(finding.claim, "Go: 40 of 52 goroutines wait for a mutex in main.handler (main.go:12)");
    assert_eq!(finding.detail, "the longest for 3.2 s or more");
}

#[test]
fn threads_that_take_turns_are_a_serial_chain() {
    let few_handovers = changed(21, |f| {
        let path = f.waits.path.as_mut().expect("it has one");
        path.handovers = 2;
    });
    check(21, firing(21), few_handovers);
    // Mostly asleep: a shorter function changes little.
    check(21, firing(21), changed(21, |f| f.waits.path.as_mut().expect("it has one").on = 0.2));
    // Three threads want a CPU at a time.
    check(21, firing(21), changed(21, |f| f.times.on_ns = 3000 * UNIT));
    let found = verdict(&firing(21));
    let chain = found.iter().find(|finding| finding.name == "serial-chain").expect("it is found");
    assert_eq!(chain.detail, "the run would be at most 58 % shorter without crunch() of thread feeder");
    assert!(chain.claim.starts_with("One thread sets the pace: feeder has 97 %"), "{}", chain.claim);
    let shared = changed(21, |f| {
        let path = f.waits.path.as_mut().expect("it has one");
        (path.threads[0].1, path.most_of_one.1) = (0.6, 0.6);
    });
    let claim = (RULES[20].ask)(&shared).expect("it fires").claim;
    assert!(
        claim.starts_with("Threads take turns: ") && claim.contains("critical path: feeder 60 %"),
        "{claim}"
    );
}

#[test]
fn a_chain_whose_threads_mostly_want_a_cpu_that_others_have_comes_after_these() {
    let of = |queued: f64, others: f64| {
        changed(21, |f| {
            f.times.runnable_ns = 50 * UNIT;
            f.queue.others_ran = super::others_ran(others, "make");
            f.system.busy = Some(1.0);
            f.waits.path.as_mut().expect("it has one").queued = queued;
        })
    };
    let order = |facts: &Facts| {
        let found = names(facts);
        let at = |name| found.iter().position(|found| *found == name);
        (at("cpu-saturation"), at("serial-chain"))
    };
    let (first, second) = order(&of(0.55, 0.75));
    assert!(first.is_some() && first < second, "{first:?} {second:?}");
    let (later, chain) = order(&of(0.1, 0.75));
    assert!(chain < later, "{chain:?} {later:?}");
    let finding = (RULES[20].ask)(&of(0.55, 0.75)).expect("it fires");
    assert!(finding.evidence[1].contains("5 % of it runs, 55 % waits for a CPU"), "{:?}", finding.evidence);
    assert!((finding.share - 0.05).abs() < 1e-9, "{}", finding.share);
}

#[test]
fn a_path_of_many_threads_and_small_functions_is_not_one_thread_or_function() {
    let small = changed(21, |f| {
        let path = f.waits.path.as_mut().expect("it has one");
        path.threads = vec![("python3 (in 400 threads)".into(), 0.99)];
        path.most_of_one = ("python3".into(), 0.02);
        path.top.as_mut().expect("it has one").bound = 0.05;
        f.times.blocked_ns.insert(WaitReason::Pipe, 60 * UNIT);
    });
    // Without waits for each other, that is how a program with threads starts.
    let starts = changed(21, |f| f.waits.path.clone_from(&small.waits.path));
    assert_eq!((RULES[20].ask)(&starts), None);
    let finding = (RULES[20].ask)(&small).expect("it fires");
    assert!(!finding.claim.contains("critical path"), "{}", finding.claim);
    assert!(
        finding.detail.starts_with("no function has more than 5 % of the critical path; "),
        "{}",
        finding.detail
    );
    assert_eq!(finding.fix, "let the threads work at the same time");
    let many = (RULES[20].ask)(&Facts { processes: 8, ..small }).expect("it fires");
    assert!(many.claim.contains(" threads of 8 processes "), "{}", many.claim);
    assert_eq!(many.fix, "let the processes work at the same time");
}

#[test]
fn threads_that_take_turns_have_no_bursts_and_no_advice_to_be_fewer() {
    let saturation = RULES[5].ask;
    let waiting = |number, share| {
        changed(number, |f| {
            f.times.runnable_ns = 50 * UNIT;
            f.queue.others_ran = super::others_ran(share, "make");
            (f.wall_s, f.system.busy) = (f.wall_s.max(0.3), Some(if share > 0.1 { 1.0 } else { 0.0 }));
        })
    };
    assert!((saturation)(&waiting(6, 0.05)).expect("it fires").claim.contains("compute in bursts"));
    assert_eq!((saturation)(&waiting(21, 0.05)), None);
    // Other programs that have most of the CPUs are a finding all the same; its own threads are not the trouble.
    assert_eq!((saturation)(&waiting(21, 0.25)), None);
    let shared = (saturation)(&waiting(21, 0.75)).expect("it fires");
    assert!(shared.claim.ends_with("CPUs that other programs use"), "{shared:?}");
    assert_eq!(shared.fix, "take other load off this machine");
    let alone = (saturation)(&waiting(6, 0.25)).expect("it fires");
    assert_eq!(alone.fix, "run fewer threads at a time, or take other load off this machine");
}

#[test]
fn where_threads_wait_for_pythons_lock_the_remedy_is_processes() {
    let locked = changed(21, |f| {
        f.waits.path.as_mut().expect("it has one").most_of_one.1 = 0.5;
        f.waits.locks = firing(22).waits.locks;
        f.waits.locks[0].known = Some(known_lock::PYTHON);
        f.waits.locks[0].wait_ns = UNIT;
    });
    let finding = (RULES[20].ask)(&locked).expect("it fires");
    assert!(
        finding.fix.starts_with("use processes, because Python's GIL lets one thread run"),
        "{}",
        finding.fix
    );
}

#[test]
fn threads_in_line_for_one_lock_are_a_convoy() {
    check(22, firing(22), changed(22, |f| f.waits.locks[0].wait_ns = 900 * UNIT));
    check(22, firing(22), changed(22, |f| f.cpus_used = 1.9));
    check(22, firing(22), changed(22, |f| f.waits.locks[0].for_work = true));
    let found = names(&firing(22));
    assert!(found.contains(&"convoy") && !found.contains(&"lock-contention"), "{found:?}");
}

#[test]
fn data_that_tcp_holds_back_is_told_with_its_remedy() {
    check(27, firing(27), changed(27, |f| f.waits.held_back = None));
    check(27, firing(27), changed(27, |f| f.waits.held_back.iter_mut().for_each(|of| of.waits = 4)));
    check(27, firing(27), changed(27, |f| f.waits.held_back.iter_mut().for_each(|of| of.ns = 40 * UNIT)));
    let found = verdict(&firing(27));
    assert_eq!(
        found[0].claim,
        "TCP holds data back: at least 80 % of thread time waits for small messages, mostly 41 ms each"
    );
    assert!(!names(&firing(27)).contains(&"waiting-for-others"));
}

#[test]
fn a_peer_outside_of_the_recording_is_named() {
    check(23, firing(23), changed(23, |f| f.waits.peer = None));
    check(23, firing(23), changed(23, |f| f.times.on_ns = 2000 * UNIT));
    let found = verdict(&firing(23));
    assert_eq!(found[0].claim, "Slow peer: 80 % of thread time waits for postgres 812 at 127.0.0.1:5432");
    assert_eq!(found[0].next, "tally run -p 812 -- sleep 5");
    assert!(!names(&firing(23)).contains(&"waiting-for-others"));
}

#[test]
fn collecting_garbage_and_waiting_for_that_are_one_finding() {
    let found = verdict(&firing(25));
    assert_eq!(found[0].claim, "Garbage collection: 50 % of thread time", "{found:?}");
    assert_eq!(found[0].detail, "38 % waiting for it or for memory · 12 % collecting");
    let little = changed(25, |f| {
        f.times.blocked_ns.clear();
        f.code.collects = 0.09;
    });
    check(25, firing(25), little);
    // Others have the CPUs most of the time: what is left counts.
    let disturbed = |collects: f64| {
        changed(25, |f| {
            f.times.blocked_ns.clear();
            (f.times.preempted_ns, f.code.collects) = (400 * UNIT, collects);
        })
    };
    check(25, disturbed(0.3), disturbed(0.05));
}

#[test]
fn a_loop_that_blocks_in_a_handler_comes_before_the_waits_for_it() {
    check(24, firing(24), changed(24, |f| f.waits.blocked_loops[0].longest_ns = 2_000_000));
    check(24, firing(24), changed(24, |f| f.waits.blocked_loops[0].of_loop = 0.05));
    // A loop that computes: less of its time is too much.
    let busy = |of_loop: f64| {
        changed(24, |f| {
            let of = &mut f.waits.blocked_loops[0];
            (of.reason, of.of_loop, of.waits) = ("on CPU".into(), of_loop, 3);
        })
    };
    check(24, busy(0.1), busy(0.04));
    let found = (RULES[23].ask)(&busy(0.1)).expect("it fires");
    assert!(
        found.claim.contains(" is busy in slow(), 10 % of its time") && found.detail.starts_with("3 times ")
    );
    let waits = changed(24, |f| {
        f.times.blocked_ns.insert(WaitReason::Socket, 300 * UNIT);
    });
    assert_eq!(names(&waits)[..2], ["head-of-line", "waiting-for-others"]);
}
