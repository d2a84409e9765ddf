//! Functions that report their own entry after their prologue, and at which more is done than recording the
//! call.
//!
//! Their arguments have been moved by then; a table has their new places. The result is not available when the
//! exit is reported. So if the result is recorded, the return address is hooked, and the report of that call's
//! end is skipped.

use crate::entry::addresses;
use crate::frame::{OpenCall, REPORTED, ReturnAddress};
use crate::instrumented_fn::{Site, ValueSpecs};
use crate::layout::moved::{Moved, PLACES, STACK};
use crate::registers::Registers;
use crate::thread::{EntryOutcome, ThreadState};

/// All registers as a call of the reporter found them.
// Layout: known to the assembly by its offsets.
#[repr(C)]
pub struct ReportedRegisters {
    /// By x86's numbers.
    pub general: [u64; 16],
    /// xmm0 to xmm15.
    pub vector: [[u64; 2]; 16],
    /// The function's [`Site`].
    pub site: u64,
}

const RSP: usize = 4;
const RDI: usize = 7;

impl ReportedRegisters {
    /// The function reported.
    pub const fn function(&self) -> u64 {
        self.general[RDI]
    }

    /// Stack pointer.
    pub const fn stack_pointer(&self) -> u64 {
        self.general[RSP]
    }

    /// The registers as the function's entry found them, so far as they are known; without a table none is.
    fn as_entered(&self, moved: Option<&Moved>) -> Registers {
        let mut registers =
            Registers { general: [0; 6], slot: 0, site: self.site, more: [0; 2], vector: [[0; 2]; 8] };
        let Some(moved) = moved else { return registers };
        let base = self.general.get(moved.register as usize).copied().unwrap_or(0);
        registers.slot = base.wrapping_add_signed(i64::from(moved.add));
        let (general, vector) = moved.places.split_at(PLACES - registers.vector.len());
        for (to, place) in registers.general.iter_mut().zip(general) {
            *to = self.value(*place, registers.slot)[0];
        }
        for (to, place) in registers.vector.iter_mut().zip(vector) {
            *to = self.value(*place, registers.slot);
        }
        registers
    }

    /// Content of a place; 0 if there is none: nothing asks for that.
    fn value(&self, place: u32, slot: u64) -> [u64; 2] {
        const FAR_BYTES: u32 = 1 << 28;
        match place {
            0..16 => [self.general[place as usize], 0],
            16..32 => self.vector[place as usize - 16],
            _ if place.abs_diff(STACK) < FAR_BYTES => {
                let at = slot.wrapping_add_signed(i64::from(place) - i64::from(STACK)) as *const [u64; 2];
                // SAFETY: in the function's own frame, where its code has just put the value; any bytes above
                // the frame belong to other frames of the same stack.
                unsafe { at.read_unaligned() }
            }
            _ => [0; 2],
        }
    }
}

impl ThreadState {
    /// A function with a site reported its own entry.
    pub fn enter_inside(&mut self, inside: &ReportedRegisters, site: &'static Site) {
        let (addr, sp) = (inside.function(), inside.stack_pointer());
        if addr != site.addr {
            // The code was taken for a call of another function's.
            return self.enter_reported(addr, sp, None);
        }
        let moved = site.moved();
        let registers = inside.as_entered(moved.as_ref());
        if moved.is_none() || site.items(ValueSpecs::Results).next().is_none() {
            return self.enter_reported(addr, sp, Some(&registers));
        }
        self.enter_hooked(addr, sp, &registers);
    }

    fn enter_hooked(&mut self, addr: u64, sp: u64, registers: &Registers) {
        if !self.ready() {
            return;
        }
        let place = ReturnAddress::on_stack(registers.slot).place;
        // SAFETY: the return address is there, according to the function's code.
        let mut back = unsafe { *place };
        // A tail call: the function returns in the place of one that jumped to it.
        let is_tail = addresses::is_ours(back);
        if is_tail {
            back = self.replaced(registers.slot);
        } else {
            self.close_left(registers.slot);
        }
        let unseen = OpenCall::new(addr, sp | REPORTED);
        let to = match self.open(addr, OpenCall::new(back, registers.slot), Some(unseen), Some(registers)) {
            EntryOutcome::Written => addresses::trampoline(),
            EntryOutcome::Silent => back,
            EntryOutcome::Refused => {
                self.refuse();
                back
            }
        };
        // SAFETY: as above.
        unsafe { *place = to };
    }
}
