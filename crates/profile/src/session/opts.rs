//! Data that a session keeps of its samples.

use super::SampleFilter;
use perfdata::{Sample, Weight};

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
    /// Numbers of the sample's own.
    pub words: Vec<SampleWord>,
}

/// A number that samples have if it was requested at recording. Cells can be split by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleWord {
    /// Second part of the weight: on x86 the instruction's latency in cycles.
    InstructionLatency,
    /// Third part of the weight: on PowerPC and x86 cycles in the pipeline's last stage.
    StageCycles,
    /// Size in bytes of the page of the code; 0 if not known.
    CodePageSize,
    /// Size in bytes of the page of the data; 0 if not known.
    DataPageSize,
    /// Physical address of the data.
    PhysicalAddress,
    /// Where a memory access was answered from ([`perfdata::DataSource`]).
    DataSource,
}

impl SampleWord {
    /// Its value in `sample`; `None` if the sample does not carry it.
    #[must_use]
    pub fn of(self, sample: &Sample<'_>) -> Option<u64> {
        let parts = match sample.weight {
            Some(Weight::Struct { var2, var3, .. }) => Some((var2, var3)),
            _ => None,
        };
        match self {
            Self::InstructionLatency => parts.map(|(latency, _)| u64::from(latency)),
            Self::StageCycles => parts.map(|(_, cycles)| u64::from(cycles)),
            Self::CodePageSize => sample.code_page_size,
            Self::DataPageSize => sample.data_page_size,
            Self::PhysicalAddress => sample.phys_addr,
            Self::DataSource => sample.data_src,
        }
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
            trace_text: None,
        }
    }
}
