//! The one address space records speak.

use std::fmt;

/// Actual virtual memory address: an address in the profiled task (or the running kernel) at that moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Avma(pub u64);

impl Avma {
    /// Whether it is the kernel's: in the upper half, where x86-64, aarch64 and riscv64 have nothing else.
    #[must_use]
    pub const fn is_kernel(self) -> bool {
        self.0 >> 63 == 1
    }
}

impl fmt::Debug for Avma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Avma({:#x})", self.0)
    }
}

impl fmt::Display for Avma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for Avma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Avma;

    #[test]
    fn the_upper_half_is_the_kernels() {
        assert!(Avma(0xffff_8000_0000_0000).is_kernel() && !Avma(0x7fff_ffff_ffff).is_kernel());
    }
}
