//! Two commands compared: the ratio of each pair of runs is one measurement, and the mean of the ratios' logarithms has a
//! Student interval.

use super::series::Series;

/// One quantity of both commands.
#[derive(Debug, Clone, Default)]
pub struct Pairing {
    /// A's values.
    pub a: Series,
    /// B's values.
    pub b: Series,
    /// ln(B / A) of each pair in which both are positive.
    log_ratio: Series,
    pairs: u32,
    ratios: u32,
}

impl Pairing {
    /// Takes one pair in.
    pub fn push(&mut self, a: f64, b: f64) {
        self.a.push(a);
        self.b.push(b);
        self.pairs += 1;
        if a > 0.0 && b > 0.0 {
            self.log_ratio.push((b / a).ln());
            self.ratios += 1;
        }
    }

    /// Mean B / A and its 95 % interval; `None` unless all pairs have a ratio and there are at least two.
    pub fn ratio(&self) -> Option<(f64, f64, f64)> {
        let (low, high) = self.log_ratio.interval_95().filter(|_| self.ratios == self.pairs)?;
        Some((self.log_ratio.mean().exp(), low.exp(), high.exp()))
    }
}
