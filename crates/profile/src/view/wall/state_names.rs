//! Names of a thread's states.

use super::{Part, WallPath};

/// Name of a part.
#[must_use]
pub fn part_name(part: Part) -> &'static str {
    match part {
        Part::On => "on CPU",
        Part::Runnable => "runnable",
        Part::Preempted => "preempted",
        Part::Idle => "idle",
        Part::Blocked(reason) => reason.name(),
    }
}

/// The state that a graph or export shows above a path's leaf: `futex`, `no sample`; `None` for running with a stack.
#[must_use]
pub fn state_frame(path: &WallPath) -> Option<&'static str> {
    match path.part {
        Part::On => path.callsite.is_none().then_some("no sample"),
        Part::Blocked(_) if path.is_rest => Some("short waits"),
        part => Some(part_name(part)),
    }
}
