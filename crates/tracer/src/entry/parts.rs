//! The pieces that the hooks of `entry_x86_64` are put together from: assembly as text, one macro a piece.
//!
//! `r11` is always this thread's offset from `fs`; see there for the fields' offsets.

/// The time in rdx of an event at rax becomes the last one. If that of the event before is known, it is put into
/// r9, else 0; a handler's event, written since the time was read, moves ours on to its own.
macro_rules! latest {
    () => {
        concat!(
            // The time first: a handler that changes it later changes also where it ends.
            "mov r9, fs:[r11 + 40]\n",
            "cmp rax, fs:[r11 + 48]\n",
            "je 9f\n",
            "xor r9d, r9d\n",
            "9:\n",
            "cmp r9, rdx\n",
            "cmova rdx, r9\n",
            "mov fs:[r11 + 40], rdx\n",
        )
    };
}

/// A tail call: the innermost call ends and another begins in its place, at r10. In: rcx an address in the
/// function. Jumps to `$slow` with all but rax, rdx and r11 unchanged. Changes rax, rcx, rdx, r9, r11.
macro_rules! tail_call {
    ($slow:literal) => {
        concat!(
            // Calls that may be dropped for their short time are the slow half's.
            "cmp qword ptr fs:[r11 + 56], 0\n",
            "jne ",
            $slow,
            "\n",
            "lea rdx, [rip + tally_return]\n",
            "cmp [r10], rdx\n",
            "je 7f\n",
            "lea rdx, [rip + tally_sled_return]\n",
            "cmp [r10], rdx\n",
            "jne ",
            $slow,
            "\n",
            "7:\n",
            read_time!($slow),
            "mov eax, 16\n",
            "xadd fs:[r11], rax\n",
            latest!(),
            "shl rcx, 32\n",
            "mov r9d, edx\n",
            "or rcx, r9\n",
            "bts rcx, 62\n",
            "bts rcx, 63\n",
            "mov [rax + 8], rcx\n",
            "bts r9, 62\n",
            "mov [rax], r9\n",
            "mov r9, fs:[r11 + 16]\n",
            "add rax, 8\n",
            "mov [r9 - 16], rax\n",
            "mov [r9 - 8], rdx\n",
            "add rax, 8\n",
            "mov fs:[r11 + 48], rax\n",
        )
    };
}

/// For an entry of the address in rcx: jumps to `$slow` if the chunk is full or a high part changed, else reads
/// the time into rdx. Changes rax.
macro_rules! read_time {
    ($slow:literal) => {
        concat!(
            "mov rax, fs:[r11]\n",
            "cmp rax, fs:[r11 + 8]\n",
            "jae ",
            $slow,
            "\n",
            "mov rax, rcx\n",
            "shr rax, 30\n",
            "cmp eax, fs:[r11 + 36]\n",
            "jne ",
            $slow,
            "\n",
            "rdtsc\n",
            "cmp edx, fs:[r11 + 32]\n",
            "jne ",
            $slow,
            "\n",
            "shl rdx, 32\n",
            "or rdx, rax\n",
        )
    };
}

/// Writes an entry and opens its call, or jumps to `$slow` (or to `$tail`, if r10 is the innermost call's slot) with
/// all but rax, rdx and r11 unchanged. In: rcx an address in the function, r10 the stack position. `$slot` may
/// mark it; `$back` puts the frame's `back` into rax. Changes rax, rcx, rdx, r9, r11.
macro_rules! open_call {
    ($slow:literal, $tail:literal, $slot:literal, $back:literal) => {
        concat!(
            "mov r11, [rip + tally_thread@GOTTPOFF]\n",
            "mov rax, fs:[r11 + 16]\n",
            "cmp rax, fs:[r11 + 24]\n",
            "jae ",
            $slow,
            "\n",
            "cmp [rax - 24], r10\n",
            "jb ",
            $slow,
            "\n",
            "je ",
            $tail,
            "\n",
            read_time!($slow),
            "mov eax, 8\n",
            "xadd fs:[r11], rax\n",
            latest!(),
            "shl rcx, 32\n",
            "mov edx, edx\n",
            "or rcx, rdx\n",
            "bts rcx, 62\n",
            "bts rcx, 63\n",
            "mov [rax], rcx\n",
            "lea rdx, [rax + 8]\n",
            "mov fs:[r11 + 48], rdx\n",
            $slot,
            "mov rdx, fs:[r11 + 16]\n",
            "mov [rdx + 8], r10\n",
            "mov [rdx + 16], rax\n",
            "mov [rdx + 24], r9\n",
            $back,
            "mov [rdx], rax\n",
            "add qword ptr fs:[r11 + 16], 32\n",
            "cmp [rdx + 8], r10\n",
            "je 8f\n",
            // A handler used the place before it was taken; it also wrote after the entry.
            "mov [rdx + 8], r10\n",
            "mov qword ptr [rdx + 16], 0\n",
            "mov [rdx], rax\n",
            "8:\n",
        )
    };
}

/// Closes the innermost call, whose frame ends at r10, and puts its `back` into rcx; r11 is the thread's offset. Jumps to `$slow` with all but
/// rax, rcx, rdx, rsi, rdi unchanged.
macro_rules! close_call {
    ($($slow:literal),+) => {
        concat!(
            "2:\n",
            "rdtsc\n",
            "cmp edx, fs:[r11 + 32]\n",
            "jne ", $($slow,)+ "\n",
            "shl rdx, 32\n",
            "or rax, rdx\n",
            // Is its entry the last event, and written with the time before it known?
            "mov rcx, fs:[r11]\n",
            "lea rdi, [rcx - 8]\n",
            "cmp rdi, [r10 - 16]\n",
            "jne 5f\n",
            "cmp rcx, fs:[r11 + 48]\n",
            "jne 5f\n",
            "mov rsi, fs:[r11 + 40]\n",
            "mov rdx, rax\n",
            "sub rdx, rsi\n",
            "cmp rdx, fs:[r11 + 56]\n",
            "jb 3f\n",
            "sub rsi, [r10 - 8]\n",
            "mov rdi, rdx\n",
            "or rdi, rsi\n",
            "shr rdi, 16\n",
            "jnz 5f\n",
            // Then it becomes a leaf: kind 0, the address, ticks since the event before, ticks it took.
            "shl esi, 16\n",
            "or esi, edx\n",
            "mov rdi, [rcx - 8]\n",
            "mov edx, edi\n",
            "xor rdx, rdi\n",
            "btr rdx, 62\n",
            "btr rdx, 63\n",
            "or rdx, rsi\n",
            "jz 5f\n",
            "mov qword ptr fs:[r11 + 48], 0\n",
            "mov [rcx - 8], rdx\n",
            // If a handler wrote since, the last time is the handler's: it must stay, and ours has to be later.
            "cmp fs:[r11], rcx\n",
            "jne 6f\n",
            "mov fs:[r11 + 40], rax\n",
            "mov fs:[r11 + 48], rcx\n",
            "jmp 4f\n",
            // Too short to keep: the entry is taken back, unless a handler wrote after it meanwhile.
            "3:\n",
            "mov rdi, [rcx - 8]\n",
            "mov qword ptr fs:[r11 + 48], 0\n",
            "mov qword ptr [rcx - 8], 0\n",
            "mov rsi, rax\n",
            "mov rax, rcx\n",
            "lea rdx, [rcx - 8]\n",
            "cmpxchg fs:[r11], rdx\n",
            "mov rax, rsi\n",
            "jne 6f\n",
            "mov rdi, [r10 - 8]\n",
            "mov fs:[r11 + 40], rdi\n",
            "test rdi, rdi\n",
            "cmovz rdx, rdi\n",
            "mov fs:[r11 + 48], rdx\n",
            "jmp 4f\n",
            "6:\n",
            "mov [rcx - 8], rdi\n",
            "jmp 2b\n",
            "5:\n",
            "mov rcx, fs:[r11]\n",
            "cmp rcx, fs:[r11 + 8]\n",
            "jae ", $($slow,)+ "\n",
            "mov edx, 8\n",
            "xadd fs:[r11], rdx\n",
            "mov rdi, fs:[r11 + 40]\n",
            "cmp rdx, fs:[r11 + 48]\n",
            "cmovne rdi, rax\n",
            "cmp rdi, rax\n",
            "cmova rax, rdi\n",
            "mov edi, eax\n",
            "bts rdi, 62\n",
            "mov [rdx], rdi\n",
            "mov fs:[r11 + 40], rax\n",
            "add rdx, 8\n",
            "mov fs:[r11 + 48], rdx\n",
            "4:\n",
            // Read while the frame is still ours: a handler may use its place as soon as it is free.
            "mov rcx, [r10 - 32]\n",
            "sub qword ptr fs:[r11 + 16], 32\n",
        )
    };
}

/// Where a traced function returns to; `$go` goes on to the address in rcx.
macro_rules! return_hook {
    ($name:literal, $go:literal) => {
        concat!(
            ".globl ",
            $name,
            "\n.hidden ",
            $name,
            "\n.type ",
            $name,
            ", @function\n",
            $name,
            ":\n",
            "mov r8, rax\n",
            "mov r9, rdx\n",
            "mov r11, [rip + tally_thread@GOTTPOFF]\n",
            "lea rcx, [rsp - 8]\n",
            "mov r10, fs:[r11 + 16]\n",
            "cmp [r10 - 24], rcx\n",
            "jne ",
            $name,
            "_slow\n",
            close_call!($name, "_slow"),
            "mov rax, r8\n",
            "mov rdx, r9\n",
            $go,
            $name,
            "_slow:\n",
            "sub rsp, 8\n",
            "push r8\n",
            "push r9\n",
            "push rbx\n",
            "mov rbx, rsp\n",
            "lea rsi, [rsp + 24]\n",
            "sub rsp, 64\n",
            "and rsp, -16\n",
            "movups [rsp], xmm0\n",
            "movups [rsp + 16], xmm1\n",
            "mov [rsp + 32], r8\n",
            "mov [rsp + 40], r9\n",
            "mov rdx, rsp\n",
            "mov rdi, [rip + tally_thread@GOTTPOFF]\n",
            "add rdi, fs:[0]\n",
            "call tally_slow_exit\n",
            "movups xmm0, [rsp]\n",
            "movups xmm1, [rsp + 16]\n",
            "mov rsp, rbx\n",
            "mov [rsp + 24], rax\n",
            "pop rbx\n",
            "pop rdx\n",
            "pop rax\n",
            "ret\n",
        )
    };
}

/// The slow half of an entry: rcx the address, r10 the slot, `$sled` whether the function is to be called.
/// Out: ZF clear when it is to be called. Changes rax, rcx, rdx.
macro_rules! slow_entry {
    ($sled:literal) => {
        concat!(
            "push rdi\n",
            "push rsi\n",
            "push r8\n",
            "push r9\n",
            "push r10\n",
            "push r11\n",
            "push rbx\n",
            "mov rbx, rsp\n",
            "mov rdi, rcx\n",
            "mov rsi, r10\n",
            "mov edx, ",
            $sled,
            "\n",
            "sub rsp, 144\n",
            "and rsp, -16\n",
            "movups [rsp], xmm0\n",
            "movups [rsp + 16], xmm1\n",
            "movups [rsp + 32], xmm2\n",
            "movups [rsp + 48], xmm3\n",
            "movups [rsp + 64], xmm4\n",
            "movups [rsp + 80], xmm5\n",
            "movups [rsp + 96], xmm6\n",
            "movups [rsp + 112], xmm7\n",
            "call tally_slow_enter\n",
            "movups xmm0, [rsp]\n",
            "movups xmm1, [rsp + 16]\n",
            "movups xmm2, [rsp + 32]\n",
            "movups xmm3, [rsp + 48]\n",
            "movups xmm4, [rsp + 64]\n",
            "movups xmm5, [rsp + 80]\n",
            "movups xmm6, [rsp + 96]\n",
            "movups xmm7, [rsp + 112]\n",
            "mov rsp, rbx\n",
            "test eax, eax\n",
            "pop rbx\n",
            "pop r11\n",
            "pop r10\n",
            "pop r9\n",
            "pop r8\n",
            "pop rsi\n",
            "pop rdi\n",
        )
    };
}

/// All registers that may hold arguments become a `values::Registers` at rsp; rbx is then what rsp was, and the
/// stub's site was in r11. `$slot` puts the return address's place into rax.
macro_rules! save_registers {
    ($slot:literal) => {
        concat!(
            "push rbx\n",
            "mov rbx, rsp\n",
            "sub rsp, 208\n",
            "and rsp, -16\n",
            "mov [rsp], rdi\n",
            "mov [rsp + 8], rsi\n",
            "mov [rsp + 16], rdx\n",
            "mov [rsp + 24], rcx\n",
            "mov [rsp + 32], r8\n",
            "mov [rsp + 40], r9\n",
            "mov [rsp + 56], r11\n",
            "mov [rsp + 64], rax\n",
            "mov [rsp + 72], r10\n",
            $slot,
            "mov [rsp + 48], rax\n",
            "movups [rsp + 80], xmm0\n",
            "movups [rsp + 96], xmm1\n",
            "movups [rsp + 112], xmm2\n",
            "movups [rsp + 128], xmm3\n",
            "movups [rsp + 144], xmm4\n",
            "movups [rsp + 160], xmm5\n",
            "movups [rsp + 176], xmm6\n",
            "movups [rsp + 192], xmm7\n",
            "mov rdi, rsp\n",
        )
    };
}

/// Takes them back, and leaves the flags as they are; r11 is the site's target.
macro_rules! restore_registers {
    () => {
        concat!(
            "mov rdi, [rsp]\n",
            "mov rsi, [rsp + 8]\n",
            "mov rdx, [rsp + 16]\n",
            "mov rcx, [rsp + 24]\n",
            "mov r8, [rsp + 32]\n",
            "mov r9, [rsp + 40]\n",
            "mov r11, [rsp + 56]\n",
            "mov rax, [rsp + 64]\n",
            "mov r10, [rsp + 72]\n",
            "movups xmm0, [rsp + 80]\n",
            "movups xmm1, [rsp + 96]\n",
            "movups xmm2, [rsp + 112]\n",
            "movups xmm3, [rsp + 128]\n",
            "movups xmm4, [rsp + 144]\n",
            "movups xmm5, [rsp + 160]\n",
            "movups xmm6, [rsp + 176]\n",
            "movups xmm7, [rsp + 192]\n",
            "mov r11, [r11]\n",
            "mov rsp, rbx\n",
            "pop rbx\n",
        )
    };
}

/// Puts the registers aside that an entry's fast half uses, all but r11.
macro_rules! save_used {
    () => {
        "push rax\npush rcx\npush rdx\npush r10\npush r9\n"
    };
}

/// Takes them back, and r11, which was put aside last.
macro_rules! restore_used {
    () => {
        "pop r11\npop r9\npop r10\npop rdx\npop rcx\npop rax\n"
    };
}
