//! How far the numbers can be trusted, in one line, and what to do if they can't.

use display::number::{count_of, duration_ns, grouped};
use record::summary::{Notice, RunSummary};

/// Samples, stacks, losses, cost.
pub(super) fn parts(summary: &RunSummary, samples: u64) -> Vec<String> {
    let rate = summary.frequency_hz.map_or(String::new(), |hz| format!(" at {hz} Hz"));
    let mut parts = vec![format!("{}{rate}", count_of(samples, "sample", "samples"))];
    let quality = &summary.quality;
    let whole = (quality.complete.saturating_add(quality.joined)).saturating_mul(100);
    let whole = whole.checked_div(quality.stacks).filter(|_| samples > 0);
    parts.extend(whole.map(|percent| format!("{percent} % complete stacks")));
    let lost = summary.lost.lost_records + summary.lost.lost_samples;
    parts.push(format!("{} lost", grouped(lost)));
    let own_ns = summary.recorder.user_ns.saturating_add(summary.recorder.system_ns);
    // The start takes the same time however short the recording.
    const LONG_NS: u64 = 1_000_000_000;
    parts.push(match summary.wall_ns {
        LONG_NS.. => format!("overhead {:.1} % CPU", own_ns as f64 * 100.0 / summary.wall_ns as f64),
        _ => format!("overhead {} CPU", duration_ns(own_ns)),
    });
    parts
}

/// What is wrong and how to mend it, most important first.
pub(super) fn warnings(summary: &RunSummary, better: Option<&str>, name_hints: &[String]) -> Vec<String> {
    let matters = |notice: &&Notice| {
        !matches!(
            notice,
            Notice::NoHardwareCounters(..)
                | Notice::NoBranchRecords
                | Notice::SmallerRings(..)
                | Notice::LowerFrequency(..)
                | Notice::OffCpuPeriod(_)
                | Notice::OffCpuLost(..)
                | Notice::Spilled(_)
                | Notice::SwitchesCost(..)
                | Notice::CpusNew(_)
        )
    };
    let mut warnings: Vec<String> = summary.notices.iter().filter(matters).map(Notice::brief).collect();
    let has_loss = summary.lost.lost_records + summary.lost.lost_samples > 0;
    let better = better.map(str::to_owned);
    let (before, after) = if has_loss { (better, None) } else { (None, better) };
    warnings.extend(before);
    warnings.extend(name_hints.iter().cloned());
    warnings.extend(after);
    warnings
}
