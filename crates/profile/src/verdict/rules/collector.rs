//! The rule about garbage collectors.

use super::{claim, pct};
use crate::off_cpu::WaitReason;
use crate::verdict::{Facts, Finding, INPUT, TopStacks};
use crate::view::ranking::RankRows as _;

/// 25: > 10 % of active time without waits for a CPU collects garbage, or waits until that is done.
pub(super) fn garbage(facts: &Facts) -> Option<Finding> {
    let waits = facts.blocked(WaitReason::Collector) + facts.queued_after(WaitReason::Collector);
    let runs = facts.code.collects * facts.on();
    let share = waits + runs;
    if facts.undisturbed(share) <= 0.1 {
        return None;
    }
    let mut parts = vec![(waits, "waiting for it or for memory"), (runs, "collecting")];
    parts.retain(|(part, _)| *part >= 0.005);
    parts.rank_by(|a, b| b.0.total_cmp(&a.0));
    let parts: Vec<String> = parts.iter().map(|(part, what)| format!("{} {what}", pct(*part))).collect();
    let text = format!("Garbage collection: {} of thread time", pct(share));
    let on_cpu = format!("{} of CPU time collects", pct(facts.code.collects));
    claim(share, text)
        // One part is all of it.
        .detail(if parts.len() > 1 { parts.join(" · ") } else { String::new() })
        .fix("allocate less, or give the program more memory (a larger heap)")
        .evidence(vec![on_cpu])
        .stacks(TopStacks::blocked(facts, "where threads wait for it", &[WaitReason::Collector]))
        .against(vec![format!("locks: {}", pct(facts.blocked_on_futexes()))])
        .next(format!("tally flame{INPUT} -o memory.svg"), "who allocates and who collects")
}
