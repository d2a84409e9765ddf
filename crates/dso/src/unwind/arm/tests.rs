use super::example_file::{Example, INDEX, TABLE, TEXT};
use super::*;
use crate::unwind::{AddressSpace, Arm32, Regs, Stack, Stop, UnwindInfo, Unwinder, Which};
use crate::{Avma, Machine};
use std::sync::Arc;

const BASE: u64 = 0x40_0000;
const STACK: u64 = 0xbe00_0000;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

/// A distance of 31 bits from the word at `place`.
fn relative(place: u64, to: u64) -> u32 {
    (to.wrapping_sub(place) as u32) & 0x7fff_ffff
}

/// Index entries for functions at these offsets of the code.
fn index(entries: &[(u64, u32)]) -> Vec<u8> {
    let entry = |(at, &(offset, second)): (usize, &(u64, u32))| {
        [relative(INDEX + 8 * at as u64, TEXT + offset), second]
    };
    words(&entries.iter().enumerate().flat_map(entry).collect::<Vec<_>>())
}

/// Offsets in the code of the frames of a thread at `pc`, leaf first, and why they end.
fn walk(example: Example<'_>, pc: u64, lr: u64, stack: &[u32]) -> (Vec<u64>, Stop) {
    let object = example.object().expect("an ELF file");
    assert_eq!(object.machine(), Machine::Arm);
    let mut space = AddressSpace::new();
    let (start, end) = (Avma(BASE), Avma(BASE + 0x3000));
    space.map(start, end, Svma(0), UnwindInfo::new(Arc::new(object)));
    let mut registers = [0; 16];
    (registers[13], registers[14], registers[15]) = (STACK, lr, BASE + TEXT + pc);
    let bytes = words(stack);
    let mut out = Vec::new();
    let regs = Regs::Arm(Arm32(registers));
    let stop = Unwinder::new().unwind(&space, &regs, Stack::new(Avma(STACK), &bytes), 16, &mut out);
    (out.into_iter().map(|avma| avma.0.wrapping_sub(BASE + TEXT)).collect(), stop)
}

/// A return address to an offset of Thumb code.
fn thumb(offset: u64) -> u32 {
    (BASE + TEXT + offset + 1) as u32
}

/// Two functions of Thumb code: one that calls, and a leaf with a frame.
fn thumb_code() -> Vec<u8> {
    halves(&[
        0xb510, 0xb082, // 00: push {r4, lr}; sub sp, #8
        0xf000, 0xf803, // 04: bl 0e
        0xb002, 0xbd10, // 08: add sp, #8; pop {r4, pc}
        0xbf00, // 0c: nop
        0xb570, 0xb081, // 0e: push {r4-r6, lr}; sub sp, #4
        0xbf00, 0xb001, // 12: nop; add sp, #4
        0xbd70, // 16: pop {r4-r6, pc}
    ])
}

/// Stack of the leaf inside its frame, and of its caller: called in turn from offset 8 of the same code.
fn thumb_stack() -> Vec<u32> {
    vec![0, 4, 5, 6, thumb(8), 1, 2, 44, thumb(8), 3, 3, 45, 0]
}

#[test]
fn calls_are_left_by_the_tables_of_both_kinds() {
    // vsp += 8; pop {r4, lr} in the index; vsp += 4; pop {r4-r6, lr} in the table.
    let table = words(&[0x8100_0000 | 0x00aa, 0xb0b0_b0b0]);
    let entries = [(0, 0x8001_a8b0), (0x0e, relative(INDEX + 12, TABLE))];
    let example = Example { code: &thumb_code(), index: &index(&entries), table: &table };
    let found = walk(example, 0x12, 0, &thumb_stack());
    assert_eq!(found, (vec![0x12, 8, 8], Stop::ReachedRoot));
}

#[test]
fn a_prologue_and_an_epilogue_are_left_by_their_code() {
    let table = words(&[0x8100_0000 | 0x00aa, 0xb0b0_b0b0]);
    let entries = [(0, 0x8001_a8b0), (0x0e, relative(INDEX + 12, TABLE))];
    let example = Example { code: &thumb_code(), index: &index(&entries), table: &table };
    let (lr, stack) = (u64::from(thumb(8)), thumb_stack());
    let expected = |pc| (vec![pc, 8, 8], Stop::ReachedRoot);
    assert_eq!(walk(example, 0x0e, lr, &stack[5..]), expected(0x0e), "nothing is pushed");
    assert_eq!(walk(example, 0x10, lr, &stack[1..]), expected(0x10), "registers are");
    assert_eq!(walk(example, 0x16, 0, &stack[1..]), expected(0x16), "only they are left");
}

#[test]
fn code_without_tables_is_left_by_its_prologue() {
    let example = Example { code: &thumb_code(), ..Example::default() };
    assert_eq!(walk(example, 0x12, 0, &thumb_stack()), (vec![0x12, 8, 8], Stop::ReachedRoot));
    let refused = index(&[(0, 1)]);
    let example = Example { index: &refused, ..example };
    assert_eq!(walk(example, 0x12, 0, &thumb_stack()), (vec![0x12, 8, 8], Stop::ReachedRoot));
}

#[test]
fn a_stack_without_a_call_to_return_to_ends_the_walk() {
    let mut stack = thumb_stack();
    stack[4] = thumb(6);
    let example = Example { code: &thumb_code(), ..Example::default() };
    let pc = Avma(BASE + TEXT + 0x12);
    assert_eq!(walk(example, 0x12, 0, &stack), (vec![0x12], Stop::NoUnwindInfo { which: Which::File, pc }));
}

#[test]
fn frames_of_changing_size_are_left_by_the_register_that_keeps_the_stack_pointer() {
    // push {r7, lr}; mov r7, sp; sub sp, sp, r0 (unknown); bl; ...
    let code = halves(&[0xb580, 0x466f, 0xebad, 0x0d00, 0xf000, 0xf800, 0x46bd, 0xbd80]);
    let rules = |svma| {
        let position = CodePosition { svma, is_call: true, set: Some(InstructionSet::Thumb) };
        let object = Example { code: &code, ..Example::default() }.object().expect("an ELF file");
        ArmRules::new(&object).rules(&object, position)
    };
    let [rule] = rules(TEXT + 11)[..] else { panic!("one rule") };
    assert_eq!((rule.cfa_register, rule.cfa_offset), (7, 8));
    assert_eq!(rule.saved().collect::<Vec<_>>(), [(0, -1), (5, -2)], "lr and r7");
}

#[test]
fn arm_code_saves_registers_in_other_ways() {
    let code = words(&[
        0xe92d_000f, // push {r0-r3}
        0xe52d_e004, // push {lr}
        0xed2d_8b04, // vpush {d8-d9}
        0xe24d_de2b, // sub sp, sp, #688
        0xe24d_d004, // sub sp, sp, #4
        0xebff_fffe, // bl
    ]);
    let object = Example { code: &code, ..Example::default() }.object().expect("an ELF file");
    let position = CodePosition { svma: TEXT + 23, is_call: true, set: Some(InstructionSet::Arm) };
    let [rule] = ArmRules::new(&object).rules(&object, position)[..] else { panic!("one rule") };
    assert_eq!((rule.cfa_register, rule.cfa_offset), (13, 16 + 4 + 16 + 688 + 4));
    assert_eq!(rule.saved().collect::<Vec<_>>(), [(0, -5)]);
}

#[test]
fn a_handler_returns_to_what_its_signal_interrupted() {
    // At 0 the trampoline of the C library, mov.w r7, #119; svc 0, then a handler that pushes nothing, and a function.
    let code = halves(&[0xf04f, 0x0777, 0xdf00, 0x4770, 0xbf00, 0xbf00, 0xb510, 0xbf00, 0xbd10]);
    let mut stack = vec![0; 8];
    // r0…r12, sp, lr, pc: interrupted after its push.
    stack.extend([0; 13]);
    stack.extend([(STACK + 4 * 40) as u32, 0, (BASE + TEXT + 14) as u32]);
    stack.resize(40, 0);
    stack.extend([44, 0]);
    let found = walk(Example { code: &code, ..Example::default() }, 6, u64::from(thumb(0)), &stack);
    assert_eq!(found.0, [6, 0, 14]);
}
