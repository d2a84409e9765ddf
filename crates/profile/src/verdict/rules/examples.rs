//! An example program for each rule: for tests, here and of the program that prints findings.

use crate::off_cpu::WaitReason;
use crate::verdict::{
    BlockedLoop, EntryReason, Facts, HeldBackWaits, HotCode, HotFunction, LockSite, PathFacts, PathTop,
    PeerWaits,
};
use crate::view::goroutines::{GoroutineRow, Goroutines};
use crate::view::wall::Times;
use perfdata::appendix::go_waits::GoWaitKind;

const UNIT: u64 = 1_000_000;

/// 100 ms of a program that computes on one of two CPUs.
#[must_use]
pub fn calm() -> Facts {
    let mut facts = Facts { wall_s: 1.0, cpus_used: 1.0, active_threads: 1, ..Facts::default() };
    facts.code.user = Some(0.9);
    facts.times = Times { on_ns: 100 * UNIT, ..Times::default() };
    facts.system.cpus = 2;
    facts.code.hot_user = Some(HotCode::Function("Grid<'a>::step".into()));
    facts.code.hottest = Some(HotFunction {
        name: "Grid<'a>::step".into(),
        at: Some("grid.rs:7".into()),
        share: 0.41,
        total: 0.41,
        calls_most: false,
        named_caller: None,
        calls: Vec::new(),
    });
    runs(&mut facts, EntryReason::User, 90);
    facts
}

/// Facts that the rule of this number makes a finding of; those of [`calm`] for others.
#[must_use]
pub fn firing(number: u8) -> Facts {
    let mut facts = calm();
    running(number, &mut facts);
    machine(number, &mut facts);
    waiting(number, &mut facts);
    facts
}

fn place(units: u64) -> Vec<(String, u64)> {
    vec![("inner < outer < main".to_owned(), units * UNIT)]
}

fn runs(facts: &mut Facts, entry: EntryReason, units: u64) {
    facts.running.places.insert(entry, place(units));
}

fn waits(facts: &mut Facts, reason: WaitReason, units: u64) {
    facts.times.blocked_ns.insert(reason, units * UNIT);
    facts.places.blocked.insert(reason, place(units));
}

fn running(number: u8, facts: &mut Facts) {
    match number {
        2 => {
            (facts.system.cpus, facts.idle_threads) = (8, 7);
            facts.busiest = Some(("it's main".into(), 0.99, 0.9));
            facts.places.busiest = place(90);
        }
        3 => {
            facts.code.user = Some(0.4);
            runs(facts, EntryReason::Call, 60);
        }
        13 => {
            facts.rates.faults_per_s = (90_000.0, 0.0);
            facts.code.hot_kernel = vec![("clear_page_erms".into(), 0.3)];
            runs(facts, EntryReason::Fault, 30);
        }
        14 => {
            facts.code.hot_kernel = vec![("native_queued_spin_lock_slowpath".into(), 0.2)];
            facts.places.spinning = place(20);
        }
        18 => facts.rates.ipc = Some(0.3),
        _ => {}
    }
}

fn machine(number: u8, facts: &mut Facts) {
    match number {
        4 => {
            facts.system.interrupts = Some(0.2);
            runs(facts, EntryReason::Interrupt, 10);
        }
        5 => facts.system.steal = Some(0.2),
        7 => {
            facts.times.preempted_ns = 60 * UNIT;
            facts.places.queued = place(60);
            facts.system.throttled = Some(0.4);
            facts.system.throttled_by = Some("/sys/fs/cgroup/one two/cpu.max".into());
        }
        11 => {
            facts.system.busiest_disk = Some(("vda".into(), 0.95));
            facts.system.disk_await_ns = Some(20_000_000);
            waits(facts, WaitReason::Disk, 50);
        }
        17 => {
            facts.system.listen_drops = Some(9);
            waits(facts, WaitReason::Socket, 50);
        }
        19 => {
            facts.short_lived.processes = 60;
            (facts.short_lived.on_ns, facts.short_lived.active_ns) = (50 * UNIT, 50 * UNIT);
            facts.places.short_lived = place(50);
        }
        _ => {}
    }
}

fn waiting(number: u8, facts: &mut Facts) {
    match number {
        6 => {
            facts.times.runnable_ns = 50 * UNIT;
            facts.places.queued = place(50);
        }
        8 => {
            waits(facts, WaitReason::Futex, 150);
            facts.places.locks = place(150);
            let (taker, wait_ns) = ("inner".to_owned(), 150 * UNIT);
            facts.waits.locks = vec![LockSite { taker, wait_ns, ..LockSite::default() }];
        }
        9 => {
            (facts.rates.preemptions_per_s, facts.times.preempted_ns) = (9000.0, 8 * UNIT);
            facts.places.preempted = place(5);
        }
        10 => waits(facts, WaitReason::Fsync, 80),
        12 => {
            facts.rates.faults_per_s = (0.0, 500.0);
            waits(facts, WaitReason::PageFault, 50);
        }
        15 => waits(facts, WaitReason::Socket, 900),
        16 => {
            facts.waits.timers = Some((5e6, 0.01, 100));
            waits(facts, WaitReason::Timer, 100);
        }
        21 => {
            facts.active_threads = 2;
            facts.waits.path = Some(PathFacts {
                handovers: 80,
                threads: vec![("feeder".into(), 0.97), ("main".into(), 0.03)],
                most_of_one: ("feeder".into(), 0.97),
                on: 0.6,
                queued: 0.0,
                asleep: vec![("timer", 0.38)],
                top: Some(PathTop {
                    thread: Some("feeder".into()),
                    function: "crunch()".into(),
                    line: None,
                    bound: 0.58,
                    samples: 60,
                }),
                wait: None,
            });
            facts.places.busiest = place(90);
        }
        22 => {
            waits(facts, WaitReason::Futex, 3000);
            facts.places.locks = place(3000);
            let (taker, wait_ns) = ("work".to_owned(), 3000 * UNIT);
            facts.waits.locks = vec![LockSite { taker, wait_ns, waits: 40, ..LockSite::default() }];
        }
        25 => {
            waits(facts, WaitReason::Collector, 60);
            facts.code.collects = 0.2;
        }
        26 => {
            waits(facts, WaitReason::FileLock, 80);
            facts.waits.locked_files = vec![("/var/lib/app.lock".to_owned(), 80 * UNIT)];
        }
        23 => {
            waits(facts, WaitReason::Poll, 900);
            let process = Some(("postgres".to_owned(), 812));
            let address = "127.0.0.1:5432".to_owned();
            facts.waits.peer =
                Some(PeerWaits { address, process, ns: 800 * UNIT, waits: 90, ..PeerWaits::default() });
        }
        28 => {
            let row = |kind, average| GoroutineRow {
                kind,
                function: "main.handler".to_owned(),
                line: "main.go:12".to_owned(),
                program: String::new(),
                average,
                longest_ns: 3_200_000_000,
            };
            let rows = vec![row(GoWaitKind::Mutex, 40.0), row(GoWaitKind::Io, 11.0)];
            facts.waits.goroutines = Some(Goroutines { average: 52.0, looks: 60, torn: 0.0, rows });
        }
        27 => {
            waits(facts, WaitReason::Socket, 900);
            facts.waits.held_back = Some(HeldBackWaits {
                thread: "server".to_owned(),
                socket: "socket 8080 from 127.0.0.1 (client 812)".to_owned(),
                ns: 800 * UNIT,
                waits: 20,
                p50_ns: 41_000_000,
            });
        }
        24 => {
            waits(facts, WaitReason::Timer, 60);
            facts.waits.blocked_loops = vec![BlockedLoop {
                thread: "the server".into(),
                handler: "slow()".into(),
                reason: WaitReason::Timer.name().to_owned(),
                ns: 60 * UNIT,
                of_loop: 0.6,
                longest_ns: 30 * UNIT,
                ..BlockedLoop::default()
            }];
        }
        20 => {
            (facts.cpus_used, facts.times.idle_ns) = (0.01, 100_000 * UNIT);
            facts.places.idle = place(100_000);
        }
        _ => {}
    }
}
