//! Noise: how far a value could be off by chance.

use super::align::SLICES;

/// Bootstrap rounds.
const ROUNDS: usize = 300;

/// A range that holds the true value in 95 of 100 cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConfidenceInterval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl ConfidenceInterval {
    /// Around a value.
    #[must_use]
    pub fn around(value: f64, half: f64) -> Self {
        Self { low: value - half, high: value + half }
    }

    /// Is zero outside?
    #[must_use]
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// How often each slice was drawn, round by round: a circular block bootstrap, the same for every
/// row, so that rows stay comparable and equal input gives equal output.
pub(super) struct Draws {
    counts: Vec<[u16; SLICES]>,
}

impl Draws {
    /// Draws for one run; `seed` differs from run to run.
    pub fn new(seed: u64) -> Self {
        // Blocks of about n^(1/3) slices keep what neighbours have in common.
        let block = (SLICES as f64).cbrt().round() as usize;
        let mut random = SplitMix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        let round = |_| {
            let mut counts = [0u16; SLICES];
            let mut drawn = 0;
            while drawn < SLICES {
                let start = (random.next() % SLICES as u64) as usize;
                for step in 0..block.min(SLICES - drawn) {
                    counts[(start + step) % SLICES] += 1;
                }
                drawn += block;
            }
            counts
        };
        Self { counts: (0..ROUNDS).map(round).collect() }
    }

    /// The sum of `slices` as each round drew them.
    pub fn sums(&self, slices: &[f64]) -> Vec<f64> {
        let sum = |counts: &[u16; SLICES]| counts.iter().zip(slices).map(|(&n, x)| f64::from(n) * x).sum();
        self.counts.iter().map(sum).collect()
    }
}

/// A small generator: the numbers must be the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Mean and variance (of the values, not of the mean); variance 0 for fewer than two values.
pub(super) fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    if values.len() < 2 {
        return (mean, 0.0);
    }
    (mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

/// A side's value with the variance of its estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub value: f64,
    /// Variance of `value`; `None` if nothing is known about it.
    pub variance: Option<f64>,
    /// Degrees of freedom of `variance`.
    pub freedom: f64,
}

impl Estimate {
    /// From a side's runs and its bootstrap rounds, the wider of the two; and never less than
    /// `least_variance`, which the number of samples alone makes. `None` without runs to compare and rounds.
    pub fn new(value: f64, runs: &[f64], rounds: Option<&[f64]>, least_variance: f64) -> Self {
        let between = (runs.len() >= 2).then(|| mean_and_variance(runs).1 / runs.len() as f64);
        let within = rounds.map(|rounds| mean_and_variance(rounds).1);
        let (variance, freedom) = match (between, within) {
            (Some(b), Some(w)) if w > b => (Some(w), SLICES as f64 - 1.0),
            (Some(b), _) => (Some(b), runs.len() as f64 - 1.0),
            (None, Some(w)) => (Some(w), SLICES as f64 - 1.0),
            (None, None) => (None, 0.0),
        };
        if variance.is_some_and(|variance| variance < least_variance) {
            return Self { value, variance: Some(least_variance), freedom: SLICES as f64 - 1.0 };
        }
        Self { value, variance, freedom }
    }

    /// The noise of `other - self` (Welch); `None` if unknown.
    pub fn noise(&self, other: &Self) -> Option<Noise> {
        let (a, b) = (self.variance?, other.variance?);
        let both = a + b;
        if both == 0.0 {
            return Some(Noise { deviation: 0.0, freedom: 1.0 });
        }
        let freedom = both.powi(2) / (a.powi(2) / self.freedom.max(1.0) + b.powi(2) / other.freedom.max(1.0));
        Some(Noise { deviation: both.sqrt(), freedom })
    }
}

/// How far a delta strays by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// Standard deviation.
    pub deviation: f64,
    /// Degrees of freedom it is known with.
    pub freedom: f64,
}

impl Noise {
    /// Half the width of the 95 % interval.
    pub fn half_width(&self) -> f64 {
        t_quantile(self.freedom) * self.deviation
    }

    /// How likely chance alone makes a delta as great as this one, 0 to 1.
    pub fn chance_of(&self, delta: f64) -> f64 {
        if self.deviation > 0.0 { t_chance(delta.abs() / self.deviation, self.freedom) } else { 1.0 }
    }
}

/// Two-sided probability of Student's distribution beyond `t`, by Wallace's normal approximation.
fn t_chance(t: f64, freedom: f64) -> f64 {
    let n = freedom.max(1.0);
    let z = (8.0 * n + 1.0) / (8.0 * n + 3.0) * (n * (t * t / n).ln_1p()).sqrt();
    // Abramowitz and Stegun 7.1.26, good to 1.5e-7.
    let x = z / std::f64::consts::SQRT_2;
    let k = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    series.iter().fold(0.0, |sum, coefficient| sum * k + coefficient) * k * (-x * x).exp()
}

/// The 97.5 % quantile of Student's distribution, by table and, between its rows, by 1/freedom.
#[must_use]
pub fn t_quantile(freedom: f64) -> f64 {
    const TABLE: &[(f64, f64)] = &[
        (1.0, 12.706),
        (2.0, 4.303),
        (3.0, 3.182),
        (4.0, 2.776),
        (5.0, 2.571),
        (6.0, 2.447),
        (8.0, 2.306),
        (10.0, 2.228),
        (15.0, 2.131),
        (20.0, 2.086),
        (30.0, 2.042),
        (60.0, 2.000),
        (120.0, 1.980),
    ];
    let freedom = freedom.max(1.0);
    let above = TABLE.partition_point(|(df, _)| *df <= freedom);
    let (df0, t0) = TABLE[above - 1];
    let (inverse1, t1) = TABLE.get(above).map_or((0.0, 1.960), |(df, t)| (1.0 / df, *t));
    let share = (1.0 / df0 - 1.0 / freedom) / (1.0 / df0 - inverse1);
    t0 + share * (t1 - t0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        assert_eq!(t_quantile(2.0), 4.303);
        assert!((t_quantile(7.0) - 2.365).abs() < 0.01);
        assert!((t_quantile(40.0) - 2.021).abs() < 0.01);
        assert!((t_quantile(1e9) - 1.96).abs() < 0.001);
    }

    #[test]
    fn chances_are_those_of_the_tables() {
        for freedom in [4.0, 10.0, 39.0, 1e6] {
            let chance = t_chance(t_quantile(freedom), freedom);
            assert!((chance - 0.05).abs() < 0.003, "{freedom}: {chance}");
        }
        assert!((t_chance(0.0, 10.0) - 1.0).abs() < 1e-6);
        assert!(t_chance(8.0, 39.0) < 1e-8);
    }

    #[test]
    fn draws_keep_the_number_of_slices_and_are_the_same_every_time() {
        let (a, b) = (Draws::new(3), Draws::new(3));
        assert_eq!(a.counts, b.counts);
        assert!(a.counts.iter().all(|round| round.iter().map(|&n| usize::from(n)).sum::<usize>() == SLICES));
        let even = a.sums(&[1.0; SLICES]);
        assert!(even.iter().all(|&sum| sum == SLICES as f64));
    }
}
