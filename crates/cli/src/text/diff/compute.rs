//! `diff -c`: what is computed of a row's two sides, as perf diff computes it.

use anyhow::bail;
use profile::profile::Sums;
use profile::view::diff::{DiffRow, DiffSection};
use profile::view::ranking::RankRows as _;

/// Content of the column after the baseline, by which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compute {
    /// Percentage points, biggest change first.
    #[default]
    DeltaAbs,
    /// Percentage points, biggest growth first.
    Delta,
    /// Current period by baseline period.
    Ratio,
    /// `current * w2 - baseline * w1`, in periods.
    Weighted {
        /// Weight of the baseline.
        w1: i64,
        /// Weight of the current side.
        w2: i64,
    },
}

impl Compute {
    /// Reads `delta`, `delta-abs`, `ratio` or `wdiff:W1,W2`; with a `+` before it, rows without both sides stay in
    /// the order they have, which they do anyway.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let name = text.strip_prefix('+').unwrap_or(text);
        if let Some(weights) = name.strip_prefix("wdiff") {
            let numbers = weights.strip_prefix(':').and_then(|w| w.split_once(','));
            let parsed =
                numbers.and_then(|(w1, w2)| Some((w1.trim().parse().ok()?, w2.trim().parse().ok()?)));
            let Some((w1, w2)) = parsed else {
                bail!("-c {text}: two whole numbers weigh the sides: wdiff:1,2");
            };
            return Ok(Self::Weighted { w1, w2 });
        }
        match name {
            "delta-abs" => Ok(Self::DeltaAbs),
            "delta" => Ok(Self::Delta),
            "ratio" => Ok(Self::Ratio),
            "cycles" => bail!("-c cycles compares basic blocks of branch stacks: not done"),
            _ => bail!("-c {text}: it is one of delta, delta-abs, ratio, wdiff:W1,W2"),
        }
    }

    /// The column's heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::DeltaAbs => "Delta Abs",
            Self::Delta => "Delta",
            Self::Ratio => "Ratio",
            Self::Weighted { .. } => "Weighted diff",
        }
    }

    /// The row's number; `None` where one side alone has none.
    pub fn value(self, row: &DiffRow) -> Option<f64> {
        let both = row.is_in_both();
        let (old, new) = (row.sums.0.period as f64, row.sums.1.period as f64);
        match self {
            Self::DeltaAbs | Self::Delta => Some(row.own.delta),
            Self::Ratio => (both && old > 0.0).then(|| new / old),
            Self::Weighted { w1, w2 } => both.then_some(new * w2 as f64 - old * w1 as f64),
        }
    }

    /// The number as perf prints it; nothing where there is none.
    pub fn text(self, row: &DiffRow) -> String {
        match (self, self.value(row)) {
            (_, None) => String::new(),
            (Self::DeltaAbs | Self::Delta, Some(value)) => format!("{value:+.2}%"),
            (Self::Ratio, Some(value)) => format!("{value:14.6}"),
            (Self::Weighted { .. }, Some(value)) => format!("{value:14.0}"),
        }
    }

    /// How the number came about, in periods (`-F`); nothing where there is none.
    pub fn formula(self, row: &DiffRow, section: &DiffSection) -> String {
        let (old, new) = (row.sums.0.period, row.sums.1.period);
        let total = |runs: &[Sums]| runs.iter().fold(0u64, |sum, sums| sum.saturating_add(sums.period));
        let text = match self {
            Self::DeltaAbs | Self::Delta => {
                let (before, after) = (total(&section.runs.0), total(&section.runs.1));
                format!("({new} * 100 / {after}) - ({old} * 100 / {before})")
            }
            _ if self.value(row).is_none() => String::new(),
            Self::Ratio => format!("{new} / {old}"),
            Self::Weighted { w1, w2 } => format!("({new} * {w2}) - ({old} * {w1})"),
        };
        format!("{text:>70}")
    }

    /// Brings rows into the order of their numbers, biggest first, those without one last. Rows come sorted by
    /// [`Compute::DeltaAbs`], and equal ones stay so.
    pub fn sort(self, rows: &mut [DiffRow]) {
        if self != Self::DeltaAbs {
            let number = |row: &DiffRow| self.value(row).unwrap_or(f64::NEG_INFINITY);
            rows.rank_by(|a, b| number(b).total_cmp(&number(a)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::view::diff::ComparedValue;

    fn row(old: u64, new: u64, delta: f64) -> DiffRow {
        let sums = |period: u64| Sums { period, count: period.min(1), ..Sums::default() };
        let own = ComparedValue { delta, ..ComparedValue::default() };
        DiffRow { own, sums: (sums(old), sums(new)), ..DiffRow::default() }
    }

    #[test]
    fn the_numbers_are_perfs() {
        let row = row(1_001_001, 4_004_004, 1.35);
        let text = |how: &str| Compute::parse(how).expect("a method").text(&row).trim().to_owned();
        assert_eq!(text("delta"), "+1.35%");
        assert_eq!(text("ratio"), "4.000000");
        assert_eq!(text("wdiff:1,2"), "7007007");
        let formula = |how: &str| {
            let section =
                DiffSection { runs: (vec![row.sums.0], vec![row.sums.1]), ..DiffSection::default() };
            Compute::parse(how).expect("a method").formula(&row, &section).trim().to_owned()
        };
        assert_eq!(formula("ratio"), "4004004 / 1001001");
        assert_eq!(formula("wdiff:1,2"), "(4004004 * 2) - (1001001 * 1)");
        assert_eq!(formula("delta"), "(4004004 * 100 / 4004004) - (1001001 * 100 / 1001001)");
    }

    #[test]
    fn rows_without_both_sides_have_no_ratio_and_come_last() {
        let mut rows = [row(0, 5, 3.0), row(4, 2, -2.0), row(1, 2, 1.0)];
        Compute::Ratio.sort(&mut rows);
        let texts: Vec<String> = rows.iter().map(|row| Compute::Ratio.text(row).trim().to_owned()).collect();
        assert_eq!(texts, ["2.000000", "0.500000", ""]);
    }

    #[test]
    fn wrong_methods_are_told_with_the_right_ones() {
        for wrong in ["nothing", "wdiff", "wdiff:1", "wdiff:a,b", "cycles", "delta,ratio"] {
            assert!(Compute::parse(wrong).is_err(), "{wrong}");
        }
    }
}
