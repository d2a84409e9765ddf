//! Spans: each call of a function is one, from its first instruction to the one that leaves it.
//!
//! Begin and end are probes (uprobe events) at the function's first instruction and at each instruction that leaves it.
//! Return probes would be fewer, but replace the return address on the stack, so samples inside a span would lose their
//! callers; and a call left by an exception would keep its probe.

mod file_trigger;
mod registers;
mod trigger;
mod watch;

use std::path::PathBuf;

use crate::calls::ProbedFunction;

pub use file_trigger::{FileTrigger, FileTriggerError};
pub(crate) use registers::{FLAGS, SP, holds, mask as registers};
pub(crate) use trigger::parse_time;
pub use trigger::{SpanTrigger, TriggerError, TriggerWatch};
pub use watch::{EndedSpan, SpanHit, SpanWatch};

/// A function whose calls are recorded.
#[derive(Debug, Clone)]
pub struct SpanFunction {
    /// Name, as the user gave it.
    pub name: String,
    /// The file it is in.
    pub path: PathBuf,
    /// Where it begins and where it is left.
    pub function: ProbedFunction,
    /// The kernel's number of uprobe events.
    pub event_type: u32,
}

/// Begin or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanSide {
    /// The first instruction.
    Begin,
    /// An instruction that leaves the function.
    End,
}

impl SpanFunction {
    /// Span of a function in this file. Where the kernel has no probes, opening them reports it.
    #[must_use]
    pub fn new(name: String, path: PathBuf, function: ProbedFunction) -> Self {
        let event_type = crate::calls::uprobe_type().unwrap_or(u32::MAX);
        Self { name, path, function, event_type }
    }

    /// The event's name in the file: as perf's probes have them, so that one rule finds both.
    #[must_use]
    pub fn event_name(&self, side: SpanSide) -> String {
        match side {
            SpanSide::Begin => format!("span:{}", self.name),
            SpanSide::End => format!("span:{}__return", self.name),
        }
    }

    /// Offsets in the file of the probed instructions.
    pub(crate) fn offsets(&self, side: SpanSide) -> Vec<u64> {
        match side {
            SpanSide::Begin => vec![self.function.offset],
            SpanSide::End => self.function.leaves.iter().map(|leave| leave.offset).collect(),
        }
    }
}
