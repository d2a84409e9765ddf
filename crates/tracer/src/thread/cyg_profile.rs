//! Calls that functions report by themselves: their entries and exits.

use super::{EntryOutcome, LIVE, ThreadState};
use crate::frame::{OpenCall, REPORTED};
use crate::instrumented_fn::Site;
use crate::layout::sleds;
use crate::registers::Registers;

impl ThreadState {
    /// A function reported its own entry; `sp` is its stack pointer.
    pub fn enter_reported(&mut self, addr: u64, sp: u64, more: Option<&Registers>) {
        if self.ready() {
            self.close_left(sp);
            let frame = OpenCall::new(addr, sp | REPORTED);
            if self.open(addr, frame, Some(frame), more) == EntryOutcome::Refused {
                self.refuse();
            }
        }
    }

    /// A reported entry is too deep to be recorded.
    pub fn refuse(&mut self) {
        self.refused += 1;
    }

    /// A function reported its own exit; `sp` is its stack pointer, or if that `is_last` what it was in its caller.
    pub fn exit_reported(&mut self, addr: u64, sp: u64, is_last: bool) {
        if self.state != LIVE {
            return;
        }
        if self.refused > 0 {
            // The end of a call that was too deep: the innermost open call may be of the same function.
            self.refused -= 1;
            return;
        }
        let slot = sp | REPORTED;
        let is_it = |frame: &OpenCall| frame.back == addr && frame.slot & REPORTED != 0;
        // The call with this stack pointer, if there is one: another may be a call around it. The caller's
        // stack pointer doesn't identify it, because the caller may be the same function.
        let exact = self.find(|frame| is_it(frame) && frame.place() == slot).filter(|_| !is_last);
        if exact.is_none() && self.take_left(slot) == Some(addr) {
            return;
        }
        // One whose return address is hooked ends there.
        let is_hooked = |frame: &OpenCall| {
            let of_function = |site: &Site| site.addr == addr && site.has(sleds::REPORTED);
            frame.slot & REPORTED == 0 && frame.place() + 8 >= sp && frame.site().is_some_and(of_function)
        };
        let innermost = exact.or_else(|| self.find(|frame| is_it(frame) || is_hooked(frame)));
        if let Some(below) = innermost.filter(|below| self.frame(*below).is_some_and(|frame| is_it(&frame))) {
            self.pop_to(below, None);
        }
    }
}
