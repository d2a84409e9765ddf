//! An open call.

use crate::site::Site;

/// An open call.
#[repr(C, align(32))]
#[derive(Clone, Copy)]
pub struct Frame {
    /// Where the function really returns to; for functions that report their own exit, their address.
    pub back: u64,
    /// Where on the stack the return address stands, and marks: [`UNHOOKED`] and the others. On aarch64 that of a
    /// function that has not put it there yet: where a call of x86-64 would have, below the stack pointer.
    pub slot: u64,
    /// Where its entry was written; 0 when that is not known. On aarch64, while the hook is taken out: where that stood, and
    /// a 1 if it was signed.
    pub at: u64,
    /// Time of the event before its entry, ticks; 0 when not known. Of one that is [`SITED`]: its site.
    pub before: u64,
}

/// The return address stands in its place again, because an unwinder is walking the stack.
pub const UNHOOKED: u64 = 1 << 63;
/// The function keeps its return address signed (aarch64).
pub const SIGNED: u64 = 1 << 62;
/// It does so with the other key.
pub const SIGNED_B: u64 = 1 << 60;
/// It will never be written, and does not count as one of those that others are nested in.
pub const UNCOUNTED: u64 = 1 << 61;
/// The function reports its own exit: `back` is its address and nothing on the stack is hooked.
/// (Stack slots are multiples of 8, so the lowest bits are free.)
pub const REPORTED: u64 = 1;
/// More is done at its end than writing it.
pub const SITED: u64 = 2;
/// Its entry was not written.
pub const SILENT: u64 = 4;

/// Where a function returns to, and what its frame is known by.
#[derive(Clone, Copy)]
pub struct ReturnAddress {
    /// Where it stands: on the stack, or where a register was set aside.
    pub place: *mut u64,
    /// [`Frame::slot`], of marks at most [`SIGNED`] and [`SIGNED_B`].
    pub slot: u64,
}

impl ReturnAddress {
    /// One that stands on the stack.
    #[cfg(target_arch = "x86_64")]
    pub const fn on_stack(slot: u64) -> Self {
        Self { place: slot as *mut u64, slot }
    }
}

impl Frame {
    /// Of a call whose entry the slow half writes.
    pub const fn new(back: u64, slot: u64) -> Self {
        Self { back, slot, at: 0, before: 0 }
    }

    /// The same, with what more is to be done.
    pub fn with_site(self, site: Option<&'static Site>) -> Self {
        match site {
            Some(site) => Self { slot: self.slot | SITED, before: &raw const *site as u64, ..self },
            None => self,
        }
    }

    /// Its entry was written there, after an event of this time (0: not known).
    pub fn set_written(&mut self, entry: u64, before: u64) {
        self.at = entry;
        if self.slot & SITED == 0 {
            self.before = before;
        }
    }

    /// Where its return address stands; of one that reports itself, with that mark.
    pub const fn place(&self) -> u64 {
        self.slot & !(UNHOOKED | SIGNED | SIGNED_B | UNCOUNTED | SITED | SILENT)
    }

    /// Whether it keeps its return address signed.
    #[cfg(target_arch = "aarch64")]
    pub const fn is_signed(&self) -> bool {
        self.slot & SIGNED != 0
    }

    /// Whether its entry was not written.
    pub const fn is_silent(&self) -> bool {
        self.slot & SILENT != 0
    }

    /// Whether it does not count as one of those that others are nested in.
    pub const fn is_uncounted(&self) -> bool {
        self.slot & UNCOUNTED != 0
    }

    /// What more is done at its end.
    pub fn site(&self) -> Option<&'static Site> {
        // SAFETY: `with_site` put a site there, and those are never unmapped.
        (self.slot & SITED != 0).then(|| unsafe { &*(self.before as *const Site) })
    }
}
