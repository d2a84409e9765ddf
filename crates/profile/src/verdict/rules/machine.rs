//! Rules about the machine: what takes time from everybody.

use super::{finding, list, pct, time};
use crate::off_cpu::Reason;
use crate::verdict::{Facts, Finding, INPUT};

/// 4: interrupts take > 10 % of all CPU time, or > 50 % of one CPU.
pub(super) fn interrupts(facts: &Facts) -> Option<Finding> {
    let (all, one) =
        (facts.system.interrupts.unwrap_or(0.0), facts.system.interrupts_of_one_cpu.unwrap_or(0.0));
    if all <= 0.1 && one <= 0.5 {
        return None;
    }
    let most = facts.system.soft_interrupts.first().filter(|(.., rate, _)| *rate >= 1000.0);
    let most = most.map_or_else(String::new, |(name, ..)| format!(", mostly {}", kind_of(name)));
    let claim =
        format!("Interrupts take {} of all CPU time, {} of the CPU with most{most}.", pct(all), pct(one));
    let told = facts.system.soft_interrupts.iter().filter(|(.., rate, _)| *rate >= 100.0).take(3);
    let mut evidence: Vec<String> = told
        .map(|(name, rate, on_one)| {
            format!("{name}: {rate:.0} a second, {} of them on one CPU", pct(*on_one))
        })
        .collect();
    let soft = facts.running_in("handle_softirqs").max(facts.running_in("__do_softirq"));
    if soft >= 0.01 {
        evidence.push(format!("of the target's own running time {} is such work", pct(soft)));
    }
    let against = vec![format!("time taken by the hypervisor: {}", pct(facts.system.steal.unwrap_or(0.0)))];
    finding(all.max(one / 2.0), claim, evidence, against, "watch -d cat /proc/softirqs /proc/interrupts")
}

/// What /proc/softirqs means by its words.
fn kind_of(name: &str) -> &str {
    match name {
        "NET_RX" => "packets that came in (NET_RX)",
        "NET_TX" => "packets sent (NET_TX)",
        "TIMER" | "HRTIMER" => "timers",
        "BLOCK" | "IRQ_POLL" => "disk requests that were done (BLOCK)",
        "SCHED" => "balancing of threads over CPUs (SCHED)",
        "RCU" => "memory to be freed (RCU)",
        other => other,
    }
}

/// 5: the hypervisor took > 5 %.
pub(super) fn steal(facts: &Facts) -> Option<Finding> {
    let steal = facts.system.steal.filter(|&steal| steal > 0.05)?;
    let claim = format!(
        "The hypervisor took {} of the CPU time: every other number here is inflated by it.",
        pct(steal)
    );
    let one = facts.system.steal_of_one_cpu.unwrap_or(steal);
    let evidence = vec![format!("of the CPU with most: {}", pct(one))];
    let against = vec![format!(
        "other programs on this machine: threads wait for a CPU {}",
        pct(facts.waiting_for_cpu())
    )];
    finding(
        steal,
        claim,
        evidence,
        against,
        "run again on a quiet or dedicated machine; vmstat 1 shows it as st",
    )
}

/// 7: > 5 % of the cgroup's periods were throttled.
pub(super) fn throttled(facts: &Facts) -> Option<Finding> {
    let share = facts.system.throttled.filter(|&share| share > 0.05)?;
    let ns = facts.system.throttled_ns.unwrap_or(0);
    let claim = format!(
        "The cgroup's CPU quota stopped it: {} of its periods were throttled, {} in all.",
        pct(share),
        time(ns)
    );
    let against = vec![format!(
        "waiting for a CPU: {} (of it, what the quota makes it wait)",
        pct(facts.waiting_for_cpu())
    )];
    let evidence = vec![format!("CPUs used: {:.2} of {}", facts.cpus_used, facts.system.cpus)];
    let next = match &facts.system.throttled_by {
        Some(folder) => {
            format!("grep . {folder}/cpu.max {folder}/cpu.cfs_quota_us; raise the quota or use fewer threads")
        }
        None => "raise the quota or use fewer threads".to_owned(),
    };
    finding(share, claim, evidence, against, &next)
}

/// 17: > 1 % of TCP segments sent again, or connections dropped.
pub(super) fn network(facts: &Facts) -> Option<Finding> {
    let again = facts.system.tcp_retransmitted.unwrap_or(0.0);
    let drops = facts.system.listen_drops.unwrap_or(0);
    if again <= 0.01 && drops == 0 {
        return None;
    }
    let claim = format!(
        "The network loses: {:.1} % of TCP segments were sent again, {drops} connections refused for a full backlog.",
        again * 100.0
    );
    let waits = facts.blocked(Reason::Socket) + facts.blocked(Reason::Poll);
    let mut evidence = facts.top_places(Reason::Socket);
    evidence.extend(facts.top_places(Reason::Poll));
    let against = vec![format!(
        "the counters are the whole machine's; the target waits for sockets and poll {}",
        pct(waits)
    )];
    finding(waits, claim, evidence, against, "ss -ti; nstat -az | grep -iE 'retrans|listen'")
}

/// 19: > 50 processes of the target came and went a second, and running them is > 10 % of its running time.
pub(super) fn short_processes(facts: &Facts) -> Option<Finding> {
    let short = &facts.short_lived;
    let rate = short.processes as f64 / facts.wall_s.max(1e-9);
    let of_running = short.on_ns as f64 / facts.times.on_ns.max(1) as f64;
    if rate <= 50.0 || of_running <= 0.1 {
        return None;
    }
    let each_ns = short.life_ns / (short.processes as u64).max(1);
    let claim = format!(
        "Short processes: the target starts {rate:.0} a second, which live {} on average; {} of its running time is \
         theirs.",
        time(each_ns),
        pct(of_running)
    );
    let whole: u64 = short.names.iter().map(|(_, count)| count).sum();
    let mut evidence = vec![format!("{} of them: {}", short.processes, list(&short.names, whole))];
    let starting =
        facts.in_calls(&["execve", "execveat", "exit_group", "exit", "clone", "clone3", "vfork", "fork"]);
    let starting = starting + facts.in_calls(&["kernel_clone"]);
    evidence.push(format!("{} of running time is the kernel starting and ending them", pct(starting)));
    let against = vec![format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu()))];
    let next = format!("tally report --stdio --sort comm{INPUT}; do it in one process, or start fewer");
    finding(facts.share(short.active_ns), claim, evidence, against, &next)
}
