//! Mean, spread and confidence interval of repeated measurements.

/// Measurements of one quantity, one per run, summed up as they come (Welford).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Series {
    n: u32,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Series {
    /// Takes one measurement in.
    pub fn push(&mut self, value: f64) {
        self.n += 1;
        let distance = value - self.mean;
        self.mean += distance / f64::from(self.n);
        self.squares += distance * (value - self.mean);
    }

    /// The mean; 0 without measurements.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Standard deviation of the mean: what perf prints after `+-`. 0 with fewer than two measurements.
    pub fn deviation_of_mean(&self) -> f64 {
        if self.n < 2 {
            return 0.0;
        }
        (self.squares / f64::from(self.n - 1) / f64::from(self.n)).sqrt()
    }

    /// The deviation of the mean in percent of it; 0 for a mean of 0.
    pub fn deviation_pct(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { 100.0 * self.deviation_of_mean() / self.mean.abs() }
    }

    /// Where the true mean is with 95 % confidence, by Student's t; `None` with fewer than two measurements.
    pub fn interval_95(&self) -> Option<(f64, f64)> {
        let half = student_t_95(self.n.checked_sub(1)?)? * self.deviation_of_mean();
        Some((self.mean - half, self.mean + half))
    }
}

/// The two-sided 95 % quantile of Student's t distribution; `None` for no degrees of freedom.
fn student_t_95(freedom: u32) -> Option<f64> {
    const FEW: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    let index = usize::try_from(freedom.checked_sub(1)?).ok()?;
    // Beyond the table: the expansion around the normal quantile (Abramowitz & Stegun 26.7.5).
    let many = 1.0 / f64::from(freedom);
    Some(FEW.get(index).copied().unwrap_or(1.959_964 + many * (2.372_271 + many * 2.822_497)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let mut series = Series::default();
        for value in [9.0, 10.0, 11.0, 10.0] {
            series.push(value);
        }
        assert_eq!(series.mean(), 10.0);
        // s = sqrt(2/3), s/sqrt(4) = 0.408248, t(3) = 3.182
        assert!((series.deviation_of_mean() - 0.408_248).abs() < 1e-6);
        let (low, high) = series.interval_95().expect("four values");
        assert!((low - 8.700_954).abs() < 1e-5 && (high - 11.299_046).abs() < 1e-5, "{low} {high}");
    }

    #[test]
    fn one_measurement_has_no_interval() {
        let mut series = Series::default();
        assert_eq!(series.interval_95(), None);
        series.push(5.0);
        assert_eq!((series.interval_95(), series.deviation_pct()), (None, 0.0));
    }

    #[test]
    fn the_quantile_goes_on_smoothly_beyond_the_table() {
        let at = |n| student_t_95(n).expect("positive");
        assert!(at(30) > at(31) && at(31) > 2.038 && at(31) < 2.041);
        assert!((at(120) - 1.980).abs() < 0.001 && (at(1_000_000) - 1.960).abs() < 0.001);
    }
}
