//! Stand-in for the assembly in unit tests: its labels are numbers, and no function is hooked.

/// In place of `addresses.rs`.
pub mod addresses {
    /// How many places stubs go to.
    pub const STUB_TARGETS: usize = 5;

    /// Numbers that no address has.
    pub fn stub_targets() -> [u64; STUB_TARGETS] {
        [0x10, 0x20, 0x30, 0x40, 0x50]
    }

    /// Replacement of a hooked return address.
    pub fn trampoline() -> u64 {
        0x77
    }

    /// Whether a return address is one of ours.
    pub fn is_ours(address: u64) -> bool {
        address == trampoline()
    }

    /// A hooked return address was found for which no call is open.
    pub fn lost_return() -> ! {
        panic!("a function returned from a frame that was never entered")
    }
}

/// No compiled-in calls.
pub fn compiled_in() -> [u64; 0] {
    []
}
