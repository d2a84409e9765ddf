//! The address spaces an object file speaks, as types, so that none is taken for another.
//!
//! Knows nothing of processes: turning an [`Avma`] into a (file, [`Svma`]) is the business of whoever
//! holds the mappings. [`Avma`] is here only because the unwinder walks live memory.

use std::fmt;

macro_rules! space {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `bytes` further up, `None` past the end of the space.
            pub fn checked_add(self, bytes: u64) -> Option<Self> {
                self.0.checked_add(bytes).map(Self)
            }

            /// Distance of `self` above `base` in bytes, `None` if it is below.
            pub fn offset_from(self, base: Self) -> Option<u64> {
                self.0.checked_sub(base.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

space! {
    /// Stated virtual memory address: as the ELF file's own headers and symbols state it.
    Svma
}
space! {
    /// Byte position in a file.
    FileOffset
}
space! {
    /// Actual virtual memory address: in the profiled process.
    Avma
}
