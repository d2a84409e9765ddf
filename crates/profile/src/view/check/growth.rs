//! The functions that a growth comes from: own time of each, before and after.

use crate::profile::Profile;
use crate::view::hot_functions::{HotFunctionRow, hot_functions, main_event};
use rustc_hash::FxHashMap;

/// Functions kept of a set of sampled runs.
const MOST_FUNCTIONS: usize = 200;
/// Standard deviations that a change has to exceed: with 200 functions, chance alone does so in one of four hundred
/// sets.
const DEVIATIONS: f64 = 4.5;

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
        sums.functions.sort_by(|a, b| b.cost.total_cmp(&a.cost).then_with(|| a.name.cmp(&b.name)));
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

/// Functions whose own cost grew by more than the number of samples explains, largest growth first. Functions are
/// matched by name, because two builds of a program may be files of different names.
#[must_use]
pub fn growths(before: &SampledCosts, after: &SampledCosts) -> Vec<FunctionGrowth> {
    let known: FxHashMap<&str, f64> =
        before.functions.iter().map(|function| (function.name.as_str(), function.cost)).collect();
    let mut grown: Vec<FunctionGrowth> = (after.functions.iter())
        .map(|function| FunctionGrowth {
            function: function.clone(),
            before: known.get(function.name.as_str()).copied().unwrap_or(0.0),
        })
        .filter(|growth| {
            let variance = before.variance_of(growth.before) + after.variance_of(growth.function.cost);
            growth.grown() > DEVIATIONS * variance.sqrt()
        })
        .collect();
    grown.sort_by(|a, b| b.grown().total_cmp(&a.grown()));
    grown
}
