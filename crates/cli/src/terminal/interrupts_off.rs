//! Kernel code with interrupts off is sampled late by cpu-clock: where interrupts are on again.
//!
//! A hardware counter's interrupt can't be masked, but the timer's of cpu-clock can. So the time of code with interrupts
//! off is counted for the function that enables them, which is often at the top of a table.

use profile::grow::{Grow as _, GrownSum as _};
use profile::profile::Profile;
use profile::table::DsoKind;
use profile::view::ranking::RankRows as _;

/// Less of the time is not worth a note, in percent.
const LEAST: f64 = 5.0;

/// Functions named in a note.
const NAMED: usize = 2;

/// Kernel functions whose purpose is to enable interrupts, or that do so right after a context switch.
// Source: linux v6.18 include/linux/spinlock_api_smp.h, kernel/sched/core.c, kernel/entry/common.c, kernel/softirq.c
const ENABLING: [&str; 12] = [
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "_raw_read_unlock_irqrestore",
    "_raw_read_unlock_irq",
    "_raw_write_unlock_irqrestore",
    "_raw_write_unlock_irq",
    "finish_task_switch",
    "irqentry_exit_to_user_mode",
    "irqentry_exit",
    "exit_to_user_mode_loop",
    "handle_softirqs",
    "__do_softirq",
];

/// The explanation of the mark on such a function.
pub const FOOTNOTE: &str = "interrupts were off before this: cpu-clock counts that time here";

/// Whether the samples of this event come by a timer's interrupt.
pub fn is_by_timer(event: &str) -> bool {
    let name = event.split([':', '/']).next().unwrap_or(event);
    ["cpu-clock", "task-clock"].contains(&name)
}

/// Whether time with interrupts off is counted for this kernel function. Compilers add a part to some names.
pub fn enables_interrupts(function: &str) -> bool {
    ENABLING.contains(&function.split('.').next().unwrap_or(function))
}

/// One line on the share of such samples, if it is large.
pub fn note(profile: &Profile) -> Option<String> {
    let mut total = 0u64;
    let mut by_name: Vec<(&str, u64)> = Vec::new();
    for (key, sums) in profile.cells() {
        if !profile.events.get(key.event as usize).is_some_and(|event| is_by_timer(&event.name)) {
            continue;
        }
        total.grow(sums.period);
        let frame = profile.callsites.of(key.callsite).frame;
        if profile.dsos.of(profile.frames.of(frame).dso).kind != DsoKind::Kernel {
            continue;
        }
        let Some(own) = profile.frame_names(frame).last() else { continue };
        let name = profile.strings.of(profile.symbols.of(own.symbol).name);
        if enables_interrupts(name) {
            match by_name.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => sum.grow(sums.period),
                None => by_name.push((name, sums.period)),
            }
        }
    }
    by_name.rank_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    let sum = by_name.iter().map(|(_, sum)| *sum).grown_sum();
    let percent = sum as f64 * 100.0 / total.max(1) as f64;
    let names: Vec<&str> = by_name.iter().take(NAMED).map(|(name, _)| *name).collect();
    (percent >= LEAST).then(|| {
        format!(
            "{percent:.1}% of the samples are in kernel functions that enable interrupts ({}): cpu-clock counts the \
             time of code with interrupts off there",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_that_enable_interrupts_are_marked() {
        assert!(
            enables_interrupts("finish_task_switch.isra.0") && enables_interrupts("_raw_spin_unlock_irq")
        );
        assert!(!enables_interrupts("_raw_spin_lock_irqsave") && !enables_interrupts("iowrite16"));
        assert!(is_by_timer("cpu-clock:u") && is_by_timer("task-clock") && !is_by_timer("cycles"));
    }
}
