//! Whether a program became slower: two sets of runs compared, and the functions that the growth comes from.
//!
//! Runs of a program vary by factors rather than by amounts, and their spread has a long upper end. So all statistics
//! are of logarithms: the result is a ratio with a 95 % interval. Runs that alternated are compared in pairs, which
//! removes the drift of the machine.

mod growth;
mod machine;
mod outcome;
mod ratio;

pub use growth::{FunctionCost, FunctionGrowth, Growths, SampledCosts, UnsureGrowth, growths};
pub use machine::{MachineDifference, MachineFacts};
pub use outcome::{
    CheckNote, CheckOutcome, CheckPlan, CheckedSide, ComparedCost, CostMeasure, CostUnit, NearestGrowth,
    NotMeasured, RunCost, RunOrder, SampledRuns,
};
pub use ratio::{ComparedRuns, RatioInterval};

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The cost grew by more than the limit, and noise doesn't explain it.
    Grew,
    /// The cost didn't grow by more than the limit.
    WithinLimit,
    /// The runs vary so much that growth beyond the limit can neither be shown nor excluded.
    TooNoisy,
}

/// Judges a ratio. `limit` is the growth that is allowed, 0.05 for 5 %.
///
/// An unchanged program fails in at most one of forty checks at a limit of 0, and less often at any greater limit:
/// both the ratio and the interval have to be beyond.
#[must_use]
pub fn judge(ratio: RatioInterval, limit: f64) -> CheckResult {
    let most = 1.0 + limit;
    if ratio.ratio > most && ratio.low > 1.0 {
        CheckResult::Grew
    } else if ratio.high > most {
        CheckResult::TooNoisy
    } else {
        CheckResult::WithinLimit
    }
}

/// Number of runs a side after which the interval is about as wide as the limit, from the present `runs` a side.
/// `None` if it is so already.
#[must_use]
pub fn runs_needed(ratio: RatioInterval, runs: usize, limit: f64) -> Option<usize> {
    let (half, wanted) = ((ratio.high / ratio.low).ln() / 2.0, limit.max(0.001).ln_1p());
    // The width falls with the square root of the number of runs.
    let needed = runs as f64 * (half / wanted).powi(2);
    (half > wanted && needed.is_finite()).then(|| (needed.ceil() as usize).max(runs + 1))
}

#[cfg(test)]
mod tests;
