//! Intel PT: the properties of the machine's PMU, its description in the file, and the trace on its way out of the
//! AUX areas. The trace isn't decoded here.

#[cfg(test)]
#[path = "../../examples/pt_step/fake_kernel.rs"]
mod fake_kernel;
pub mod filter;
pub mod info;
pub mod pieces;
pub mod pmu;
#[cfg(test)]
mod tests;

use crate::sys::{AuxMode, mem};

/// How a trace is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PtOpts {
    /// Bytes of each AUX area; `None` chooses.
    pub area_bytes: Option<usize>,
    /// Only the newest part of the trace is kept, until it is requested.
    pub snapshot: Option<AuxSnapshot>,
    /// A ring and an area for each thread, not for each CPU; also where nothing is traced.
    pub per_thread: bool,
}

/// When the newest part is written, in addition to SIGUSR2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuxSnapshot {
    /// Also at the end.
    pub at_exit: bool,
}

impl PtOpts {
    /// Behaviour of the areas when they are full.
    #[must_use]
    pub fn aux_mode(&self) -> AuxMode {
        if self.snapshot.is_some() { AuxMode::Snapshot } else { AuxMode::Full }
    }

    /// Bytes of each area to begin with, a power of two; 4 MiB for root, 128 KiB for others, as perf has it.
    #[must_use]
    pub fn area_bytes(&self) -> usize {
        const PRIVILEGED: usize = 4 << 20;
        const OTHERS: usize = 128 << 10;
        let usual = if mem::effective_uid() == 0 { PRIVILEGED } else { OTHERS };
        self.area_bytes.unwrap_or(usual).next_power_of_two().max(mem::page_bytes())
    }
}
