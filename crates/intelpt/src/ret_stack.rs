//! Return addresses of the calls seen, for returns that the processor compressed to a bit.

/// Most entries the processor keeps; older ones are forgotten.
const MAX: usize = 64;

/// The 64 innermost return addresses.
#[derive(Clone, Debug)]
pub struct RetStack {
    entries: [u64; MAX],
    /// Where the next goes; counts up for ever, entries lie at the remainder.
    top: usize,
    len: usize,
}

impl Default for RetStack {
    fn default() -> Self {
        Self { entries: [0; MAX], top: 0, len: 0 }
    }
}

impl RetStack {
    /// A call was executed that returns to `ip`.
    #[inline]
    pub fn push(&mut self, ip: u64) {
        self.entries[self.top % MAX] = ip;
        self.top = self.top.wrapping_add(1);
        self.len = (self.len + 1).min(MAX);
    }

    /// Where the innermost call returns to; `None` if the stack is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        self.top = self.top.wrapping_sub(1);
        Some(self.entries[self.top % MAX])
    }

    /// Forgets all, as the processor does at a PSB.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}
