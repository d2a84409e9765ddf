//! Data that a session keeps of its samples.

use super::SampleFilter;
use crate::profile::SampleWord;

/// Dimensions that cost memory and are kept only when a view needs them.
#[derive(Clone, Debug, Default)]
pub struct Dimensions {
    /// The CPU.
    pub cpu: bool,
    /// Time, in slices of this many ns.
    pub time_slice_ns: Option<u64>,
    /// The hardware-given cost.
    pub weight: bool,
    /// The data address.
    pub data_addr: bool,
    /// The cgroup id.
    pub cgroup: bool,
    /// Labels of goroutines.
    pub labels: bool,
    /// Transaction flags.
    pub transaction: bool,
    /// One cell per branch instead of one per sample, for events with branch stacks.
    pub branches: bool,
    /// The tracepoint payload as text.
    pub trace: bool,
    /// Tracepoint fields by name.
    pub trace_fields: Vec<String>,
    /// Every sample for itself.
    pub sample: bool,
    /// Requests to disks, from the block layer's tracepoints.
    pub block_io: bool,
    /// When threads were sampled on a CPU.
    pub seen_running: bool,
    /// How many threads run at each sample ([`crate::profile::Sums::latency`]).
    pub parallelism: bool,
    /// Numbers of the sample's own.
    pub words: Vec<SampleWord>,
}

impl Dimensions {
    /// Is one of [`crate::profile::ExtraDimensions`] wanted, other than branches?
    pub(super) fn has_extra(&self) -> bool {
        // Without `..`: a field that is added has to be thought of here.
        let Self {
            time_slice_ns,
            weight,
            data_addr,
            cgroup,
            labels,
            transaction,
            trace,
            trace_fields,
            sample,
            words,
            cpu: _,
            branches: _,
            block_io: _,
            seen_running: _,
            parallelism: _,
        } = self;
        let flags = [weight, data_addr, cgroup, labels, transaction, trace, sample];
        let has_named = !trace_fields.is_empty() || !words.is_empty();
        flags.into_iter().any(|wanted| *wanted) || has_named || time_slice_ns.is_some()
    }
}

/// Turns tracepoint payloads into text; the caller has the formats.
pub trait TraceText: Send {
    /// The payload of one sample in the kernel's print format; `None` if there is no format.
    fn text(&self, event: usize, raw: &[u8]) -> Option<String>;
    /// One field of it; `None` if this event has no such field.
    fn field(&self, event: usize, raw: &[u8], name: &str) -> Option<String>;
    /// A field that is a number; `None` if this event has no such field.
    fn number(&self, event: usize, raw: &[u8], name: &str) -> Option<i64>;
}

/// Options of a session.
pub struct SessionOpts {
    /// Dimensions to keep.
    pub dimensions: Dimensions,
    /// Which samples to take.
    pub filter: SampleFilter,
    /// Take callchains (and unwind stacks)? Else a sample is its address only.
    pub callchains: bool,
    /// Longest path kept, from the leaf.
    pub max_frames: usize,
    /// Count the hardware-given cost (at least 1) in place of the period.
    pub cost_as_period: bool,
    /// Frames of a language's interpreter are kept where those of the language are known.
    pub runtime_frames: bool,
    /// Text for tracepoints.
    pub trace_text: Option<Box<dyn TraceText>>,
}

impl Default for SessionOpts {
    fn default() -> Self {
        Self {
            dimensions: Dimensions::default(),
            filter: SampleFilter::default(),
            callchains: true,
            max_frames: usize::MAX,
            cost_as_period: false,
            runtime_frames: false,
            trace_text: None,
        }
    }
}
