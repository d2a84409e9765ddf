//! The slow half of the hooks shuts the fast half out, and lets it in again.

use core::sync::atomic::Ordering;

use super::{ThreadState, signal_toggle};
use crate::layout as l;
use crate::process::recording_folder;
use crate::sys;

impl ThreadState {
    /// Shuts the fast half out; false when the slow half already runs on this thread (a signal handler).
    pub fn lock(&mut self) -> bool {
        if self.slow_half.busy != 0 {
            self.lose();
            return false;
        }
        let here = 0u8;
        self.slow_half.holder = &raw const here as u64;
        self.slow_half.busy = 1;
        self.limit = core::ptr::null_mut();
        true
    }

    /// A handler continues at `sp`, on the thread's own stack. If that is above the slow half it interrupted,
    /// the slow half will not resume. (The slow half works step by step, so its data stays consistent; while it
    /// holds signals back, none arrives.)
    pub fn left_slow_half(&mut self, sp: u64) {
        // Before the thread's first call is recorded its stack is not known.
        let is_own = |at: u64| self.stack == (0, 0) || self.is_own(at);
        if self.slow_half.busy != 0
            && self.slow_half.held == 0
            && self.slow_half.holder < sp
            && is_own(self.slow_half.holder)
            && is_own(sp)
        {
            self.unlock();
        }
    }

    /// Whether the slow half runs on this thread.
    pub const fn is_busy(&self) -> bool {
        self.slow_half.busy != 0
    }

    /// A call is not recorded.
    pub fn lose(&self) {
        if self.file.chunk.is_null() && self.file.refusal != 0 {
            return recording_folder::lose(self.file.refusal);
        }
        let _ = self.lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lost| lost.checked_add(1));
    }

    /// Writes how many calls were lost since the last such event, if there is room: a process may end without
    /// another event.
    pub fn write_lost(&mut self) {
        match self.lost.load(Ordering::Relaxed) {
            0 => {}
            _ if self.has_room() => {
                let lost = self.lost.swap(0, Ordering::Relaxed);
                self.word(l::control_word(l::CONTROL_LOST, u64::from(lost)));
            }
            lost => self.show_lost(lost),
        }
    }

    /// Lets the fast half in again.
    pub fn unlock(&mut self) {
        self.write_lost();
        // While the rules record nothing, every entry comes here and is looked at.
        if self.rules.gate.is_open() && !self.rules.callers_only {
            self.limit = self.rules.depth_limit.min(self.last_frame());
        }
        if signal_toggle::is_news(self.rules.seen) {
            self.limit = core::ptr::null_mut();
        }
        let held = core::mem::take(&mut self.slow_half.held);
        let mask = self.slow_half.mask;
        self.slow_half.busy = 0;
        if held != 0 {
            sys::restore_signals(mask);
        }
    }

    /// Signals wait until `unlock`: what is done now takes long, and their handlers' calls would be lost.
    pub fn hold_signals(&mut self) {
        if self.slow_half.held == 0 {
            self.slow_half.mask = sys::block_signals();
            self.slow_half.held = 1;
        }
    }
}
