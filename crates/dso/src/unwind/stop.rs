//! Reasons for the end of a walk.

use crate::Avma;

/// Which unwind information is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// The file has none at all.
    File,
    /// The file has some, but none for this function, and its frame pointer register is used for something
    /// else.
    Function,
    /// JIT or other anonymous code, whose frame pointer register is used for something else.
    Anonymous,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The outermost frame was reached: its rules mark the end of the chain, or the return address is 0. Only
    /// such a chain is complete.
    ReachedRoot,
    /// The next value is past the end of the copied stack: with a larger copy the walk would go further.
    StackEnd {
        /// How many bytes more would have been needed for the next step.
        bytes: u64,
    },
    /// A signal's handler runs on a stack of its own, and the interrupted stack was not copied.
    InterruptedStack {
        /// The interrupted code's stack pointer.
        sp: Avma,
    },
    /// No rules for the code at `pc`.
    NoUnwindInfo {
        /// The missing information.
        which: Which,
        /// Where.
        pc: Avma,
    },
    /// The code at `pc` called on another stack than it was called on, and the copy is of the other one.
    OtherStack {
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
        /// Code address.
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
