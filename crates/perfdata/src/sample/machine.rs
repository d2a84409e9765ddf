//! State of the machine in a sample: registers and a copy of the stack.

use crate::abi::PERF_SAMPLE_REGS_ABI_NONE;
use crate::wire::{Put, U64s, Wire};

/// A dump of registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRegs<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: 0 = none were there, 1 = 32-bit, 2 = 64-bit task.
    pub abi: u64,
    /// Which registers of the architecture's `perf_regs.h` are in `values`.
    pub mask: u64,
    /// One value per bit of `mask`, lowest bit first; empty if `abi` is 0.
    pub values: U64s<'a>,
}

impl SampleRegs<'_> {
    /// The value of register number `reg` of `asm/perf_regs.h`; `None` if it was not dumped.
    #[must_use]
    pub fn reg(&self, reg: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(reg)?;
        (self.mask & bit != 0).then(|| self.values.get((self.mask & (bit - 1)).count_ones() as usize))?
    }
}

/// A copy of the top of the user stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The bytes from the stack pointer upwards, as many as are valid.
    pub bytes: &'a [u8],
    /// How many bytes the record keeps room for; `bytes` is shorter when the stack ended or could not be read.
    pub reserved: u64,
}

/// `u64 abi; u64 regs[popcount(mask)]`, the latter only if abi is not 0.
pub(super) fn parse_regs<'a>(w: &mut Wire<'a>, mask: u64) -> Option<SampleRegs<'a>> {
    let abi = w.u64()?;
    let count = if abi == PERF_SAMPLE_REGS_ABI_NONE { 0 } else { mask.count_ones() };
    Some(SampleRegs { abi, mask, values: w.u64s(u64::from(count))? })
}

pub(super) fn write_regs(p: &mut Put, regs: Option<SampleRegs<'_>>, mask: u64) {
    let Some(regs) = regs.filter(|r| r.abi != PERF_SAMPLE_REGS_ABI_NONE) else { return p.u64(0) };
    p.u64(regs.abi);
    for reg in (0..64).filter(|reg| mask >> reg & 1 != 0) {
        p.u64(regs.reg(reg).unwrap_or_default());
    }
}

/// `u64 size; u8 data[size]; u64 dyn_size`, the latter two only if size is not 0.
pub(super) fn parse_stack<'a>(w: &mut Wire<'a>) -> Option<UserStack<'a>> {
    let reserved = w.u64()?;
    if reserved == 0 {
        return Some(UserStack { bytes: &[], reserved });
    }
    let all = w.take(reserved)?;
    let valid = usize::try_from(w.u64()?).unwrap_or(usize::MAX);
    Some(UserStack { bytes: all.get(..valid).unwrap_or(all), reserved })
}

pub(super) fn write_stack(p: &mut Put, stack: Option<UserStack<'_>>) {
    let bytes = stack.map(|s| s.bytes).unwrap_or_default();
    let reserved = (bytes.len() as u64).max(stack.map_or(0, |s| s.reserved)).next_multiple_of(8);
    p.u64(reserved);
    if reserved != 0 {
        p.raw(bytes);
        let room = usize::try_from(reserved).unwrap_or(0).saturating_sub(bytes.len());
        p.bytes.resize(p.bytes.len() + room, 0);
        p.count(bytes.len());
    }
}
