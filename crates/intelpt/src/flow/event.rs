//! Events of the flow: branches, where tracing begins and ends, gaps.

use crate::block::MissingCode;

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// A call.
    Call,
    /// A return.
    Return,
    /// A jump that leaves its function (see `Image::unit`).
    Jump,
    /// Tracing begins at `to`.
    Begin,
    /// Tracing ends after the instruction at `from`: it left the traced range, for example by a system call.
    End,
    /// Tracing ends before the instruction at `from`, asynchronously: an interrupt, a fault.
    EndAsync,
    /// The instruction at `from` was not executed: control went to `to`, an interrupt's or signal's handler.
    Interrupt,
    /// A far transfer within the traced range, such as a system call into a traced kernel.
    Far,
    /// A transaction that had come to `from` was undone; execution goes on at `to`, its fallback.
    Abort,
    /// A piece of the trace is missing or can't be understood.
    Gap(Gap),
}

/// Why the flow was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Gap {
    /// The processor dropped packets (OVF).
    Overflow,
    /// Bytes of the trace were not saved. The decoder never reports this: only the code that cuts the trace
    /// knows.
    NotSaved,
    /// The code at an address can't be had.
    Code(MissingCode),
    /// Bytes that are not a packet.
    Packet,
    /// A packet that does not fit the code: another build of the file, or an erratum.
    Mismatch,
    /// The code loops without a branch that produces a packet.
    Loop,
}

/// One event of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEvent {
    /// Estimated TSC; `None` before the first TSC packet.
    pub tsc: Option<u64>,
    /// Kind of event.
    pub what: FlowKind,
    /// Address of the branch (or as described at `what`); 0 if there is none.
    pub from: u64,
    /// Address after the branch, where a call returns to or a system call continues; 0 if there is none.
    pub next: u64,
    /// Address it went to; 0 where there is none.
    pub to: u64,
    /// The number of the function at `to` (see `Image::unit`); 0 where there is no `to`.
    pub unit: u32,
    /// `to` is that function's first instruction.
    pub at_start: bool,
    /// Width of the addresses in the code at `from`: 64, 32 or 16. How its bytes are decoded depends on it.
    pub bits: u8,
}

/// Position of a defect in the trace; the stream has a [`Gap`] for it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowError {
    /// Offset of the packet.
    pub at: usize,
    /// Why the flow was lost there.
    pub gap: Gap,
    /// The address reached; 0 if none.
    pub ip: u64,
}
