//! What a session keeps of its samples.

use super::SampleFilter;

/// Dimensions that cost memory and are kept only when a view needs them.
#[derive(Clone, Debug, Default)]
pub struct Dimensions {
    /// The CPU.
    pub cpu: bool,
    /// Time, in slices of so many ns.
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
}

/// Turns tracepoint payloads into text; the caller has the formats.
pub trait TraceText {
    /// The payload of one sample as the kernel's print format says; `None` if there is no format.
    fn text(&self, event: usize, raw: &[u8]) -> Option<String>;
    /// One field of it; `None` if this event has no such field.
    fn field(&self, event: usize, raw: &[u8], name: &str) -> Option<String>;
    /// A field that is a number; `None` if this event has no such field.
    fn number(&self, event: usize, raw: &[u8], name: &str) -> Option<i64>;
}

/// Options of a session.
pub struct SessionOpts {
    /// What to keep.
    pub dimensions: Dimensions,
    /// Which samples to take.
    pub filter: SampleFilter,
    /// Take callchains (and unwind stacks)? Else a sample is its address only.
    pub callchains: bool,
    /// Longest path kept, from the leaf.
    pub max_frames: usize,
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
            trace_text: None,
        }
    }
}
