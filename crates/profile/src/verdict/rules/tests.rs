//! Each rule: one set of facts that fires it, one that must not.

mod chains;
mod waiting;

use super::examples::{calm, firing};
use super::*;
use crate::off_cpu::WaitReason;
use crate::verdict::{
    EntryReason, HotStacks, LEAST_RUNNING_NS, NamedCaller, OthersRan, Running, ShareBase, verdict,
};
use crate::view::io::Latencies;
use crate::view::wall::{Histogram, Times};

const UNIT: u64 = 1_000_000;

fn blocked(facts: &mut Facts, reason: WaitReason, units: u64) {
    facts.times.blocked_ns.insert(reason, units * UNIT);
}

fn others_ran(share: f64, most: &str) -> Option<OthersRan> {
    Some(OthersRan { known_ns: 1000 * UNIT, share, most: most.to_owned(), share_of_most: share })
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
        "One thread does the work: gzip runs or waits for a CPU 95 % of its time; 43 % of thread time waits for it"
    );
    // More threads are no remedy where those there are get no CPU; with a CPU half of the time they are the first.
    let first_of_two = |preempted| {
        let mut facts = pipeline(400);
        blocked(&mut facts, WaitReason::Pipe, 400);
        (facts.times.preempted_ns, facts.cpus_used) = (preempted * UNIT, 0.2);
        facts.queue.others_ran = others_ran(0.9, "make");
        verdict(&facts)[0].name
    };
    assert_eq!((first_of_two(350), first_of_two(150)), ("cpu-saturation", "serial-bottleneck"));
    let calls = with(|f| {
        f.code.user = Some(0.4);
        f.running.calls = vec![("write".into(), 40 * UNIT), ("read".into(), 15 * UNIT)];
        f.running.places.insert(EntryReason::Call, vec![("write < copy < main".into(), 40 * UNIT)]);
    });
    let told = verdict(&calls);
    assert_eq!(
        told[0].claim,
        "CPU bound, much of it in system calls: 60 % of CPU time is in the kernel (write 40 %, read 15 %)"
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
    assert!(saturation.claim.ends_with("; 5 threads at a time want 2 CPUs"), "{saturation:?}");
    assert_eq!(saturation.detail, "the threads hardly wait for anything but CPUs");
    // A thousand processes one after the other are not a thousand at a time.
    let mut one_by_one = with(|f| f.times.runnable_ns = 90 * UNIT);
    one_by_one.active_threads = 1000;
    // Bursts: its own threads ran in place of those that were preempted.
    let mut bursts = one_by_one.clone();
    bursts.times.preempted_ns = 30 * UNIT;
    for known in [others_ran(0.05, "sh"), others_ran(0.0, "")] {
        bursts.queue.others_ran = known;
        let claims = verdict(&bursts).into_iter().map(|f| f.claim).collect::<Vec<_>>();
        assert!(claims.iter().any(|claim| claim.contains("threads compute in bursts")), "{claims:?}");
    }
    assert!(verdict(&one_by_one).iter().any(|f| f.claim.contains("other programs use")));
    // However many wait: a program that got a tenth of the machine does not wait for itself.
    let mut starved = one_by_one.clone();
    (starved.times.preempted_ns, starved.cpus_used) = (900 * UNIT, 0.2);
    starved.queue.others_ran = others_ran(0.4, "make");
    let fix = |facts: &Facts| {
        let found = verdict(facts).into_iter().find(|f| f.claim.contains("CPUs that"));
        found.expect("other programs have the CPUs").fix
    };
    assert!(fix(&starved).ends_with("the program itself may have too many threads"), "{starved:?}");
    // Two threads on two CPUs do not.
    assert!(fix(&Facts { active_threads: 2, ..starved.clone() }).ends_with("and measure again"));
    let mut by_tally = starved.clone();
    by_tally.queue.others_ran = others_ran(0.6, "tally (itself)");
    assert!(verdict(&by_tally).iter().any(|f| f.claim.contains("tally itself")), "{by_tally:?}");
    assert!(verdict(&by_tally).iter().any(|f| f.claim.ends_with("this program and tally itself use")));
    // The CPU time of the machine and of the recorder is known: that counts.
    let mut counted = by_tally.clone();
    (counted.system.busy, counted.recorder_cpus) = (Some(0.9), 0.1);
    assert!(!verdict(&counted).iter().any(|f| f.claim.contains("tally itself")), "{counted:?}");
    counted.queue.others_ran = others_ran(0.6, "make");
    counted.recorder_cpus = 1.2;
    assert!(verdict(&counted).iter().any(|f| f.claim.contains("tally itself")), "{counted:?}");
    // Largest of several isn't most of them.
    let mut by_many = by_tally.clone();
    by_many.queue.others_ran =
        others_ran(0.6, "tally (itself)").map(|of| OthersRan { share_of_most: 0.2, ..of });
    assert!(!verdict(&by_many).iter().any(|f| f.claim.contains("tally itself")), "{by_many:?}");
    // Where other programs run instead, the program comes first.
    crowded.queue.others_ran = others_ran(0.9, "make");
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
            f.running.places.insert(EntryReason::User, vec![("fill < main".into(), 70 * UNIT)]);
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
        "Interrupts: 20 % of all CPU time, 35 % of the busiest CPU, mostly for incoming packets (NET_RX)"
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
    assert_eq!(verdict(&network(9))[0].claim, "Network: 9 connections refused (backlog full)");
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
    assert_eq!(claim, "Short processes: 900 started a second, each lives 1.0 ms; 20 % of CPU time is theirs");
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

fn ask(number: u8, facts: &Facts) -> Finding {
    let rule = RULES.iter().find(|rule| rule.number == number).expect("a rule of this number");
    (rule.ask)(facts).unwrap_or_else(|| panic!("rule {number} stays silent"))
}

#[test]
fn every_finding_has_stacks_with_shares_or_says_why_there_are_none() {
    for number in RULES.iter().map(|rule| rule.number) {
        let mut facts = firing(number);
        let found = ask(number, &facts).stacks;
        if number == 28 {
            assert!(found.top.is_empty() && found.missing.contains("goroutines"), "{found:?}");
            continue;
        }
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
    for number in RULES.iter().map(|rule| rule.number) {
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
        vec![("make (outside the recording)".into(), 30 * UNIT), ("hog: spin < main".into(), 10 * UNIT)];
    let told = ask(6, &facts).stacks;
    assert_eq!((told.of, told.what, told.top.len()), (ShareBase::Queued, "who ran instead", 2));
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
    assert_eq!(
        RULES.iter().map(|rule| rule.number).collect::<Vec<_>>(),
        (1..=RULES.len() as u8).collect::<Vec<_>>()
    );
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

#[test]
fn a_librarys_function_is_named_with_the_programs_that_calls_it() {
    let mut facts = firing(1);
    let hot = facts.code.hottest.as_mut().expect("firing");
    (hot.name, hot.at) = ("memset".into(), Some("memset.S:236".into()));
    hot.named_caller = Some(NamedCaller { share: 1.0, name: "clear".into(), at: Some("grid.c:9".into()) });
    let finding = ask(1, &facts);
    assert!(finding.claim.contains("in memset() below clear() (grid.c:9), "), "{finding:?}");
    assert!(finding.fix.starts_with("see who calls what: tally flame"), "{finding:?}");
    facts.code.hottest.as_mut().and_then(|hot| hot.named_caller.as_mut()).expect("it has one").share = 0.8;
    assert!(ask(1, &facts).claim.ends_with("of CPU time, mostly for clear() (grid.c:9)"));
}

#[test]
fn a_time_that_rounds_up_to_the_next_unit_is_in_that_unit() {
    let times = [999_400_000, 999_600_000, 999_600, 1_500, 999, 0].map(time);
    assert_eq!(times, ["999 ms", "1.0 s", "1.0 ms", "1.5 µs", "999 ns", "0 ns"]);
}
