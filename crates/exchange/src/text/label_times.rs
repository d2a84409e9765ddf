//! The wall clock by labels of goroutines, as text.

use super::{FollowedTextOpts, share};
use crate::foreign::harmless;
use display::number::{count_of, duration_ns};
use profile::Profile;
use profile::grow::GrownSum as _;
use profile::profile::WITHOUT_LABELS;
use profile::view::wall::{LabelTimes, Part, part_name};
use std::io::{self, Write};

/// Prints a heading and a row for each label.
///
/// # Errors
/// The output can't be written.
pub fn write(
    out: &mut dyn Write,
    profile: &Profile,
    rows: &[LabelTimes],
    opts: FollowedTextOpts,
) -> io::Result<()> {
    let whole: u64 = rows.iter().map(|row| row.times.active_ns()).grown_sum();
    let idle: u64 = rows.iter().map(|row| row.times.idle_ns).grown_sum();
    let idle = match idle {
        0 => String::new(),
        idle => format!(" · idle left out: {} (--idle)", duration_ns(idle)),
    };
    writeln!(out, "Wall clock by label: {}{idle}", duration_ns(whole))?;
    writeln!(out, "{:>10} {:>7} {:>10} {:>10} {:>10}  label", "time", "", "on CPU", "wants CPU", "waits")?;
    let shown: Vec<&LabelTimes> = rows.iter().filter(|row| row.times.active_ns() > 0).collect();
    for row in shown.iter().take(opts.rows) {
        let label = row.label.map_or(WITHOUT_LABELS, |label| profile.strings.of(label));
        writeln!(out, "{}  {}{}", numbers(row, whole), harmless(label), waits(row))?;
    }
    match shown.len().saturating_sub(opts.rows) {
        0 => Ok(()),
        more => writeln!(out, "({} more: --rows)", count_of(more as u64, "label", "labels")),
    }
}

fn numbers(LabelTimes { times, .. }: &LabelTimes, whole: u64) -> String {
    let all = times.active_ns();
    let wants = times.runnable_ns.saturating_add(times.preempted_ns);
    let [all_text, on, wants, waits] =
        [all, times.on_ns, wants, times.blocked_total_ns()].map(|ns| match ns {
            0 => "·".to_owned(),
            ns => duration_ns(ns),
        });
    format!("{all_text:>10} {:>7} {on:>10} {wants:>10} {waits:>10}", share(all, whole))
}

/// `   (socket 1.2 s, futex 3 ms)`: what its waits are.
fn waits(LabelTimes { times, .. }: &LabelTimes) -> String {
    let mut parts: Vec<_> = times.blocked_ns.iter().filter(|(_, ns)| **ns > 0).collect();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    let words: Vec<String> = (parts.iter().take(3))
        .map(|(reason, ns)| format!("{} {}", part_name(Part::Blocked(**reason)), duration_ns(**ns)))
        .collect();
    if words.is_empty() { String::new() } else { format!("   ({})", words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::off_cpu::WaitReason;
    use profile::view::wall::Times;

    #[test]
    fn each_label_has_its_time_and_what_its_waits_are() {
        let mut profile = Profile::default();
        let pay = profile.strings.intern("route=/pay\u{1b}");
        let times = |on_ns, disk, idle_ns| Times {
            on_ns,
            preempted_ns: 1_000_000,
            blocked_ns: [(WaitReason::Disk, disk)].into_iter().collect(),
            idle_ns,
            ..Times::default()
        };
        let rows = [
            LabelTimes { label: Some(pay), times: times(1_000_000, 2_000_000, 0) },
            LabelTimes { label: None, times: times(3_000_000, 0, 7_000_000_000) },
        ];
        let text = |rows: &[LabelTimes], most| {
            let mut out = Vec::new();
            let opts = FollowedTextOpts { width: 100, colour: false, rows: most };
            write(&mut out, &profile, rows, opts).expect("memory");
            String::from_utf8(out).expect("text")
        };
        let all = text(&rows, 9);
        let lines: Vec<&str> = all.lines().collect();
        assert_eq!(lines[0], "Wall clock by label: 8.000 ms · idle left out: 7.000 s (--idle)");
        assert!(lines[2].contains("50.0%") && lines[2].ends_with("   (disk 2.000 ms)"), "{all}");
        assert!(lines[3].ends_with("·  [no label]") && !all.contains('\u{1b}'), "{all}");
        assert!(text(&rows, 1).ends_with("(1 label more: --rows)\n"));
    }
}
