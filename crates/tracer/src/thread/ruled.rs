//! Applies the rules of functions when a call of them begins and ends.

use super::{MAX_FRAMES, ThreadState};
use crate::frame::SILENT;
use crate::instrumented_fn::{Site, ValueSpecs};
use crate::layout as l;
use crate::layout::sleds;
use crate::process::options;
use crate::registers::Registers;

impl ThreadState {
    /// Does what a site wants of a call just opened.
    pub(super) fn apply(&mut self, site: &'static Site, is_written: bool, registers: &Registers) {
        if site.has(sleds::DEPTH | sleds::TIME) {
            self.find_limits();
        }
        if !is_written {
            return;
        }
        if site.has(sleds::BACKTRACE) {
            self.write_backtrace();
        }
        if site.has(sleds::VALUES) {
            self.write_values(l::CONTROL_ARGUMENTS, site.items(ValueSpecs::Arguments), registers);
        }
    }

    /// Depth and least duration from the innermost open call that sets them.
    pub fn find_limits(&mut self) {
        let Some(options) = options::options() else { return };
        self.rules.depth_limit = self.base.wrapping_add(options.depth.min(MAX_FRAMES));
        self.min_ticks = options.min_ticks;
        let mut at = self.base;
        while at < self.top {
            // SAFETY: frames from base to top are ours and initialised.
            let frame = unsafe { &*at };
            let site = frame.site();
            if let Some(site) = site.filter(|site| site.has(sleds::DEPTH)) {
                self.rules.depth_limit = at.wrapping_add((site.depth as usize).min(MAX_FRAMES));
            }
            if frame.is_uncounted() {
                self.rules.depth_limit = self.rules.depth_limit.wrapping_add(1);
            }
            if let Some(site) = site.filter(|site| site.has(sleds::TIME)) {
                self.min_ticks = site.min_ticks;
            }
            at = at.wrapping_add(1);
        }
    }

    /// Writes the entries of open calls that wait for one that they lead to.
    pub(super) fn write_open(&mut self, rules: u32) {
        if rules & sleds::CALLER == 0 || self.unwritten.is_null() {
            return;
        }
        for at in 0..self.depth() {
            // SAFETY: within base..top, and `unwritten` has as many.
            let (frame, [addr, tsc]) = unsafe { (&mut *self.base.add(at), *self.unwritten.add(at)) };
            // Those without a time were muted: they are never written.
            if frame.is_silent() && tsc != 0 && self.make_room() {
                self.write_entry(addr, tsc);
                frame.slot &= !SILENT;
            }
        }
    }

    /// Writes which calls around this one are not recorded.
    fn write_backtrace(&mut self) {
        const MOST: usize = 32;
        if self.unwritten.is_null() || !self.make_room() {
            return;
        }
        let silent = |at: &usize| {
            // SAFETY: within base..top.
            unsafe { &*self.base.add(*at) }.is_silent()
        };
        let depth = self.depth();
        let count = (0..depth).filter(silent).count();
        let skip = count.saturating_sub(MOST);
        let mut addresses = [0; MOST];
        for (to, at) in addresses.iter_mut().zip((0..depth).filter(silent).skip(skip)) {
            // SAFETY: as many as frames.
            *to = unsafe { (*self.unwritten.add(at))[0] };
        }
        let count = count - skip;
        if count > 0 {
            self.word(l::control_word(l::CONTROL_BACKTRACE, count as u64));
            addresses[..count].iter().for_each(|address| self.word(*address));
        }
    }

    /// A rule of a call that ended no longer holds.
    pub fn leave_site(&mut self, site: &Site) {
        self.rules.gate.leave(site.rules);
        if site.has(sleds::DEPTH | sleds::TIME) {
            self.find_limits();
        }
    }
}
