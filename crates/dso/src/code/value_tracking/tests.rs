use super::*;

/// Reports of a function at 1000 that calls the reporter at 9000.
fn reports(code: &[u8]) -> Vec<EntryReport> {
    reports_of(code, 0x1000, &|call| call.near_branch_target() == 0x9000)
}

/// A call of the reporter, `at` bytes from 1000.
fn call(at: u32) -> [u8; 5] {
    let distance = (0x8000 - at - 5).to_le_bytes();
    [0xe8, distance[0], distance[1], distance[2], distance[3]]
}

fn copy(place: Held, bytes: u8) -> Option<Copy> {
    Some(Copy { place, bytes })
}

#[test]
fn arguments_are_followed_through_pushes_moves_and_the_frame() {
    // As gcc -O2 has it.
    #[rustfmt::skip]
    let mut code = vec![
        0x41, 0x54,                               // push %r12
        0x4c, 0x8d, 0x25, 0xf7, 0xff, 0xff, 0xff, // lea -9(%rip),%r12: 1000
        0x53,                                     // push %rbx
        0x89, 0xfb,                               // mov %edi,%ebx
        0x48, 0x83, 0xec, 0x18,                   // sub $0x18,%rsp
        0xf2, 0x0f, 0x11, 0x04, 0x24,             // movsd %xmm0,(%rsp)
        0x40, 0x88, 0x74, 0x24, 0x0c,             // mov %sil,0xc(%rsp)
        0x48, 0x8b, 0x74, 0x24, 0x28,             // mov 0x28(%rsp),%rsi
        0x4c, 0x89, 0xe7,                         // mov %r12,%rdi
    ];
    code.extend(call(34));
    let found = reports(&code);
    assert_eq!((found.len(), found[0].at, found[0].function), (1, Svma(0x1022), Svma(0x1000)));
    let moved = found[0].moved.clone().unwrap();
    assert_eq!(moved.return_address, (4, 0x28));
    assert_eq!(moved.of(Incoming::General(0)), copy(Held::General(3), 4));
    assert_eq!(moved.of(Incoming::General(1)), copy(Held::Stack(0xc - 0x28), 1));
    assert_eq!(moved.of(Incoming::General(2)), copy(Held::General(2), 8));
    assert_eq!(moved.of(Incoming::Vector(0)), copy(Held::Vector(0), 16));
}

#[test]
fn what_is_overwritten_or_known_on_one_way_only_is_gone() {
    #[rustfmt::skip]
    let mut code = vec![
        0x55,                   // push %rbp
        0x48, 0x89, 0xe5,       // mov %rsp,%rbp
        0x48, 0x89, 0x7d, 0xf8, // mov %rdi,-8(%rbp)
        0x84, 0xc0,             // test %al,%al
        0x74, 0x04,             // je 1010
        0x48, 0x89, 0x55, 0xf0, // mov %rdx,-16(%rbp)
        0x31, 0xd2,             // 1010: xor %edx,%edx
        0xc6, 0x45, 0xfc, 0x00, // movb $0,-4(%rbp)
        0xbf, 0, 0x10, 0, 0,    // mov $0x1000,%edi
    ];
    code.extend(call(27));
    let moved = reports(&code)[0].moved.clone().unwrap();
    assert_eq!(moved.return_address, (4, 8));
    assert_eq!([moved.general[0], moved.general[2]], [None, None]);
    assert_eq!(moved.general[1], copy(Held::General(6), 8));
}

#[test]
fn no_arguments_are_found_after_inlined_functions_and_loops() {
    // mov $0x1000,%edi; call; mov $0x2000,%edi; call; ret
    let mut code = vec![0xbf, 0, 0x10, 0, 0];
    code.extend(call(5));
    code.extend([0xbf, 0, 0x20, 0, 0]);
    code.extend(call(15));
    let found = reports(&code);
    let functions: Vec<Svma> = found.iter().map(|report| report.function).collect();
    assert_eq!(functions, [Svma(0x1000), Svma(0x2000)]);
    assert!(found[0].moved.is_some() && found[1].moved.is_none());
    // dec %ecx; jnz back to it; mov $0x1000,%edi; call
    let mut code = vec![0xff, 0xc9, 0x75, 0xfc, 0xbf, 0, 0x10, 0, 0];
    code.extend(call(9));
    assert_eq!(reports(&code)[0].moved, None);
}
