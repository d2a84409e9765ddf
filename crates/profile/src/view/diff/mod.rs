//! The diff: effects of a change by function and by path, with noise marked as noise.
//!
//! ```text
//!   runs of both sides ─→ one profile, ids aligned by name ─→ grouped as a report groups
//!                         (each run's time cut into slices)      ─→ values, deltas, intervals
//! ```
//! Intervals come from a block bootstrap over time slices within runs and, with several runs a
//! side, from the spread between them, whichever is wider. They are never narrower than the number
//! of samples allows: five in one run and none in the other are chance.

mod align;
mod alike;
mod build;
mod stats;

pub use alike::name_clocks_alike;
pub use stats::{ConfidenceInterval, t_quantile};

use crate::profile::{Profile, Sums};
use crate::view::report::{ChainEntry, ReportOpts, SortKey, SortValue};

/// Divisor of the two sides' periods before they are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Norm {
    /// The side's total: values are percentages, deltas percentage points. As `perf diff`.
    Share,
    /// The recorded time: values are event occurrences per second.
    Time,
    /// Occurrences of another event of the same recording (requests, instructions …).
    Work(String),
    /// Nothing: values are per run.
    Run,
}

/// Options of a diff.
#[derive(Clone, Debug)]
pub struct DiffOpts {
    /// Keys, filters and inlining, as in a report.
    pub report: ReportOpts,
    /// Normalisation.
    pub norm: Norm,
    /// Compare paths as well.
    pub paths: bool,
}

impl Default for DiffOpts {
    fn default() -> Self {
        let report = ReportOpts { sort: vec![SortKey::Dso, SortKey::Symbol], ..ReportOpts::default() };
        Self { report, norm: Norm::Share, paths: false }
    }
}

/// A diff: one section per event name that both sides have.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The aligned profile that all ids refer to.
    pub profile: Profile,
    /// By event of `profile`: true for those of a baseline run. An event is one slice of one run.
    pub is_baseline: Vec<bool>,
    /// In the order of the baseline's events.
    pub sections: Vec<DiffSection>,
    /// Entries of the paths.
    pub chain_entries: Vec<ChainEntry>,
    /// Events that only one side has.
    pub unmatched_events: Vec<String>,
}

/// The rows of one event.
#[derive(Clone, Debug, Default)]
pub struct DiffSection {
    /// Name.
    pub event: String,
    /// Keys of the rows' values.
    pub keys: Vec<SortKey>,
    /// Functions (or the groups of other keys), greatest absolute delta first.
    pub rows: Vec<DiffRow>,
    /// Paths, greatest absolute delta first; empty unless requested.
    pub paths: Vec<DiffPath>,
    /// The whole of both sides.
    pub total: ComparedValue,
    /// Sums of each run's samples: baseline runs, current runs.
    pub runs: (Vec<Sums>, Vec<Sums>),
    /// The noise to expect in one row's delta: 95 % of unchanged rows stay below it. `None` when
    /// it can't be known (too few samples or slices).
    pub noise_floor: Option<f64>,
    /// Rows with enough samples to be judged. Up to one in twenty unchanged rows is marked by chance.
    pub judged: usize,
    /// False when the event the work is counted by is missing: values are then per run.
    pub normalised: bool,
}

impl DiffSection {
    /// The row that changed most, of those that chance does not explain even though the table has
    /// many rows to choose from.
    #[must_use]
    pub fn most_changed(&self) -> Option<&DiffRow> {
        let limit = 0.05 / self.judged.max(1) as f64;
        let is_sure = |row: &&DiffRow| row.own.is_clear() && row.own.chance.is_some_and(|c| c <= limit);
        self.rows.iter().filter(is_sure).max_by(|a, b| a.own.delta.abs().total_cmp(&b.own.delta.abs()))
    }

    /// Rows that each changed by more than their noise.
    #[must_use]
    pub fn marked(&self) -> usize {
        self.rows.iter().filter(|row| row.own.is_clear()).count()
    }
}

impl DiffRow {
    /// Is the row in both sides, whatever chance has to do with it?
    #[must_use]
    pub fn is_in_both(&self) -> bool {
        self.sums.0.count > 0 && self.sums.1.count > 0
    }
}

/// A value on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ComparedValue {
    /// Baseline, normalised.
    pub baseline: f64,
    /// Current, normalised.
    pub current: f64,
    /// `current - baseline`.
    pub delta: f64,
    /// 95 % interval of `delta`; `None` when it can't be known.
    pub interval: Option<ConfidenceInterval>,
    /// How likely chance alone makes a delta this great, 0 to 1; `None` when it can't be known.
    pub chance: Option<f64>,
    /// Verdict on the row.
    pub change: Change,
}

impl ComparedValue {
    /// Does chance not explain the delta? False where the noise is not known.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.change != Change::Unclear
    }

    /// `delta` in percent of the baseline; `None` without a baseline.
    #[must_use]
    pub fn relative_pct(&self) -> Option<f64> {
        (self.baseline > 0.0).then(|| 100.0 * self.delta / self.baseline)
    }

    /// The interval in percent of the baseline.
    #[must_use]
    pub fn relative_interval_pct(&self) -> Option<ConfidenceInterval> {
        let scale = (self.baseline > 0.0).then(|| 100.0 / self.baseline)?;
        self.interval.map(|i| ConfidenceInterval { low: i.low * scale, high: i.high * scale })
    }
}

/// Verdict on a row: how it changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// The delta is within the noise, or the noise is not known.
    #[default]
    Unclear,
    /// More than noise explains.
    More,
    /// Less than noise explains.
    Less,
    /// Only in the current side, more than noise explains.
    New,
    /// Only in the baseline, more than noise explains.
    Vanished,
}

/// One function's row.
#[derive(Clone, Debug, Default)]
pub struct DiffRow {
    /// Values of [`DiffSection::keys`].
    pub values: Vec<SortValue>,
    /// The comparison of self values.
    pub own: ComparedValue,
    /// Sums over all runs: baseline, current.
    pub sums: (Sums, Sums),
}

/// One path.
#[derive(Clone, Debug, Default)]
pub struct DiffPath {
    /// Positions in [`Diff::chain_entries`], **root first**.
    pub entries: Vec<u32>,
    /// The comparison of what ends at this path.
    pub own: ComparedValue,
    /// Sums over all runs: baseline, current.
    pub sums: (Sums, Sums),
}

/// Compares runs. Profiles recorded with [`crate::session::Dimensions::time_slice_ns`] give
/// intervals even with one run a side.
#[must_use]
pub fn diff(baseline: &[Profile], current: &[Profile], opts: &DiffOpts) -> Diff {
    build::build(baseline, current, opts)
}

/// Whether an event is counted in ns: clocks and off-CPU times.
#[must_use]
pub fn is_time(event: &str) -> bool {
    let base = event.split(':').next().unwrap_or_default();
    ["cpu-clock", "task-clock", "offcpu-time", "runnable-time"].contains(&base)
}
