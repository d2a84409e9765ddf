//! How complete the user stacks of a recording are, and why some end early.

use perfdata::stack_notes::StackEnd;

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
    /// The DSO the last frame lies in (its path or pseudo name), if known.
    pub dso: Option<String>,
    /// The thread with most of them: its tid and name.
    pub thread: (u32, String),
    /// How many.
    pub count: u64,
}

/// Why a user stack ends before the thread's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StopReason {
    /// The snapshot of the stack ended: so many bytes were copied.
    StackEnd(u32),
    /// The DSO says nothing about its frames and frame pointers led nowhere.
    NoUnwindInfo,
    /// An address outside every mapping.
    NoMapping,
    /// The unwind information or the stack is damaged, or two frames would be the same.
    Bad,
    /// The object file could not be opened while the process lived.
    NoObjectFile,
    /// More frames than a record holds.
    TooDeep,
    /// The recorder was behind and kept only the leaf.
    Behind,
    /// The kernel gave no registers (the sample hit a kernel thread, or a 32-bit task).
    NoRegisters,
}

impl From<StopReason> for StackEnd {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::StackEnd(bytes) => Self::CopyEnd(bytes),
            StopReason::NoUnwindInfo => Self::NoUnwindInfo,
            StopReason::NoMapping => Self::NoMapping,
            StopReason::Bad => Self::Bad,
            StopReason::NoObjectFile => Self::NoObjectFile,
            StopReason::TooDeep => Self::TooDeep,
            StopReason::Behind => Self::Behind,
            StopReason::NoRegisters => Self::NoRegisters,
        }
    }
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StackEnd(bytes) => write!(f, "cut after {bytes} bytes"),
            Self::NoUnwindInfo => write!(f, "without unwind information"),
            Self::NoMapping => write!(f, "led outside every mapping"),
            Self::Bad => write!(f, "with damaged frames"),
            Self::NoObjectFile => write!(f, "without object file"),
            Self::TooDeep => write!(f, "with too many frames"),
            Self::Behind => write!(f, "left out: the unwinder was behind"),
            Self::NoRegisters => write!(f, "without registers"),
        }
    }
}
