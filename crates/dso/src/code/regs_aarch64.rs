//! Which addresses registers hold, as code for aarch64 is read from its start on: what was put there last, whatever
//! way it was come by.
//!
//! Source: Arm Architecture Reference Manual (DDI 0487), C4.1 and C6.2.

/// Content of a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegValue {
    /// Not known.
    #[default]
    Unknown,
    /// This address.
    Address(u64),
    /// The value at this address.
    Loaded(u64),
}

/// All general registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrackedRegs([RegValue; 32]);

const fn is(word: u32, mask: u32, bits: u32) -> bool {
    word & mask == bits
}

/// `blr`, or `br`.
const fn by_register(word: u32) -> bool {
    is(word, 0xffdf_fc1f, 0xd61f_0000)
}

const fn is_call(word: u32) -> bool {
    is(word, 0xfc00_0000, 0x9400_0000) || is(word, 0xffff_fc1f, 0xd63f_0000)
}

impl TrackedRegs {
    /// A register by its number.
    pub fn of(&self, number: u32) -> RegValue {
        self.0[(number & 31) as usize]
    }

    /// Where a call instruction, or a jump by a register, leads.
    pub fn callee(&self, word: u32, at: u64) -> RegValue {
        if is(word, 0xfc00_0000, 0x9400_0000) {
            return RegValue::Address(at.wrapping_add_signed(i64::from((word << 6) as i32 >> 6) * 4));
        }
        if by_register(word) { self.of(word >> 5) } else { RegValue::Unknown }
    }

    /// Addresses of the values loaded from memory that an instruction reads, unless it is a jump.
    pub fn read(&self, word: u32) -> impl Iterator<Item = u64> {
        let is_memory = is(word, 0x0a00_0000, 0x0800_0000);
        let is_store = is_memory && word & 1 << 22 == 0;
        // Shifted, extended and conditional forms have two sources, pages and wide numbers none.
        let has_second = is(word, 0x0e00_0000, 0x0a00_0000);
        let has_first = !is(word, 0x1f00_0000, 0x1000_0000)
            && !is(word, 0x1f80_0000, 0x1280_0000)
            && !is(word, 0x1c00_0000, 0x1400_0000);
        let tested = is(word, 0x7e00_0000, 0x3400_0000) || is(word, 0x7e00_0000, 0x3600_0000);
        let pair = is(word, 0x3a00_0000, 0x2800_0000);
        let numbers = [
            (has_first && !by_register(word), word >> 5),
            (has_second, word >> 16),
            (is_store || tested, word),
            (is_store && pair, word >> 10),
        ];
        numbers.into_iter().filter(|(is_read, _)| *is_read).filter_map(|(_, number)| match self.of(number) {
            RegValue::Loaded(slot) => Some(slot),
            _ => None,
        })
    }

    /// The instruction at `at` is executed.
    pub fn take(&mut self, word: u32, at: u64) {
        if is_call(word) {
            // Registers that a call may change.
            self.0[..19].fill(RegValue::Unknown);
            return;
        }
        let put = self.put(word, at);
        // Any other instruction changes only these registers: a pair of loads changes both.
        if is(word, 0x3a40_0000, 0x2840_0000) {
            self.0[(word >> 10 & 31) as usize] = RegValue::Unknown;
        }
        self.0[(word & 31) as usize] = put;
        // The stack pointer, or nothing.
        self.0[31] = RegValue::Unknown;
    }

    /// Value that the instruction puts into its first register.
    fn put(&self, word: u32, at: u64) -> RegValue {
        let number = u64::from(word >> 10 & 0xfff);
        if is(word, 0x1f00_0000, 0x1000_0000) {
            // Layout: immhi in bits 23:5, immlo in 30:29; adrp counts pages.
            let distance =
                i64::from((((word >> 5 & 0x7_ffff) << 2 | (word >> 29 & 3)) << 11).cast_signed() >> 11);
            return match word >> 31 {
                1 => RegValue::Address((at & !0xfff).wrapping_add_signed(distance << 12)),
                _ => RegValue::Address(at.wrapping_add_signed(distance)),
            };
        }
        // mov
        if is(word, 0xffe0_ffe0, 0xaa00_03e0) {
            return self.of(word >> 16);
        }
        match self.of(word >> 5) {
            RegValue::Address(base) if is(word, 0xffc0_0000, 0x9100_0000) => {
                RegValue::Address(base.wrapping_add(number))
            }
            RegValue::Address(base) if is(word, 0xffc0_0000, 0xf940_0000) => {
                RegValue::Loaded(base.wrapping_add(number * 8))
            }
            _ => RegValue::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_passed_on_and_kept_values_are_distinguished() {
        let mut registers = TrackedRegs::default();
        // adrp x0,20000; ldr x0,[x0,#0xf98]; mov x19,x0
        for (at, word) in (0x1000..).step_by(4).zip([0xf000_00e0, 0xf947_cc00]) {
            registers.take(word, at);
        }
        assert_eq!(registers.of(0), RegValue::Loaded(0x2_0f98));
        assert_eq!(registers.callee(0xd63f_0000, 0x1008), RegValue::Loaded(0x2_0f98));
        assert_eq!(registers.read(0xaa00_03f3).collect::<Vec<_>>(), [0x2_0f98]);
        // str x0,[x1]; cbz x0; stp x1,x0,[sp]: read. ldr x0,[x1]; add x1,x2,#0; blr x0: not.
        assert!(
            [0xf900_0020, 0xb400_0040, 0xa900_03e1].iter().all(|word| registers.read(*word).count() == 1)
        );
        assert!(
            [0xf940_0020, 0x9100_0041, 0xd63f_0000].iter().all(|word| registers.read(*word).count() == 0)
        );
        registers.take(0xaa00_03f3, 0x1008);
        registers.take(0xd63f_0000, 0x100c);
        assert_eq!((registers.of(0), registers.of(19)), (RegValue::Unknown, RegValue::Loaded(0x2_0f98)));
    }
}
