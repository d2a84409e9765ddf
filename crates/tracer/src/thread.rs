//! One thread's state, and the slow half of the hooks: what enters and leaves.
//!
//! The fast half (`entry_*`) handles what happens a million times a second and falls back to here when
//! anything is out of the ordinary: the thread's first call, a full chunk, a change of the high parts of time
//! or address, a frame that was left without returning, a function with a rule.

mod events;
mod lifetime;
mod reported;
mod return_hooks;
mod ruled;
pub mod signal_toggle;
mod slow_filter;
mod stack;
mod stack_regions;
pub mod thread_exit;
mod values;

use core::sync::atomic::{AtomicU32, Ordering};

use crate::entry::addresses;
use crate::frame::{OpenCall, ReturnAddress, SIGNED, SIGNED_B, SILENT, UNCOUNTED};
use crate::gate::Gate;
use crate::instrumented_fn::Site;
use crate::layout as l;
use crate::layout::sleds;
use crate::process::recording_folder::{self, ThreadFile};
use crate::registers::{Registers, Results};
use crate::sys;
use crate::thread::slow_filter::SlowCalls;
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

/// What became of an entry.
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
    /// The file's chunk that is mapped …
    pub chunk: *mut u8,
    /// … and its bytes.
    pub chunk_bytes: usize,
    /// The one before, mapped yet; null: none.
    pub old: *mut u8,
    /// Its bytes.
    pub old_bytes: usize,
    /// Bytes of the file so far.
    pub file_bytes: u64,
    /// The file's descriptor, unless the program has closed it.
    pub fd: i32,
    /// Location of the file, if there is one.
    pub file: Option<ThreadFile>,
    /// Which it is: [`sys::identity`].
    pub file_identity: [u64; 2],
    /// `FRESH`, `LIVE`, `OFF` or `UNABLE`.
    pub state: u32,
    /// Calls not recorded since the last event with a count of lost calls; a handler may add to it at any
    /// moment.
    lost: AtomicU32,
    /// Reported entries that were not recorded and whose exits are to come.
    refused: u32,
    busy: u32,
    /// Where on the stack the slow half runs that shut the fast half out.
    holder: u64,
    /// Signals are held back; `mask` is what was blocked before.
    held: u32,
    mask: u64,
    /// Bounds of the thread's own stack.
    pub stack: (u64, u64),
    /// Value of `limit` while calls are recorded.
    pub depth_limit: *mut OpenCall,
    gate: Gate,
    /// Only calls that lead to a function of `sleds::CALLER` are written.
    callers_only: bool,
    /// Bytes that the file keeps; 0: all.
    pub keep_bytes: u64,
    /// Open calls that are dropped unless they are slow.
    pub slow: SlowCalls,
    /// Signals that switch recording, as far as this thread has followed them.
    seen: u32,
    /// Known stacks of coroutines; null: none.
    pub apart: *mut StackRegions,
    /// Why nothing more can be written, an errno; 0: it can.
    pub refusal: i32,
}

impl ThreadState {
    /// Shuts the fast half out; false when the slow half already runs on this thread (a signal handler).
    pub fn lock(&mut self) -> bool {
        if self.busy != 0 {
            self.lose();
            return false;
        }
        let here = 0u8;
        self.holder = &raw const here as u64;
        self.busy = 1;
        self.limit = core::ptr::null_mut();
        true
    }

    /// A handler continues at `sp`, on the thread's own stack. If that is above the slow half it interrupted,
    /// the slow half will not resume. (The slow half works step by step, so its data stays consistent; while it
    /// holds signals back, none arrives.)
    pub fn left_slow_half(&mut self, sp: u64) {
        // Before the thread's first call is recorded its stack is not known.
        let is_own = |at: u64| self.stack == (0, 0) || self.is_own(at);
        if self.busy != 0 && self.held == 0 && self.holder < sp && is_own(self.holder) && is_own(sp) {
            self.unlock();
        }
    }

    /// Whether the slow half runs on this thread.
    pub const fn is_busy(&self) -> bool {
        self.busy != 0
    }

    /// A call is not recorded.
    pub fn lose(&self) {
        if self.chunk.is_null() && self.refusal != 0 {
            return recording_folder::lose(self.refusal);
        }
        let _ = self.lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lost| lost.checked_add(1));
    }

    /// Writes how many calls were lost since the last such event, if there is room: a process may end without
    /// another event.
    pub fn tell_lost(&mut self) {
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
        self.tell_lost();
        // While the rules record nothing, every entry comes here and is looked at.
        if self.gate.is_open() && !self.callers_only {
            self.limit = self.depth_limit.min(self.last_frame());
        }
        if signal_toggle::is_news(self.seen) {
            self.limit = core::ptr::null_mut();
        }
        let held = core::mem::take(&mut self.held);
        let mask = self.mask;
        self.busy = 0;
        if held != 0 {
            sys::restore_signals(mask);
        }
    }

    /// Signals wait until `unlock`: what is done now takes long, and their handlers' calls would be lost.
    pub fn hold_signals(&mut self) {
        if self.held == 0 {
            self.mask = sys::block_signals();
            self.held = 1;
        }
    }

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
        if let Some(on) = signal_toggle::news(&mut self.seen) {
            self.gate.switch(on);
        }
        let was_open = self.gate.is_open();
        self.gate.enter(rules);
        let frame = frame.with_site(site);
        let is_open = self.gate.is_open();
        let may_be_written = is_open && rules & sleds::OFF == 0;
        let writes = may_be_written && (!self.callers_only || rules & sleds::CALLER != 0);
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
            self.gate.leave(rules);
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
            self.depth_limit = self.depth_limit.wrapping_add(1);
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
