//! Rules about waiting: locks, disks, the queue for CPUs.

use super::super::*;
use super::{UNIT, blocked, check, others_ran, with};
use crate::off_cpu::{WaitReason, known_lock};
use crate::verdict::{LockSite, ShareBase, SystemFacts, WaitCause, verdict};
use crate::view::wall::Times;

#[test]
fn waiting_rules() {
    check(6, with(|f| f.times.runnable_ns = 50 * UNIT), with(|f| f.times.runnable_ns = 2 * UNIT));
    let preempted = |rate, ns| {
        with(|f| {
            f.rates.preemptions_per_s = rate;
            f.times.preempted_ns = ns;
        })
    };
    check(9, preempted(9000.0, 8 * UNIT), preempted(20.0, 8 * UNIT));
    check(9, preempted(9000.0, 8 * UNIT), preempted(9000.0, 5 * UNIT));
    check(26, with(|f| blocked(f, WaitReason::FileLock, 20)), with(|f| blocked(f, WaitReason::FileLock, 15)));
    let remedy_at = |leaf: &str| {
        let facts = with(|f| {
            blocked(f, WaitReason::Disk, 80);
            f.places.blocked.insert(WaitReason::Disk, vec![(format!("{leaf} < walk < main"), 80 * UNIT)]);
        });
        verdict(&facts)[0].fix.clone()
    };
    assert!(remedy_at("__GI___getdents64").starts_with("visit fewer folders"));
    assert!(
        remedy_at("__libc_pread64").starts_with("read ahead")
            && remedy_at("pwrite64").starts_with("write less")
    );
    check(10, with(|f| blocked(f, WaitReason::Fsync, 80)), with(|f| blocked(f, WaitReason::Disk, 5)));
    let memory = |major| {
        with(|f| {
            f.rates.faults_per_s = (0.0, major);
            blocked(f, WaitReason::PageFault, 50);
        })
    };
    check(12, memory(500.0), memory(1.0));
    // Major faults alone are files that nobody had read yet; pressure and swapping are want of memory.
    assert!(
        verdict(&memory(500.0))[0].claim.starts_with("Cold files: 33 %"),
        "{:?}",
        verdict(&memory(500.0))
    );
    let mut short = memory(500.0);
    short.system.swapped_pages = Some(9000);
    assert!(verdict(&short)[0].claim.starts_with("Memory is short: 33 %"), "{:?}", verdict(&short));
    // Noise of other programs: a page swapped, pressure far below this program's waits.
    let noise = Facts {
        system: SystemFacts { swapped_pages: Some(1), pressure_memory: Some(0.06), ..SystemFacts::default() },
        ..memory(500.0)
    };
    assert!(verdict(&noise)[0].claim.starts_with("Cold files: 33 %"), "{:?}", verdict(&noise));
    // A machine whose other programs want memory, and a program that does not wait for it.
    let mut pressed = memory(1.0);
    pressed.system.pressure_memory = Some(0.3);
    check(12, pressed.clone(), with(|f| f.system.pressure_memory = Some(0.3)));
    // A program that has just started reads its files.
    check(12, pressed.clone(), Facts { wall_s: 0.2, ..pressed });
    let others = |on| {
        with(|f| {
            f.times.on_ns = on * UNIT;
            blocked(f, WaitReason::Socket, 90);
        })
    };
    check(15, others(10), others(1000));
    // Event loops that wait for a lock are reported by the finding about the lock alone.
    let polled = |polled| {
        with(|f| {
            f.times.on_ns = 10 * UNIT;
            blocked(f, WaitReason::Poll, 90);
            let (wait_ns, polled_ns) = (80 * UNIT, polled * UNIT);
            let taker = "heap_update".into();
            f.waits.locks = vec![LockSite { taker, wait_ns, polled_ns, ..LockSite::default() }];
        })
    };
    check(15, polled(0), polled(80));
    let cause = WaitCause {
        root: "the main thread (chain)".into(),
        text: "feeder computes in crunch() (chain.c:31)".into(),
        share: 0.52,
        bound: 0.58,
    };
    let mut explained = others(10);
    explained.waits.cause = Some(cause);
    let explained = &verdict(&explained)[0];
    assert_eq!(
        explained.detail,
        "because feeder computes in crunch() (chain.c:31); the run would be at most 58 % shorter without it"
    );
    assert_eq!(explained.next, "tally report --blame{input}");
    // The same program where others have the CPUs nearly all the time.
    let mut disturbed = others(10);
    disturbed.times.preempted_ns = 300 * UNIT;
    disturbed.waits.enders.insert(
        WaitReason::Socket,
        vec![("irq:timer".into(), 500), ("redis".into(), 90), ("irq:device".into(), 30)],
    );
    let found = verdict(&disturbed);
    assert_eq!(found.iter().map(|f| f.name).collect::<Vec<_>>(), ["waiting-for-others", "cpu-saturation"]);
    assert!(found[0].evidence.contains(&"woken by: redis 75 %, irq:device 25 %".to_owned()), "{found:?}");
    // A pipeline whose last process reads the disk. The disk is the cause, not the waits of the others.
    let of_disk = |disk, own| {
        with(|f| {
            f.times.on_ns = (40 - disk) * UNIT;
            blocked(f, WaitReason::Pipe, 60);
            blocked(f, WaitReason::Disk, disk);
            f.waits.enders.insert(WaitReason::Pipe, vec![("grep".into(), 60 * UNIT)]);
            f.waits.ended_by_own.insert(WaitReason::Pipe, own * UNIT);
        })
    };
    let pipeline = |own| of_disk(31, own);
    let names = |facts: &Facts| verdict(facts).iter().map(|f| f.name).collect::<Vec<_>>();
    assert_eq!(names(&pipeline(58)), ["disk", "waiting-for-others"]);
    // A third of the waits' time doesn't explain them.
    assert_eq!(names(&of_disk(22, 58)), ["waiting-for-others", "disk"]);
    assert_eq!(names(&pipeline(2)), ["waiting-for-others", "disk"]);
    assert!(verdict(&pipeline(58))[1].claim.starts_with("Threads wait for each other: 60 %"));
    let timers = |variation| {
        with(|f| {
            f.waits.timers = Some((5e6, variation, 100));
            blocked(f, WaitReason::Timer, 100);
        })
    };
    check(16, timers(0.01), timers(1.0));
    let mut one = with(|f| f.waits.timers = Some((2e9, f64::INFINITY, 1)));
    blocked(&mut one, WaitReason::Timer, 200);
    assert_eq!(verdict(&one)[0].claim, "Sleeping: 67 % of thread time is one sleep of 2.0 s");
    // Other programs have the CPUs most of the time: a short sleep doesn't come before that.
    (one.times.preempted_ns, one.queue.others_ran) = (1000 * UNIT, others_ran(0.9, "make"));
    assert_eq!(verdict(&one)[0].name, "cpu-saturation");
    let mut mostly = timers(1.0);
    blocked(&mut mostly, WaitReason::Timer, 400);
    assert!(verdict(&mostly)[0].claim.starts_with("Sleeping: 80 %"), "{:?}", verdict(&mostly));
    let idle = |ns| {
        with(|f| {
            f.cpus_used = 0.01;
            f.times.idle_ns = ns * UNIT;
            f.places.idle = vec![("epoll_wait < serve < main".into(), ns * UNIT)];
        })
    };
    check(20, idle(100_000), idle(10));
    let parent_only = |count| {
        let facts = Facts { children_left_out: count, ..idle(100_000) };
        let finding = verdict(&facts).remove(0);
        (finding.claim, finding.next)
    };
    let (claim, next) = parent_only(3);
    assert!(
        claim.ends_with("3 child processes were not recorded") && !claim.contains("nothing holds"),
        "{claim}"
    );
    assert_eq!(next, "tally run {target}");
    assert!(parent_only(1).0.contains("1 child process was not recorded"));
    let mut asleep = idle(100_000);
    asleep.waits.idle_asleep_ns = 40_000 * UNIT;
    assert!(verdict(&asleep)[0].claim.starts_with("Idle: threads wait for work"), "{:?}", verdict(&asleep));
    asleep.waits.idle_for_own_ns = 40_000 * UNIT;
    let claim = &verdict(&asleep)[0].claim;
    assert!(claim.starts_with("Sleeping: threads and those they wait for sleep "), "{claim}");
    asleep.waits.idle_for_own_ns = 0;
    asleep.waits.idle_asleep_ns = 100_000 * UNIT;
    assert!(verdict(&asleep)[0].claim.starts_with("Sleeping: threads sleep "), "{:?}", verdict(&asleep));
    let mut once = asleep;
    once.waits.timers = Some((1e9, f64::INFINITY, 1));
    let claim = &verdict(&once)[0].claim;
    assert_eq!(claim, "Sleeping: 100 % of thread time is one sleep of 1.0 s; nothing else takes time");
    let idle = &verdict(&idle(100_000))[0].stacks;
    assert_eq!((idle.of, &idle.top[0].1[..]), (ShareBase::All, "epoll_wait < serve < main"));
    assert!((0.99..1.0).contains(&idle.top[0].0), "{idle:?}");
    let mapping = |units| {
        with(|f| {
            blocked(f, WaitReason::KernelLock, units);
            f.waits.kernel_locks =
                vec![(("the lock of the address space (mmap_lock)", "munmap"), units * UNIT)];
        })
    };
    check(14, mapping(60), mapping(1));
    let claim = &verdict(&mapping(100))[0].claim;
    assert_eq!(
        claim,
        "Kernel lock: 50 % of thread time waits for the lock of the address space (mmap_lock), in munmap 50 %"
    );
}

#[test]
fn a_lock_is_named_with_its_caller() {
    let contended = |ns| {
        with(|f| {
            blocked(f, WaitReason::Futex, ns);
            f.waits.locks = vec![LockSite {
                taker: "rand".into(),
                caller: "roll".into(),
                wait_ns: ns * UNIT,
                polled_ns: 0,
                queued_ns: 20 * UNIT,
                run_ns: 10 * UNIT,
                waits: 3900,
                for_work: false,
                in_library: true,
                is_bare: false,
                line: "dice.c:14".into(),
                known: None,
            }];
            f.times.runnable_ns = 50 * UNIT;
            f.rates.switches_per_s = 4000.0;
            f.rates.preemptions_per_s = 30.0;
        })
    };
    check(8, contended(150), contended(3));
    // One kind of lock that several functions take is one finding.
    let kind = |callers: &[(&str, u64)]| {
        changed_locks(contended(150), |first| {
            let of = |(caller, ns): &(&str, u64)| LockSite {
                caller: (*caller).into(),
                wait_ns: ns * UNIT,
                known: Some(known_lock::JAVA),
                ..first.clone()
            };
            callers.iter().map(of).collect()
        })
    };
    let claim = |callers: &[(&str, u64)]| {
        let found = verdict(&kind(callers)).swap_remove(0);
        (found.claim, found.detail)
    };
    let (several, detail) = claim(&[("M.put", 70), ("M.take", 50)]);
    let name = known_lock::JAVA.name;
    assert_eq!(several, format!("Lock contention: 60 % of thread time goes to {name}"));
    assert!(detail.ends_with(" · taken in M.put() 33 %, M.take() 27 %"), "{detail}");
    let (one, detail) = claim(&[("M.put", 120)]);
    assert_eq!(one, format!("Lock contention: 50 % of thread time goes to {name}, taken in M.put()"));
    assert!(!detail.contains("taken in"), "{detail}");
    let found = verdict(&contended(150));
    assert_eq!(found[0].name, "lock-contention");
    assert_eq!(
        found[0].claim,
        "Lock contention: 60 % of thread time goes to the lock inside rand() ← roll (dice.c:14)"
    );
    assert_eq!(found[0].detail, "50 % blocked · 7 % runnable after wake-up · 3 % lock and unlock code");
    assert_eq!(found[0].fix, "give each thread its own generator");
    let line = "rand ← roll (dice.c:14): 50 % blocked, 7 % runnable after wake-up, 3 % lock and unlock code";
    assert_eq!(found[0].evidence[0], line);
    // Its waiters wait for a CPU once it is released. That belongs to the lock and is reported once.
    assert_eq!((found[1].name, (found[1].share * 100.0).round()), ("cpu-saturation", 10.0));
    let fought = |on| {
        with(|f| {
            f.times.on_ns = 1000 * UNIT;
            f.code.functions.insert("do_futex".into(), Times { on_ns: on * UNIT, ..Times::default() });
            let run_ns = on * UNIT;
            f.waits.locks =
                vec![LockSite { taker: "rand".into(), wait_ns: UNIT, run_ns, ..LockSite::default() }];
        })
    };
    check(8, fought(400), fought(50));
    let for_work = with(|f| {
        f.waits.locks = vec![LockSite { wait_ns: 500 * UNIT, for_work: true, ..LockSite::default() }];
    });
    assert_eq!(verdict(&for_work).iter().filter(|f| f.rule == 8).count(), 0);
}

fn changed_locks(mut facts: Facts, locks: impl FnOnce(&LockSite) -> Vec<LockSite>) -> Facts {
    facts.waits.locks = locks(&facts.waits.locks[0]);
    facts
}
