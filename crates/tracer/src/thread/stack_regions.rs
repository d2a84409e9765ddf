//! Stacks of coroutines: where adjacent stacks end, and the way back for calls that were assumed to be left.
//!
//! A call whose stack position is passed by another one's was left without returning, or it waits on another
//! stack. Jumps and exceptions of the usual libraries are seen; otherwise, a call whose return address is still
//! ours is waiting. A call that is wrongly assumed to be left is remembered: if it returns, the program
//! continues, and one more stack boundary is known.

use crate::frame::OpenCall;
#[cfg(target_arch = "x86_64")]
use crate::frame::{REPORTED, UNHOOKED};
use crate::sys;
use crate::thread::ThreadState;

/// Places where stacks end that are kept, the latest ones.
const ENDS: usize = 64;
/// Calls taken for left that are kept, the latest ones of each place.
const LEFT: usize = 4096;

/// A call that was taken for left.
#[derive(Clone, Copy)]
struct Left {
    /// [`OpenCall::place`]; 0: none.
    slot: u64,
    back: u64,
    /// The stack position that it seemed to be passed by.
    by: u64,
}

/// Known stacks of a thread. All zero: nothing.
pub struct StackRegions {
    /// Two stack positions, lower first: between them ends a stack. 0: none.
    ends: [(u64, u64); ENDS],
    next: usize,
    left: [Left; LEFT],
}

/// Where a call of this place is kept.
fn index(slot: u64) -> usize {
    // Stacks of one size put their calls at like places: all bits count.
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    (slot.wrapping_mul(MIX) >> 52) as usize % LEFT
}

impl ThreadState {
    fn known(&self) -> Option<&StackRegions> {
        // SAFETY: null, or memory of ours that only this thread uses, as long as the thread records.
        unsafe { self.apart.as_ref() }
    }

    /// The same, made when it is needed first.
    fn knowing(&mut self) -> Option<&mut StackRegions> {
        if self.apart.is_null() && !sys::is_restricted() {
            self.apart = sys::map_memory(0, size_of::<StackRegions>())?.cast();
        }
        // SAFETY: as above; fresh memory is all zero, which is a valid value.
        unsafe { self.apart.as_mut() }
    }

    /// Gives back what is known.
    pub fn forget_stacks(&mut self) {
        if !self.apart.is_null() {
            sys::unmap(self.apart.cast(), size_of::<StackRegions>());
            self.apart = core::ptr::null_mut();
        }
    }

    /// Whether a stack is known to end between two addresses.
    pub fn is_apart(&self, a: u64, b: u64) -> bool {
        let (low, high) = (a.min(b), a.max(b));
        let ends = self.known().map_or(&[][..], |known| &known.ends);
        ends.iter().any(|(from, to)| *from != 0 && low <= *from && *to <= high)
    }

    /// A stack ends between two addresses.
    fn learn(&mut self, a: u64, b: u64) {
        let (low, high) = (a.min(b), a.max(b));
        let Some(known) = self.knowing() else { return };
        // A tighter bound replaces the one that contains it.
        let same = known.ends.iter().position(|(from, to)| *from != 0 && *from <= low && high <= *to);
        let at = same.unwrap_or(known.next % ENDS);
        known.next += usize::from(same.is_none());
        known.ends[at] = (low, high);
    }

    /// Whether an open call that `by` seems to have passed waits on another stack. Then that is known from now on.
    pub fn waits(&mut self, frame: &OpenCall, by: u64) -> bool {
        let waits = !self.is_own(frame.place()) && is_hooked_yet(frame);
        if waits {
            self.learn(frame.place(), by);
        }
        waits
    }

    /// Assumes that an open call was left, because of the stack position `by`.
    pub fn note_left(&mut self, frame: &OpenCall, by: u64) {
        let slot = frame.place();
        if let Some(known) = self.knowing() {
            known.left[index(slot)] = Left { slot, back: frame.back, by };
        }
    }

    /// A call at `slot` ends that is not open: if it was taken for left, its [`OpenCall::back`].
    pub fn take_left(&mut self, slot: u64) -> Option<u64> {
        let place = &mut self.knowing()?.left[index(slot)];
        let found = core::mem::replace(place, Left { slot: 0, back: 0, by: 0 });
        if found.slot != slot {
            *place = found;
            return None;
        }
        self.learn(slot, found.by);
        Some(found.back)
    }
}

/// Whether a call's return address still is ours.
#[cfg(target_arch = "x86_64")]
fn is_hooked_yet(frame: &OpenCall) -> bool {
    frame.slot & (REPORTED | UNHOOKED) == 0
        && crate::registers::word_at(frame.place()).is_some_and(crate::entry::addresses::is_ours)
}

/// There a function keeps it where only it knows.
#[cfg(target_arch = "aarch64")]
fn is_hooked_yet(_frame: &OpenCall) -> bool {
    false
}
