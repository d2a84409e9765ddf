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

/// The more of the time, the warmer.
pub fn heat(percent: f64) -> Paint {
    match percent {
        p if p >= 20.0 => Paint::Red,
        p if p >= 5.0 => Paint::Yellow,
        _ => Paint::Green,
    }
}
