//! A thread's open calls: which of them end when one returns, is left, or reuses another's stack position.

#[cfg(target_arch = "aarch64")]
use crate::frame::REPORTED;
use crate::frame::{OpenCall, SILENT};
use crate::instrumented_fn::ValueSpecs;
use crate::layout as l;
use crate::registers::Results;
use crate::thread::{LIVE, ThreadState};

impl ThreadState {
    /// Open calls.
    pub fn depth(&self) -> usize {
        (self.top as usize - self.base as usize) / size_of::<OpenCall>()
    }

    /// The open call `below` the innermost.
    pub fn frame(&self, below: usize) -> Option<OpenCall> {
        (below < self.depth()).then(|| {
            // SAFETY: within base..top, as just checked.
            unsafe { *self.top.sub(below + 1) }
        })
    }

    /// A call opens; false when it is too deep.
    pub fn push_frame(&mut self, frame: OpenCall) -> bool {
        if self.top >= self.rules.depth_limit || self.top >= self.last_frame() {
            return false;
        }
        // SAFETY: top < last_frame, so the frame is ours.
        unsafe { *self.top = frame };
        // SAFETY: at most `last_frame`.
        self.top = unsafe { self.top.add(1) };
        true
    }

    /// Closes the innermost calls whose frames are below `sp` on the same stack.
    pub fn left_below(&mut self, sp: u64) {
        self.forget_refused();
        // The calls that were left are between here and there.
        let here = 0u8;
        let here = &raw const here as u64;
        while self.state == LIVE
            && let Some(frame) = self.frame(0)
        {
            let slot = frame.place();
            if slot >= sp || !self.same_stack(slot, sp) || slot < here && self.waits(&frame, here) {
                break;
            }
            self.left(0, sp);
        }
    }

    /// Closes the call `below` the innermost as left without returning, because of the stack position `by`.
    fn left(&mut self, below: usize, by: u64) {
        if let Some(frame) = self.frame(below) {
            self.note_left(&frame, by);
        }
        self.remove(below, l::CONTROL_UNWOUND, None);
    }

    /// Closes calls whose stack frames are gone: `slot`, at or above theirs, is now in use.
    pub fn close_left(&mut self, slot: u64) {
        self.close_replaced(slot);
        while let Some(frame) = self.frame(0) {
            let old = frame.place();
            if old > slot || !self.same_stack(old, slot) || old < slot && self.waits(&frame, slot) {
                break;
            }
            self.left(0, slot);
        }
    }

    /// On a stack that is not the thread's own: closes the call that had this very place, and the calls it made
    /// there. The stack is another coroutine's now.
    fn close_replaced(&mut self, slot: u64) {
        /// Open calls that are looked at: there may be very many coroutines.
        const MOST: usize = 1024;
        if self.is_own(slot) {
            return;
        }
        let is_it = |below: &usize| self.frame(*below).is_some_and(|frame| frame.place() == slot);
        let Some(mut below) = (0..self.depth().min(MOST)).find(is_it) else { return };
        self.left(below, slot);
        let mut last = slot;
        while below > 0 {
            below -= 1;
            let inner = self.frame(below).map_or(0, |frame| frame.place());
            if inner < last && self.same_stack(inner, last) {
                last = inner;
                self.left(below, slot);
            }
        }
    }

    /// Whether an address is on the thread's own stack.
    pub fn is_own(&self, at: u64) -> bool {
        at >= self.stack.0 && at < self.stack.1
    }

    /// Whether two stack addresses are on one stack: the thread's own, or near each other elsewhere.
    pub fn same_stack(&self, a: u64, b: u64) -> bool {
        const NEAR_BYTES: u64 = 256 << 10;
        let is_near = match (self.is_own(a), self.is_own(b)) {
            (true, true) => true,
            (false, false) => a.abs_diff(b) < NEAR_BYTES,
            _ => false,
        };
        is_near && !self.is_apart(a, b)
    }

    /// The slot of the open call that a function of this slot returns in the place of: its own.
    #[cfg(target_arch = "x86_64")]
    pub fn replaced_slot(&self, slot: u64) -> u64 {
        slot
    }

    /// The slot of the open call that a function of this slot returns in the place of. Where a function keeps its return
    /// address is its own affair, so it is the innermost one that is hooked on this stack.
    #[cfg(target_arch = "aarch64")]
    pub fn replaced_slot(&self, slot: u64) -> u64 {
        let hooked = |frame: &OpenCall| frame.slot & REPORTED == 0 && self.same_stack(frame.place(), slot);
        self.slots(hooked).next().unwrap_or(slot)
    }

    /// The slot of the hooked call that ends by a return that leaves the stack pointer at `sp`.
    #[cfg(target_arch = "aarch64")]
    pub fn returning(&self, sp: u64) -> u64 {
        let hooked = |frame: &OpenCall| frame.slot & REPORTED == 0 && self.same_stack(frame.place(), sp);
        // Calls inside it that were left without returning are below it.
        self.slots(hooked).take_while(|slot| *slot < sp).last().unwrap_or(sp - 8)
    }

    #[cfg(target_arch = "aarch64")]
    fn slots(&self, is_it: impl Fn(&OpenCall) -> bool) -> impl Iterator<Item = u64> {
        (0..self.depth()).map_while(|below| self.frame(below)).filter(is_it).map(|frame| frame.place())
    }

    /// Closes the call `below` the innermost by its return; those inside it on its stack were left.
    pub fn pop_to(&mut self, below: usize, results: Option<&Results>) {
        let Some(target) = self.frame(below) else { return };
        let mut above = below;
        while above > 0 {
            above -= 1;
            let Some(inner) = self.frame(above) else { break };
            let (slot, by) = (inner.place(), target.place());
            if slot <= by && self.same_stack(slot, by) && !self.waits(&inner, by) {
                self.left(above, by);
            }
        }
        let mut now = 0;
        while self.frame(now).is_some_and(|frame| frame.slot != target.slot || frame.back != target.back) {
            now += 1;
        }
        self.remove(now, 0, results);
    }

    /// Takes out the call `below` the innermost; calls of other stacks inside it stay open.
    fn remove(&mut self, below: usize, code: u64, results: Option<&Results>) {
        let Some(frame) = self.frame(below) else { return };
        let depth = self.depth() - 1 - below;
        let is_quick = |thread: &mut Self| frame.site().is_some_and(|site| thread.drop_if_quick(site, depth));
        let is_dropped = below == 0 && code == 0 && (is_quick(self) || self.drop_if_short(&frame));
        if frame.slot & SILENT == 0 && !is_dropped {
            self.write_end(frame, below, code, results);
        }
        // SAFETY: `below` open calls are above the one removed, all within base..top.
        unsafe {
            let at = self.top.sub(below + 1);
            core::ptr::copy(at.add(1), at, below);
            self.top = self.top.sub(1);
        }
        if frame.is_uncounted() {
            self.rules.depth_limit = self.rules.depth_limit.wrapping_sub(1);
        }
        if !self.unwritten.is_null() && below > 0 {
            let depth = self.depth();
            // SAFETY: as many as frames, which were moved likewise.
            unsafe {
                let at = self.unwritten.add(depth - below);
                core::ptr::copy(at.add(1), at, below);
            }
        }
        if let Some(site) = frame.site() {
            self.leave_site(site);
        }
    }

    fn write_end(&mut self, frame: OpenCall, below: usize, code: u64, results: Option<&Results>) {
        if let (Some(site), Some(results)) = (frame.site(), results) {
            self.write_values(l::CONTROL_RESULT, site.items(ValueSpecs::Results), results);
        }
        if !self.make_room() {
            return;
        }
        let told = (0..below).filter(|at| self.frame(*at).is_some_and(|inner| !inner.is_silent())).count();
        if told > 0 {
            self.word(l::control_word(l::CONTROL_BELOW, told as u64));
        }
        let tsc = self.time();
        self.word(if code == 0 { l::exit_word(tsc) } else { l::control_word(code, tsc) });
        self.was_at(tsc);
    }
}
