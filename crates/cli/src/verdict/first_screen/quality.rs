//! How far the numbers can be trusted, in one line, and what to do if they can't.

use crate::text::run_screen::stop_text;
use display::number::{count_of, grouped};
use record::summary::{Notice, RunSummary, StackQuality, StopReason};

/// Samples, stacks, losses, cost.
pub(super) fn parts(summary: &RunSummary, samples: u64) -> Vec<String> {
    let by_stops = summary.notices.iter().any(|notice| matches!(notice, Notice::ByStops(..)));
    // Stops come less often than asked: only threads that run are stopped, for 1 % of their time at most.
    let rate = match summary.frequency_hz {
        Some(_) if by_stops => " by stops".to_owned(),
        rate => rate.map_or(String::new(), |hz| format!(" at {hz} Hz")),
    };
    let mut parts = vec![format!("{}{rate}", count_of(samples, "sample", "samples"))];
    let quality = &summary.quality;
    let whole = (quality.complete.saturating_add(quality.joined)).saturating_mul(100);
    let whole = whole.checked_div(quality.stacks).filter(|_| samples > 0);
    parts.extend(whole.map(|percent| format!("{percent} % complete stacks{}", cause(quality, percent))));
    let lost = summary.lost.lost_records + summary.lost.lost_samples;
    parts.push(format!("{} lost", grouped(lost)));
    parts.extend(overhead(summary));
    parts
}

/// The most frequent reason for cut stacks, where they are many: ` (most others: no unwind info in busybox)`.
fn cause(quality: &StackQuality, percent: u64) -> String {
    /// Percent of complete stacks.
    const FEW: u64 = 80;
    let most = quality.stopped.iter().max_by_key(|stopped| stopped.count).filter(|_| percent < FEW);
    most.map_or(String::new(), |most| match most.reason {
        StopReason::CopyEnd(bytes) => {
            format!(" (most others: stacks of more than {} KB)", bytes.div_ceil(1024))
        }
        _ => format!(" (most others: {})", stop_text(most)),
    })
}

/// Cost of the recording while the program ran: not the preparation and the work after the end, which take the same
/// time however short it ran. In a very short run a single wake-up is a large share.
fn overhead(summary: &RunSummary) -> Option<String> {
    const SHORT_NS: u64 = 100_000_000;
    (summary.wall_ns >= SHORT_NS).then(|| summary.recorder_words())
}

/// Notices that need no action, in `words`.
pub(super) fn notes(summary: &RunSummary, words: fn(&Notice) -> String) -> Vec<String> {
    summary.notices.iter().filter(|notice| notice.is_information()).map(words).collect()
}

/// Defects and notes, each in full.
pub fn all_in_full(summary: &RunSummary, better: Option<&str>, name_hints: &[String]) -> Vec<String> {
    let mut all = warnings(summary, better, name_hints, Notice::to_string);
    all.extend(notes(summary, Notice::to_string));
    all
}

/// Defects and how to mend them, most important first, each notice in `words`.
pub(super) fn warnings(
    summary: &RunSummary,
    better: Option<&str>,
    name_hints: &[String],
    words: fn(&Notice) -> String,
) -> Vec<String> {
    let matters = |notice: &&Notice| {
        !notice.is_information()
            && !matches!(
                notice,
                Notice::NoHardwareCounters(..)
                    | Notice::NoBranchRecords
                    | Notice::SmallerRings(..)
                    | Notice::LowerFrequency(..)
                    | Notice::OffCpuPeriod(_)
                    | Notice::OffCpuUnwoken(..)
                    | Notice::OffCpuLost(..)
                    | Notice::Spilled(_)
                    | Notice::SwitchesCost(..)
                    | Notice::CpusNew(_)
            )
    };
    let mut warnings: Vec<String> = summary.notices.iter().filter(matters).map(words).collect();
    let has_loss = summary.lost.lost_records + summary.lost.lost_samples > 0;
    let better = better.map(str::to_owned);
    let (before, after) = if has_loss { (better, None) } else { (None, better) };
    warnings.extend(before);
    warnings.extend(name_hints.iter().cloned());
    warnings.extend(after);
    warnings
}

#[cfg(test)]
mod tests {
    use super::overhead;
    use record::summary::{RecorderUse, RunSummary};

    #[test]
    fn overhead_is_the_cost_while_the_program_ran() {
        let used = RecorderUse {
            user_ns: 900_000_000,
            while_running_ns: 30_000_000,
            programs_ns: 10_000_000,
            ..RecorderUse::default()
        };
        let of = |wall_ns| overhead(&RunSummary { wall_ns, recorder: used, ..RunSummary::default() });
        assert_eq!(of(2_000_000_000).as_deref(), Some("tally: 0.02 CPUs"));
        assert_eq!(of(99_000_000), None);
    }
}
