//! Reasons for the end of a walk.

use crate::Avma;

/// Which unwind information is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// The file has none at all.
    File,
    /// The file has some, but none for this function, and the frame pointer is no frame pointer.
    Function,
    /// JIT or other anonymous code, and the frame pointer is no frame pointer.
    Anonymous,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The outermost frame was reached: its rules say that there is no caller, or the return address is 0.
    /// Only such a chain is complete.
    ReachedRoot,
    /// The next value lies past the end of the copied stack: a larger snapshot would go on.
    StackEnd {
        /// How many bytes more would have been needed for the next step.
        bytes: u64,
    },
    /// No rules for the code at `pc`.
    NoUnwindInfo {
        /// What is missing.
        which: Which,
        /// Where.
        pc: Avma,
    },
    /// The file of the code at `pc` became shorter while its rules were read from it.
    FileShrank {
        /// Where.
        pc: Avma,
    },
    /// The code address `avma` is in no mapping we know.
    NoModule {
        /// Where.
        avma: Avma,
    },
    /// The rules give no stack address, or one below the stack pointer or far outside of the stack.
    BadCfa {
        /// Of which code.
        pc: Avma,
    },
    /// The walk came to a frame it had visited, or can't leave the one it is in: a stack pointer that returned, a
    /// return address that no rule restores, or more frames than the copy can hold.
    Loop,
    /// As many frames as asked for were found.
    TooDeep,
}

impl Stop {
    /// Whether the chain goes to the thread's start.
    pub fn is_complete(self) -> bool {
        self == Self::ReachedRoot
    }
}
