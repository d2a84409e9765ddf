//! The registers that probes of spans record: stack pointer, and flags where jumps out of a function have conditions.
//
// Source: arch/{x86,arm64}/include/uapi/asm/perf_regs.h.

pub(crate) use crate::sys::perf_abi::register::SP;

/// The flags, likewise; only x86 has conditional jumps out of functions here.
pub(crate) const FLAGS: u32 = 9;

/// Both, as a mask.
pub(crate) const fn mask() -> u64 {
    if cfg!(target_arch = "x86_64") { 1 << SP | 1 << FLAGS } else { 1 << SP }
}

/// Whether x86's condition of this number holds. As `is_taken` of `bpf/calls/event.h`.
pub(crate) fn holds(number: u8, flags: u64) -> bool {
    let flag = |bit: u32| flags >> bit & 1 != 0;
    let (carry, parity, zero, sign, overflow) = (flag(0), flag(2), flag(6), flag(7), flag(11));
    let holds = match number >> 1 & 7 {
        0 => overflow,
        1 => carry,
        2 => zero,
        3 => carry || zero,
        4 => sign,
        5 => parity,
        6 => sign != overflow,
        _ => zero || sign != overflow,
    };
    holds != (number & 1 != 0)
}
