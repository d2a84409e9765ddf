//! The registers a walk starts from, in the order perf samples them.

use crate::{Avma, Machine};

/// Register values of one thread at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regs {
    /// x86-64.
    X86_64(X86_64),
    /// aarch64.
    Aarch64(Aarch64),
    /// ARM, 32 bit.
    Arm(Arm32),
}

/// x86-64 registers, indexed by **DWARF number**: rax rdx rcx rbx rsi rdi rbp rsp r8…r15 rip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct X86_64(pub [u64; 17]);

/// aarch64 registers, indexed by DWARF number: x0…x30, sp at 31, pc at 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aarch64(pub [u64; 33]);

/// 32-bit ARM registers, indexed by DWARF number: r0…r12, sp at 13, lr at 14, pc at 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm32(pub [u64; 16]);

/// perf's number of each register in DWARF's order.
// Source: linux v6.18 arch/x86/include/uapi/asm/perf_regs.h: AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS R8…R15
const PERF_X86: [u32; 17] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8];

impl Regs {
    /// From a sample's `regs`: the values of the bits set in `mask` (`attr.sample_regs_user`), lowest first.
    /// Registers not sampled are 0. `None` for other machines, or without pc and sp.
    pub fn from_perf(machine: Machine, mask: u64, values: &[u64]) -> Option<Self> {
        let value = |bit: u32| {
            let set = mask >> bit & 1 == 1;
            set.then(|| values.get((mask & ((1u64 << bit) - 1)).count_ones() as usize).copied()).flatten()
        };
        match machine {
            Machine::X86_64 => {
                value(7).and(value(8))?;
                Some(Self::X86_64(X86_64(PERF_X86.map(|bit| value(bit).unwrap_or(0)))))
            }
            Machine::Aarch64 => {
                value(31).and(value(32))?;
                Some(Self::Aarch64(Aarch64(std::array::from_fn(|i| value(i as u32).unwrap_or(0)))))
            }
            // Source: linux v6.12 arch/arm/include/uapi/asm/perf_regs.h; for 32-bit tasks of a 64-bit kernel
            // arch/arm64/kernel/perf_regs.c, perf_reg_value, keeps these numbers.
            Machine::Arm => {
                value(13).and(value(15))?;
                Some(Self::Arm(Arm32(std::array::from_fn(|i| value(i as u32).unwrap_or(0)))))
            }
            _ => None,
        }
    }

    /// The perf mask of all registers the unwinder wants (`attr.sample_regs_user`); 0 for machines without unwinder.
    pub fn perf_mask(machine: Machine) -> u64 {
        match machine {
            Machine::X86_64 => PERF_X86.iter().fold(0, |mask, bit| mask | 1 << bit),
            Machine::Aarch64 => (1 << 33) - 1,
            Machine::Arm => (1 << 16) - 1,
            _ => 0,
        }
    }

    /// Where it executes.
    pub fn pc(&self) -> Avma {
        match self {
            Self::X86_64(r) => Avma(r.0[16]),
            Self::Aarch64(r) => Avma(r.0[32]),
            Self::Arm(r) => Avma(r.0[15]),
        }
    }

    /// Stack pointer.
    pub fn sp(&self) -> Avma {
        match self {
            Self::X86_64(r) => Avma(r.0[7]),
            Self::Aarch64(r) => Avma(r.0[31]),
            Self::Arm(r) => Avma(r.0[13]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_order_is_turned_into_dwarf_order() {
        let mask = Regs::perf_mask(Machine::X86_64);
        assert_eq!(mask, 0xff_01ff);
        let values: Vec<u64> = (0..24u64).filter(|b| mask >> b & 1 == 1).collect();
        let Some(Regs::X86_64(r)) = Regs::from_perf(Machine::X86_64, mask, &values) else {
            panic!("no registers")
        };
        assert_eq!(r.0, [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8]);
        assert_eq!(Regs::from_perf(Machine::X86_64, 0x80, &[5]), None);
    }
}
