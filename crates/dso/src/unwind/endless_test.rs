//! Walks that would not end: hostile rules and stacks, and honest ones that look a bit like them.

use std::sync::Arc;

use super::rule::{Cfa, Restore, Row, Rule, Step};
use super::sigreturn;
use super::walk::Unwinder;
use super::{AddressSpace, Regs, Stack, Stop, UnwindInfo, X86_64};
use crate::kernel::vdso;
use crate::{Avma, Machine, Svma};

const RBP: u8 = 6;
const RSP: u8 = 7;
/// Place of the return address, and of rbp, in `X86::CALLEE_SAVED`.
const RETURN_ADDRESS: usize = 0;
const SAVED_RBP: usize = 1;

const CODE: u64 = 0x10_0000;
const SP: u64 = 0x7000;

/// One object file at [`CODE`] whose rules are made up here.
struct MadeUp {
    unwinder: Unwinder,
    space: AddressSpace,
    info: Arc<UnwindInfo>,
}

impl MadeUp {
    /// `None` where the machine has no vdso of x86-64 to use as the file.
    fn new() -> Option<Self> {
        let object = vdso::own().ok().filter(|object| object.machine() == Machine::X86_64)?;
        let info = UnwindInfo::new(Arc::new(object));
        let mut space = AddressSpace::new();
        space.map(Avma(CODE), Avma(CODE + 0x1000), Svma(0), Arc::clone(&info));
        Some(Self { unwinder: Unwinder::new(), space, info })
    }

    /// Code that is interrupted at `CODE + at`, and called from `CODE + at + 1`, goes by this rule.
    fn with(mut self, at: u64, rule: &Rule) -> Self {
        self.unwinder.keep(self.info.id, at, Step::Simple(*rule));
        self
    }

    fn walk(&mut self, fp: u64, pc: u64, words: &[u64]) -> (Vec<u64>, Stop) {
        let mut regs = [0; 17];
        (regs[6], regs[7], regs[16]) = (fp, SP, pc);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let stack = Stack::new(Avma(SP), &bytes);
        let mut out = Vec::new();
        let regs = Regs::X86_64(X86_64(regs));
        let stop = self.unwinder.unwind(&self.space, &regs, stack, usize::MAX, &mut out);
        (out.into_iter().map(|avma| avma.0).collect(), stop)
    }
}

/// A signal frame whose interrupted stack pointer is at [rbp], and its pc at [rbp + 8].
fn signal_frame() -> Rule {
    let mut rule = Rule::new(RBP, 0);
    rule.is_signal_frame = true;
    rule.save(RETURN_ADDRESS, 1);
    rule.save(SAVED_RBP, 0);
    rule
}

/// An ordinary frame: `words` large, the return address on top.
fn frame(words: i32) -> Rule {
    let mut rule = Rule::new(RSP, 8 * words);
    rule.save(RETURN_ADDRESS, -1);
    rule
}

#[test]
fn a_signal_frame_that_comes_back_to_its_own_stack_pointer_is_a_loop() {
    let Some(made_up) = MadeUp::new() else { return println!("skipped: no vdso of x86-64") };
    let (low, high) = (SP, SP + 32);
    // Each frame claims that the other was interrupted.
    let words = [high, CODE, 0, 0, low, CODE, 0, 0];
    let (chain, stop) = made_up.with(0, &signal_frame()).walk(high, CODE, &words);
    assert_eq!((chain.len(), stop), (2, Stop::Loop));
}

#[test]
fn a_handler_above_what_it_interrupted_is_left_downwards() {
    let Some(made_up) = MadeUp::new() else { return println!("skipped: no vdso of x86-64") };
    // The leaf's frame ends at SP + 32, where a handler's begins that interrupted code at SP + 8.
    let words = [0, 0, 0, CODE + 1, CODE + 0x30, 0, 0, 0];
    let mut signal = Rule::new(RBP, 0);
    signal.is_signal_frame = true;
    signal.save(RETURN_ADDRESS, 3);
    let mut made_up = made_up.with(0x10, &frame(4)).with(0, &signal).with(0x30, &frame(7));
    let (chain, stop) = made_up.walk(SP + 8, CODE + 0x10, &words);
    assert_eq!((chain, stop), (vec![CODE + 0x10, CODE + 1, CODE + 0x30], Stop::ReachedRoot));
    // Neither the trampoline nor what was interrupted made a call.
    assert_eq!(made_up.unwinder.exact_frames(), [1, 2]);
}

#[test]
fn a_handler_with_its_own_stack_is_left_for_the_interrupted_one() {
    let Some(made_up) = MadeUp::new() else { return println!("skipped: no vdso of x86-64") };
    // The trampoline's frame, at SP + 8, has the interrupted stack pointer and pc as its 15th and 16th register.
    let trampoline = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let Some(Step::General(row)) = sigreturn::step_of(|_| &trampoline, 0) else { panic!("no trampoline") };
    let mut made_up = made_up.with(0x10, &frame(1)).with(0x30, &frame(2));
    made_up.unwinder.keep(made_up.info.id, 0, Step::General(row));
    let other = SP + (1 << 20);
    let mut words = vec![0; 32];
    (words[0], words[1 + 5 + 15], words[1 + 5 + 16]) = (CODE + 1, other, CODE + 0x30);
    let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    let mut regs = [0; 17];
    (regs[7], regs[16]) = (SP, CODE + 0x10);
    let regs = Regs::X86_64(X86_64(regs));
    let mut walk = |stack| {
        let mut out = Vec::new();
        let stop = made_up.unwinder.unwind(&made_up.space, &regs, stack, 9, &mut out);
        (out.into_iter().map(|avma| avma.0).collect::<Vec<_>>(), stop)
    };
    let stack = Stack::new(Avma(SP), &bytes);
    let (shown, other) = (vec![CODE + 0x10, CODE + 1, CODE + 0x30], Avma(other));
    assert_eq!(walk(stack), (shown.clone(), Stop::InterruptedStack { sp: other }));
    assert_eq!(walk(stack.with_interrupted(other, &[0; 16])), (shown.clone(), Stop::ReachedRoot));
    assert_eq!(walk(stack.with_interrupted(other, &[0; 8])), (shown, Stop::StackEnd { bytes: 8 }));
}

#[test]
fn a_return_address_that_nothing_restores_is_a_loop_at_once() {
    let Some(made_up) = MadeUp::new() else { return println!("skipped: no vdso of x86-64") };
    // .cfi_same_value 16; .cfi_def_cfa 7, 16
    let (chain, stop) = made_up.with(0, &Rule::new(RSP, 16)).walk(0, CODE, &[0; 512]);
    assert_eq!((chain.len(), stop), (1, Stop::Loop));
}

#[test]
fn frames_past_the_copy_are_not_walked() {
    let Some(made_up) = MadeUp::new() else { return println!("skipped: no vdso of x86-64") };
    let mut signal = Rule::new(RSP, 0x1000);
    signal.is_signal_frame = true;
    signal.save(RETURN_ADDRESS, -0x1000 / 8);
    let (chain, stop) = made_up.with(0, &signal).walk(0, CODE, &[CODE; 8]);
    assert_eq!((chain.len(), stop), (2, Stop::StackEnd { bytes: 0x1000 - 64 + 8 }));
}

#[test]
fn more_frames_than_the_copy_can_hold_are_a_loop() {
    let Some(mut made_up) = MadeUp::new() else { return println!("skipped: no vdso of x86-64") };
    // The pc is computed, the stack pointer moves up by a byte.
    let registers = vec![(16, Restore::CfaPlus((CODE + 1).wrapping_sub(SP).cast_signed()))];
    let row = Row { cfa: Cfa::Register(RSP, 1), registers, is_signal_frame: false };
    for at in 0..0x1000 {
        made_up.unwinder.keep(made_up.info.id, at, Step::General(Arc::new(row.clone())));
    }
    let (chain, stop) = made_up.walk(0, CODE, &[0; 64]);
    assert_eq!((chain.len(), stop), (64 + 2, Stop::Loop));
}

#[test]
fn deep_recursion_is_followed_to_its_root() {
    let Some(made_up) = MadeUp::new() else { return println!("skipped: no vdso of x86-64") };
    let mut made_up = made_up.with(0, &frame(2));
    let mut words = [0, CODE + 1].repeat(10_000);
    words.extend([0, 0]);
    let (chain, stop) = made_up.walk(0, CODE, &words);
    assert_eq!((chain.len(), stop), (10_001, Stop::ReachedRoot));
    // Not even a frame that is nothing but its return address.
    let mut made_up = MadeUp { unwinder: Unwinder::new(), ..made_up }.with(0, &frame(1));
    let mut words = vec![CODE + 1; 8_000];
    words.push(0);
    let (chain, stop) = made_up.walk(0, CODE, &words);
    assert_eq!((chain.len(), stop), (8_001, Stop::ReachedRoot));
}

#[test]
fn rules_of_another_processor_are_not_used() {
    let Some(mut made_up) = MadeUp::new() else { return println!("skipped: no vdso of x86-64") };
    let mut values = vec![0; 33];
    (values[31], values[32]) = (SP, CODE);
    let mask = Regs::perf_mask(Machine::Aarch64);
    let Some(regs) = Regs::from_perf(Machine::Aarch64, mask, &values) else { panic!("registers are whole") };
    let mut all = Rule::new(31, 64);
    (0..12).for_each(|slot| all.save(slot, -1));
    made_up.unwinder.keep(made_up.info.id, 0, Step::Simple(all));
    let stack = Stack::new(Avma(SP), &[0x11; 64]);
    let stop = made_up.unwinder.unwind(&made_up.space, &regs, stack, 9, &mut Vec::new());
    assert!(matches!(stop, Stop::NoUnwindInfo { .. }), "{stop:?}");
}
