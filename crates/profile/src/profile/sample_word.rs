//! Numbers of single samples by which cells can be split.

use perfdata::{Sample, Weight};

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
    /// Number of recorded threads that ran when the sample was taken; the session counts them.
    Parallelism,
}

impl SampleWord {
    /// Value in `sample`; `None` if the sample does not carry it.
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
            Self::Parallelism => None,
        }
    }
}
