//! Keys of the profile's cells, and what they refer to: events, tasks, branches, rarely used dimensions.

use super::ids::{ExtraId, TaskId};
use crate::grow::Grow as _;
use crate::table::{CallsiteId, FrameId, StringId};

/// An event of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventInfo {
    /// As recorded, e.g. `cycles:u`.
    pub name: String,
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.sample_type` bits.
    pub sample_type: u64,
    /// True when the period was chosen by a wanted frequency (`-F`).
    pub by_frequency: bool,
    /// Period, or frequency in Hz.
    pub period_or_hz: u64,
    /// Position of its group's leader among the events; itself when it leads or has no group.
    pub leader: usize,
    /// Name of the group it leads, if it was given one.
    pub group_name: Option<String>,
    /// Samples were taken with callchains.
    pub has_callchain: bool,
    /// Samples were taken with branch stacks.
    pub has_branches: bool,
}

/// A thread under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// Process label.
    pub pid: i32,
    /// Thread label.
    pub tid: i32,
    /// Number of the process, never used again for another one in this session.
    pub process: u32,
    /// Name in this span.
    pub comm: StringId,
}

/// A branch end: where, and in which kind of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BranchEnds {
    /// The branch instruction.
    pub from: FrameId,
    /// Target.
    pub to: FrameId,
    /// Predicted wrongly / rightly, if known.
    pub mispredicted: Option<bool>,
    /// Inside a transaction.
    pub in_tx: bool,
    /// Ended by a transaction abort.
    pub abort: bool,
    /// Cycles since the branch before; 0 if not known.
    pub cycles: u16,
}

/// Dimensions that are kept only if requested (see [`crate::session::Dimensions`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtraDimensions {
    /// Start of the time slice, in ns of the recording's clock.
    pub time_ns: Option<u64>,
    /// Hardware-given cost.
    pub weight: Option<u64>,
    /// Data address.
    pub data_addr: Option<u64>,
    /// The period itself (sort key `period` does not need it; `sample`-exact views do).
    pub cgroup: Option<u64>,
    /// Labels of the sample's goroutine: a key of [`super::Profile::label_sets`].
    pub labels: Option<StringId>,
    /// A branch of the sample's branch stack; the cell's callsite is then the sample's.
    pub branch: Option<BranchEnds>,
    /// The tracepoint payload as text.
    pub trace: Option<StringId>,
    /// Tracepoint fields requested by name, in the order of the request.
    pub fields: Vec<StringId>,
    /// Code page size, transaction flags … by the number of the sort key's own choice.
    pub transaction: Option<u64>,
    /// In another order for every sample, when single samples are requested (`--sort sample`).
    pub sample: Option<u64>,
    /// The requested numbers ([`super::Profile::words`]), in that order.
    pub words: Vec<Option<u64>>,
}

const NO_FIELDS: Vec<StringId> = Vec::new();

pub(super) static NO_EXTRA: ExtraDimensions = ExtraDimensions {
    time_ns: None,
    weight: None,
    data_addr: None,
    cgroup: None,
    labels: None,
    branch: None,
    trace: None,
    fields: NO_FIELDS,
    transaction: None,
    sample: None,
    words: Vec::new(),
};

/// Key of a cell: samples with equal keys share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellKey {
    /// Index into [`super::Profile::events`].
    pub event: u32,
    /// The running thread.
    pub task: TaskId,
    /// CPU; -1 when not kept or not recorded.
    pub cpu: i32,
    /// The sampled code, with the path to it.
    pub callsite: CallsiteId,
    /// The rest.
    pub extra: ExtraId,
}

/// Sums of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of samples.
    pub count: u64,
    /// Event occurrences that the samples represent (ns for clocks and off-CPU time).
    pub period: u64,
    /// Sum of the hardware-given weights.
    pub weight: u64,
    /// Sum of the periods, each divided by the number of threads that ran at the time, in thousandths; 0 unless asked
    /// for ([`crate::session::Dimensions::parallelism`]).
    pub latency: u64,
}

impl Sums {
    /// Adds another's sums.
    pub fn add(&mut self, other: Self) {
        self.count.grow(other.count);
        self.period = self.period.saturating_add(other.period);
        self.weight = self.weight.saturating_add(other.weight);
        self.latency = self.latency.saturating_add(other.latency);
    }
}
