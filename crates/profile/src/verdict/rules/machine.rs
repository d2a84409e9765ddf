//! Rules about the machine: things that take time from every program.

use super::{claim, grouped, list, pct, time};
use crate::off_cpu::WaitReason;
use crate::verdict::{EntryReason, Facts, Finding, INPUT, ShareBase, TopStacks, quoted};

/// 4: interrupts take > 10 % of all CPU time, or > 50 % of one CPU.
pub(super) fn interrupts(facts: &Facts) -> Option<Finding> {
    let (all, one) =
        (facts.system.interrupts.unwrap_or(0.0), facts.system.interrupts_of_one_cpu.unwrap_or(0.0));
    if all <= 0.1 && one <= 0.5 {
        return None;
    }
    let most = facts.system.soft_interrupts.first().filter(|(.., rate, _)| *rate >= 1000.0);
    let most = most.map_or_else(String::new, |(name, ..)| format!(", mostly for {}", kind_of(name)));
    let text = format!("Interrupts: {} of all CPU time, {} of the busiest CPU{most}", pct(all), pct(one));
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
    let stacks = TopStacks::running(
        facts,
        "what the target ran when an interrupt came",
        &[EntryReason::Interrupt],
    )
    .or_missing(
        "no sample of the target's threads fell into an interrupt: they hit other CPUs, or others' threads",
    );
    let on_one = facts.system.soft_interrupts.first().is_some_and(|(.., on_one)| *on_one > 0.8);
    claim(all.max(one / 2.0), text)
        .fix(if on_one { "spread them over the CPUs (irqbalance, RPS)" } else { "" })
        .evidence(evidence)
        .stacks(stacks)
        .against(against)
        .next("watch -d cat /proc/softirqs /proc/interrupts".to_owned(), "which of them, and on which CPU")
}

/// Meaning of the names in /proc/softirqs.
fn kind_of(name: &str) -> &str {
    match name {
        "NET_RX" => "incoming packets (NET_RX)",
        "NET_TX" => "packets sent (NET_TX)",
        "TIMER" | "HRTIMER" => "timers",
        "BLOCK" | "IRQ_POLL" => "completed disk requests (BLOCK)",
        "SCHED" => "balancing of threads over CPUs (SCHED)",
        "RCU" => "freeing memory (RCU)",
        other => other,
    }
}

/// 5: the hypervisor took > 5 %.
pub(super) fn steal(facts: &Facts) -> Option<Finding> {
    let steal = facts.system.steal.filter(|&steal| steal > 0.05)?;
    let text =
        format!("Hypervisor: it took {} of the CPU time, which inflates every other number here", pct(steal));
    let one = facts.system.steal_of_one_cpu.unwrap_or(steal);
    let evidence = vec![format!("of the CPU with most: {}", pct(one))];
    let against = vec![format!(
        "other programs on this machine: threads wait for a CPU {}",
        pct(facts.waiting_for_cpu())
    )];
    let stacks = TopStacks::running(facts, "what ran, slower than it looks", &EntryReason::ALL);
    let advice = "its column st, for ten seconds";
    claim(steal, text)
        .fix("use a quiet or dedicated machine")
        .evidence(evidence)
        .stacks(stacks)
        .against(against)
        .next("vmstat 1 10".to_owned(), advice)
}

/// 7: > 5 % of the cgroup's periods were throttled.
pub(super) fn throttled(facts: &Facts) -> Option<Finding> {
    let periods = facts.system.throttled.filter(|&share| share > 0.05)?;
    let text = format!(
        "CPU quota: the cgroup used it up in {} of its periods; threads wait for a CPU {} of their time",
        pct(periods),
        pct(facts.waiting_for_cpu())
    );
    let pressure = facts.system.pressure_cpu;
    let against = pressure
        .map(|share| format!("other programs: some task waited for a CPU {} of the time", pct(share)));
    let ns = facts.system.throttled_ns.unwrap_or(0);
    let evidence = vec![
        format!("stopped for {}, all CPUs together", time(ns)),
        format!("CPUs used: {:.2} of {}", facts.cpus_used, facts.system.cpus),
    ];
    let file = facts.system.throttled_by.as_deref().unwrap_or("/proc/self/cgroup");
    let stacks = TopStacks::of(facts, "where threads were stopped", ShareBase::Queued, &facts.places.queued)
        .or_missing("no wait for a CPU was long enough to be sampled with a stack");
    let advice = "the quota";
    claim(queued_by_quota(facts), text)
        .fix("raise the quota, or use fewer threads")
        .evidence(evidence)
        .stacks(stacks)
        .against(against.into_iter().collect())
        .next(format!("cat {}", quoted(file)), advice)
}

/// Share of active time waiting for a CPU that the cgroup's quota explains, if there is such a finding: the share of
/// throttled periods. The recording doesn't attribute single waits to the quota.
pub(super) fn queued_by_quota(facts: &Facts) -> f64 {
    facts.system.throttled.filter(|&share| share > 0.05).unwrap_or(0.0) * facts.waiting_for_cpu()
}

/// 17: > 1 % of TCP segments sent again, or connections dropped.
pub(super) fn network(facts: &Facts) -> Option<Finding> {
    let again = facts.system.tcp_retransmitted.unwrap_or(0.0);
    let drops = facts.system.listen_drops.unwrap_or(0);
    if again <= 0.01 && drops == 0 {
        return None;
    }
    let sent_again = format!("{:.1} % of TCP segments were sent again", again * 100.0);
    let refused = format!("{} connections refused (backlog full)", grouped(drops as f64));
    let text = match (again > 0.01, drops > 0) {
        (true, true) => format!("Network: {sent_again}, {refused}"),
        (true, false) => format!("Network: {sent_again}"),
        _ => format!("Network: {refused}"),
    };
    let waits = facts.blocked(WaitReason::Socket) + facts.blocked(WaitReason::Poll);
    let against = vec![format!(
        "the counters are the whole machine's; the target waits for sockets and poll {}",
        pct(waits)
    )];
    let stacks =
        TopStacks::blocked(facts, "where threads wait for it", &[WaitReason::Socket, WaitReason::Poll]);
    let fix = if drops > 0 { "accept connections faster, or raise the listen backlog" } else { "" };
    claim(waits, text).fix(fix).stacks(stacks).against(against).next(
        "ss -ti; nstat -az | grep -iE 'retrans|listen'".to_owned(),
        "by connection, and which counters rise",
    )
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
    let text = format!(
        "Short processes: {} started a second, each lives {}; {} of CPU time is theirs",
        grouped(rate),
        time(each_ns),
        pct(of_running)
    );
    let whole: u64 = short.names.iter().map(|(_, count)| count).sum();
    let mut evidence =
        vec![format!("{} such processes, by program: {}", short.processes, list(&short.names, whole))];
    let starting =
        facts.in_calls(&["execve", "execveat", "exit_group", "exit", "clone", "clone3", "vfork", "fork"]);
    let starting = starting + facts.in_calls(&["kernel_clone"]);
    evidence.push(format!("{} of running time is the kernel starting and ending them", pct(starting)));
    let against = vec![format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu()))];
    let stacks = TopStacks::of(facts, "where they run", ShareBase::Running, &facts.places.short_lived)
        .or_missing("none of them was sampled while it ran: a higher frequency (-F) may");
    let claim = claim(facts.share(short.active_ns), text).fix("do the work in one process, or start fewer");
    claim
        .evidence(evidence)
        .stacks(stacks)
        .against(against)
        .next(format!("tally report --stdio --sort comm{INPUT}"), "which programs they are")
}
