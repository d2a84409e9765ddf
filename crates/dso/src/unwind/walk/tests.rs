use super::*;
use crate::unwind::{Aarch64, FrameSize, MadeFrame, X86_64};

const CODE: u64 = 0x10_0000;
const SP: u64 = 0x7000;

fn space() -> AddressSpace {
    let mut space = AddressSpace::new();
    space.map_anonymous(Avma(CODE), Avma(CODE + 0x1000));
    space
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn walk(regs: Regs, words: &[u64]) -> (Vec<u64>, Stop) {
    let mut out = Vec::new();
    let bytes = bytes(words);
    let stack = Stack::new(Avma(SP), &bytes);
    let stop = Unwinder::new().unwind(&space(), &regs, stack, 8, &mut out);
    (out.into_iter().map(|a| a.0).collect(), stop)
}

fn x86(fp: u64) -> Regs {
    let mut regs = [0; 17];
    (regs[6], regs[7], regs[16]) = (fp, SP, CODE + 1);
    Regs::X86_64(X86_64(regs))
}

#[test]
fn jit_code_is_walked_by_frame_pointers_to_its_root() {
    let words = [0, SP + 32, CODE + 0x10, 0, 0, 0];
    assert_eq!(walk(x86(SP + 8), &words), (vec![CODE + 1, CODE + 0x10], Stop::ReachedRoot));
}

#[test]
fn a_stub_without_frame_pointer_is_left_by_its_code() {
    // sub $8,%rsp; call *%rcx; add $8,%rsp; ret: how CPython calls its interpreter for perf's sake.
    let stub = vec![0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3];
    let mut space = space();
    let words = bytes(&[0, CODE + 0x100, 0, 0]);
    let mut regs = [0; 17];
    (regs[6], regs[7], regs[16]) = (12345, SP, CODE + 6);
    let walked = |space: &AddressSpace| {
        let mut out = Vec::new();
        let regs = Regs::X86_64(X86_64(regs));
        let stop = Unwinder::new().unwind(space, &regs, Stack::new(Avma(SP), &words), 2, &mut out);
        (out.into_iter().map(|a| a.0).collect::<Vec<_>>(), stop)
    };
    let unknown = Stop::NoUnwindInfo { which: Which::Anonymous, pc: Avma(CODE + 6) };
    assert_eq!(walked(&space), (vec![CODE + 6], unknown));
    assert!(space.know_code(Avma(CODE), stub.clone()) && !space.know_code(Avma(CODE), stub));
    assert_eq!(walked(&space).0, [CODE + 6, CODE + 0x100]);
    let leaf = vec![0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0xc3];
    assert!(space.know_code(Avma(CODE), leaf), "a compiler writes over the code it made");
    assert_eq!(walked(&space).1, unknown, "its stack has no return address where this code puts it");
    space.map_anonymous(Avma(CODE), Avma(CODE + 0x1000));
    assert_eq!(walked(&space), (vec![CODE + 6], unknown), "it was mapped again");
}

#[test]
fn code_with_frames_of_a_stated_size_is_left_by_it() {
    // The frame pointer has any value; frames of 32 and 48 bytes. The last words are not copied.
    let words = bytes(&[1, 2, 77, CODE + 0x110, 3, 4, 5, 6, 88, CODE + 0x208, 7]);
    let mut regs = [0; 17];
    (regs[6], regs[7], regs[16]) = (12345, SP, CODE + 0x10);
    let walked = |space: &AddressSpace| {
        let mut out = Vec::new();
        let regs = Regs::X86_64(X86_64(regs));
        let stop = Unwinder::new().unwind(space, &regs, Stack::new(Avma(SP), &words), 8, &mut out);
        (out.into_iter().map(|a| a.0 - CODE).collect::<Vec<_>>(), stop)
    };
    let mut space = space();
    let mut know = |start: u64, end: u64, bytes| {
        let frame = MadeFrame { code: Avma(CODE + start)..Avma(CODE + end), size: FrameSize::Bytes(bytes) };
        (space.know_frame(&frame), walked(&space))
    };
    assert_eq!(know(0, 0x100, 32).1.0, [0x10, 0x110]);
    assert!(!know(0, 0x100, 32).0 && !know(0x100, 0x100, 32).0 && !know(0x100, 0x180, 8).0);
    assert_eq!(know(0x100, 0x180, 48).1.0, [0x10, 0x110, 0x208]);
    let cut = (vec![0x10, 0x110, 0x208], Stop::StackEnd { bytes: 16 });
    assert_eq!(know(0x180, 0x300, 24).1, cut);
    assert_eq!(know(0x170, 0x200, 48).1.0, [0x10, 0x110], "other code overlaps the second");
    space.map_anonymous(Avma(CODE), Avma(CODE + 0x1000));
    assert_eq!(walked(&space).0, [0x10], "it was mapped again");
}

#[test]
fn an_interpreters_frame_has_its_callers_stack_pointer() {
    // Frame pointer at word 2, below it the caller's stack pointer: two variables are before that. Then a frame of 24.
    let words = bytes(&[0, SP + 56, SP + 96, CODE + 0x110, 1, 2, 3, 77, 78, CODE + 0x208]);
    let mut space = space();
    let mut know = |start: u64, size| {
        let code = Avma(CODE + start)..Avma(CODE + start + 0x100);
        assert!(space.know_frame(&MadeFrame { code, size }));
    };
    know(0, FrameSize::Interpreter);
    know(0x100, FrameSize::Bytes(24));
    let mut out = Vec::new();
    let stack = Stack::new(Avma(SP), &words);
    Unwinder::new().unwind(&space, &x86(SP + 16), stack, 8, &mut out);
    assert_eq!(out.iter().map(|a| a.0 - CODE).collect::<Vec<_>>(), [1, 0x110, 0x208]);
}

#[test]
fn a_stub_is_left_by_its_frame_pointer_if_a_compiled_method_called_it() {
    let words = bytes(&[0, 12345, CODE + 0x110, 0]);
    let walked = |space: &AddressSpace| {
        let mut out = Vec::new();
        Unwinder::new().unwind(space, &x86(SP + 8), Stack::new(Avma(SP), &words), 8, &mut out);
        out.iter().map(|a| a.0 - CODE).collect::<Vec<_>>()
    };
    let mut space = space();
    assert_eq!(walked(&space), [1], "a frame pointer of 12345 is none");
    let code = Avma(CODE + 0x100)..Avma(CODE + 0x200);
    assert!(space.know_frame(&MadeFrame { code, size: FrameSize::Bytes(24) }));
    assert_eq!(walked(&space), [1, 0x110]);
}

#[test]
fn missing_bytes_past_the_copy_are_reported() {
    let words = [0, SP + 64, CODE + 0x10];
    let (chain, stop) = walk(x86(SP + 8), &words);
    assert_eq!((chain.len(), stop), (2, Stop::StackEnd { bytes: 64 + 16 - 24 }));
}

#[test]
fn a_frame_pointer_that_is_none_ends_the_walk_with_its_reason() {
    let anonymous = Stop::NoUnwindInfo { which: Which::Anonymous, pc: Avma(CODE + 1) };
    assert_eq!(walk(x86(12345), &[0; 4]).1, anonymous);
    // Its return address is in no code.
    assert_eq!(walk(x86(SP), &[SP + 16, 0x42, 0, 0]).1, anonymous);
    // The chain turns back.
    assert_eq!(walk(x86(SP + 16), &[0, 0, SP, CODE + 9]).1, anonymous);
}

#[test]
fn more_frames_than_asked_for_are_too_deep() {
    let words: Vec<u64> = (0..40).flat_map(|i| [SP + 16 * (i + 1), CODE + 8]).collect();
    let (chain, stop) = walk(x86(SP), &words);
    assert_eq!((chain.len(), stop), (8, Stop::TooDeep));
}

#[test]
fn signed_return_addresses_lose_their_signature() {
    let mut regs = [0; 33];
    (regs[29], regs[31], regs[32]) = (SP, SP, CODE + 4);
    let words = [0, (CODE + 0x20) | 0x00ab_0000_0000_0000, 0, 0];
    let (chain, stop) = walk(Regs::Aarch64(Aarch64(regs)), &words);
    assert_eq!((chain, stop), (vec![CODE + 4, CODE + 0x20], Stop::ReachedRoot));
}

#[test]
fn a_pc_outside_of_all_code_is_reported() {
    let mut regs = [0; 17];
    (regs[7], regs[16]) = (SP, 0x42);
    assert_eq!(walk(Regs::X86_64(X86_64(regs)), &[0; 4]).1, Stop::NoModule { avma: Avma(0x42) });
}
