//! Result of a check: both sides' costs, the decision, the functions to blame.

use super::{
    CheckResult, ComparedRuns, FunctionGrowth, Growths, MachineDifference, MachineFacts, RatioInterval,
    SampledCosts, UnsureGrowth, growths, judge, runs_needed,
};
use crate::profile::Profile;
use crate::view::diff::is_time;
use crate::view::hot_functions::main_event;

/// Cost of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunCost {
    /// Instructions in user mode; `None` where no PMU counts them.
    pub instructions: Option<f64>,
    /// CPU time in user mode and kernel, in ns, or the period of a recording's event.
    pub cpu: f64,
    /// Time from start to end, in ns.
    pub wall_ns: f64,
}

impl RunCost {
    /// Cost in a recording of one run: the sum of its main event, and the time from its first sample to its last.
    #[must_use]
    pub fn of_profile(profile: &Profile) -> Self {
        let total = profile.total(main_event(profile));
        let wall_ns = profile.time_span_ns.map_or(0, |(first, last)| last.saturating_sub(first));
        Self { instructions: None, cpu: total.period as f64, wall_ns: wall_ns as f64 }
    }
}

/// Which cost decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostMeasure {
    /// Instructions in user mode.
    Instructions,
    /// CPU time, user and kernel.
    Cpu,
    /// Time from start to end.
    Wall,
}

impl CostMeasure {
    /// The cost of a run; `None` if it wasn't measured.
    #[must_use]
    pub fn of(self, run: &RunCost) -> Option<f64> {
        match self {
            Self::Instructions => run.instructions,
            Self::Cpu => Some(run.cpu),
            Self::Wall => Some(run.wall_ns),
        }
    }

    /// The costs of all runs; `None` if one wasn't measured.
    #[must_use]
    pub fn of_all(self, runs: &[RunCost]) -> Option<Vec<f64>> {
        runs.iter().map(|run| self.of(run)).collect()
    }

    /// The most repeatable one that all runs have.
    #[must_use]
    pub fn best(before: &[RunCost], after: &[RunCost]) -> Self {
        let counts = |runs: &[RunCost]| Self::Instructions.of_all(runs).is_some();
        if counts(before) && counts(after) { Self::Instructions } else { Self::Cpu }
    }
}

/// Unit of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostUnit {
    /// Times in ns.
    Nanoseconds,
    /// Occurrences of an event.
    Count,
}

impl CostUnit {
    fn of_event(event: Option<&str>) -> Self {
        if event.is_some_and(is_time) { Self::Nanoseconds } else { Self::Count }
    }
}

/// Functions of some runs, and the event that was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledRuns {
    /// Name of the event.
    pub event: String,
    /// Costs of functions per run.
    pub costs: SampledCosts,
}

impl SampledRuns {
    /// From profiles of the runs.
    #[must_use]
    pub fn of(profiles: &[Profile]) -> Self {
        let event = profiles.first().and_then(|profile| profile.events.get(main_event(profile)));
        let event = event.map_or_else(String::new, |event| event.name.clone());
        Self { event, costs: SampledCosts::of_runs(profiles) }
    }
}

/// A cost that was to decide but wasn't measured in all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotMeasured(pub CostMeasure);

/// The growth that comes nearest to being more than chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestGrowth {
    /// The function.
    pub function: String,
    /// Growth per run.
    pub grown: u64,
    /// Growth per run that would not be chance.
    pub certain: u64,
    /// Unit of both.
    pub unit: CostUnit,
}

/// A limit of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckNote {
    /// The program costs more, and the samples don't show which function does; `None` if each costs as much as before.
    NoFunction(Option<NearestGrowth>),
    /// The side before has no samples of functions.
    NotSampledBefore,
    /// The machines differ.
    OtherMachine(MachineDifference),
    /// Functions were sampled by different events: before, now.
    OtherEvent(String, String),
    /// Time grew between runs of different times: that of the machine may have changed.
    OtherTime,
}

/// One side of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckedSide {
    /// Measured subject: a command line, or names of recordings.
    pub name: String,
    /// One a run.
    pub runs: Vec<RunCost>,
    /// Functions; `None` where nothing could be sampled.
    pub sampled: Option<SampledRuns>,
    /// The machine it ran on.
    pub machine: MachineFacts,
}

/// How the runs of both sides belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOrder {
    /// At different times.
    Separate,
    /// By turns.
    Alternating,
}

/// Kind of cost to compare, and how.
#[derive(Clone, Debug)]
pub struct CheckPlan {
    /// The cost that decides; `None` for the best that both sides have.
    pub measure: Option<CostMeasure>,
    /// Allowed growth, 0.05 for 5 %.
    pub limit: f64,
    /// How the runs belong together.
    pub order: RunOrder,
    /// Name of the unit of [`RunCost::cpu`], unless it is CPU time: an event.
    pub event: Option<String>,
}

impl CheckPlan {
    /// True if the runs vary too much to decide. Then as many again are worth their time: an unchanged program fails at
    /// the first or at the second look in at most one of twenty checks at a limit of 0, each having one of forty.
    #[must_use]
    pub fn is_undecided(&self, before: &[RunCost], after: &[RunCost]) -> bool {
        let compared = self.compared(self.measure_of(before, after), before, after);
        let ratio = compared.and_then(|cost| cost.ratio);
        ratio.is_some_and(|ratio| judge(ratio, self.limit) == CheckResult::TooNoisy)
    }

    fn measure_of(&self, before: &[RunCost], after: &[RunCost]) -> CostMeasure {
        self.measure.unwrap_or_else(|| CostMeasure::best(before, after))
    }

    /// `None` if a run lacks the cost.
    fn compared(&self, measure: CostMeasure, before: &[RunCost], after: &[RunCost]) -> Option<ComparedCost> {
        let (old, new) = (measure.of_all(before)?, measure.of_all(after)?);
        let (name, unit) = match (measure, &self.event) {
            (CostMeasure::Instructions, _) => ("instructions".to_owned(), CostUnit::Count),
            (CostMeasure::Cpu, Some(event)) => (event.clone(), CostUnit::Count),
            (CostMeasure::Cpu, None) => ("CPU time".to_owned(), CostUnit::Nanoseconds),
            (CostMeasure::Wall, _) => ("wall time".to_owned(), CostUnit::Nanoseconds),
        };
        let ComparedRuns { before, after, ratio } = match self.order {
            RunOrder::Separate => ComparedRuns::of_runs(&old, &new),
            RunOrder::Alternating => ComparedRuns::of_pairs(&old, &new),
        };
        Some(ComparedCost { name, unit, before, after, ratio })
    }
}

/// One cost of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedCost {
    /// `CPU time`, `instructions` …
    pub name: String,
    /// Unit of the values.
    pub unit: CostUnit,
    /// Geometric mean of the middle runs before: the ratio compares these means.
    pub before: f64,
    /// Geometric mean of the middle runs now.
    pub after: f64,
    /// `None` with fewer than two runs a side.
    pub ratio: Option<RatioInterval>,
}

/// Result of a check.
#[derive(Clone, Debug)]
pub struct CheckOutcome {
    /// Before.
    pub before: CheckedSide,
    /// Now.
    pub after: CheckedSide,
    /// Allowed growth, 0.05 for 5 %.
    pub limit: f64,
    /// The cost that decides.
    pub deciding: ComparedCost,
    /// Other costs, for information.
    pub others: Vec<ComparedCost>,
    /// `None` if the runs are too few to decide.
    pub result: Option<CheckResult>,
    /// Functions that cost more, most growth first.
    pub growths: Vec<FunctionGrowth>,
    /// Unit of the growths.
    pub growth_unit: CostUnit,
    /// Limits of the comparison.
    pub notes: Vec<CheckNote>,
}

impl CheckOutcome {
    /// Compares two sides.
    ///
    /// # Errors
    /// The requested cost wasn't measured on one side.
    pub fn of(before: CheckedSide, after: CheckedSide, plan: &CheckPlan) -> Result<Self, NotMeasured> {
        let measure = plan.measure_of(&before.runs, &after.runs);
        let compare = |measure: CostMeasure| plan.compared(measure, &before.runs, &after.runs);
        let deciding = compare(measure).ok_or(NotMeasured(measure))?;
        let all = [CostMeasure::Instructions, CostMeasure::Cpu, CostMeasure::Wall];
        let others = all.into_iter().filter(|other| *other != measure).filter_map(compare).collect();
        let result = deciding.ratio.map(|ratio| judge(ratio, plan.limit));
        let differences = MachineFacts::differences(&before.machine, &after.machine);
        let mut notes: Vec<CheckNote> = differences.into_iter().map(CheckNote::OtherMachine).collect();
        let is_time = deciding.unit == CostUnit::Nanoseconds;
        if result == Some(CheckResult::Grew) && is_time && plan.order == RunOrder::Separate {
            notes.push(CheckNote::OtherTime);
        }
        let sampled = after.sampled.as_ref().map(|sampled| sampled.event.as_str());
        let growth_unit = CostUnit::of_event(sampled);
        let compared = match (&before.sampled, &after.sampled) {
            (Some(old), Some(new)) => compared_functions(old, new, growth_unit),
            (None, Some(_)) => Err(CheckNote::NotSampledBefore),
            (_, None) => Ok(Vec::new()),
        };
        let growths = compared.unwrap_or_else(|note| {
            let is_news = result == Some(CheckResult::Grew) || matches!(note, CheckNote::OtherEvent(..));
            notes.extend(is_news.then_some(note));
            Vec::new()
        });
        let limit = plan.limit;
        Ok(Self { before, after, limit, deciding, others, result, growths, growth_unit, notes })
    }

    /// Runs a side after which a noisy check would be decided.
    #[must_use]
    pub fn runs_needed(&self) -> Option<usize> {
        let runs = self.before.runs.len().min(self.after.runs.len());
        runs_needed(self.deciding.ratio?, runs, self.limit)
    }
}

/// The functions that cost more, or why none is named.
fn compared_functions(
    old: &SampledRuns,
    new: &SampledRuns,
    unit: CostUnit,
) -> Result<Vec<FunctionGrowth>, CheckNote> {
    if old.event != new.event {
        return Err(CheckNote::OtherEvent(old.event.clone(), new.event.clone()));
    }
    let Growths { found, nearest } = growths(&old.costs, &new.costs);
    if found.is_empty() {
        let nearest = nearest.map(|UnsureGrowth { growth, certain }| NearestGrowth {
            grown: growth.grown() as u64,
            function: growth.function.name,
            certain: certain as u64,
            unit,
        });
        return Err(CheckNote::NoFunction(nearest));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_decide_only_if_every_run_has_them() {
        let counted = RunCost { instructions: Some(1e6), cpu: 1e9, wall_ns: 2e9 };
        let uncounted = RunCost { instructions: None, ..counted };
        assert_eq!(CostMeasure::best(&[counted; 2], &[counted; 2]), CostMeasure::Instructions);
        assert_eq!(CostMeasure::best(&[counted; 2], &[counted, uncounted]), CostMeasure::Cpu);
        assert_eq!(CostMeasure::Instructions.of_all(&[counted, uncounted]), None);
        assert_eq!(CostMeasure::Wall.of_all(&[counted]), Some(vec![2e9]));
    }

    #[test]
    fn a_cost_that_was_not_measured_decides_nothing() {
        let side = || CheckedSide {
            runs: vec![RunCost { cpu: 1e9, ..RunCost::default() }; 2],
            ..CheckedSide::default()
        };
        let plan = CheckPlan {
            measure: Some(CostMeasure::Instructions),
            limit: 0.05,
            order: RunOrder::Separate,
            event: None,
        };
        let refused = CheckOutcome::of(side(), side(), &plan).err();
        assert_eq!(refused, Some(NotMeasured(CostMeasure::Instructions)));
    }
}
