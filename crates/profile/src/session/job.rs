//! Unwinding as work for the caller's threads.

use crate::callchain::LeafOrigin;
use crate::machine::{Mappings, ProcessId};
use crate::profile::{ExtraId, Sums, TaskId};
use crate::reason::StackEnd;
use crate::table::FrameId;
use perfdata::{SampleRegs, UserStack};
use smallvec::SmallVec;
use std::sync::Arc;

/// A sample whose user stack has to be unwound.
///
/// Jobs with equal `map_version` have equal mappings, so that a thread may keep what it made of
/// them. Jobs are independent of each other.
#[derive(Clone, Debug)]
pub struct UnwindJob<'a> {
    /// User registers.
    pub regs: SampleRegs<'a>,
    /// The copied stack.
    pub stack: UserStack<'a>,
    /// Process whose mappings are used.
    pub process: ProcessId,
    /// Mappings at the moment of the sample.
    pub maps: Arc<Mappings>,
    /// Number of that state of the mappings.
    pub map_version: u64,
    /// Maximum number of user frames.
    pub max_frames: usize,
    pub(super) ticket: Ticket,
}

/// Result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwoundStack<'u> {
    /// Leaf first: the sampled user pc, then return addresses. Avmas.
    pub addrs: &'u [u64],
    /// Positions in `addrs`, ascending and after the leaf's, of addresses that no call returns to: code interrupted by
    /// a signal, and its return trampoline.
    pub exact: &'u [usize],
    /// Frame of each address, as far as [`super::FrameFinder`] found it; empty where nobody looked.
    pub known: &'u [Option<FrameId>],
    /// Reason for the end of the stack.
    pub end: StackEnd,
}

/// Frames of a sample with a stack: most were taken in user code, and have one.
pub(super) type KernelFrames = SmallVec<[FrameId; 6]>;

/// The sample a job belongs to.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub event: u32,
    pub task: TaskId,
    pub cpu: i32,
    pub sums: Sums,
    pub extra: ExtraId,
    /// The kernel part, leaf first.
    pub frames: KernelFrames,
    /// Origin of the leaf of `frames`.
    pub leaf_origin: LeafOrigin,
    /// The request to a disk that the sample begins.
    pub request: Option<usize>,
    /// When it was taken, if it is one of the CPU's clock and those are kept.
    pub ran_ns: Option<u64>,
    /// The CPU that it was taken on.
    pub ran_on: Option<u32>,
    /// When the thread left its CPU, if the sample records it.
    pub switched_ns: Option<u64>,
}
