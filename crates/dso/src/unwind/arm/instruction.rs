//! The effect of one ARM or Thumb instruction on the stack pointer and on saved registers.
//!
//! Only what compilers write in prologues and epilogues is known, and where execution goes on; all else has no effect.
//
// Source: ARM DDI 0406C "ARM Architecture Reference Manual ARMv7-A and ARMv7-R", A5, A6 and A8.

/// Effect of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// None that matters here.
    Other,
    /// Registers, by their bits, are stored below the stack pointer.
    Push(u16),
    /// Registers are loaded from the stack.
    Pop(u16),
    /// The stack pointer moves by a number of bytes, up if positive.
    Move(i64),
    /// The stack pointer moves down (or up) by the value of a register.
    MoveDownBy(u8),
    MoveUpBy(u8),
    /// A register becomes the stack pointer plus a distance.
    FromStackPointer(u8, i64),
    /// The stack pointer becomes a register plus a distance.
    ToStackPointer(u8, i64),
    /// The first register becomes the second (maybe the same) plus a distance.
    Derive(u8, u8, i64),
    /// A register becomes a constant.
    Constant(u8, u32),
    /// The upper half of a register becomes a constant.
    UpperHalf(u8, u16),
    /// Up to two registers (the same if one) are stored at a distance from the stack pointer.
    Store([u8; 2], i64),
    /// The same after the stack pointer has moved down by a number of bytes.
    MoveAndStore([u8; 2], i64),
    /// To this address in all cases.
    Jump(u64),
    /// To this address in some cases.
    Branch(u64),
    /// To the caller, or to an address in a register.
    Leave,
    /// The next instructions, as many, are conditional.
    Conditional(u8),
}

/// An instruction's effect and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub effect: Effect,
    pub size: u64,
}

/// How code is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::unwind) enum InstructionSet {
    /// Instructions of 4 bytes.
    Arm,
    /// Instructions of 2 or 4 bytes.
    Thumb,
}

impl InstructionSet {
    /// As the lowest bit of a function's or return address has it.
    pub fn of_address(address: u64) -> Self {
        if address & 1 == 1 { Self::Thumb } else { Self::Arm }
    }
}

const SP: u32 = 13;
const PC_BIT: u16 = 1 << 15;

/// The instruction at the begin of `code`, which is at `address`. `None` at the end of the code.
pub(super) fn decode(code: &[u8], address: u64, set: InstructionSet) -> Option<Instruction> {
    let half = |at: usize| code.get(at..at + 2).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]])));
    if set == InstructionSet::Arm {
        let word = half(0)? | half(2)? << 16;
        return Some(Instruction { effect: arm(word, address), size: 4 });
    }
    let first = half(0)?;
    if first < 0xe800 {
        return Some(Instruction { effect: thumb_16(first, address), size: 2 });
    }
    Some(Instruction { effect: thumb_32(first, half(2)?, address), size: 4 })
}

/// The lowest `bits` bits of `value`, as a signed number.
fn signed(value: u32, bits: u32) -> i64 {
    i64::from((value << (32 - bits)).cast_signed() >> (32 - bits))
}

fn field(word: u32, at: u32, bits: u32) -> u32 {
    word >> at & ((1 << bits) - 1)
}

fn pop(mask: u32) -> Effect {
    Effect::Pop(mask as u16)
}

fn arm(word: u32, address: u64) -> Effect {
    let target = || address.wrapping_add(8).wrapping_add_signed(signed(word & 0xff_ffff, 24) << 2);
    let condition = word >> 28;
    if condition != 0xe {
        let is_branch = word >> 24 & 0xf == 0xa && condition != 0xf;
        return if is_branch { Effect::Branch(target()) } else { Effect::Other };
    }
    let (register, other) = (field(word, 12, 4) as u8, field(word, 16, 4));
    let rotated = || (word & 0xff).rotate_right(2 * field(word, 8, 4));
    let bytes = i64::from(rotated());
    match (word & 0xfff0_0000, other, u32::from(register)) {
        _ if word & 0xff00_0000 == 0xea00_0000 => Effect::Jump(target()),
        _ if word & 0x0fff_fff0 == 0x012f_ff10 => Effect::Leave,
        (0xe920_0000, SP, _) => Effect::Push(word as u16),
        (0xe8b0_0000, SP, _) => pop(word & 0xffff),
        (0xe520_0000, SP, _) => Effect::MoveAndStore([register; 2], i64::from(word & 0xfff)),
        (0xe490_0000, SP, _) if word & 0xfff == 4 => pop(1 << register),
        (0xe580_0000, SP, _) => Effect::Store([register; 2], i64::from(word & 0xfff)),
        (0xe140_0000 | 0xe1c0_0000, SP, _) if word & 0xf0 == 0xf0 => {
            Effect::Store([register, register + 1], i64::from(field(word, 8, 4) << 4 | word & 0xf))
        }
        (0xe160_0000, SP, _) if word & 0xf0 == 0xf0 => {
            Effect::MoveAndStore([register, register + 1], i64::from(field(word, 8, 4) << 4 | word & 0xf))
        }
        (0xe240_0000, SP, SP) => Effect::Move(-bytes),
        (0xe280_0000, SP, SP) => Effect::Move(bytes),
        (0xe240_0000, base, SP) => Effect::ToStackPointer(base as u8, -bytes),
        (0xe280_0000, base, SP) => Effect::ToStackPointer(base as u8, bytes),
        (0xe240_0000, SP, _) => Effect::FromStackPointer(register, -bytes),
        (0xe280_0000, SP, _) => Effect::FromStackPointer(register, bytes),
        (0xe280_0000, base, _) => Effect::Derive(register, base as u8, bytes),
        (0xe240_0000, base, _) => Effect::Derive(register, base as u8, -bytes),
        (0xe040_0000, SP, SP) if word & 0xff0 == 0 => Effect::MoveDownBy(field(word, 0, 4) as u8),
        (0xe080_0000, SP, SP) if word & 0xff0 == 0 => Effect::MoveUpBy(field(word, 0, 4) as u8),
        (0xe1a0_0000, 0, SP) if word & 0xff0 == 0 => Effect::ToStackPointer(field(word, 0, 4) as u8, 0),
        (0xe1a0_0000, 0, _) if word & 0xfff == SP => Effect::FromStackPointer(register, 0),
        (0xe3a0_0000, 0, _) => Effect::Constant(register, rotated()),
        (0xe300_0000, ..) => Effect::Constant(register, field(word, 16, 4) << 12 | word & 0xfff),
        (0xe340_0000, ..) => Effect::UpperHalf(register, (field(word, 16, 4) << 12 | word & 0xfff) as u16),
        // Jump tables: ldr pc, add pc.
        (_, _, 15) if word & 0x0c10_0000 == 0x0410_0000 || word & 0x0de0_0000 == 0x0080_0000 => Effect::Leave,
        // ldm with the pc
        _ if word & 0x0e10_8000 == 0x0810_8000 => Effect::Leave,
        _ => vector(word),
    }
}

/// Floating-point registers put on the stack, or taken from it: the same bits in both instruction sets.
fn vector(word: u32) -> Effect {
    let bytes = i64::from(4 * (word & 0xff));
    match word & 0x0fbf_0e00 {
        0x0d2d_0a00 => Effect::Move(-bytes),
        0x0cbd_0a00 => Effect::Move(bytes),
        _ => Effect::Other,
    }
}

fn thumb_16(half: u32, address: u64) -> Effect {
    let after = address.wrapping_add(4);
    let short = i64::from(4 * (half & 0x7f));
    let low = |at: u32| field(half, at, 3) as u8;
    match half {
        0xb400..=0xb5ff => Effect::Push((half & 0xff | (half & 0x100) << 6) as u16),
        0xbc00..=0xbdff => pop(half & 0xff | (half & 0x100) << 7),
        0xb080..=0xb0ff => Effect::Move(-short),
        0xb000..=0xb07f => Effect::Move(short),
        0xa800..=0xafff => Effect::FromStackPointer(low(8), i64::from(4 * (half & 0xff))),
        0x9000..=0x97ff => Effect::Store([low(8); 2], i64::from(4 * (half & 0xff))),
        0x2000..=0x27ff => Effect::Constant(low(8), half & 0xff),
        0x3000..=0x37ff => Effect::Derive(low(8), low(8), i64::from(half & 0xff)),
        0x3800..=0x3fff => Effect::Derive(low(8), low(8), -i64::from(half & 0xff)),
        _ if half & 0xff87 == 0x4485 => Effect::MoveUpBy(field(half, 3, 4) as u8),
        _ if half & 0xff87 == 0x4685 => Effect::ToStackPointer(field(half, 3, 4) as u8, 0),
        _ if half & 0xff78 == 0x4668 => {
            Effect::FromStackPointer((half & 7 | field(half, 7, 1) << 3) as u8, 0)
        }
        // bx, and mov pc
        _ if half & 0xff87 == 0x4700 || half & 0xff87 == 0x4687 => Effect::Leave,
        0xe000..=0xe7ff => Effect::Jump(after.wrapping_add_signed(signed(half & 0x7ff, 11) << 1)),
        0xd000..=0xddff => Effect::Branch(after.wrapping_add_signed(signed(half & 0xff, 8) << 1)),
        // cbz, cbnz
        _ if half & 0xf500 == 0xb100 => {
            Effect::Branch(after.wrapping_add(u64::from(field(half, 9, 1) << 6 | field(half, 3, 5) << 1)))
        }
        0xbf00..=0xbfff if half & 0xf != 0 => Effect::Conditional(4 - (half & 0xf).trailing_zeros() as u8),
        _ => Effect::Other,
    }
}

fn thumb_32(first: u32, second: u32, address: u64) -> Effect {
    let word = first << 16 | second;
    let register = field(second, 12, 4) as u8;
    let to = field(second, 8, 4);
    let plain = || i64::from(field(first, 10, 1) << 11 | field(second, 12, 3) << 8 | second & 0xff);
    let half =
        || field(first, 0, 4) << 12 | field(first, 10, 1) << 11 | field(second, 12, 3) << 8 | second & 0xff;
    let is_immediate = second & 0x8000 == 0;
    match first & !0x0400 {
        0xf1ad if is_immediate => add(SP, to, -expanded(first, second)),
        0xf10d if is_immediate => add(SP, to, expanded(first, second)),
        0xf2ad if is_immediate => add(SP, to, -plain()),
        0xf20d if is_immediate => add(SP, to, plain()),
        base @ 0xf100..=0xf10f if is_immediate => add(base & 0xf, to, expanded(first, second)),
        base @ 0xf1a0..=0xf1af if is_immediate => add(base & 0xf, to, -expanded(first, second)),
        0xf04f if is_immediate => Effect::Constant(to as u8, expanded(first, second) as u32),
        base if base & !0xf == 0xf240 && is_immediate => Effect::Constant(to as u8, half()),
        base if base & !0xf == 0xf2c0 && is_immediate => Effect::UpperHalf(to as u8, half() as u16),
        _ if first & 0xf800 == 0xf000 && second & 0x8000 != 0 => branch(first, second, address),
        _ => match first {
            0xe92d => Effect::Push(second as u16),
            0xe8bd => pop(second),
            0xf84d if second & 0xf00 == 0xd00 => {
                Effect::MoveAndStore([register; 2], i64::from(second & 0xff))
            }
            0xf85d if second & 0xfff == 0xb04 => pop(1 << register),
            0xf8cd => Effect::Store([register; 2], i64::from(second & 0xfff)),
            0xe96d => Effect::MoveAndStore([register, to as u8], i64::from(4 * (second & 0xff))),
            0xe9cd => Effect::Store([register, to as u8], i64::from(4 * (second & 0xff))),
            0xebad if second & 0xfff0 == 0x0d00 => Effect::MoveDownBy(field(second, 0, 4) as u8),
            0xeb0d if second & 0xfff0 == 0x0d00 => Effect::MoveUpBy(field(second, 0, 4) as u8),
            // tbb, tbh; ldr pc
            _ if first & 0xfff0 == 0xe8d0 && second & 0xffe0 == 0xf000 => Effect::Leave,
            _ if first & 0xff70 == 0xf850 && register == 15 => Effect::Leave,
            _ if first & 0xec00 == 0xec00 => vector(word),
            _ => Effect::Other,
        },
    }
}

/// `to` becomes `base` plus a distance.
fn add(base: u32, to: u32, bytes: i64) -> Effect {
    match (base, to) {
        (SP, SP) => Effect::Move(bytes),
        (SP, to) => Effect::FromStackPointer(to as u8, bytes),
        (base, SP) => Effect::ToStackPointer(base as u8, bytes),
        (base, to) => Effect::Derive(to as u8, base as u8, bytes),
    }
}

/// A constant of Thumb: a byte repeated, or eight bits rotated.
fn expanded(first: u32, second: u32) -> i64 {
    let code = field(first, 10, 1) << 11 | field(second, 12, 3) << 8 | second & 0xff;
    let byte = code & 0xff;
    let value = match code >> 8 {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte * 0x0101_0101,
        _ => (0x80 | code & 0x7f).rotate_right(code >> 7),
    };
    i64::from(value)
}

fn branch(first: u32, second: u32, address: u64) -> Effect {
    let after = address.wrapping_add(4);
    let (sign, j1, j2) = (field(first, 10, 1), field(second, 13, 1), field(second, 11, 1));
    let is_always = second & 0x1000 != 0;
    if second & 0x4000 != 0 {
        return Effect::Other; // a call
    }
    if is_always {
        let (i1, i2) = (1 ^ j1 ^ sign, 1 ^ j2 ^ sign);
        let distance = sign << 24 | i1 << 23 | i2 << 22 | (first & 0x3ff) << 12 | (second & 0x7ff) << 1;
        return Effect::Jump(after.wrapping_add_signed(signed(distance, 25)));
    }
    if field(first, 7, 3) == 7 {
        return Effect::Other; // barriers, system registers
    }
    let distance = sign << 20 | j2 << 19 | j1 << 18 | (first & 0x3f) << 12 | (second & 0x7ff) << 1;
    Effect::Branch(after.wrapping_add_signed(signed(distance, 21)))
}

impl Effect {
    /// Whether execution never goes on after it.
    pub fn ends_flow(self) -> bool {
        matches!(self, Self::Jump(_) | Self::Leave) || matches!(self, Self::Pop(mask) if mask & PC_BIT != 0)
    }
}
