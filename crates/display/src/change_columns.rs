//! Columns of changes in a table of functions that is drawn again and again.

use crate::{bar, number};

/// Columns of the bar.
const BAR: usize = 6;
/// Columns of the line of p99s.
const TREND: usize = 9;

/// Columns of changes that a table has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeColumns {
    /// None: too narrow, or nothing changes any more.
    None,
    /// Calls per second and the line of p99s.
    RateAndTrend,
    /// Also the share of the time, with a bar.
    All,
}

impl ChangeColumns {
    /// Those for a screen of so many columns.
    pub fn fitting(width: usize) -> Self {
        match width {
            ..80 => Self::None,
            80..110 => Self::RateAndTrend,
            _ => Self::All,
        }
    }

    /// Columns that they take, with a space after each.
    pub fn width(self) -> usize {
        self.head().chars().count()
    }

    /// Heads.
    pub fn head(self) -> String {
        self.line("Calls/s", &format!("{:>7} {:BAR$} ", "Time", ""), "p99 trend")
    }

    /// The cells of a function, as wide as their heads: the share of the time in percent, p99s with the latest last.
    pub fn cells(self, calls_per_s: f64, percent: f64, p99s: &[Option<u64>]) -> String {
        let bar = bar::of_eighths(bar::eighths(percent, BAR as f64));
        let share = format!("{percent:>5.0} % {bar:BAR$} ");
        let latest = &p99s[p99s.len().saturating_sub(TREND)..];
        self.line(&number::rate(calls_per_s), &share, &bar::trend(latest))
    }

    fn line(self, rate: &str, share: &str, trend: &str) -> String {
        match self {
            Self::None => String::new(),
            Self::RateAndTrend => format!("{rate:>9} {trend:TREND$} "),
            Self::All => format!("{rate:>9} {share}{trend:TREND$} "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_wide_as_their_heads() {
        let p99s = [Some(8), None, Some(900)];
        assert_eq!(ChangeColumns::RateAndTrend.cells(2.0, 50.0, &p99s), "      2.0 ▁ █       ");
        assert_eq!(ChangeColumns::All.cells(2.0, 50.0, &p99s), "      2.0    50 % ███    ▁ █       ");
        for columns in [ChangeColumns::None, ChangeColumns::RateAndTrend, ChangeColumns::All] {
            assert_eq!(columns.cells(2.0, 50.0, &p99s).chars().count(), columns.width());
        }
    }
}
