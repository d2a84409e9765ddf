//! The BPF engine against threads that know how they spent their time. Skips with a message where BPF is denied.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use record::off_cpu::{
    EndRecord, Engine, EngineCounts, OffCpuOpts, OffCpuRecord, OffCpuRecordKind, Scope, SiteSums, WaitDetail,
};

/// Sums of one thread's samples, by kind.
#[derive(Debug, Default)]
struct Sums {
    weight_ns: [u64; 8],
    samples: u64,
    with_stack: u64,
    wakers: u64,
    /// Share of sampled sleeps whose waker is known.
    woken_ns: u64,
    /// By the sums of places: how many waits, and the longest.
    sleeps: u64,
    longest_sleep_ns: u64,
}

impl Sums {
    fn take_site(&mut self, site: &SiteSums) {
        assert_eq!(u64::from(site.count), site.lengths.iter().map(|&many| u64::from(many)).sum::<u64>());
        if site.kind == OffCpuRecordKind::Sleep {
            self.sleeps += u64::from(site.count);
            self.longest_sleep_ns = self.longest_sleep_ns.max(site.longest_ns);
        }
    }
}

#[derive(Debug, Default)]
struct Recorded {
    sums: HashMap<u32, Sums>,
    ends: HashMap<u32, EndRecord>,
    counts: EngineCounts,
    unwoken: Option<(u64, u64)>,
}

impl Recorded {
    fn take(&mut self, record: OffCpuRecord<'_>) {
        match record {
            OffCpuRecord::Sample(sample) => {
                let sums = self.sums.entry(sample.tid()).or_default();
                sums.weight_ns[sample.kind() as usize] += sample.wait_weight_ns();
                sums.weight_ns[OffCpuRecordKind::Runnable as usize] += sample.runnable_weight_ns();
                sums.samples += 1;
                sums.woken_ns += if sample.other_tid() != 0 && sample.kind() == OffCpuRecordKind::Sleep {
                    sample.wait_weight_ns()
                } else {
                    0
                };
                sample.site().iter().for_each(|site| sums.take_site(site));
                sums.with_stack += u64::from(sample.stack().len() > 64 && sample.kernel_chain().count() > 1);
            }
            OffCpuRecord::Waker(waker) => self.sums.entry(waker.tid()).or_default().wakers += 1,
            OffCpuRecord::Rest(rest) => {
                let sums = self.sums.entry(rest.tid).or_default();
                sums.weight_ns[rest.sums.kind as usize] += rest.sums.wait_ns;
                sums.weight_ns[OffCpuRecordKind::Runnable as usize] += rest.sums.runnable_ns;
                sums.take_site(&rest.sums);
            }
            OffCpuRecord::Exec(_) | OffCpuRecord::Site(_) => {}
            OffCpuRecord::End(end) => {
                self.ends.insert(end.tid, *end);
            }
        }
    }
}

fn gettid() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").expect("proc is mounted");
    link.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok()).expect("a tid")
}

/// A thread that has reported its tid and waits for [`Held::go`].
struct Held {
    tid: u32,
    go: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

fn hold(body: impl FnOnce() + Send + 'static) -> Held {
    let (send, receive) = mpsc::channel();
    let (go, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        send.send(gettid()).expect("the test waits for it");
        wait.recv().expect("the test lets it go");
        body();
    });
    Held { tid: receive.recv().expect("the thread starts"), go, thread }
}

fn run_to_end(threads: Vec<Held>) {
    threads.iter().for_each(|held| held.go.send(()).expect("the thread waits"));
    threads.into_iter().for_each(|held| held.thread.join().expect("no panic"));
}

fn record_threads(scope: &Scope, during: impl FnOnce()) -> Option<Recorded> {
    record_with(&OffCpuOpts::default(), scope, during)
}

fn record_with(options: &OffCpuOpts, scope: &Scope, during: impl FnOnce()) -> Option<Recorded> {
    record_reading(Reading::Always, options, scope, during)
}

/// When the engine's ring is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Always,
    /// The same, and it adapts itself to the load, as in a recording.
    Adapting,
    /// Only after all has happened: what does not fit is lost, however slow the machine is.
    AtEnd,
}

fn record_reading(
    reading: Reading,
    options: &OffCpuOpts,
    scope: &Scope,
    during: impl FnOnce(),
) -> Option<Recorded> {
    let mut engine = match Engine::start(scope, options) {
        Ok(engine) => engine,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let mut recorded = Recorded::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if reading != Reading::AtEnd {
                    engine.poll(&mut |record| recorded.take(record));
                }
                if reading == Reading::Adapting {
                    engine.adapt(0);
                }
                std::thread::sleep(Duration::from_millis(20).min(engine.turns_in()));
            }
        });
        during();
        done.store(true, Ordering::Relaxed);
    });
    recorded.unwoken = engine.unwoken();
    let counts = engine.finish(&mut |record| recorded.take(record)).expect("flush");
    println!("counts {counts:?}");
    recorded.counts = counts;
    Some(recorded)
}

#[test]
#[ignore = "live: records on this machine"]
fn weights_and_carries_add_up_to_each_threads_lifetime() {
    let lock = Arc::new(Mutex::new(()));
    let nap = hold(|| (0..60).for_each(|_| std::thread::sleep(Duration::from_millis(5))));
    let short = hold(|| (0..1500).for_each(|_| std::thread::sleep(Duration::from_micros(100))));
    let other = Arc::clone(&lock);
    let holder = hold(move || {
        (0..20).for_each(|_| {
            let guard = other.lock().expect("not poisoned");
            std::thread::sleep(Duration::from_millis(10));
            drop(guard);
            std::thread::sleep(Duration::from_millis(2));
        });
    });
    let waiter = hold(move || {
        (0..20).for_each(|_| {
            drop(lock.lock().expect("not poisoned"));
            std::thread::sleep(Duration::from_millis(1));
        });
    });
    let busy = hold(|| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            std::hint::spin_loop();
        }
    });
    let tids = [nap.tid, short.tid, waiter.tid, busy.tid];
    let threads = vec![nap, short, holder, waiter, busy];
    let Some(recorded) = record_threads(&Scope::Threads(tids.to_vec()), || run_to_end(threads)) else {
        return;
    };
    for tid in tids {
        check_conservation(&recorded, tid);
    }
    let nap = &recorded.ends[&tids[0]];
    // Sixty naps of 5 ms; how long it waits for a CPU after each is the machine's affair.
    assert!(nap.total_ns[OffCpuRecordKind::Sleep as usize] >= 298_000_000, "{nap:?}");
}

fn check_conservation(recorded: &Recorded, tid: u32) {
    let end = recorded.ends.get(&tid).unwrap_or_else(|| panic!("no totals of {tid}: {recorded:?}"));
    let weights = recorded.sums.get(&tid).map_or([0; 8], |sums| sums.weight_ns);
    let life = end.end_ns - end.start_ns;
    let whole: u64 = end.total_ns.iter().sum();
    assert!(whole.abs_diff(life) * 100 <= life, "{tid}: {whole} of {life}: {end:?}");
    let parts = weights.iter().zip(end.carry_ns).zip(end.total_ns).enumerate();
    for (kind, ((weight, carry), total)) in parts.skip(1) {
        assert_eq!(weight + carry, total, "{tid} kind {kind}: {end:?}");
    }
    if let Some(sums) = recorded.sums.get(&tid) {
        // Waits that end with a switch that the kernel hides have no stack; on a busy machine few waits are many.
        let unseen = recorded.counts[0];
        assert!((sums.with_stack + unseen) * 100 >= sums.samples * 90, "{tid}: {sums:?}, {unseen} unseen");
    }
}

/// Sleeps at a stack of this depth: each is a place of its own.
#[inline(never)]
fn sleep_below(depth: u32) {
    if depth == 0 {
        std::thread::sleep(Duration::from_micros(200));
    } else {
        sleep_below(std::hint::black_box(depth - 1));
    }
    // Not the last call, which would need no stack.
    std::hint::black_box(depth);
}

#[test]
#[ignore = "live: records on this machine"]
fn with_few_stacks_many_places_make_few_samples_and_times_stay_whole() {
    const PERIOD_NS: u64 = 10_000_000;
    let samples_of = |detail| {
        let sleeper = hold(|| (0..400).for_each(|at| sleep_below(at % 200)));
        let tid = sleeper.tid;
        let options = OffCpuOpts { detail, period_ns: PERIOD_NS, ..OffCpuOpts::default() };
        let recorded = record_with(&options, &Scope::Threads(vec![tid]), || run_to_end(vec![sleeper]))?;
        check_conservation(&recorded, tid);
        let total_ns: u64 = recorded.ends[&tid].total_ns.iter().sum();
        Some((recorded.sums[&tid].samples, total_ns / PERIOD_NS))
    };
    let Some((by_period, periods)) = samples_of(WaitDetail::Few) else { return };
    // Some first ones of places, then two a period: sleep and the wait for a CPU have their own, half of one at least.
    assert!(by_period > 0 && by_period <= 80 + 4 * periods, "{by_period} samples in {periods} periods");
    let Some((by_place, _)) = samples_of(WaitDetail::All) else { return };
    assert!(by_place >= 200, "{by_place} samples");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_thread_blocked_before_and_after_recording_is_counted_whole() {
    let sleeper = hold(|| {});
    let tid = sleeper.tid;
    let Some(recorded) = record_threads(&Scope::Threads(vec![tid]), || {
        std::thread::sleep(Duration::from_millis(200));
    }) else {
        return;
    };
    check_conservation(&recorded, tid);
    let end = &recorded.ends[&tid];
    assert!(end.total_ns[OffCpuRecordKind::Sleep as usize] >= 190_000_000, "{end:?}");
    assert_eq!(recorded.sums[&tid].with_stack, 1, "{recorded:?}");
    run_to_end(vec![sleeper]);
}

/// Sums of `tid` without a look at stacks: time not represented by any sample is in the carry.
fn check_sums(recorded: &Recorded, tid: u32) {
    let end = recorded.ends.get(&tid).unwrap_or_else(|| panic!("no totals of {tid}: {:?}", recorded.ends));
    let weights = recorded.sums.get(&tid).map_or([0; 8], |sums| sums.weight_ns);
    assert_eq!(end.total_ns.iter().sum::<u64>(), end.end_ns - end.start_ns, "{end:?}");
    let parts = weights.iter().zip(end.carry_ns).zip(end.total_ns).enumerate();
    for (kind, ((weight, carry), total)) in parts.skip(1) {
        assert_eq!(weight + carry, total, "{tid} kind {kind}: {end:?}");
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn every_short_wait_is_counted_and_the_longest_is_known() {
    const NAPS: u64 = 3000;
    let (measured, longest) = mpsc::channel();
    let napper = hold(move || {
        let naps = (0..NAPS).map(|i| if i == 1234 { 30_000_000 } else { 50_000 }).map(Duration::from_nanos);
        let nap = |length| {
            let start = Instant::now();
            std::thread::sleep(length);
            start.elapsed()
        };
        measured.send(naps.map(nap).max()).expect("the test waits for it");
    });
    let tid = napper.tid;
    // A few samples only: nearly all is known as sums.
    let rarely = OffCpuOpts { period_ns: 100_000_000, ..OffCpuOpts::default() };
    let Some(recorded) = record_with(&rarely, &Scope::Threads(vec![tid]), || run_to_end(vec![napper])) else {
        return;
    };
    check_sums(&recorded, tid);
    let (sums, unseen) = (&recorded.sums[&tid], recorded.counts[0]);
    assert!((NAPS - unseen..NAPS + 20).contains(&sums.sleeps), "{sums:?}, {unseen} unseen");
    let longest = longest.recv().expect("it was measured").expect("there were naps").as_nanos();
    let found = u128::from(sums.longest_sleep_ns);
    // The timer runs from just before the switch away.
    assert!((29_900_000..=longest).contains(&found), "{found} of {longest}: {sums:?}");
}

/// The kernel's own counts of this thread: times it went to sleep, and ns it has waited for a CPU.
fn own_counts() -> [u64; 2] {
    let read = |file| std::fs::read_to_string(format!("/proc/thread-self/{file}")).expect("proc is mounted");
    let (status, schedstat) = (read("status"), read("schedstat"));
    let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let waited = schedstat.split_whitespace().nth(1);
    [sleeps, waited].map(|number| number.and_then(|text| text.trim().parse().ok()).unwrap_or(0))
}

/// Writes a byte and waits for one, so many times, on the first CPU; returns how [`own_counts`] grew.
fn ping_pong(mut from: std::io::PipeReader, mut to: std::io::PipeWriter, rounds: u32) -> [u64; 2] {
    let tid = gettid().to_string();
    let pinned = Command::new("taskset").args(["-cp", "0", &tid]).output().expect("util-linux is installed");
    assert!(pinned.status.success(), "{pinned:?}");
    let before = own_counts();
    for _ in 0..rounds {
        to.write_all(&[1]).expect("the other thread reads");
        from.read_exact(&mut [0]).expect("the other thread writes");
    }
    let after = own_counts();
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
#[ignore = "live: records on this machine"]
fn waits_are_exact_while_the_program_at_wake_ups_is_detached() {
    const ROUNDS: u32 = 400_000;
    let pipe = || std::io::pipe().expect("a pipe");
    let ((there_end, there), (back_end, back)) = (pipe(), pipe());
    let (counted, of_kernel) = mpsc::channel();
    let also_counted = counted.clone();
    let threads = vec![
        hold(move || counted.send(ping_pong(back_end, there, ROUNDS)).expect("the test reads it")),
        hold(move || also_counted.send(ping_pong(there_end, back, ROUNDS)).expect("the test reads it")),
    ];
    let tids = [threads[0].tid, threads[1].tid];
    let scope = Scope::Threads(tids.to_vec());
    let during = || run_to_end(threads);
    let Some(recorded) = record_reading(Reading::Adapting, &OffCpuOpts::default(), &scope, during) else {
        return;
    };
    let (unwoken, closed_ns) = recorded.unwoken.expect("so many switches that it was detached");
    println!("{unwoken} waits in {closed_ns} ns without the program");
    let of_kernel = of_kernel.iter().take(2).reduce(|a, b| [a[0] + b[0], a[1] + b[1]]).expect("two threads");
    tids.iter().for_each(|&tid| check_sums(&recorded, tid));
    let sum = |of: &dyn Fn(&EndRecord, &Sums) -> u64| -> u64 {
        tids.iter().map(|tid| of(&recorded.ends[tid], &recorded.sums[tid])).sum()
    };
    let sleeps = sum(&|_, sums| sums.sleeps);
    // Waits before and after the ping-pong, and those that end with a switch that the kernel hides.
    assert!(
        sleeps.abs_diff(of_kernel[0]) <= 20 + recorded.counts[0],
        "{sleeps}, by the kernel {of_kernel:?}"
    );
    assert!(unwoken * 2 > sleeps, "{unwoken} of {sleeps}");
    // In windows a wait for a CPU begins at the wake-up, for the kernel when the thread is queued, less than 2 µs later.
    let [runnable, preempted] = [OffCpuRecordKind::Runnable, OffCpuRecordKind::Preempted];
    let waited = sum(&|end, _| end.total_ns[runnable as usize] + end.total_ns[preempted as usize]);
    let apart = waited.abs_diff(of_kernel[1]);
    assert!(apart <= of_kernel[1] / 20 + (sleeps - unwoken) * 2000, "{waited}, by the kernel {of_kernel:?}");
    // Most of the time is in samples whose wakers were seen.
    let [woken, slept] =
        [sum(&|_, sums| sums.woken_ns), sum(&|_, sums| sums.weight_ns[OffCpuRecordKind::Sleep as usize])];
    assert!(woken * 10 > slept * 7, "{woken} of {slept}");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_ring_that_is_full_costs_stacks_and_never_time() {
    let threads: Vec<Held> =
        (0..8).map(|_| hold(|| (0..60).for_each(|_| std::thread::sleep(Duration::from_millis(2))))).collect();
    let tids: Vec<u32> = threads.iter().map(|held| held.tid).collect();
    let tiny = OffCpuOpts { ring_bytes: 4096, ..OffCpuOpts::default() };
    let scope = Scope::Threads(tids.clone());
    let Some(recorded) = record_reading(Reading::AtEnd, &tiny, &scope, || run_to_end(threads)) else {
        return;
    };
    // Samples, or their stacks, or their wakers' stacks found no room.
    assert!([4, 6, 9].iter().any(|&lost| recorded.counts[lost] > 0), "{:?}", recorded.counts);
    let told: Vec<u32> = tids.into_iter().filter(|tid| recorded.ends.contains_key(tid)).collect();
    assert_eq!(told.len() as u64 + recorded.counts[5], 8, "{:?}", recorded.counts);
    told.into_iter().for_each(|tid| check_sums(&recorded, tid));
}

#[test]
#[ignore = "live: records on this machine"]
fn without_room_to_keep_stacks_times_stay_whole_and_the_lack_is_counted() {
    // So many that some wait at the same time, however they are scheduled: a slot is free again after each sample.
    let threads: Vec<Held> = (0..32)
        .map(|_| hold(|| (0..30).for_each(|_| std::thread::sleep(Duration::from_millis(3)))))
        .collect();
    let tids: Vec<u32> = threads.iter().map(|held| held.tid).collect();
    let one = OffCpuOpts { slots: 1, ..OffCpuOpts::default() };
    let Some(recorded) = record_with(&one, &Scope::Threads(tids.clone()), || run_to_end(threads)) else {
        return;
    };
    assert!(recorded.counts[7] > 0, "{:?}", recorded.counts);
    tids.into_iter().for_each(|tid| check_sums(&recorded, tid));
}
