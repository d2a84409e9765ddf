//! Stacks that go on past their copy: joined to an earlier chain, or continued in the process's memory.

use dso::Avma;
use dso::unwind::{Regs, Stack, Stop};

use super::{LiveThread, LiveUnwinder, Snapshot};
use crate::accounting::account::StackEnding;
use crate::accounting::summary::StopReason;

/// How much of a stack is read from memory at most, beyond the copy.
const MAX_DEEP_BYTES: usize = 8 << 20;

/// Bytes at the end of a copy that must be the same in memory for the stack to be continued from there.
const SEAM_BYTES: usize = 1024;

/// How much of a stack is read first, beyond the copy. To read a page of another process costs more than to walk over
/// its frames once more, and most stacks end within this.
const FIRST_DEEP_BYTES: usize = 16 << 10;

/// A signal's `ucontext` up to the last register the kernel keeps there.
const SIGNAL_REGISTER_BYTES: usize = 256;

impl LiveUnwinder {
    /// The stack goes on past the copy.
    pub(super) fn go_deeper(&mut self, thread: &mut LiveThread<'_>, of: Snapshot<'_>) -> StackEnding {
        let task = thread.task;
        let sps = self.unwinder.stack_pointers().to_vec();
        let mut probe = |address: u64| {
            let mut bytes = [0; 8];
            (thread.read(address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
        };
        if self.earlier.join(task, &mut self.frames, &sps, &mut probe) {
            return StackEnding::Joined;
        }
        let shown = self.frames.clone();
        if seam_is_unchanged(thread, of) {
            match self.unwind_memory(thread, of) {
                Stop::ReachedRoot => {
                    self.earlier.remember(task, &self.frames, self.unwinder.stack_pointers());
                    return StackEnding::Joined;
                }
                Stop::InterruptedStack { sp } => {
                    let handler = std::mem::take(&mut self.deep);
                    return self.leave_handler(thread, of.regs, &handler, sp);
                }
                _ => {}
            }
        }
        // Memory holds another stack now, so only the copy counts.
        self.frames = shown;
        self.ending_of(Stop::StackEnd { bytes: 8 }, of.copied)
    }

    /// The walk went through a handler on a stack of its own, in `handler`, and came to the interrupted stack at `sp`.
    /// That isn't in the copy, but the interrupted frames stay in memory while the handler runs.
    pub(super) fn leave_handler(
        &mut self,
        thread: &mut LiveThread<'_>,
        regs: &Regs,
        handler: &[u8],
        sp: Avma,
    ) -> StackEnding {
        let shown = self.frames.clone();
        // The signal's registers: another signal would have overwritten them.
        let registers = self.unwinder.stack_pointers().iter().rev().nth(1);
        let at = registers.map_or(usize::MAX, |at| at.wrapping_sub(regs.sp().0) as usize);
        let end = at.saturating_add(SIGNAL_REGISTER_BYTES).min(handler.len());
        let is_unchanged = handler
            .get(at..end)
            .is_some_and(|bytes| is_unchanged(thread, regs.sp().0.wrapping_add(at as u64), bytes));
        self.deep.clear();
        if is_unchanged && self.unwind_growing(thread, regs, sp, Some(handler)) == Stop::ReachedRoot {
            return StackEnding::Joined;
        }
        self.frames = shown;
        StackEnding::Stopped(StopReason::InterruptedStack, None)
    }

    /// Walks again over the copy and, after it, the process's present memory: more and more of it.
    fn unwind_memory(&mut self, thread: &mut LiveThread<'_>, of: Snapshot<'_>) -> Stop {
        self.deep.clear();
        self.deep.extend_from_slice(of.copied.bytes);
        self.unwind_growing(thread, of.regs, of.regs.sp(), None)
    }

    /// Walks over the stack at `start`: the bytes in `deep` and, after them, the process's present memory, more and
    /// more of it. `handler` is the stack of the handler that interrupted it.
    fn unwind_growing(
        &mut self,
        thread: &mut LiveThread<'_>,
        regs: &Regs,
        start: Avma,
        handler: Option<&[u8]>,
    ) -> Stop {
        let mut want = FIRST_DEEP_BYTES;
        loop {
            let have = self.deep.len();
            self.deep.resize(have + want, 0);
            let from = start.0.wrapping_add(have as u64);
            let got = thread.read(from, &mut self.deep[have..]);
            self.deep.truncate(have + got);
            let deep = std::mem::take(&mut self.deep);
            let stack = match handler {
                Some(handler) => Stack::new(regs.sp(), handler).with_interrupted(start, &deep),
                None => Stack::new(start, &deep),
            };
            let stop = self.walk(thread, regs, stack);
            self.deep = deep;
            let at_end = got < want || self.deep.len() >= MAX_DEEP_BYTES;
            if at_end || !matches!(stop, Stop::StackEnd { .. }) {
                return stop;
            }
            want *= 4;
        }
    }
}

/// Whether the last bytes of the copy are still in memory: if the thread had returned past the end of the copy
/// meanwhile and called something else, they would have been overwritten.
fn seam_is_unchanged(thread: &mut LiveThread<'_>, of: Snapshot<'_>) -> bool {
    let (regs, copied) = (of.regs, of.copied);
    let at = copied.bytes.len().saturating_sub(SEAM_BYTES);
    is_unchanged(thread, regs.sp().0.wrapping_add(at as u64), &copied.bytes[at..])
}

/// Whether memory has these bytes at this address, [`SEAM_BYTES`] at most. Without a byte to compare with nothing is
/// proved.
fn is_unchanged(thread: &mut LiveThread<'_>, address: u64, bytes: &[u8]) -> bool {
    let mut now = [0; SEAM_BYTES];
    let Some(now) = now.get_mut(..bytes.len()).filter(|now| !now.is_empty()) else { return false };
    thread.read(address, now) == bytes.len() && *now == *bytes
}
