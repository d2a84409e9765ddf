//! The beginning and the end of a thread's recording, and its course over a fork.

use core::sync::atomic::Ordering;

use super::{FRAMES_BYTES, FRESH, LIVE, MAX_FRAMES, OFF, ThreadState, UNABLE, signal_toggle, thread_exit};
use crate::frame::OpenCall;
use crate::gate::{Gate, GateStart};
use crate::layout as l;
use crate::process::{options, own_stack, recording_folder};
use crate::sys;
use crate::sys::space::ENOMEM;

impl ThreadState {
    /// Whether this thread records.
    pub fn ready(&mut self) -> bool {
        if self.state == FRESH {
            self.hold_signals();
            self.begin();
        }
        if self.state == UNABLE {
            recording_folder::lose(self.file.refusal);
        }
        self.state == LIVE
    }

    fn begin(&mut self) {
        let Some(options) = options::options() else { return };
        self.state = OFF;
        if sys::is_restricted() {
            return;
        }
        (self.state, self.file.refusal) = (UNABLE, ENOMEM);
        let Some(frames) = sys::map_memory(0, FRAMES_BYTES) else { return };
        if options.callers_only || options.keeps_silent {
            let Some(unwritten) = sys::map_memory(0, MAX_FRAMES * size_of::<[u64; 2]>()) else {
                return sys::unmap(frames, FRAMES_BYTES);
            };
            self.unwritten = unwritten.cast();
        }
        self.file.refusal = 0;
        let bottom = frames.cast::<OpenCall>();
        // SAFETY: fresh memory of MAX_FRAMES + 1 frames; the lowest is a sentinel that no slot passes.
        unsafe { *bottom = OpenCall::new(0, u64::MAX) };
        // SAFETY: within the same mapping.
        self.base = unsafe { bottom.add(1) };
        self.top = self.base;
        self.stack = own_stack::own_stack(&raw const *self as u64);
        self.rules.gate = Gate::new(GateStart { any_only: options.any_only, starts_off: options.starts_off });
        self.rules.callers_only = options.callers_only;
        self.file.keep_bytes = options.keep_bytes;
        self.find_limits();
        if self.make_file().is_err() {
            return;
        }
        self.state = LIVE;
        signal_toggle::enlist(&raw mut self.limit);
        thread_exit::enlist();
    }

    /// The thread ends: nothing of it is recorded any more, and its memory is given back.
    pub fn end(&mut self) {
        if self.state != LIVE {
            return;
        }
        self.state = OFF;
        signal_toggle::dismiss(&raw mut self.limit);
        if sys::is_restricted() {
            return;
        }
        self.write_lost();
        // Reserved space that was not used is given back: programs may have thousands of threads.
        let shown = u64::from(self.lost.load(Ordering::Relaxed) > 0) * l::EVENT_BYTES as u64;
        let unused =
            (self.file.chunk as u64 + self.file.chunk_bytes as u64 - self.pos as u64).saturating_sub(shown);
        if self.reopened() {
            sys::truncate(self.file.fd, self.file.bytes - unused);
        }
        self.drop_file();
        sys::unmap(self.base.wrapping_sub(1).cast(), FRAMES_BYTES);
        self.forget_stacks();
        if !self.unwritten.is_null() {
            sys::unmap(self.unwritten.cast(), MAX_FRAMES * size_of::<[u64; 2]>());
        }
        let none = core::ptr::null_mut();
        (self.base, self.top, self.rules.depth_limit, self.unwritten) =
            (none, none, none, core::ptr::null_mut());
    }

    /// After fork, in the child: a file of its own, with the parent's open calls.
    pub fn forked(&mut self) {
        if self.state != LIVE {
            return;
        }
        self.drop_file();
        self.rules.slow.clear();
        // Calls lost before the fork are counted in the parent's file.
        self.lost.store(0, Ordering::Relaxed);
        let open = (0..self.depth()).filter(|at| self.frame(*at).is_some_and(|frame| !frame.is_silent()));
        let open = open.count();
        // Without a file calls are still followed: the return addresses of open ones are known here alone.
        if self.make_file().is_ok() {
            self.file.refusal = 0;
            self.control(l::CONTROL_FORKED, open as u64);
        }
    }
}
