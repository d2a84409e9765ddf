//! Takes the tracer's hooks out of the stack, and puts them back.

use crate::entry::addresses;
use crate::frame::{OpenCall, REPORTED, UNHOOKED};
#[cfg(target_arch = "x86_64")]
use crate::registers::word_at;
use crate::thread::{LIVE, ThreadState};

impl ThreadState {
    /// An exception was caught at `sp`: frames below are gone, those above are hooked again.
    pub fn caught(&mut self, sp: u64) {
        self.left_below(sp);
        self.rehook();
    }

    /// Open calls whose return address is hooked or was; innermost first.
    fn each_hooked(&mut self, mut each: impl FnMut(&mut Self, &mut OpenCall)) {
        for below in 0..if self.state == LIVE { self.depth() } else { 0 } {
            // SAFETY: frames from base to top are ours and initialised; `each` leaves their number as it is.
            let frame = unsafe { &mut *self.top.sub(below + 1) };
            if frame.slot & REPORTED == 0 {
                each(self, frame);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl ThreadState {
    /// Puts every return address back, before an unwinder walks this stack.
    pub fn unhook(&mut self, _above: u64) {
        let here = 0u8;
        let here = &raw const here as u64;
        self.each_hooked(|thread, frame| {
            let slot = frame.place();
            let is_hooked = frame.slot & UNHOOKED == 0 && thread.may_be_walked(slot, here);
            if is_hooked && thread.holds(slot, addresses::is_ours) && thread.put(slot, frame.back) {
                frame.slot |= UNHOOKED;
            }
        });
    }

    /// Hooks the return addresses again that `unhook` put back.
    pub fn rehook(&mut self) {
        self.each_hooked(|thread, frame| {
            if frame.slot & UNHOOKED == 0 {
                return;
            }
            frame.slot &= !UNHOOKED;
            let (slot, back) = (frame.place(), frame.back);
            if thread.holds(slot, |word| word == back) {
                thread.put(slot, addresses::trampoline());
            }
        });
    }

    /// Whether an unwinder that begins `here` may come by a place. From the thread's own stack it leads to no other, whose
    /// frames may be gone, or another thread's by now; from another it may (handlers of signals).
    fn may_be_walked(&self, slot: u64, here: u64) -> bool {
        match (self.is_own(here), self.is_own(slot)) {
            (true, own) => own && slot >= here,
            (false, own) => own || slot >= here,
        }
    }

    /// Writes a word of a stack; whether it could. Another stack than the thread's own may be unmapped at any time.
    fn put(&self, slot: u64, word: u64) -> bool {
        let with_care = || crate::sys::write_memory(slot, &word.to_le_bytes());
        let written = if self.is_own(slot) || crate::sys::is_restricted() { None } else { with_care() };
        written.unwrap_or_else(|| {
            // SAFETY: it was just seen to hold what an open call left there, so the frame is there yet.
            unsafe { *(slot as *mut u64) = word };
            true
        })
    }

    /// Whether the word there is the one. On the thread's own stack frames that are open are there, others are looked at
    /// with care.
    fn holds(&self, slot: u64, is_it: impl Fn(u64) -> bool) -> bool {
        // SAFETY: on this thread's stack, above what is in use of it.
        let own = || unsafe { *(slot as *const u64) };
        let word = if self.is_own(slot) || crate::sys::is_restricted() { Some(own()) } else { word_at(slot) };
        word.is_some_and(is_it)
    }
}

#[cfg(target_arch = "aarch64")]
impl ThreadState {
    /// Puts every return address back, before an unwinder walks this stack at or above `above`.
    ///
    /// A function that a sled's stub called has put the hook where only it knows: it is looked for between the
    /// surrounding frames. Other copies of the hook's address there are left over from calls that have ended.
    /// `above` is the address of a frame record.
    pub fn unhook(&mut self, above: u64) {
        let (mut from, mut record) = (above & !7, above);
        self.each_hooked(|thread, frame| {
            let slot = frame.place();
            if !thread.same_stack(slot, above) {
                return;
            }
            if frame.slot & UNHOOKED == 0 {
                let known = thread.hook_of_record(&mut record, from, frame);
                let lowest = put_back(from, frame);
                frame.at = known.unwrap_or(lowest);
                frame.slot |= UNHOOKED;
            }
            from = from.max(slot + 8);
        });
    }

    /// Goes along the frame records from `record` on, up to a frame's place: where a hook is kept in one, from `from` on, and a
    /// 1 if it is signed. `record` is then the one to go on at; 0 where there are none any more.
    fn hook_of_record(&self, record: &mut u64, from: u64, frame: &OpenCall) -> Option<u64> {
        let mut found = None;
        while *record != 0 && *record + 8 <= frame.place() {
            // SAFETY: on the stack, above what is in use of it: the next record's address, and the return address.
            let [next, word] = unsafe { *(*record as *const [u64; 2]) };
            let place = *record + 8;
            if found.is_none() && place >= from && addresses::is_ours(code::stripped(word)) {
                found = Some(place | u64::from(!addresses::is_ours(word) || frame.is_signed()));
            }
            let goes_on = next > *record && next % 8 == 0 && self.same_stack(*record, next);
            *record = if goes_on { next } else { 0 };
        }
        found
    }

    /// Hooks the return addresses again that `unhook` put back.
    pub fn rehook(&mut self) {
        self.each_hooked(|_, frame| {
            if frame.slot & UNHOOKED == 0 {
                return;
            }
            let (place, is_signed) = (frame.at & !1, frame.at & 1 != 0);
            frame.at = 0;
            frame.slot &= !UNHOOKED;
            let hook = addresses::trampoline();
            let hook = if is_signed { code::signed(hook, frame.place() + 8, frame.slot) } else { hook };
            if place != 0 {
                // SAFETY: the frame is open and above the catching one, what it saved is intact.
                unsafe { *(place as *mut u64) = hook };
            }
        });
    }
}

#[cfg(target_arch = "aarch64")]
use crate::patch::code;

/// Puts the frame's return address wherever there is a hook from `from` up to its slot. Returns the lowest such
/// place, and a 1 if it was signed.
#[cfg(target_arch = "aarch64")]
fn put_back(from: u64, frame: &OpenCall) -> u64 {
    let (slot, mut first) = (frame.place(), 0);
    for at in (from..=slot).step_by(8) {
        // SAFETY: on the thread's stack, above what is in use of it.
        let word = unsafe { &mut *(at as *mut u64) };
        // A signature may be 0.
        let is_signed = !addresses::is_ours(*word) || frame.is_signed();
        if !addresses::is_ours(*word) && !addresses::is_ours(code::stripped(*word)) {
            continue;
        }
        *word = if is_signed { code::signed(frame.back, slot + 8, frame.slot) } else { frame.back };
        if first == 0 {
            first = at | u64::from(is_signed);
        }
    }
    first
}
