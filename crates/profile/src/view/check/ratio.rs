//! The ratio of two sets of runs, with its 95 % interval.

use crate::view::diff::t_quantile;

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

/// Mean of some logarithms, and the variance of that mean.
struct LogMean {
    mean: f64,
    variance: f64,
    freedom: f64,
}

impl LogMean {
    /// `None` for fewer than two values.
    fn of(logs: &[f64]) -> Option<Self> {
        let count = logs.len() as f64;
        if logs.len() < 2 {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Some(Self { mean, variance: squares / (count - 1.0) / count, freedom: count - 1.0 })
    }
}

/// Compares runs made at different times (Welch's interval). `None` unless each side has two runs or more and all
/// costs are positive.
#[must_use]
pub fn ratio_of_runs(before: &[f64], after: &[f64]) -> Option<RatioInterval> {
    let (a, b) = (LogMean::of(&logs(before)?)?, LogMean::of(&logs(after)?)?);
    let variance = a.variance + b.variance;
    let freedom = match variance > 0.0 {
        true => variance.powi(2) / (a.variance.powi(2) / a.freedom + b.variance.powi(2) / b.freedom),
        false => a.freedom.min(b.freedom),
    };
    Some(RatioInterval::of_log(b.mean - a.mean, t_quantile(freedom) * variance.sqrt()))
}

/// Compares runs that alternated: the first of each side are a pair, and so on. `None` unless there are two pairs or
/// more, and all costs are positive.
#[must_use]
pub fn ratio_of_pairs(before: &[f64], after: &[f64]) -> Option<RatioInterval> {
    if before.len() != after.len() {
        return None;
    }
    let differences: Vec<f64> = logs(before)?.iter().zip(logs(after)?).map(|(a, b)| b - a).collect();
    let mean = LogMean::of(&differences)?;
    Some(RatioInterval::of_log(mean.mean, t_quantile(mean.freedom) * mean.variance.sqrt()))
}

/// The mean whose quotients are the ratios of this module. The arithmetic mean where a value isn't positive: then there
/// is no ratio. 0 for no values.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> f64 {
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
        let shown = geometric_mean(&after) / geometric_mean(&before);
        let of_runs = ratio_of_runs(&before, &after).expect("three runs").ratio;
        let of_pairs = ratio_of_pairs(&before, &after).expect("three pairs").ratio;
        assert!((shown - of_runs).abs() < 1e-9 && (shown - of_pairs).abs() < 1e-9, "{shown} {of_runs}");
        assert_eq!((geometric_mean(&[0.0, 2.0]), geometric_mean(&[])), (1.0, 0.0));
    }
}
