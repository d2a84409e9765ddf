//! One thread's state, and the slow half of the hooks: what enters and leaves.
//!
//! The fast half (`entry_*`) handles what happens a million times a second and falls back to here when
//! anything is out of the ordinary: the thread's first call, a full chunk, a change of the high parts of time
//! or address, a frame that was left without returning, a function with a rule.

mod cyg_profile;
mod events;
mod lifetime;
mod parts;
mod return_hooks;
mod ruled;
pub mod signal_toggle;
mod slow_filter;
mod slow_half;
mod stack;
mod stack_regions;
#[cfg(test)]
mod tests;
pub mod thread_exit;
mod values;

use core::sync::atomic::AtomicU32;

use crate::entry::addresses;
use crate::frame::{OpenCall, ReturnAddress, SIGNED, SIGNED_B, SILENT, UNCOUNTED};
use crate::instrumented_fn::Site;
use crate::layout::sleds;
use crate::registers::{Registers, Results};
use crate::sys;
use crate::thread::parts::{SlowHalf, ThreadRules, TraceFile};
use crate::thread::stack_regions::StackRegions;

/// Frames of one thread; the memory is reserved, not used.
const MAX_FRAMES: usize = 1 << 20;
/// Bytes of their memory, a sentinel below them.
const FRAMES_BYTES: usize = (MAX_FRAMES + 1) * size_of::<OpenCall>();

/// Not seen yet.
const FRESH: u32 = 0;
/// Recording.
pub const LIVE: u32 = 1;
/// Ended, or recording is not asked for.
const OFF: u32 = 2;
/// No file could be made for it.
const UNABLE: u32 = 3;

/// Outcome of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EntryOutcome {
    /// It was written.
    Written,
    /// It was not, but the call's end is looked at.
    Silent,
    /// It was not, and the call is not known.
    Refused,
}

/// A thread's state. The first nine fields are known to the assembly by their offsets.
#[repr(C, align(64))]
pub struct ThreadState {
    /// Where the next event goes.
    pub pos: *mut u64,
    /// End of the room for events.
    pub end: *mut u64,
    /// The next free frame; the one below it is the innermost open call.
    pub top: *mut OpenCall,
    /// The first frame not to be used.
    pub limit: *mut OpenCall,
    /// High 32 bits of the TSC, as last written.
    pub tsc_high: u32,
    /// The address shifted right by `ADDR_BITS`, as last written.
    pub addr_high: u32,
    /// Time of the last event, ticks …
    pub last: u64,
    /// … if that ends here; the slow half leaves 0.
    pub last_pos: u64,
    /// Calls that hold no recorded one and take fewer ticks are dropped.
    pub min_ticks: u64,
    /// The outermost open call's frame; a sentinel is below it.
    pub base: *mut OpenCall,
    /// Address and time of calls whose entries are not written (yet), frame by frame; null if not needed.
    pub unwritten: *mut [u64; 2],
    /// Where events are written to.
    pub file: TraceFile,
    /// `FRESH`, `LIVE`, `OFF` or `UNABLE`.
    pub state: u32,
    /// Calls not recorded since the last event with a count of lost calls; a handler may add to it at any
    /// moment.
    lost: AtomicU32,
    /// Reported entries that were not recorded and whose exits are to come.
    refused: u32,
    slow_half: SlowHalf,
    /// Bounds of the thread's own stack.
    pub stack: (u64, u64),
    /// Which calls are written.
    pub rules: ThreadRules,
    /// Known stacks of coroutines; null: none.
    pub apart: *mut StackRegions,
}

impl ThreadState {
    /// A function was entered that returns to `address`. True when it was recorded and a sled's stub is to call
    /// it; otherwise `place` has the address that it returns to.
    pub fn enter(
        &mut self,
        addr: u64,
        ReturnAddress { place, slot: marked }: ReturnAddress,
        is_sled: bool,
        more: Option<&Registers>,
    ) -> bool {
        let slot = marked & !(SIGNED | SIGNED_B);
        if !self.ready() {
            return false;
        }
        // SAFETY: the place holds the return address that the caller's call instruction wrote.
        let mut back = unsafe { *place };
        // A tail call: this function returns in the place of the one that jumped here.
        let is_tail = addresses::is_ours(back);
        if is_tail {
            back = self.replaced(slot);
        } else {
            self.close_left(slot);
        }
        let recorded = self.open(addr, OpenCall::new(back, marked), None, more) != EntryOutcome::Refused;
        if recorded && !is_tail && is_sled {
            return true;
        }
        if !(recorded && is_tail) {
            // SAFETY: as above.
            unsafe { *place = if recorded { addresses::trampoline() } else { back } };
        }
        false
    }

    /// Opens a call according to the rules. `unseen` is its frame if it reports its end. It is needed for a
    /// call that is not written, too: otherwise its end would close another call of the same function.
    pub fn open(
        &mut self,
        addr: u64,
        frame: OpenCall,
        unseen: Option<OpenCall>,
        more: Option<&Registers>,
    ) -> EntryOutcome {
        // SAFETY: the assembly put the site of the stub there, and sites are never unmapped.
        let site = more.map(|registers| unsafe { &*(registers.site as *const Site) });
        let rules = site.map_or(0, |site| site.rules);
        if let Some(on) = signal_toggle::news(&mut self.rules.seen) {
            self.rules.gate.switch(on);
        }
        let was_open = self.rules.gate.is_open();
        self.rules.gate.enter(rules);
        let frame = frame.with_site(site);
        let is_open = self.rules.gate.is_open();
        let may_be_written = is_open && rules & sleds::OFF == 0;
        let writes = may_be_written && (!self.rules.callers_only || rules & sleds::CALLER != 0);
        // Muted by this very call: its end must be seen, to go on. Others are kept for what may be asked of them.
        let stays = was_open && rules & sleds::NOT != 0 || !self.unwritten.is_null();
        let mut offset = 0;
        let opened = if writes {
            self.write_open(rules);
            // Room is made now, so that the entry is in the same chunk as the events looked at.
            offset = if self.make_room() { self.offset() } else { 0 };
            self.push(addr, frame)
        } else if let Some(unseen) = unseen {
            self.push_silent(addr, unseen.with_site(site), may_be_written)
        } else {
            stays && self.push_silent(addr, frame, may_be_written)
        };
        if !opened {
            self.rules.gate.leave(rules);
            return EntryOutcome::Refused;
        }
        if let (Some(site), Some(registers)) = (site, more) {
            if writes && site.has(sleds::SLOW) {
                self.note_began(offset);
            }
            self.apply(site, writes, registers);
        }
        if writes { EntryOutcome::Written } else { EntryOutcome::Silent }
    }

    /// End of the frames that there is room for.
    pub fn last_frame(&self) -> *mut OpenCall {
        self.base.wrapping_add(MAX_FRAMES)
    }

    fn push_silent(&mut self, addr: u64, mut frame: OpenCall, may_be_written: bool) -> bool {
        if self.top >= self.last_frame() {
            return false;
        }
        frame.slot |= SILENT;
        if !may_be_written {
            frame.slot |= UNCOUNTED;
            self.rules.depth_limit = self.rules.depth_limit.wrapping_add(1);
        }
        if !self.unwritten.is_null() {
            let written = if may_be_written { [addr, sys::ticks()] } else { [addr, 0] };
            // SAFETY: as many as frames, and top is below their end.
            unsafe { *self.unwritten.add(self.depth()) = written };
        }
        self.push_frame(frame)
    }

    /// The innermost open call that is the one, as the number of those inside it.
    fn find(&self, is_it: impl Fn(&OpenCall) -> bool) -> Option<usize> {
        (0..self.depth()).find(|below| self.frame(*below).is_some_and(|frame| is_it(&frame)))
    }

    /// The function whose return address was at `slot` returns; gives the address to return to.
    pub fn exit(&mut self, slot: u64, results: Option<&Results>) -> u64 {
        if let Some(below) = self.find(|frame| frame.place() == slot)
            && let Some(frame) = self.frame(below)
        {
            self.pop_to(below, results);
            return frame.back;
        }
        self.take_left(slot).unwrap_or_else(|| addresses::lost_return())
    }

    /// Closes the call that another function's, of this slot, returns in the place of; its return address.
    pub fn replaced(&mut self, slot: u64) -> u64 {
        self.exit(self.replaced_slot(slot), None)
    }

    /// No entry was refused since: those that were are gone with the frames left.
    pub fn forget_refused(&mut self) {
        self.refused = 0;
    }

    /// Whether this thread records by now.
    #[cfg(target_arch = "x86_64")]
    pub fn is_live(&self) -> bool {
        self.state == LIVE
    }
}
