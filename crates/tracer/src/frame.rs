//! An open call.

use crate::instrumented_fn::Site;

/// An open call.
#[repr(C, align(32))]
#[derive(Clone, Copy)]
pub struct OpenCall {
    /// Where the function really returns to; for functions that report their own exit, their address.
    pub back: u64,
    /// Stack address of the return address, and marks: [`UNHOOKED`] and the others. On aarch64, for a function
    /// that has not stored it yet: the place where a call on x86-64 would have put it, below the stack pointer.
    pub slot: u64,
    /// Address of its entry event; 0 if that is not known. On aarch64, while the hook is taken out: the address
    /// where the hook was, and a 1 if it was signed.
    pub at: u64,
    /// Time of the event before its entry, ticks; 0 if not known. For a [`SITED`] frame: its site.
    pub before: u64,
}

/// The return address is back in its place, because an unwinder is walking the stack.
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
    /// Address: on the stack, or where a register was saved.
    pub place: *mut u64,
    /// [`OpenCall::slot`], of marks at most [`SIGNED`] and [`SIGNED_B`].
    pub slot: u64,
}

impl ReturnAddress {
    /// A return address on the stack.
    #[cfg(target_arch = "x86_64")]
    pub const fn on_stack(slot: u64) -> Self {
        Self { place: slot as *mut u64, slot }
    }
}

impl OpenCall {
    /// The frame of a call whose entry the slow half writes.
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

    /// Address of its return address; with the mark [`REPORTED`] for a function that reports itself.
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

    /// The site with more work to do at its end.
    pub fn site(&self) -> Option<&'static Site> {
        // SAFETY: `with_site` put a site there, and those are never unmapped.
        (self.slot & SITED != 0).then(|| unsafe { &*(self.before as *const Site) })
    }
}
