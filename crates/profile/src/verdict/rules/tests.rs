//! Each rule: one set of facts that fires it, one that must not.

use super::examples::{calm, firing};
use super::*;
use crate::off_cpu::WaitReason;
use crate::verdict::SystemFacts;
use crate::verdict::{
    EntryReason, HotStacks, LEAST_RUNNING_NS, LockSite, Running, ShareBase, WaitCause, verdict,
};
use crate::view::io::Latencies;
use crate::view::wall::{Histogram, Times};

const UNIT: u64 = 1_000_000;

fn blocked(facts: &mut Facts, reason: WaitReason, units: u64) {
    facts.times.blocked_ns.insert(reason, units * UNIT);
}

fn with(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = calm();
    change(&mut facts);
    facts
}

#[track_caller]
fn check(number: u8, fires: Facts, must_not: Facts) {
    let rule = RULES.iter().find(|rule| rule.number == number).expect("a rule of this number");
    let found = (rule.ask)(&fires).unwrap_or_else(|| panic!("rule {number} stays silent"));
    assert!(!found.claim.is_empty() && found.rule == number && found.share > 0.0, "{found:?}");
    assert_eq!((rule.ask)(&must_not), None, "rule {number} cries wolf");
}

#[test]
fn a_computing_loop_is_cpu_bound_and_nothing_else() {
    let found = verdict(&calm());
    assert_eq!(found.iter().map(|f| f.name).collect::<Vec<_>>(), ["cpu-bound"]);
}

#[test]
fn where_a_program_runs_is_not_said_of_a_handful_of_samples() {
    let of = |samples| verdict(&with(|facts| facts.samples = samples)).len();
    assert_eq!([of(None), of(Some(20)), of(Some(19))], [1, 1, 0]);
}

#[test]
fn running_rules() {
    check(1, calm(), with(|f| blocked(f, WaitReason::Disk, 100)));
    // Others have the CPU half of the time: it is bound to it all the same.
    check(1, with(|f| f.times.preempted_ns = 100 * UNIT), with(|f| f.code.user = None));
    let serial = |busy| {
        with(|f| {
            f.system.cpus = 8;
            f.idle_threads = 7;
            f.busiest = Some(("main".into(), busy, 0.9));
        })
    };
    check(2, serial(0.99), serial(0.5));
    // tar waits for gzip to read from the pipe.
    let pipeline = |awaited: u64| {
        with(|f| {
            f.active_threads = 2;
            f.busiest = Some(("gzip".into(), 0.95, 0.9));
            blocked(f, WaitReason::Pipe, 80);
            f.waits
                .enders
                .insert(WaitReason::Pipe, vec![("gzip".into(), awaited * UNIT), ("tar".into(), UNIT)]);
        })
    };
    check(2, pipeline(78), pipeline(10));
    assert_eq!(
        verdict(&pipeline(78))[0].claim,
        "One thread does the work: gzip runs 95 % of its time, others wait for it 43 % of thread time"
    );
    let calls = with(|f| {
        f.code.user = Some(0.4);
        f.running.calls = vec![("write".into(), 40 * UNIT), ("read".into(), 15 * UNIT)];
        f.running.places.insert(EntryReason::Call, vec![("write < copy < main".into(), 40 * UNIT)]);
    });
    let told = verdict(&calls);
    assert_eq!(
        told[0].claim,
        "CPU bound in system calls: 60 % of CPU time is in the kernel (write 40 %, read 15 %)"
    );
    let stack = |share, place: &str| (share, place.to_owned());
    assert_eq!(told[0].stacks.top, [stack(0.4, "write < copy < main")]);
    check(3, calls, calm());
    // Futex calls that find nobody waiting are system calls as any.
    let futexes = with(|f| {
        f.code.user = Some(0.5);
        f.code.functions.insert("do_futex".into(), Times { on_ns: 45 * UNIT, ..Times::default() });
    });
    check(3, futexes, calm());
    // Sixteen threads that read on two CPUs wait for a CPU most of the time: system calls are what they want it for.
    let mut crowded = with(|f| {
        f.code.user = Some(0.1);
        f.active_threads = 16;
        f.times.preempted_ns = 5000 * UNIT;
    });
    let names = |facts: &Facts| verdict(facts).iter().map(|f| f.name).collect::<Vec<_>>();
    assert_eq!(names(&crowded), ["cpu-saturation", "system-calls"]);
    let saturation = &verdict(&crowded)[0];
    assert!(saturation.claim.ends_with("; 5 threads want 2 CPUs"), "{saturation:?}");
    assert_eq!(saturation.detail, "its threads are CPU bound");
    // A thousand processes one after the other are not a thousand at a time.
    let mut one_by_one = with(|f| f.times.runnable_ns = 90 * UNIT);
    one_by_one.active_threads = 1000;
    // Bursts: its own threads ran in place of those that were preempted.
    let mut bursts = one_by_one.clone();
    (bursts.times.preempted_ns, bursts.queue.preempted_by_others) = (30 * UNIT, Some((0.05, "sh".into())));
    let claims = verdict(&bursts).into_iter().map(|f| f.claim).collect::<Vec<_>>();
    assert!(claims.iter().any(|claim| claim.contains("its threads run in bursts")), "{claims:?}");
    assert!(verdict(&one_by_one).iter().any(|f| f.claim.contains("other programs use")));
    // Where other programs run instead, the program comes first.
    crowded.queue.preempted_by_others = Some((0.9, "make".into()));
    assert_eq!(names(&crowded), ["system-calls", "cpu-saturation"]);
    // Asking the disk takes time too: who waits for it for long waits for the disk.
    let direct = |waits| {
        with(|f| {
            f.code.user = Some(0.0);
            f.code.functions.insert("iomap_dio_rw".into(), Times { on_ns: 80 * UNIT, ..Times::default() });
            blocked(f, WaitReason::Disk, waits);
        })
    };
    check(3, direct(1), direct(70));
    check(14, with(|f| f.code.hot_kernel = vec![("native_queued_spin_lock_slowpath".into(), 0.2)]), calm());
    let faults = |rate| {
        with(|f| {
            f.rates.faults_per_s = (rate, 0.0);
            f.running.places.insert(EntryReason::Fault, vec![("fill < main".into(), 30 * UNIT)]);
        })
    };
    check(13, faults(90_000.0), faults(100.0));
    assert_eq!(verdict(&faults(90_000.0))[1].stacks.top, [stack(0.3, "fill < main")]);
    // The kernel's half of the time is page faults: no system calls to speak of.
    let mut compiler = faults(90_000.0);
    compiler.code.user = Some(0.5);
    assert_eq!(verdict(&compiler).iter().map(|f| f.name).collect::<Vec<_>>(), ["page-faults"]);
    check(18, with(|f| f.rates.ipc = Some(0.3)), with(|f| f.rates.ipc = None));
}

#[test]
fn machine_rules() {
    let flood = with(|f| {
        f.system.interrupts = Some(0.2);
        f.system.interrupts_of_one_cpu = Some(0.35);
        f.system.soft_interrupts = vec![("NET_RX".into(), 90_000.0, 0.98), ("TIMER".into(), 500.0, 0.5)];
    });
    let told = &verdict(&flood)[1];
    assert_eq!(
        told.claim,
        "Interrupts: 20 % of all CPU time, 35 % of the busiest CPU for them, mostly packets that came in (NET_RX)"
    );
    assert_eq!(told.evidence[0], "NET_RX: 90000 a second, 98 % of them on one CPU");
    check(4, flood, with(|f| f.system.interrupts = Some(0.02)));
    check(5, with(|f| f.system.steal = Some(0.2)), with(|f| f.system.steal = Some(0.01)));
    let quota = |periods| {
        with(|f| {
            f.system.throttled = Some(periods);
            f.times.preempted_ns = 300 * UNIT;
        })
    };
    check(7, quota(0.4), quota(0.0));
    // Waits caused by the quota aren't reported a second time as other programs' CPU use; the rest is.
    let told = |periods| verdict(&quota(periods)).iter().map(|f| f.name).collect::<Vec<_>>();
    assert_eq!(told(0.95), ["cgroup-throttled", "cpu-bound"]);
    assert_eq!(told(0.4), ["cgroup-throttled", "cpu-saturation", "cpu-bound"]);
    let network = |drops| {
        with(|f| {
            f.system.listen_drops = Some(drops);
            blocked(f, WaitReason::Socket, 50);
        })
    };
    check(17, network(9), network(0));
    // A retransmission somewhere on the machine is nothing to a program that does not wait for the network.
    assert_eq!(verdict(&with(|f| f.system.listen_drops = Some(9))).len(), 1);
    let short = |processes: usize, units| {
        with(|f| {
            f.short_lived.processes = processes;
            f.short_lived.life_ns = processes as u64 * UNIT;
            (f.short_lived.on_ns, f.short_lived.active_ns) = (units * UNIT, units * UNIT);
        })
    };
    check(19, short(60, 50), short(60, 2));
    check(19, short(900, 20), short(3, 50));
    let claim = &verdict(&short(900, 20))[1].claim;
    assert_eq!(claim, "Short processes: 900 started a second, 1.0 ms each; 20 % of CPU time is theirs");
    let busy = |share| {
        with(|f| {
            f.system.busiest_disk = Some(("vda".into(), share));
            f.system.disk_await_ns = Some(20_000_000);
            blocked(f, WaitReason::Disk, 50);
        })
    };
    check(11, busy(0.95), busy(0.2));
    let mut split = busy(0.95);
    let mut times = Latencies { queue_total_ns: 900, device_total_ns: 100, ..Latencies::default() };
    times.device.add(100, 1);
    times.queue.add(900, 1);
    split.system.disk_times = Some(("vda".into(), times.clone()));
    let told = |facts: &Facts| verdict(facts)[0].evidence.join("\n");
    assert!(told(&split).contains("90 % of their time was in the queue"), "{}", told(&split));
    times.queue = Histogram::default();
    split.system.disk_times = Some(("vda".into(), times));
    assert!(told(&split).contains("went straight to the device"), "{}", told(&split));
}

#[test]
fn waiting_rules() {
    check(6, with(|f| f.times.runnable_ns = 50 * UNIT), with(|f| f.times.runnable_ns = 2 * UNIT));
    let preempted = |rate| {
        with(|f| {
            f.rates.preemptions_per_s = rate;
            f.times.preempted_ns = 5 * UNIT;
        })
    };
    check(9, preempted(9000.0), preempted(20.0));
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
    check(12, pressed, with(|f| f.system.pressure_memory = Some(0.3)));
    let others = |on| {
        with(|f| {
            f.times.on_ns = on * UNIT;
            blocked(f, WaitReason::Socket, 90);
        })
    };
    check(15, others(10), others(1000));
    let cause = WaitCause {
        root: "main".into(),
        text: "feeder computes in crunch() (chain.c:31)".into(),
        share: 0.52,
    };
    let mut explained = others(10);
    explained.waits.cause = Some(cause);
    let explained = &verdict(&explained)[0];
    assert_eq!(
        explained.detail,
        "because feeder computes in crunch() (chain.c:31): 52 % of the time of main"
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
    let pipeline = |own| {
        with(|f| {
            f.times.on_ns = 10 * UNIT;
            blocked(f, WaitReason::Pipe, 60);
            blocked(f, WaitReason::Disk, 30);
            f.waits.enders.insert(WaitReason::Pipe, vec![("grep".into(), 60 * UNIT)]);
            f.waits.ended_by_own.insert(WaitReason::Pipe, own * UNIT);
        })
    };
    let names = |facts: &Facts| verdict(facts).iter().map(|f| f.name).collect::<Vec<_>>();
    assert_eq!(names(&pipeline(58)), ["disk", "waiting-for-others"]);
    assert_eq!(names(&pipeline(2)), ["waiting-for-others", "disk"]);
    assert!(verdict(&pipeline(58))[1].claim.starts_with("Its threads wait for each other: 60 %"));
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
    (one.times.preempted_ns, one.queue.preempted_by_others) = (1000 * UNIT, Some((0.9, "make".into())));
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
    let found = verdict(&contended(150));
    assert_eq!(found[0].name, "lock-contention");
    assert_eq!(
        found[0].claim,
        "Lock contention: 60 % of thread time goes to the lock inside rand() ← roll (dice.c:14)"
    );
    assert_eq!(found[0].detail, "50 % blocked · 7 % runnable after wake-up · 3 % lock and unlock code");
    assert_eq!(found[0].fix, "give each thread its own generator");
    let line =
        "rand ← roll (dice.c:14): blocked 50.0 %, runnable after wake-up 6.7 %, lock and unlock code 3.3 %";
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

fn ask(number: u8, facts: &Facts) -> Finding {
    let rule = RULES.iter().find(|rule| rule.number == number).expect("a rule of this number");
    (rule.ask)(facts).unwrap_or_else(|| panic!("rule {number} stays silent"))
}

#[test]
fn every_finding_has_stacks_with_shares_or_says_why_there_are_none() {
    for number in 1..=20 {
        let mut facts = firing(number);
        let found = ask(number, &facts).stacks;
        assert_eq!((found.top.len(), found.missing), (1, ""), "rule {number}: {found:?}");
        let (share, place) = &found.top[0];
        assert!(*share > 0.0 && *share <= 1.0 && place == "inner < outer < main", "rule {number}: {found:?}");
        assert!(!found.what.is_empty(), "rule {number}");
        (facts.places, facts.running) = (HotStacks::default(), Running::default());
        let found = ask(number, &facts).stacks;
        assert!(found.top.is_empty() && found.missing.len() > 20, "rule {number}: {found:?}");
    }
}

#[test]
fn every_finding_says_what_to_run_next_and_what_for() {
    for number in 1..=20 {
        let found = ask(number, &firing(number));
        assert!(!found.next.is_empty() && !found.advice.is_empty(), "{found:?}");
        assert!(!found.next.contains(['…', '\n']), "a shell stumbles: {}", found.next);
    }
}

#[test]
fn who_ran_instead_is_told_by_stack_where_it_was_recorded() {
    let mut facts = firing(6);
    facts.times.preempted_ns = 40 * UNIT;
    facts.places.instead =
        vec![("make: not recorded".into(), 30 * UNIT), ("hog: spin < main".into(), 10 * UNIT)];
    let told = ask(6, &facts).stacks;
    assert_eq!((told.of, told.what, told.top.len()), (ShareBase::Preempted, "who ran instead", 2));
    facts.places.instead.pop();
    let told = ask(6, &facts).stacks;
    assert!(told.of == ShareBase::Queued && told.what == "where threads wait for a CPU", "{told:?}");
    assert!(ask(6, &facts).evidence.iter().any(|line| line.contains("tally run -a")));
    // Its own threads have the CPUs: their code is what ran meanwhile.
    (facts.places.instead, facts.times.runnable_ns) = (Vec::new(), 9000 * UNIT);
    let told = ask(6, &facts).stacks;
    assert_eq!((told.of, told.what), (ShareBase::Running, "what ran meanwhile"));
}

#[test]
fn there_is_one_rule_of_each_number() {
    assert_eq!(RULES.iter().map(|rule| rule.number).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
}

#[test]
fn of_a_handful_of_samples_it_is_not_said_where_a_program_runs() {
    let mut facts = firing(13);
    assert!(verdict(&facts).iter().any(|finding| finding.rule == 13));
    facts.times.on_ns = LEAST_RUNNING_NS - 1;
    assert!(verdict(&facts).iter().all(|finding| finding.rule != 13));
}

#[test]
fn code_of_a_jit_compiler_is_not_to_be_annotated() {
    let mut facts = firing(1);
    assert!(ask(1, &facts).next.starts_with("tally annotate"));
    facts.code.hot_user = Some(crate::verdict::HotCode::Jit);
    assert!(ask(1, &facts).next.starts_with("tally flame --on-cpu"));
}
