//! Unwind rules read from the code of prologues and epilogues.

use super::*;

/// The base of the CFA, its offset, and the saved registers.
type Found = (u8, i32, Vec<(usize, i16)>);

fn found(code: &[u8], at: u64) -> Vec<Found> {
    let rules = rules_of(|svma| code.get(svma as usize..).unwrap_or_default(), at, Convention::C);
    rules.iter().map(|rule| (rule.cfa_register, rule.cfa_offset, rule.saved().collect())).collect()
}

#[test]
fn the_rest_of_a_function_gives_its_frame() {
    let code = [
        0x53, // 0: push %rbx
        0x55, // 1: push %rbp
        0x48, 0x83, 0xec, 0x10, // 2: sub $16,%rsp
        0x89, 0xfd, // 6: mov %edi,%ebp
        0xe8, 0, 0, 0, 0,    // 8: call
        0x59, // 13: pop %rcx
        0x48, 0x83, 0xc4, 0x08, // 14: add $8,%rsp
        0x5d, // 18: pop %rbp
        0x5b, // 19: pop %rbx
        0xc3, // 20: ret
    ];
    assert_eq!(found(&code, 0), [(7, 8, vec![(0, -1)])]);
    assert_eq!(found(&code, 2), [(7, 24, vec![(0, -1), (1, -3), (2, -2)])]);
    assert_eq!(found(&code, 13), [(7, 40, vec![(0, -1), (1, -3), (2, -2)])]);
    assert_eq!(found(&code, 20), [(7, 8, vec![(0, -1)])]);
}

#[test]
fn a_frame_pointer_finds_a_frame_of_unknown_size() {
    // push %rbp; mov %rsp,%rbp; and $-16,%rsp; mov -8(%rbp),%rbx; leave; ret
    let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xf0, 0x48, 0x8b, 0x5d, 0xf8, 0xc9, 0xc3];
    let whole = vec![(0, -1), (1, -2), (2, -3)];
    assert_eq!(found(&code, 4), [(6, 16, whole.clone())]);
    assert_eq!(found(&code, 8), [(6, 16, whole)]);
}

#[test]
fn any_saved_register_may_keep_the_stack_pointer() {
    let code = [
        0x48, 0x83, 0xec, 0x10, // 0: sub $16,%rsp
        0x48, 0x89, 0x1c, 0x24, // 4: mov %rbx,(%rsp)
        0x48, 0x89, 0xe3, // 8: mov %rsp,%rbx
        0x48, 0x83, 0xe4, 0xc0, // 11: and $-64,%rsp
        0x90, // 15: nop
        0x48, 0x89, 0xdc, // 16: mov %rbx,%rsp
        0x48, 0x8b, 0x1c, 0x24, // 19: mov (%rsp),%rbx
        0x48, 0x83, 0xc4, 0x10, // 23: add $16,%rsp
        0xc3, // 27: ret
    ];
    assert_eq!(found(&code, 15), [(3, 24, vec![(0, -1), (2, -3)])]);
    assert_eq!(found(&code, 8), [(7, 24, vec![(0, -1), (2, -3)])]);
}

#[test]
fn the_way_past_a_call_that_never_returns_comes_after_the_others() {
    let code = [
        0x53, // 0: push %rbx
        0x85, 0xff, // 1: test %edi,%edi
        0x74, 0x06, // 3: je 11
        0x85, 0xf6, // 5: test %esi,%esi
        0x74, 0x04, // 7: je 13
        0x5b, // 9: pop %rbx
        0xc3, // 10: ret
        0x5b, // 11: pop %rbx
        0xc3, // 12: ret
        0xe8, 0, 0, 0, 0,    // 13: call abort
        0xc3, // 18: ret, of the next function
    ];
    assert_eq!(found(&code, 1), [(7, 16, vec![(0, -1), (2, -2)]), (7, 8, vec![(0, -1)])]);
}

#[test]
fn made_code_need_not_give_back_more_than_the_frame_pointer() {
    // mov %rsi,%rbx; add $0x10,%rsp; pop %rbp; ret: HotSpot's
    let code = [0x48, 0x89, 0xf3, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3];
    assert_eq!(found(&code, 0), []);
    let of_made = |code: &'static [u8]| {
        rules_of(move |at| code.get(at as usize..).unwrap_or_default(), 0, Convention::FramePointer)
    };
    let rules = of_made(&[0x48, 0x89, 0xf3, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3]);
    let rules: Vec<_> = rules.iter().map(|rule| (rule.cfa_register, rule.cfa_offset)).collect();
    assert_eq!(rules, [(7, 0x20)]);
    // mov %rsi,%rbp; ret
    assert_eq!(of_made(&[0x48, 0x89, 0xf5, 0xc3]), []);
}

#[test]
fn a_lea_that_changes_nothing_is_a_nop() {
    // lea 0(%rbp),%rbp; add $0x38,%rsp; ret
    let code = [0x48, 0x8d, 0x6d, 0, 0x48, 0x83, 0xc4, 0x38, 0xc3];
    assert_eq!(found(&code, 0), [(7, 0x40, vec![(0, -1)])]);
    // lea 8(%rbp),%rbp
    assert_eq!(found(&[0x48, 0x8d, 0x6d, 8, 0x48, 0x83, 0xc4, 0x38, 0xc3], 0), []);
}

#[test]
fn code_that_never_ends_has_no_rule() {
    assert_eq!(found(&[0xeb, 0xfe], 0), []);
    assert_eq!(found(&[0xf4, 0xc3], 0), []);
    // xor %ebx,%ebx; ret: not code that keeps its caller's registers
    assert_eq!(found(&[0x31, 0xdb, 0xc3], 0), []);
}
