//! The functions that a growth comes from: own time of each, before and after.

use crate::profile::Profile;
use crate::view::hot_functions::{HotFunctionRow, hot_functions, main_event};
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;

/// Functions kept of a set of sampled runs.
const MOST_FUNCTIONS: usize = 200;
/// Chance that samples alone make any function of a set grow.
const FALSE_ALARMS: f64 = 1.0 / 400.0;
/// Functions with fewer samples can't have grown by more than chance.
const FEWEST_SAMPLES: f64 = 8.0;

/// Own cost of one function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionCost {
    /// Name; the file in brackets for code without a name.
    pub name: String,
    /// File that contains it, short; `[kernel]` for work of the kernel.
    pub dso: String,
    /// Path and line of the source with most of the cost.
    pub source: Option<(String, u32)>,
    /// Cost per run without callees, in the unit of the sampled event (ns for clocks).
    pub cost: f64,
}

/// Costs of functions, from the samples of some runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledCosts {
    /// Number of samples of all runs.
    pub samples: u64,
    /// Cost per run of everything, in the same unit as the functions'.
    pub total: f64,
    /// By cost, largest first.
    pub functions: Vec<FunctionCost>,
}

impl SampledCosts {
    /// Mean costs of several runs of a program.
    #[must_use]
    pub fn of_runs(runs: &[Profile]) -> Self {
        let mut sums = Self::default();
        let mut places: FxHashMap<String, usize> = FxHashMap::default();
        let count = runs.len().max(1) as f64;
        for profile in runs {
            let event = main_event(profile);
            let total = profile.total(event).period as f64;
            let hot = hot_functions(profile, event, MOST_FUNCTIONS);
            sums.samples += hot.samples;
            sums.total += total / count;
            for row in hot.functions {
                let cost = row.own * total / count;
                match places.get(&row.name) {
                    Some(&at) => sums.functions[at].cost += cost,
                    None => {
                        places.insert(row.name.clone(), sums.functions.len());
                        sums.functions.push(FunctionCost::of_row(row, cost));
                    }
                }
            }
        }
        sums.functions.rank_by(|a, b| b.cost.total_cmp(&a.cost).then_with(|| a.name.cmp(&b.name)));
        sums
    }

    /// Cost that one sample represents, per run; 0 without samples.
    fn of_one_sample(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.total / self.samples as f64 }
    }

    /// Variance of a function's cost: samples are random, and there could have been one more or none at all.
    fn variance_of(&self, cost: f64) -> f64 {
        let one = self.of_one_sample();
        cost * one + one.powi(2)
    }
}

impl FunctionCost {
    fn of_row(row: HotFunctionRow, cost: f64) -> Self {
        Self { name: row.name, dso: row.dso, source: row.source, cost }
    }
}

/// A function that costs more than before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionGrowth {
    /// The function as it is now.
    pub function: FunctionCost,
    /// Cost per run before; 0 of a new one.
    pub before: f64,
}

impl FunctionGrowth {
    /// Growth per run.
    #[must_use]
    pub fn grown(&self) -> f64 {
        self.function.cost - self.before
    }
}

/// A growth that may be chance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnsureGrowth {
    /// The function.
    pub growth: FunctionGrowth,
    /// Growth per run that would not be chance.
    pub certain: f64,
}

/// Comparison of two sets of sampled runs, function by function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growths {
    /// Functions whose own cost grew by more than the number of samples explains, largest growth first.
    pub found: Vec<FunctionGrowth>,
    /// The growth that comes nearest to being more than chance; `None` if one is found or no function costs more.
    pub nearest: Option<UnsureGrowth>,
}

/// Compares the costs of functions. They are matched by name, because two builds of a program may be files of different
/// names.
#[must_use]
pub fn growths(before: &SampledCosts, after: &SampledCosts) -> Growths {
    let known: FxHashMap<&str, f64> =
        before.functions.iter().map(|function| (function.name.as_str(), function.cost)).collect();
    let fewest = FEWEST_SAMPLES * after.of_one_sample();
    let candidates: Vec<&FunctionCost> =
        after.functions.iter().filter(|function| function.cost >= fewest).collect();
    let deviations = deviations_of(FALSE_ALARMS / candidates.len().max(1) as f64);
    let unsure = |function: &&FunctionCost| {
        let known = known.get(function.name.as_str()).copied().unwrap_or(0.0);
        let growth = FunctionGrowth { function: (*function).clone(), before: known };
        let variance = before.variance_of(known) + after.variance_of(function.cost);
        UnsureGrowth { growth, certain: deviations * variance.sqrt() }
    };
    let (found, unsure): (Vec<UnsureGrowth>, Vec<_>) =
        candidates.iter().map(unsure).partition(|unsure| unsure.growth.grown() > unsure.certain);
    let mut found: Vec<FunctionGrowth> = found.into_iter().map(|sure| sure.growth).collect();
    found.rank_by(|a, b| b.grown().total_cmp(&a.grown()));
    let share = |unsure: &UnsureGrowth| unsure.growth.grown() / unsure.certain;
    let nearest = unsure.into_iter().filter(|unsure| unsure.growth.grown() > 0.0);
    let nearest = nearest.max_by(|a, b| share(a).total_cmp(&share(b))).filter(|_| found.is_empty());
    Growths { found, nearest }
}

/// Standard deviations that a normal variable exceeds with this probability, below a half.
// Source: Abramowitz, Stegun, Handbook of Mathematical Functions, 26.2.23: the error is below 0.00045.
fn deviations_of(probability: f64) -> f64 {
    let t = (-2.0 * probability.ln()).sqrt();
    let above = 2.515_517 + 0.802_853 * t + 0.010_328 * t * t;
    let below = 1.0 + 1.432_788 * t + 0.189_269 * t * t + 0.001_308 * t.powi(3);
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rarer_chances_are_more_deviations() {
        // From the table of the normal distribution.
        for (probability, deviations) in [(0.05, 1.6449), (0.0025, 2.8070), (1.25e-5, 4.2149)] {
            assert!((deviations_of(probability) - deviations).abs() < 5e-4, "{probability}");
        }
    }
}
