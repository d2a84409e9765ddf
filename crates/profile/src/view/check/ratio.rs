//! The ratio of two sets of runs, with its 95 % interval.
//!
//! Means are of the runs in the middle: the fastest and the slowest fifth of the runs are left out, because one run that
//! other programs disturbed would widen the interval by more than most changes of a program.
// Source: Yuen, The two-sample trimmed t for unequal population variances, Biometrika 61 (1974): the variance comes
// from all runs, with those left out counted as the next ones that are not.

use crate::view::diff::t_quantile;
use crate::view::ranking::RankRows as _;

/// One run of this many is left out at each end.
const TRIMMED: usize = 5;

/// How many times as much the new side costs, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioInterval {
    /// New by old, of the geometric means.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl RatioInterval {
    fn of_log(log: f64, half: f64) -> Self {
        Self { ratio: log.exp(), low: (log - half).exp(), high: (log + half).exp() }
    }
}

/// Two sets of runs compared: means, and their quotient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedRuns {
    /// Geometric mean of the middle runs before. Arithmetic where a cost isn't positive; 0 without runs.
    pub before: f64,
    /// The same of the runs now.
    pub after: f64,
    /// `None` unless each side has two runs or more and all costs are positive.
    pub ratio: Option<RatioInterval>,
}

impl ComparedRuns {
    /// Compares runs made at different times (Welch's interval).
    #[must_use]
    pub fn of_runs(before: &[f64], after: &[f64]) -> Self {
        Self::of_logs(before, after, |a, b| {
            let (a, b) = (MiddleMean::of(a)?, MiddleMean::of(b)?);
            let variance = a.variance + b.variance;
            let freedom = match variance > 0.0 {
                true => variance.powi(2) / (a.variance.powi(2) / a.freedom + b.variance.powi(2) / b.freedom),
                false => a.freedom.min(b.freedom),
            };
            Some((a.mean, b.mean, t_quantile(freedom) * variance.sqrt()))
        })
    }

    /// Compares runs that alternated: the first of each side are a pair, and so on. The pairs with the greatest and the
    /// smallest quotients are left out. Without a ratio unless both sides have the same number of runs.
    #[must_use]
    pub fn of_pairs(before: &[f64], after: &[f64]) -> Self {
        Self::of_logs(before, after, |a, b| {
            let mut pairs: Vec<(f64, f64)> =
                a.iter().zip(b).filter(|_| a.len() == b.len()).map(|(&a, &b)| (a, b)).collect();
            pairs.rank_by(|x, y| (x.1 - x.0).total_cmp(&(y.1 - y.0)));
            let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
            let mean = MiddleMean::of(&differences)?;
            let middle = middle(&pairs);
            let mean_of =
                |side: fn(&(f64, f64)) -> f64| middle.iter().map(side).sum::<f64>() / middle.len() as f64;
            let half = t_quantile(mean.freedom) * mean.variance.sqrt();
            Some((mean_of(|pair| pair.0), mean_of(|pair| pair.1), half))
        })
    }

    /// `compare` gets the logarithms of both sides, and finds their means and half of the width of the interval.
    fn of_logs(
        before: &[f64],
        after: &[f64],
        compare: impl Fn(&[f64], &[f64]) -> Option<(f64, f64, f64)>,
    ) -> Self {
        let compared = logs(before).zip(logs(after)).and_then(|(a, b)| compare(&a, &b));
        match compared {
            Some((a, b, half)) => {
                Self { before: a.exp(), after: b.exp(), ratio: Some(RatioInterval::of_log(b - a, half)) }
            }
            None => Self { before: geometric_mean(before), after: geometric_mean(after), ratio: None },
        }
    }
}

/// Mean of the values in the middle, and the variance of that mean.
struct MiddleMean {
    mean: f64,
    variance: f64,
    freedom: f64,
}

impl MiddleMean {
    /// `None` for fewer than two values.
    fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.rank_by(f64::total_cmp);
        let middle = middle(&sorted);
        let (lowest, highest) = (middle[0], middle[middle.len() - 1]);
        let drawn_in: Vec<f64> = sorted.iter().map(|value| value.clamp(lowest, highest)).collect();
        let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let centre = average(&drawn_in);
        let squares: f64 = drawn_in.iter().map(|value| (value - centre).powi(2)).sum();
        let kept = middle.len() as f64;
        Some(Self { mean: average(middle), variance: squares / (kept * (kept - 1.0)), freedom: kept - 1.0 })
    }
}

/// Sorted values without a fifth at each end: at least two of two or more.
fn middle<T>(sorted: &[T]) -> &[T] {
    let left_out = sorted.len() / TRIMMED;
    &sorted[left_out..sorted.len() - left_out]
}

/// The mean of the logarithms. The arithmetic mean where a value isn't positive. 0 for no values.
fn geometric_mean(values: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    logs(values).filter(|logs| !logs.is_empty()).map_or_else(|| mean(values), |logs| mean(&logs).exp())
}

fn logs(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (value.is_finite() && *value > 0.0).then(|| value.ln())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quotient_of_the_shown_means_is_the_ratio() {
        // One slow run: the arithmetic means have another quotient, on the other side of 1.
        let (before, after) = ([1.0, 1.0, 4.0], [1.5, 1.5, 1.5]);
        let (slow, steady) = ([1.0, 9.0, 1.1, 1.0, 1.2, 1.1], [1.5, 1.4, 1.5, 1.6, 7.0, 1.5]);
        for compare in [ComparedRuns::of_runs, ComparedRuns::of_pairs] {
            for compared in [compare(&before, &after), compare(&slow, &steady)] {
                let ratio = compared.ratio.expect("enough runs").ratio;
                assert!((compared.after / compared.before - ratio).abs() < 1e-9, "{compared:?}");
            }
        }
        assert_eq!((geometric_mean(&[0.0, 2.0]), geometric_mean(&[])), (1.0, 0.0));
    }

    #[test]
    fn a_disturbed_run_of_ten_does_not_hide_a_growth() {
        let before = [1.00, 1.01, 0.99, 1.00, 1.02, 1.01, 1.00, 0.99, 3.00, 1.01];
        let after = before.map(|cost| if cost == 3.0 { 1.1 } else { 1.1 * cost });
        for compare in [ComparedRuns::of_runs, ComparedRuns::of_pairs] {
            let ratio = compare(&before, &after).ratio.expect("ten runs");
            assert!(
                (1.09..1.11).contains(&ratio.ratio) && ratio.low > 1.08 && ratio.high < 1.12,
                "{ratio:?}"
            );
        }
    }

    #[test]
    fn variance_and_freedom_of_a_middle_mean_are_yuens() {
        // Computed by hand: 1, 2, 3, 4, 100 become 2, 2, 3, 4, 4, with 4 as the sum of squares; three are kept.
        let mean = MiddleMean::of(&[100.0, 1.0, 3.0, 2.0, 4.0]).expect("five values");
        assert_eq!((mean.mean, mean.freedom), (3.0, 2.0));
        assert!((mean.variance - 4.0 / 6.0).abs() < 1e-12, "{}", mean.variance);
    }
}
