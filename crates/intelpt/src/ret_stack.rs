//! Return addresses of the calls seen, for returns that the processor compressed to a bit.

use crate::block::{BlockId, UNLINKED};

/// Most entries the processor keeps; older ones are forgotten.
const MAX: usize = 64;

/// The 64 innermost return addresses, each with the block that called.
#[derive(Clone, Debug)]
pub(crate) struct RetStack {
    entries: [(u64, BlockId); MAX],
    /// Number of the next entry; only counts up. Entries are stored at its remainder.
    top: usize,
    len: usize,
}

impl Default for RetStack {
    fn default() -> Self {
        Self { entries: [(0, UNLINKED); MAX], top: 0, len: 0 }
    }
}

impl RetStack {
    /// `caller` made a call that returns to `ip`.
    #[inline]
    pub fn push(&mut self, ip: u64, caller: BlockId) {
        self.entries[self.top % MAX] = (ip, caller);
        self.top = self.top.wrapping_add(1);
        self.len = (self.len + 1).min(MAX);
    }

    /// Where the innermost call returns to, and the block that called; `None` if the stack is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, BlockId)> {
        self.len = self.len.checked_sub(1)?;
        self.top = self.top.wrapping_sub(1);
        Some(self.entries[self.top % MAX])
    }

    /// The block numbers mean something else from here on; the addresses stay.
    pub fn forget_blocks(&mut self) {
        self.entries.iter_mut().for_each(|(_, caller)| *caller = UNLINKED);
    }

    /// Forgets all, as the processor does at a PSB.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}
