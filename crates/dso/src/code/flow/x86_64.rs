//! Control flow of x86-64 functions.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::FunctionFlow;
use crate::Svma;

/// Bytes of the instructions that x86-64 code begins with before one that may go elsewhere, or that is cut short.
#[must_use]
pub fn straight_bytes(code: &[u8]) -> usize {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut bytes = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
        bytes = decoder.position();
    }
    bytes
}

/// Flow of the code at `start`.
pub(super) fn flow_of(code: &[u8], start: u64) -> FunctionFlow {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let inside = start..start.saturating_add(code.len() as u64);
    let mut flow = FunctionFlow::default();
    let mut instruction = Instruction::default();
    let mut entry = Entry::default();
    let mut targets = Vec::new();
    let mut tables = Tables::default();
    let mut check = Check::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.code() == Code::INVALID {
            flow.damaged = true;
            break;
        }
        let at = (instruction.ip() - start) as usize;
        entry.take(&instruction, &code[at..at + instruction.len()]);
        let target = instruction.near_branch_target();
        if instruction.flow_control() != FlowControl::Call {
            targets.push(target);
        }
        let is_out = !inside.contains(&target);
        let probeable = is_probeable(&code[at..at + instruction.len()]);
        let by_table = tables.take(&instruction);
        check.take(&instruction, probeable);
        flow.take(&instruction, BranchTraits { is_out, by_table, probeable });
    }
    flow.entry = entry.found.map(Svma);
    flow.behind_check = check.behind.map(Svma);
    flow.loops = entry.found.is_some_and(|entry| targets.iter().any(|to| (start..=entry).contains(to)));
    flow
}

/// Facts about an instruction that it doesn't show by itself.
#[derive(Clone, Copy)]
struct BranchTraits {
    /// Its target is outside of the function.
    is_out: bool,
    /// A jump of a switch, through a table.
    by_table: bool,
    /// The kernel can put a probe there.
    probeable: bool,
}

impl FunctionFlow {
    /// Takes one instruction.
    fn take(&mut self, instruction: &Instruction, traits: BranchTraits) {
        let BranchTraits { is_out, by_table, probeable } = traits;
        let target = Svma(instruction.near_branch_target());
        let at = Svma(instruction.ip());
        match instruction.flow_control() {
            FlowControl::Return if probeable => self.returns.push(at),
            FlowControl::Return => self.jumps_out = true,
            FlowControl::UnconditionalBranch if is_out => {
                self.callees.push(target);
                if probeable { self.jumps.push((at, target)) } else { self.jumps_out = true }
            }
            FlowControl::ConditionalBranch if is_out => {
                self.callees.push(target);
                // Loops and jumps on a register's being zero have no condition of flags.
                match (instruction.condition_code() as u8).checked_sub(1).filter(|_| probeable) {
                    Some(condition) => self.conditional.push((at, target, condition)),
                    None => self.jumps_out = true,
                }
            }
            FlowControl::Call if instruction.is_call_near() => self.callees.push(target),
            FlowControl::IndirectBranch if by_table => {}
            FlowControl::IndirectBranch if probeable => self.computed.push(at),
            FlowControl::IndirectBranch => self.jumps_out = true,
            _ => {}
        }
    }
}

/// Distinguishes a switch's jumps, which stay in the function, from tail calls through pointers.
#[derive(Default)]
struct Tables {
    /// Instructions since a 32-bit distance was read from a table.
    since: Option<u32>,
}

impl Tables {
    /// A compiler puts no more between reading the table and jumping.
    const MOST: u32 = 12;

    /// Whether the instruction is a switch's jump.
    fn take(&mut self, instruction: &Instruction) -> bool {
        let scaled = instruction.memory_index() != Register::None;
        let reads_distance = instruction.mnemonic() == Mnemonic::Movsxd && scaled;
        self.since = if reads_distance { Some(0) } else { self.since.map(|since| since + 1) };
        if instruction.flow_control() != FlowControl::IndirectBranch {
            return false;
        }
        let through_memory = instruction.op0_kind() == OpKind::Memory;
        // A switch's table of addresses is at a fixed place; a table at a register's address has pointers to
        // functions.
        if through_memory {
            scaled && instruction.memory_base() == Register::None
        } else {
            self.since.take().is_some_and(|since| since <= Self::MOST)
        }
    }
}

/// Looks for the check that a function begins with.
#[derive(Default)]
struct Check {
    target: Option<u64>,
    behind: Option<u64>,
    /// The next instruction is the one after it.
    follows: bool,
    over: bool,
}

impl Check {
    fn take(&mut self, instruction: &Instruction, probeable: bool) {
        if self.over {
            return;
        }
        if std::mem::take(&mut self.follows) {
            self.behind = probeable.then_some(instruction.ip());
        }
        let target = instruction.near_branch_target();
        match instruction.flow_control() {
            FlowControl::ConditionalBranch if self.target.is_none_or(|known| known == target) => {
                self.target = Some(target);
                self.follows = true;
            }
            FlowControl::Next if instruction.stack_pointer_increment() == 0 => {}
            _ => self.over = true,
        }
    }
}

/// Looks for the place of an entry probe: with the stack pointer as at entry, and the cheapest among the first ones.
///
/// The kernel emulates a push: one trap. Other instructions are executed for one step, which takes a second trap:
/// 1.0 and 11.8 µs on a virtual machine with Linux 6.18. Many functions begin with `endbr64`, or move a register first.
#[derive(Default)]
struct Entry {
    found: Option<u64>,
    is_settled: bool,
    /// Instructions seen.
    seen: u32,
}

impl Entry {
    /// A compiler puts no more before the first push.
    const MOST: u32 = 8;

    fn take(&mut self, instruction: &Instruction, bytes: &[u8]) {
        if self.is_settled {
            return;
        }
        self.seen += 1;
        let is_cheap = is_emulated(bytes);
        if is_cheap || self.found.is_none() && is_probeable(bytes) {
            self.found = Some(instruction.ip());
        }
        // The next instruction will do instead only if this one always continues to it and leaves the stack
        // unchanged.
        let goes_on = instruction.flow_control() == FlowControl::Next && !instruction.has_rep_prefix();
        let moves_stack = instruction.stack_pointer_increment() != 0
            || instruction.op0_kind() == OpKind::Register
                && instruction.op0_register().full_register() == Register::RSP;
        self.is_settled = is_cheap || !goes_on || moves_stack || self.seen >= Self::MOST;
    }
}

/// Whether the kernel emulates the instruction at a probe: pushes of registers, and the shortest no-operation.
///
/// Source: `push_setup_xol_ops()` and `branch_setup_xol_ops()` in arch/x86/kernel/uprobes.c.
fn is_emulated(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x57] | [0x41, 0x50..=0x57] | [0x90])
}

/// Whether uprobes take the instruction: they refuse the lock prefix and segments other than FS and GS, I/O, interrupts.
/// And they take VEX and EVEX instructions for those of the old map with the same opcode byte: `vpbroadcastb`
/// (62 .. 7a) is executed as `jp` (7a), seen on Linux 6.18. So none of those is probed.
///
/// Source: `is_prefix_bad()` and `good_insns_64` in arch/x86/kernel/uprobes.c.
fn is_probeable(bytes: &[u8]) -> bool {
    let is_prefix =
        |byte: &&u8| matches!(**byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let prefixes = bytes.iter().take_while(is_prefix);
    let bad_prefix = prefixes.clone().any(|byte| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0xf0));
    let opcode = bytes.get(prefixes.count());
    let bad_opcode = opcode.is_some_and(|byte| matches!(byte, 0x6c..=0x6f | 0xcc..=0xcf | 0xe4..=0xe7 | 0xec..=0xef | 0xf1 | 0xf4 | 0xfa | 0xfb));
    let is_vector = opcode.is_some_and(|byte| matches!(byte, 0x62 | 0xc4 | 0xc5));
    !bad_prefix && !bad_opcode && !is_vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_before_the_first_call_is_accounted_for() {
        // push %rbp; mov %rsp,%rbp; mov %rdi,-0x10(%rbp); call …; and one cut short.
        let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x7d, 0xf0, 0xe8, 1, 0, 0, 0, 0x90];
        assert_eq!(straight_bytes(&code), 8);
        assert_eq!((straight_bytes(&code[..6]), straight_bytes(&[])), (4, 0));
    }

    #[test]
    fn a_go_function_continues_after_its_stack_check() {
        // cmp 0x10(%r14),%rsp; jbe 1008; push %rbp; ret; 1008: nop; jmp 1000
        let code = [0x49, 0x3b, 0x66, 0x10, 0x76, 2, 0x55, 0xc3, 0x90, 0xeb, 0xf5];
        let flow = flow_of(&code, 0x1000);
        assert_eq!((flow.behind_check, flow.loops), (Some(Svma(0x1006)), true));
        // push %rbp; test %al,%al; je: by then the stack pointer is another.
        assert_eq!(flow_of(&[0x55, 0x84, 0xc0, 0x74, 0, 0xc3], 0x1000).behind_check, None);
    }

    #[test]
    fn the_entry_is_at_the_first_push_if_nothing_before_it_moves_the_stack() {
        let entry = |code: &[u8]| flow_of(code, 0x1000).entry.map(|at| at.0 - 0x1000);
        // endbr64; mov %rdi,%rax; push %r15; ret
        assert_eq!(entry(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf8, 0x41, 0x57, 0xc3]), Some(7));
        // endbr64; sub $8,%rsp; push %rbp; ret
        assert_eq!(entry(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 8, 0x55, 0xc3]), Some(0));
        // test %edi,%edi; je 1005; push %rbp; ret
        assert_eq!(entry(&[0x85, 0xff, 0x74, 1, 0x55, 0xc3]), Some(0));
        // xor %eax,%eax; push %rbp; jmp 1000: back to the code before the push.
        assert!(flow_of(&[0x31, 0xc0, 0x55, 0xeb, 0xfb], 0x1000).loops);
    }

    #[test]
    fn returns_and_jumps_out_are_leaves_and_jumps_within_are_not() {
        #[rustfmt::skip]
        let code = [
            0xe8, 0xfb, 0x0f, 0x00, 0x00, // 1000: call 2000
            0x74, 0x01,                   // 1005: je 1008
            0xc3,                         // 1007: ret
            0xeb, 0x00,                   // 1008: jmp 100a
            0xe9, 0xf1, 0x1f, 0x00, 0x00, // 100a: jmp 3000
        ];
        let flow = flow_of(&code, 0x1000);
        assert_eq!(flow.returns, [Svma(0x1007)]);
        assert_eq!(flow.jumps, [(Svma(0x100a), Svma(0x3000))]);
        assert_eq!(flow.callees, [Svma(0x2000), Svma(0x3000)]);
        assert!(!flow.jumps_out && !flow.damaged);
    }

    #[test]
    fn conditional_and_computed_jumps_out_are_found() {
        // jne 2000: condition 5; jrcxz out of the function: none.
        let conditional = flow_of(&[0x0f, 0x85, 0xfa, 0x0f, 0x00, 0x00], 0x1000);
        assert_eq!(conditional.conditional, [(Svma(0x1000), Svma(0x2000), 5)]);
        assert!(!conditional.jumps_out && flow_of(&[0xe3, 0x70], 0x1000).jumps_out);
        // jmp *%rax and jmp *0x90(%rax) may leave; jmp *0x10(,%rax,8) is a switch's.
        assert_eq!(flow_of(&[0xff, 0xe0], 0x1000).computed, [Svma(0x1000)]);
        assert_eq!(flow_of(&[0xff, 0xa0, 0x90, 0, 0, 0], 0x1000).computed, [Svma(0x1000)]);
        assert!(flow_of(&[0xff, 0x24, 0xc5, 0x10, 0, 0, 0], 0x1000).computed.is_empty());
        // jmp *(%rax,%rdx,8)
        assert_eq!(flow_of(&[0xff, 0x24, 0xd0], 0x1000).computed, [Svma(0x1000)]);
        // movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax
        let switch = [0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0];
        assert!(flow_of(&switch, 0x1000).computed.is_empty());
        // lock incl (%rdi); xor %eax,%eax; jmp back to the xor.
        let locked = flow_of(&[0xf0, 0xff, 0x07, 0x31, 0xc0, 0xeb, 0xfc], 0x1000);
        assert_eq!((locked.entry, locked.loops), (Some(Svma(0x1003)), true));
        // call 1000: a call of itself is a new call.
        assert!(!flow_of(&[0x90, 0xe8, 0xfa, 0xff, 0xff, 0xff, 0xc3], 0x1000).loops);
        assert_eq!(flow_of(&[0x31, 0xc0, 0xc3], 0x1000).entry, Some(Svma(0x1000)));
        assert_eq!(flow_of(&[0xf4, 0xc3], 0x1000).entry, Some(Svma(0x1001)));
        // vpbroadcastb %esi,%zmm16; ret
        let vector = flow_of(&[0x62, 0xe2, 0x7d, 0x48, 0x7a, 0xc6, 0xc3], 0x1000);
        assert_eq!(vector.entry, Some(Svma(0x1006)));
        // A function cut in the middle of an instruction.
        assert!(flow_of(&[0xe8, 0x00], 0x1000).damaged);
    }
}
