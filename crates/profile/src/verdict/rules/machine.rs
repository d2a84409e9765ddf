//! Rules about the machine: what takes time from everybody.

use super::{finding, pct, time};
use crate::off_cpu::Reason;
use crate::verdict::{Facts, Finding};

/// 4: interrupts take > 10 % of all CPU time, or > 50 % of one CPU.
pub(super) fn interrupts(facts: &Facts) -> Option<Finding> {
    let (all, one) =
        (facts.system.interrupts.unwrap_or(0.0), facts.system.interrupts_of_one_cpu.unwrap_or(0.0));
    if all <= 0.1 && one <= 0.5 {
        return None;
    }
    let claim = format!("Interrupts take {} of all CPU time, {} of the CPU with most.", pct(all), pct(one));
    finding(all.max(one / 2.0), claim, vec![], vec![], "watch -d cat /proc/softirqs /proc/interrupts")
}

/// 5: the hypervisor took > 5 %.
pub(super) fn steal(facts: &Facts) -> Option<Finding> {
    let steal = facts.system.steal.filter(|&steal| steal > 0.05)?;
    let claim = format!(
        "The hypervisor took {} of the CPU time: every other number here is inflated by it.",
        pct(steal)
    );
    finding(steal, claim, vec![], vec![], "run again on a quiet or dedicated machine")
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
    finding(
        share,
        claim,
        vec![],
        vec![],
        "cat /sys/fs/cgroup/…/cpu.max; raise the quota or use fewer threads",
    )
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
    finding(
        facts.blocked(Reason::Socket).max(0.02),
        claim,
        vec![],
        vec![],
        "ss -ti; nstat -az | grep -i retrans",
    )
}

/// 19: > 50 processes forked a second while threads wait for a CPU, or > 500.
pub(super) fn short_processes(facts: &Facts) -> Option<Finding> {
    let least = if facts.waiting_for_cpu() > 0.1 { 50.0 } else { 500.0 };
    let rate = facts.system.forks_per_s.filter(|&rate| rate > least)?;
    let claim = format!(
        "Short processes: {rate:.0} of them, or threads of other programs, are started a second on this machine."
    );
    finding((rate / 1500.0).min(0.5), claim, vec![], vec![], "tally record -e sched:sched_process_exec -a")
}
