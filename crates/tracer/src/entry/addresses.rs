//! Addresses of the assembly's labels: where stubs lead, and what replaces return addresses.

unsafe extern "C" {
    fn tally_return();
    fn tally_sled();
    fn tally_import();
    fn tally_site();
    fn tally_site_called();
    fn tally_site_reported();
    fn tally_sled_return();
}

/// How many places stubs go to.
pub const STUB_TARGETS: usize = 5;

/// Targets of stubs for sleds, imported functions, functions with rules, calls of `mcount` with rules, and
/// functions with rules that report themselves. Each gets its data in r11 (x86-64) or where x16 points
/// (aarch64): the function's body for sleds, the site for all others.
pub fn stub_targets() -> [u64; STUB_TARGETS] {
    [tally_sled, tally_import, tally_site, tally_site_called, tally_site_reported]
        .map(|function: unsafe extern "C" fn()| function as *const () as u64)
}

/// The address that replaces a hooked return address.
pub fn trampoline() -> u64 {
    tally_return as *const () as u64
}

/// Whether a return address is one of ours: the trampoline, or where functions that a sled's stub called return to.
pub fn is_ours(address: u64) -> bool {
    address == trampoline() || address == tally_sled_return as *const () as u64
}

/// A hooked return address was found for which no call is open: there is nowhere to go on to.
pub fn lost_return() -> ! {
    crate::sys::write(2, b"tally: a traced function returned from a frame that was never entered\n");
    crate::sys::exit_group(121)
}
