//! The twenty rules: symptom with thresholds → finding. Each has a test that fires it and one that must not.

use super::{Facts, Finding};
use crate::off_cpu::Reason;

/// One rule.
pub struct Rule {
    /// Its number.
    pub number: u8,
    /// A name for scripts.
    pub name: &'static str,
    /// The finding, if its thresholds are passed.
    pub ask: fn(&Facts) -> Option<Finding>,
}

macro_rules! rules {
    ($($number:literal $name:literal $ask:ident),+ $(,)?) => {
        /// All rules, by number.
        pub const RULES: &[Rule] = &[$(Rule { number: $number, name: $name, ask: |facts| {
            $ask(facts).map(|finding| Finding { rule: $number, name: $name, ..finding })
        } }),+];
    };
}

rules! {
    1 "cpu-bound" cpu_bound,
    2 "serial-bottleneck" serial,
    3 "system-calls" system_calls,
    4 "interrupts" interrupts,
    5 "steal" steal,
    6 "cpu-saturation" saturation,
    7 "cgroup-throttled" throttled,
    8 "lock-contention" locks,
    9 "preemption" preemption,
    10 "disk" disk,
    11 "disk-saturated" disk_saturated,
    12 "memory-pressure" memory_pressure,
    13 "page-faults" page_faults,
    14 "kernel-lock" kernel_lock,
    15 "waiting-for-others" waiting_for_others,
    16 "polling" polling,
    17 "network-loss" network,
    18 "memory-bound" memory_bound,
    19 "short-processes" short_processes,
    20 "idle" idle,
}

fn finding(
    share: f64,
    claim: String,
    evidence: Vec<String>,
    against: Vec<String>,
    next: &str,
) -> Option<Finding> {
    Some(Finding { rule: 0, name: "", share, claim, evidence, against, next: next.to_owned() })
}

fn pct(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn hot(facts: &Facts) -> Vec<String> {
    facts
        .hot
        .iter()
        .take(3)
        .map(|(name, share)| format!("{:.1} % of running time  {name}", share * 100.0))
        .collect()
}

fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

/// 1: running ≥ 85 % of active time, > 70 % of it in user code.
fn cpu_bound(facts: &Facts) -> Option<Finding> {
    let user = facts.user?;
    if facts.on() < 0.85 || user <= 0.7 {
        return None;
    }
    let claim = format!(
        "CPU bound: {} of thread time is running, {} of that in user code.",
        pct(facts.on()),
        pct(user)
    );
    let against = vec![
        format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu())),
        format!("blocked: {}", pct(facts.share(facts.times.blocked_total_ns()))),
    ];
    finding(facts.on(), claim, hot(facts), against, "tally annotate (the hottest function's instructions)")
}

/// 2: one thread runs ≥ 95 % of its life while the process uses ≤ 1.2 of ≥ 4 CPUs and other threads are there.
fn serial(facts: &Facts) -> Option<Finding> {
    let (name, busy, of_all) = facts.busiest.as_ref()?;
    let others = facts.active_threads + facts.idle_threads > 1;
    if *busy < 0.95 || facts.cpus_used > 1.2 || facts.system.cpus < 4 || !others {
        return None;
    }
    let claim = format!(
        "One thread does the work: {name} runs {} of its time, the process uses {:.1} of {} CPUs.",
        pct(*busy),
        facts.cpus_used,
        facts.system.cpus
    );
    let mut evidence = vec![format!("{name}: {} of all running time", pct(*of_all))];
    evidence.extend(hot(facts));
    finding(*of_all * facts.on().max(0.5), claim, evidence, vec![], "tally report --wall --thread NAME")
}

/// Rules about how code runs want this much of it.
const ENOUGH_NS: u64 = 50_000_000;

/// 3: the kernel takes > 30 % of running time, and it is neither page faults nor locks.
fn system_calls(facts: &Facts) -> Option<Finding> {
    let kernel = 1.0 - facts.user?;
    let faults = facts.in_kernel(FAULTS) + facts.in_kernel(SPINNING) + facts.in_futex();
    if kernel < 0.3 || faults > kernel / 2.0 || facts.on() < 0.2 || facts.times.on_ns < ENOUGH_NS {
        return None;
    }
    let claim = format!("System calls: {} of running time is spent in the kernel.", pct(kernel));
    let top = facts.hot_kernel.iter().take(3);
    let evidence =
        top.map(|(name, share)| format!("{:.1} % of running time  {name}", share * 100.0)).collect();
    let against = vec![format!("page faults, spinning and fought-over locks: {}", pct(faults))];
    finding(
        kernel * facts.on(),
        claim,
        evidence,
        against,
        "perf trace -s (which calls, how often); batch small ones",
    )
}

/// 4: interrupts take > 10 % of all CPU time, or > 50 % of one CPU.
fn interrupts(facts: &Facts) -> Option<Finding> {
    let (all, one) =
        (facts.system.interrupts.unwrap_or(0.0), facts.system.interrupts_of_one_cpu.unwrap_or(0.0));
    if all <= 0.1 && one <= 0.5 {
        return None;
    }
    let claim = format!("Interrupts take {} of all CPU time, {} of the CPU with most.", pct(all), pct(one));
    finding(all.max(one / 2.0), claim, vec![], vec![], "watch -d cat /proc/softirqs /proc/interrupts")
}

/// 5: the hypervisor took > 5 %.
fn steal(facts: &Facts) -> Option<Finding> {
    let steal = facts.system.steal.filter(|&steal| steal > 0.05)?;
    let claim = format!(
        "The hypervisor took {} of the CPU time: every other number here is inflated by it.",
        pct(steal)
    );
    finding(steal, claim, vec![], vec![], "run again on a quiet or dedicated machine")
}

/// 6: > 10 % of active time waits for a CPU.
fn saturation(facts: &Facts) -> Option<Finding> {
    let waiting = facts.waiting_for_cpu();
    if waiting <= 0.1 {
        return None;
    }
    let (p50, p99, max) = facts.run_queue_ns;
    let threads = facts.active_threads as u64;
    let why = if threads > u64::from(facts.system.cpus) {
        format!("{threads} threads, {} CPUs", facts.system.cpus)
    } else {
        "other programs have the CPUs".to_owned()
    };
    let claim =
        format!("CPU saturation: {} of thread time is spent waiting for a CPU ({why}).", pct(waiting));
    let mut evidence =
        vec![format!("wait for a CPU after wake-up: p50 {}, p99 {}, longest {}", ms(p50), ms(p99), ms(max))];
    if facts.share(facts.times.preempted_ns) > 0.02 {
        evidence.push(format!("preempted while running: {}", pct(facts.share(facts.times.preempted_ns))));
    }
    if let Some(pressure) = facts.system.pressure_cpu {
        evidence.push(format!("the machine: some task waited for a CPU {} of the time", pct(pressure)));
    }
    let throttled = facts.system.throttled.unwrap_or(0.0);
    let against = vec![format!("cgroup throttling: {}", pct(throttled))];
    finding(
        waiting,
        claim,
        evidence,
        against,
        "tally report --wall (run queue and who ran instead); fewer threads or more CPUs",
    )
}

/// 7: > 5 % of the cgroup's periods were throttled.
fn throttled(facts: &Facts) -> Option<Finding> {
    let share = facts.system.throttled.filter(|&share| share > 0.05)?;
    let ns = facts.system.throttled_ns.unwrap_or(0);
    let claim = format!(
        "The cgroup's CPU quota stopped it: {} of its periods were throttled, {} in all.",
        pct(share),
        ms(ns)
    );
    finding(
        share,
        claim,
        vec![],
        vec![],
        "cat /sys/fs/cgroup/…/cpu.max; raise the quota or use fewer threads",
    )
}

/// 8: > 15 % of active time waits for a lock in user space, or > 20 % of running time fights for one in the kernel.
fn locks(facts: &Facts) -> Option<Finding> {
    let wait_ns: u64 = facts.locks.iter().filter(|site| !site.for_work).map(|site| site.wait_ns).sum();
    let waiting = facts.share(wait_ns);
    // A contended lock also runs: in the kernel's futex code, and spinning before it sleeps.
    let top = facts.locks.iter().find(|site| !site.for_work)?;
    let fought = facts.functions.get(&top.taker).map_or(0, |t| t.on_ns + t.runnable_ns + t.preempted_ns);
    let top_share = facts.share(top.wait_ns + fought);
    if waiting <= 0.15 && facts.in_futex() <= 0.2 {
        return None;
    }
    let caller = if top.caller.is_empty() { String::new() } else { format!(", called from {}", top.caller) };
    let cure = if top.taker.starts_with("rand") { "; use a generator per thread" } else { "" };
    let claim = format!(
        "Lock contention: {} of thread time is spent waiting for or fighting over the lock inside {}(){caller}{cure}.",
        pct(top_share.max(waiting)),
        top.taker
    );
    let mut evidence: Vec<String> = facts
        .locks
        .iter()
        .filter(|site| !site.for_work)
        .take(3)
        .map(|site| {
            format!("{:.1} % waiting  {} < {}", facts.share(site.wait_ns) * 100.0, site.taker, site.caller)
        })
        .collect();
    if facts.in_futex() > 0.01 {
        evidence.push(format!("{} of running time is inside the futex system call", pct(facts.in_futex())));
    }
    evidence.push(format!("{:.0} switches a second", facts.switches_per_s));
    let against = vec![
        format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu())),
        format!("locks inside the kernel: {}", pct(facts.blocked(Reason::KernelLock))),
    ];
    finding(
        top_share.max(waiting),
        claim,
        evidence,
        against,
        "tally locks (holders and waiters); shorten or split the lock",
    )
}

/// 9: > 1,000 preemptions a second and core used.
fn preemption(facts: &Facts) -> Option<Finding> {
    let rate = facts.preemptions_per_s / facts.cpus_used.max(0.1);
    if rate <= 1000.0 {
        return None;
    }
    let preempted = facts.share(facts.times.preempted_ns);
    let claim = format!("Preemption: threads are taken off their CPU {rate:.0} times a second and CPU used.");
    let evidence = vec![format!("preempted: {} of thread time", pct(preempted))];
    finding(
        preempted.max(0.02),
        claim,
        evidence,
        vec![],
        "tally report --wall (who ran instead); fewer runnable threads",
    )
}

/// 10: > 20 % of active time waits for the disk.
fn disk(facts: &Facts) -> Option<Finding> {
    let (read, sync) = (facts.blocked(Reason::Disk), facts.blocked(Reason::Fsync));
    if read + sync <= 0.2 {
        return None;
    }
    let claim = format!(
        "Disk: {} of thread time waits for it ({} reading and writing, {} fsync).",
        pct(read + sync),
        pct(read),
        pct(sync)
    );
    let mut evidence = facts.top_places(Reason::Disk);
    evidence.extend(facts.top_places(Reason::Fsync));
    if let (Some((name, busy)), Some(ns)) = (&facts.system.busiest_disk, facts.system.disk_await_ns) {
        evidence.push(format!("{name}: busy {} of the time, {} a request", pct(*busy), ms(ns)));
    }
    let against = vec![format!("page faults that read: {}", pct(facts.blocked(Reason::PageFault)))];
    finding(
        read + sync,
        claim,
        evidence,
        against,
        "tally flame --off-cpu -o wait.svg (which calls wait); iostat -x 1 (queue and device)",
    )
}

/// 11: a disk busy > 70 % with > 10 ms a request.
fn disk_saturated(facts: &Facts) -> Option<Finding> {
    let (name, busy) = facts.system.busiest_disk.as_ref()?;
    let ns = facts.system.disk_await_ns.unwrap_or(0);
    let waits = facts.blocked(Reason::Disk) + facts.blocked(Reason::Fsync) + facts.blocked(Reason::PageFault);
    if *busy <= 0.7 || ns <= 10_000_000 || waits <= 0.05 {
        return None;
    }
    let claim =
        format!("The disk {name} is saturated: busy {} of the time, {} a request.", pct(*busy), ms(ns));
    finding(waits * 0.99, claim, vec![], vec![], "iostat -x 1; tally report --wall (which threads wait)")
}

/// 12: > 50 major faults a second, memory pressure > 5 %, or swapping.
fn memory_pressure(facts: &Facts) -> Option<Finding> {
    let major = facts.faults_per_s.1;
    let pressure = facts.system.pressure_memory.unwrap_or(0.0);
    let swapped = facts.system.swapped_pages.unwrap_or(0);
    let waits = facts.blocked(Reason::PageFault) + facts.blocked(Reason::Memory);
    if (major <= 50.0 && pressure <= 0.05 && swapped == 0) || waits.max(pressure) < 0.02 {
        return None;
    }
    let claim =
        format!("Memory: {} of thread time waits for pages ({major:.0} major faults a second).", pct(waits));
    let mut evidence = facts.top_places(Reason::PageFault);
    evidence.push(format!("memory pressure {}, {swapped} pages swapped", pct(pressure)));
    finding(
        waits.max(pressure),
        claim,
        evidence,
        vec![],
        "tally record -e major-faults -c 1 -g; read ahead, or more memory",
    )
}

const FAULTS: &[&str] = &[
    "clear_page",
    "do_anonymous_page",
    "handle_mm_fault",
    "__handle_mm_fault",
    "exc_page_fault",
    "asm_exc_page_fault",
    "do_user_addr_fault",
    "get_page_from_freelist",
    "__alloc_",
    "folio_",
    "lru_",
    "zap_",
    "unmap_",
    "free_unref",
    "release_pages",
    "mm_",
    "vma_",
    "mas_",
    "__mod_",
    "charge_",
    "mem_cgroup",
    "rmqueue",
    "flush_tlb",
    "clear_huge",
    "free_pages",
    "tlb_",
    "do_fault",
    "filemap_map",
    "next_uptodate",
    "set_pte",
    "native_flush",
    "__rmqueue",
    "prep_",
];

/// 13: > 20,000 minor faults a second, > 10 % of running time in the memory manager.
fn page_faults(facts: &Facts) -> Option<Finding> {
    let (minor, share) = (facts.faults_per_s.0, facts.in_kernel(FAULTS));
    if minor <= 20_000.0 || share <= 0.1 {
        return None;
    }
    let claim = format!(
        "Page faults: {minor:.0} a second; at least {} of running time is the kernel handing out memory.",
        pct(share)
    );
    let evidence = facts
        .hot_kernel
        .iter()
        .take(3)
        .map(|(name, share)| format!("{:.1} % of running time  {name}", share * 100.0))
        .collect();
    let against = vec![format!("major faults: {:.0} a second", facts.faults_per_s.1)];
    finding(
        share * facts.on(),
        claim,
        evidence,
        against,
        "tally record -e page-faults -c 1 -g; reuse memory (malloc_trim, arenas, huge pages)",
    )
}

const SPINNING: &[&str] = &[
    "queued_spin_lock_slowpath",
    "native_queued_spin_lock",
    "osq_lock",
    "rwsem_spin",
    "mutex_spin",
    "rwsem_optimistic",
];

/// 14: > 5 % of running time spins on kernel locks, or > 5 % of active time sleeps for them.
fn kernel_lock(facts: &Facts) -> Option<Finding> {
    let (spin, sleep) = (facts.in_kernel(SPINNING), facts.blocked(Reason::KernelLock));
    if spin <= 0.05 && sleep <= 0.05 {
        return None;
    }
    let top = facts.top_places(Reason::KernelLock);
    let mapping = top.iter().any(|place| {
        ["mmap", "munmap", "mprotect", "madvise", "brk"].iter().any(|call| place.contains(call))
    });
    let which = if mapping {
        " (the lock of the address space: mmap and munmap of one thread stop all others)"
    } else {
        ""
    };
    let share = sleep + spin * facts.on();
    let claim = format!("A lock inside the kernel{which}: {} of thread time waits for it.", pct(share));
    let against = vec![format!("locks in user space: {}", pct(facts.blocked(Reason::Futex)))];
    finding(share, claim, top, against, "tally report --wall; map once, or use read() into own buffers")
}

/// 15: the CPU is used little, and waits are for others: sockets, pipes, poll, children.
fn waiting_for_others(facts: &Facts) -> Option<Finding> {
    let reasons = [Reason::Socket, Reason::Pipe, Reason::Poll, Reason::Child];
    let share: f64 = reasons.iter().map(|&reason| facts.blocked(reason)).sum();
    if facts.on() >= 0.5 || share <= 0.4 {
        return None;
    }
    let parts: Vec<String> = reasons
        .iter()
        .filter(|&&r| facts.blocked(r) > 0.01)
        .map(|&r| format!("{} {}", r.name(), pct(facts.blocked(r))))
        .collect();
    let claim = format!("Waiting for others: {} of thread time ({}).", pct(share), parts.join(", "));
    let evidence = reasons.iter().flat_map(|&reason| facts.top_places(reason).into_iter().take(1)).collect();
    let against = vec![format!("disk: {}", pct(facts.blocked(Reason::Disk)))];
    finding(share, claim, evidence, against, "tally flame --wakers (who ends the waits)")
}

/// 16: timer waits of nearly one length.
fn polling(facts: &Facts) -> Option<Finding> {
    let (mean, variation, count) = facts.timers?;
    let share = facts.blocked(Reason::Timer);
    if variation >= 0.1 || share <= 0.2 {
        return None;
    }
    let claim = format!(
        "Sleeping in a loop: {} of thread time is timer waits of {:.2} ms, again and again.",
        pct(share),
        mean / 1e6
    );
    let mut evidence = facts.top_places(Reason::Timer);
    evidence.push(format!("{count} waits sampled, varying {:.0} %", variation * 100.0));
    finding(
        share,
        claim,
        evidence,
        vec![],
        "wait for the event itself (poll, condition variable), not for time",
    )
}

/// 17: > 1 % of TCP segments sent again, or connections dropped.
fn network(facts: &Facts) -> Option<Finding> {
    let again = facts.system.tcp_retransmitted.unwrap_or(0.0);
    let drops = facts.system.listen_drops.unwrap_or(0);
    if again <= 0.01 && drops == 0 {
        return None;
    }
    let claim = format!(
        "The network loses: {:.1} % of TCP segments were sent again, {drops} connections refused for a full backlog.",
        again * 100.0
    );
    finding(
        facts.blocked(Reason::Socket).max(0.02),
        claim,
        vec![],
        vec![],
        "ss -ti; nstat -az | grep -i retrans",
    )
}

/// 18: needs hardware counters: fewer than 0.7 instructions per cycle while running most of the time.
fn memory_bound(facts: &Facts) -> Option<Finding> {
    let ipc = facts.ipc.filter(|&ipc| ipc < 0.7)?;
    if facts.on() < 0.5 || facts.times.on_ns < ENOUGH_NS {
        return None;
    }
    let claim = format!("The CPU waits for memory: {ipc:.2} instructions per cycle.");
    finding(facts.on() * 0.5, claim, hot(facts), vec![], "tally stat --topdown; smaller or denser data")
}

/// 19: > 50 processes forked a second.
fn short_processes(facts: &Facts) -> Option<Finding> {
    let rate = facts.system.forks_per_s.filter(|&rate| rate > 50.0)?;
    let claim = format!("Short processes: {rate:.0} are started a second on this machine.");
    finding((rate / 2000.0).min(0.5), claim, vec![], vec![], "tally record -e sched:sched_process_exec -a")
}

/// 20: nearly all time of nearly all threads is idle.
fn idle(facts: &Facts) -> Option<Finding> {
    let total = facts.times.total_ns();
    let share = if total == 0 { 0.0 } else { facts.times.idle_ns as f64 / total as f64 };
    if share < 0.9 || facts.cpus_used > 0.2 {
        return None;
    }
    let claim = format!("Idle: threads wait for work {} of their time; nothing holds them up.", pct(share));
    finding(
        share,
        claim,
        vec![],
        vec![format!("CPUs used: {:.2}", facts.cpus_used)],
        "put load on it, then look again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{LockSite, verdict};
    use crate::view::wall::Times;

    const UNIT: u64 = 1_000_000;

    /// 100 units of active time: a program that computes.
    fn calm() -> Facts {
        let mut facts =
            Facts { wall_s: 1.0, cpus_used: 1.0, user: Some(0.9), active_threads: 1, ..Facts::default() };
        facts.times = Times { on_ns: 100 * UNIT, ..Times::default() };
        facts.system.cpus = 2;
        facts
    }

    fn blocked(facts: &mut Facts, reason: Reason, units: u64) {
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
    fn running_rules() {
        check(1, calm(), with(|f| blocked(f, Reason::Disk, 100)));
        let serial = |busy| {
            with(|f| {
                f.system.cpus = 8;
                f.idle_threads = 7;
                f.busiest = Some(("main".into(), busy, 0.9));
            })
        };
        check(2, serial(0.99), serial(0.5));
        check(3, with(|f| f.user = Some(0.4)), calm());
        check(14, with(|f| f.hot_kernel = vec![("native_queued_spin_lock_slowpath".into(), 0.2)]), calm());
        let faults = |rate| {
            with(|f| {
                f.faults_per_s = (rate, 0.0);
                f.hot_kernel = vec![("clear_page_erms".into(), 0.3)];
            })
        };
        check(13, faults(90_000.0), faults(100.0));
        check(18, with(|f| f.ipc = Some(0.3)), with(|f| f.ipc = None));
    }

    #[test]
    fn machine_rules() {
        check(4, with(|f| f.system.interrupts = Some(0.2)), with(|f| f.system.interrupts = Some(0.02)));
        check(5, with(|f| f.system.steal = Some(0.2)), with(|f| f.system.steal = Some(0.01)));
        check(7, with(|f| f.system.throttled = Some(0.4)), with(|f| f.system.throttled = Some(0.0)));
        check(
            17,
            with(|f| f.system.listen_drops = Some(9)),
            with(|f| f.system.tcp_retransmitted = Some(0.001)),
        );
        check(19, with(|f| f.system.forks_per_s = Some(400.0)), with(|f| f.system.forks_per_s = Some(3.0)));
        let busy = |share| {
            with(|f| {
                f.system.busiest_disk = Some(("vda".into(), share));
                f.system.disk_await_ns = Some(20_000_000);
                blocked(f, Reason::Disk, 50);
            })
        };
        check(11, busy(0.95), busy(0.2));
    }

    #[test]
    fn waiting_rules() {
        check(6, with(|f| f.times.runnable_ns = 50 * UNIT), with(|f| f.times.runnable_ns = 2 * UNIT));
        check(9, with(|f| f.preemptions_per_s = 9000.0), with(|f| f.preemptions_per_s = 20.0));
        check(10, with(|f| blocked(f, Reason::Fsync, 80)), with(|f| blocked(f, Reason::Disk, 5)));
        let memory = |major| {
            with(|f| {
                f.faults_per_s = (0.0, major);
                blocked(f, Reason::PageFault, 50);
            })
        };
        check(12, memory(500.0), memory(1.0));
        let others = |on| {
            with(|f| {
                f.times.on_ns = on * UNIT;
                blocked(f, Reason::Socket, 90);
            })
        };
        check(15, others(10), others(1000));
        let timers = |variation| {
            with(|f| {
                f.timers = Some((5e6, variation, 100));
                blocked(f, Reason::Timer, 100);
            })
        };
        check(16, timers(0.01), timers(1.0));
        let idle = |ns| {
            with(|f| {
                f.cpus_used = 0.01;
                f.times.idle_ns = ns * UNIT;
            })
        };
        check(20, idle(100_000), idle(10));
        check(14, with(|f| blocked(f, Reason::KernelLock, 60)), with(|f| blocked(f, Reason::KernelLock, 1)));
    }

    #[test]
    fn a_lock_is_named_with_its_caller() {
        let contended = |ns| {
            with(|f| {
                blocked(f, Reason::Futex, ns);
                f.locks = vec![LockSite {
                    taker: "rand".into(),
                    caller: "roll".into(),
                    wait_ns: ns * UNIT,
                    waits: 9,
                    for_work: false,
                }];
            })
        };
        check(8, contended(150), contended(3));
        let found = verdict(&contended(150));
        assert_eq!(found[0].name, "lock-contention");
        assert!(found[0].claim.contains("the lock inside rand(), called from roll"), "{}", found[0].claim);
        let fought = |on| {
            with(|f| {
                f.times.on_ns = 1000 * UNIT;
                f.functions.insert("do_futex".into(), Times { on_ns: on * UNIT, ..Times::default() });
                f.locks = vec![LockSite { taker: "rand".into(), wait_ns: UNIT, ..LockSite::default() }];
            })
        };
        check(8, fought(400), fought(50));
        let for_work = with(|f| {
            f.locks = vec![LockSite { wait_ns: 500 * UNIT, for_work: true, ..LockSite::default() }];
        });
        assert_eq!(verdict(&for_work).iter().filter(|f| f.rule == 8).count(), 0);
    }

    #[test]
    fn there_is_one_rule_of_each_number() {
        assert_eq!(RULES.iter().map(|rule| rule.number).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    }
}
