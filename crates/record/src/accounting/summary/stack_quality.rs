//! How complete the user stacks of a recording are, and why some end early.

use perfdata::appendix::stack_notes::StopReason;

/// How complete the user stacks are. Conservation: `complete + joined + Σ stopped = stacks`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackQuality {
    /// Samples that have a user stack.
    pub stacks: u64,
    /// Those that reach the thread's start.
    pub complete: u64,
    /// Those that reach it with the help of memory or a chain read at another moment (deeper than the snapshot).
    pub joined: u64,
    /// Those that end early, by cause, most frequent first.
    pub stopped: Vec<StoppedStacks>,
}

/// Stacks that ended early for one cause in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedStacks {
    /// Why.
    pub reason: StopReason,
    /// The DSO of the last frame (its path or pseudo name), if known.
    pub dso: Option<String>,
    /// The thread with most of them: its tid and name.
    pub thread: (u32, String),
    /// How many.
    pub count: u64,
}
