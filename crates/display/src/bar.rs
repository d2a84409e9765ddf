//! Bars of block characters, and the colour of a share.

use crate::term::Paint;

/// A bar of this many eighths of a column.
pub fn of_eighths(eighths: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// Eighths of a column for `percent`, if 100 percent are `columns`.
pub fn eighths(percent: f64, columns: f64) -> usize {
    (percent.clamp(0.0, 100.0) / 100.0 * columns * 8.0).round() as usize
}

/// A block per value: the higher, the larger, from the lowest shown to the highest or to twice the lowest, so that noise
/// stays flat. A blank for no value.
pub fn trend(values: &[Option<u64>]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let known = || values.iter().flatten().copied();
    let low = known().min().unwrap_or(0);
    let high = known().max().unwrap_or(0).max(low.saturating_mul(2)).max(low.saturating_add(1));
    let block = |value: u64| {
        let part = (value - low) as f64 / (high - low).max(1) as f64;
        BLOCKS[((part * 7.0).round() as usize).min(7)]
    };
    values.iter().map(|value| value.map_or(' ', block)).collect()
}

/// The more of the time, the warmer.
pub fn heat(percent: f64) -> Paint {
    match percent {
        p if p >= 20.0 => Paint::Red,
        p if p >= 5.0 => Paint::Yellow,
        _ => Paint::Green,
    }
}

#[cfg(test)]
mod tests {
    use super::trend;

    #[test]
    fn a_trend_shows_doublings_and_not_noise() {
        assert_eq!(trend(&[Some(100), None, Some(110), Some(200)]), "▁ ▂█");
        assert_eq!(trend(&[Some(u64::MAX), Some(0)]), "█▁");
        assert_eq!(trend(&[Some(u64::MAX)]), "▁");
    }
}
