//! Rules about threads that do not run: for a CPU, a lock, a disk, others, or nothing at all.

use super::running::SPINNING;
use super::{finding, pct, time};
use crate::off_cpu::Reason;
use crate::verdict::{Facts, Finding};

/// 6: > 10 % of active time waits for a CPU.
pub(super) fn saturation(facts: &Facts) -> Option<Finding> {
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
    let mut evidence = Vec::new();
    if max > 0 {
        let (p50, p99, max) = (time(p50), time(p99), time(max));
        evidence.push(format!("wait for a CPU after wake-up: p50 {p50}, p99 {p99}, longest {max}"));
    }
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

/// 8: > 15 % of active time waits for a lock in user space, or > 20 % of running time fights for one in the kernel.
pub(super) fn locks(facts: &Facts) -> Option<Finding> {
    let wait_ns: u64 = facts.locks.iter().filter(|site| !site.for_work).map(|site| site.wait_ns).sum();
    let waiting = facts.share(wait_ns);
    // A contended lock also runs: in the kernel's futex code, and spinning before it sleeps.
    let top = facts.locks.iter().find(|site| !site.for_work)?;
    // In a library, all of the function is about its lock; in one's own, only the wait is.
    let inside = facts.functions.get(&top.taker).map_or(0, |t| t.on_ns + t.runnable_ns);
    let fought = if top.in_library { inside } else { 0 };
    let top_share = facts.share(top.wait_ns + fought);
    if waiting <= 0.15 && facts.in_futex() <= 0.2 {
        return None;
    }
    let caller = if top.caller.is_empty() { String::new() } else { format!(", called from {}", top.caller) };
    let cure = if top.taker.starts_with("rand") { "; use a generator per thread" } else { "" };
    let share = pct(top_share.max(waiting));
    let claim = if top.in_library {
        format!(
            "Lock contention: {share} of thread time is spent waiting for or fighting over the lock inside {}(){caller}{cure}.",
            top.taker
        )
    } else {
        format!(
            "Lock contention: {share} of thread time is spent waiting for the lock taken in {}(){caller}.",
            top.taker
        )
    };
    let mut evidence: Vec<String> = facts
        .locks
        .iter()
        .filter(|site| !site.for_work)
        .take(3)
        .map(|site| {
            let caller = if site.caller.is_empty() { String::new() } else { format!(" < {}", site.caller) };
            format!("{:.1} % waiting  {}{caller}", facts.share(site.wait_ns) * 100.0, site.taker)
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
pub(super) fn preemption(facts: &Facts) -> Option<Finding> {
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
pub(super) fn disk(facts: &Facts) -> Option<Finding> {
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
        evidence.push(format!("{name}: busy {} of the time, {} a request", pct(*busy), time(ns)));
    }
    let against = vec![format!("page faults that read: {}", pct(facts.blocked(Reason::PageFault)))];
    finding(
        read + sync,
        claim,
        evidence,
        against,
        "tally io -- COMMAND (each request's time in the queue and in the device, and who caused it)",
    )
}

/// 11: a disk busy > 70 % with > 10 ms a request.
pub(super) fn disk_saturated(facts: &Facts) -> Option<Finding> {
    let (name, busy) = facts.system.busiest_disk.as_ref()?;
    let ns = facts.system.disk_await_ns.unwrap_or(0);
    let waits = facts.blocked(Reason::Disk) + facts.blocked(Reason::Fsync) + facts.blocked(Reason::PageFault);
    if *busy <= 0.7 || ns <= 10_000_000 || waits <= 0.05 {
        return None;
    }
    let claim =
        format!("The disk {name} is saturated: busy {} of the time, {} a request.", pct(*busy), time(ns));
    finding(waits * 0.99, claim, vec![], vec![], "tally io -a -- sleep 10 (queue and device, who causes it)")
}

/// 12: > 50 major faults a second, memory pressure > 5 %, or swapping.
pub(super) fn memory_pressure(facts: &Facts) -> Option<Finding> {
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

/// 14: > 5 % of running time spins on kernel locks, or > 5 % of active time sleeps for them.
pub(super) fn kernel_lock(facts: &Facts) -> Option<Finding> {
    let (spin, sleep) = (facts.in_kernel(SPINNING), facts.blocked(Reason::KernelLock));
    if spin <= 0.05 && sleep <= 0.05 {
        return None;
    }
    let share = sleep + spin * facts.on();
    let (claim, cure) = match facts.kernel_locks.first() {
        Some(((lock, _), _)) => {
            let by = facts.kernel_locks.iter().filter(|((of, _), _)| of == lock).take(3);
            let by: Vec<String> =
                by.map(|((_, what), ns)| format!("{what} {}", pct(facts.share(*ns)))).collect();
            let claim =
                format!("Kernel lock: {} of thread time waits for {lock}, in {}.", pct(share), by.join(", "));
            let maps = lock.contains("address space");
            (claim, if maps { "; map once and keep it, or read() into own buffers" } else { "" })
        }
        None => {
            (format!("Kernel lock: {} of thread time waits for locks inside the kernel.", pct(share)), "")
        }
    };
    let mut evidence = facts.top_places(Reason::KernelLock);
    if spin > 0.01 {
        evidence.push(format!("{} of running time spins on locks inside the kernel", pct(spin)));
    }
    let against = vec![
        format!("locks in user space: {}", pct(facts.blocked(Reason::Futex))),
        format!("disk: {}", pct(facts.blocked(Reason::Disk))),
    ];
    finding(share, claim, evidence, against, &format!("tally flame --off-cpu -o wait.svg{cure}"))
}

/// 15: the CPU is used little, and waits are for others: sockets, pipes, poll, children.
pub(super) fn waiting_for_others(facts: &Facts) -> Option<Finding> {
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
pub(super) fn polling(facts: &Facts) -> Option<Finding> {
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

/// 20: nearly all time of nearly all threads is idle.
pub(super) fn idle(facts: &Facts) -> Option<Finding> {
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
