//! Histograms in powers of two as bars.

use display::bar::of_eighths;
use display::number::grouped;
use profile::view::wall::Histogram;
use std::io::{self, Write};

/// Two histograms side by side, a line for each power of two from the first to the last that either uses: where it
/// begins and ends, then each one's count and bar. `width` is that of one bar; nothing is written of empty ones.
///
/// # Errors
/// Standard output can't be written.
pub fn write_pair(
    out: &mut dyn Write,
    names: [&str; 2],
    of: [&Histogram; 2],
    width: usize,
) -> io::Result<()> {
    let rows = of.map(|histogram| histogram.rows().collect::<Vec<_>>());
    let filled =
        |rows: &[(u64, u64)], from: u64| rows.iter().find(|(f, _)| *f == from).map_or(0, |(_, n)| *n);
    let all = || rows.iter().flatten().filter(|(_, n)| *n > 0).map(|(from, _)| *from);
    let (Some(low), Some(high)) = (all().min(), all().max()) else { return Ok(()) };
    let most = rows.iter().flatten().map(|(_, n)| *n).max().unwrap_or(1);
    writeln!(out, "{:>16} {:>9} {:<width$} {:>9}", "", names[0], "", names[1])?;
    let mut from = low;
    while from <= high {
        let [left, right] = [0, 1].map(|i| filled(&rows[i], from));
        let bars = [left, right].map(|n| bar(n, most, width));
        let line = format!(
            "{:>16} {:>9} {:<width$} {:>9} {}",
            range(from),
            count(left),
            bars[0],
            count(right),
            bars[1]
        );
        writeln!(out, "{}", line.trim_end())?;
        from = from.saturating_mul(2);
    }
    Ok(())
}

/// From a power of two of ns to the next, in few characters: `64µs–128µs`.
#[must_use]
pub fn range(from_ns: u64) -> String {
    format!("{}–{}", brief(from_ns), brief(from_ns.saturating_mul(2)))
}

/// A power of two of ns in few characters: `64µs` for 65,536 ns.
fn brief(ns: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("s", 30), ("ms", 20), ("µs", 10)];
    let unit = UNITS.into_iter().find(|(_, shift)| ns >= 1 << shift);
    unit.map_or_else(|| format!("{ns}ns"), |(unit, shift)| format!("{}{unit}", ns >> shift))
}

fn count(n: u64) -> String {
    if n == 0 { "·".to_owned() } else { grouped(n) }
}

/// A bar of `n` of `most` in `width` columns, in eighths of a column.
fn bar(n: u64, most: u64, width: usize) -> String {
    of_eighths((n as f64 * width as f64 * 8.0 / most.max(1) as f64).ceil() as usize)
}
