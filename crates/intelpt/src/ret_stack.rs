//! Return addresses of the calls seen, for returns that the processor compressed to a bit.

use crate::block::{BlockId, UNLINKED};

/// Most entries the processor keeps; older ones are forgotten.
const MAX: usize = 64;

/// A call that has not returned yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    /// Return address.
    pub back: u64,
    /// Block that called; `UNLINKED` where its number is no longer valid.
    pub caller: BlockId,
}

/// The 64 innermost return addresses, each with the block that called.
#[derive(Clone, Debug)]
pub(crate) struct RetStack {
    entries: [OpenCall; MAX],
    /// Number of the next entry; only counts up. Entries are stored at its remainder.
    top: usize,
    len: usize,
}

impl Default for RetStack {
    fn default() -> Self {
        Self { entries: [OpenCall { back: 0, caller: UNLINKED }; MAX], top: 0, len: 0 }
    }
}

impl RetStack {
    /// `caller` made a call that returns to `back`.
    #[inline]
    pub fn push(&mut self, back: u64, caller: BlockId) {
        self.entries[self.top % MAX] = OpenCall { back, caller };
        self.top = self.top.wrapping_add(1);
        self.len = (self.len + 1).min(MAX);
    }

    /// The innermost call; `None` if the stack is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<OpenCall> {
        self.len = self.len.checked_sub(1)?;
        self.top = self.top.wrapping_sub(1);
        Some(self.entries[self.top % MAX])
    }

    /// The block numbers mean something else from here on; the addresses stay.
    pub fn forget_blocks(&mut self) {
        self.entries.iter_mut().for_each(|call| call.caller = UNLINKED);
    }

    /// Forgets all, as the processor does at a PSB.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}
