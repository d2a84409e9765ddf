//! Registers as the assembly saves them at an entry and a return, and the values in them.

use crate::layout as l;
use crate::layout::values as v;
use crate::sys;

/// The registers that may hold a function's arguments, as its entry found them.
// Layout: known to the assembly by its offsets.
#[repr(C)]
pub struct Registers {
    /// rdi, rsi, rdx, rcx, r8, r9; on aarch64 x0 to x5.
    pub general: [u64; 6],
    /// Address of the return address, or on aarch64 where it would be: the caller's stack arguments are above
    /// it.
    pub slot: u64,
    /// The function's [`crate::instrumented_fn::Site`].
    pub site: u64,
    /// rax, r10; on aarch64 x6, x7.
    pub more: [u64; 2],
    /// xmm0 to xmm7; on aarch64 v0 to v7.
    pub vector: [[u64; 2]; 8],
}

/// The registers that may hold a function's result.
// Layout: known to the assembly by its offsets.
#[repr(C)]
pub struct Results {
    /// xmm0, xmm1; on aarch64 v0, v1.
    pub vector: [[u64; 2]; 2],
    /// rax, rdx; on aarch64 x0, x1.
    pub general: [u64; 2],
}

/// Where values are at an entry or a return.
pub trait ValueSource {
    /// A general register.
    fn general(&self, number: u8) -> Option<u64>;
    /// The low half of a vector register.
    fn vector(&self, number: u8) -> Option<u64>;
    /// Address of the caller's stack arguments plus this many bytes.
    fn stack(&self, offset: u32) -> Option<u64>;
    /// The top of the stack of x87 registers.
    fn x87(&self) -> Option<[u8; v::WIDE_BYTES]> {
        None
    }
}

impl ValueSource for Registers {
    fn general(&self, number: u8) -> Option<u64> {
        let number = usize::from(number);
        let beyond = if cfg!(target_arch = "aarch64") { self.more.get(number.wrapping_sub(6)) } else { None };
        self.general.get(number).or(beyond).copied()
    }

    fn vector(&self, number: u8) -> Option<u64> {
        self.vector.get(usize::from(number)).map(|register| register[0])
    }

    fn stack(&self, offset: u32) -> Option<u64> {
        Some(self.slot + 8 + u64::from(offset))
    }
}

impl ValueSource for Results {
    fn general(&self, number: u8) -> Option<u64> {
        self.general.get(usize::from(number)).copied()
    }

    fn vector(&self, number: u8) -> Option<u64> {
        self.vector.get(usize::from(number)).map(|register| register[0])
    }

    fn stack(&self, _offset: u32) -> Option<u64> {
        None
    }

    #[cfg(target_arch = "x86_64")]
    fn x87(&self) -> Option<[u8; v::WIDE_BYTES]> {
        let mut value = [0; v::WIDE_BYTES];
        // SAFETY: a function that returns such a number has put it there, and nothing here uses these registers; 10
        // bytes are stored, and loaded again as they were.
        unsafe {
            core::arch::asm!("fstp tbyte ptr [{0}]", "fld tbyte ptr [{0}]", in(reg) value.as_mut_ptr(),
                options(nostack, preserves_flags));
        }
        Some(value)
    }
}

/// A word of memory that may not be there.
pub fn word_at(at: u64) -> Option<u64> {
    let mut word = [0; 8];
    let read = sys::read_memory(at, &mut word);
    l::words(&word[..read]).next()
}
