//! Control flow of aarch64 functions.

use super::FunctionFlow;
use crate::Svma;
use crate::code::disasm::aarch64_branch;

/// Bytes of an instruction.
const STEP: u64 = 4;

/// Flow of the code at `start`.
pub(super) fn flow_of(code: &[u8], start: u64) -> FunctionFlow {
    let inside = start..start.saturating_add(code.len() as u64);
    // Padding up to the next function may be counted in.
    let filling = code.iter().rev().take_while(|byte| **byte == 0).count() / STEP as usize * STEP as usize;
    let code = &code[..code.len() - filling];
    let mut flow =
        FunctionFlow { damaged: !code.len().is_multiple_of(STEP as usize), ..FunctionFlow::default() };
    let (mut tables, mut check) = (Tables::default(), Check::default());
    let mut words =
        code.chunks_exact(STEP as usize).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    flow.entry = words.clone().next().filter(|word| is_probeable(*word)).map(|_| Svma(start));
    for at in (start..).step_by(STEP as usize) {
        let Some(word) = words.next() else { break };
        // The smallest values are deliberately not instructions.
        if word <= 0xffff || disarm64::decoder_full::decode(word).is_none() {
            flow.damaged = true;
            break;
        }
        let by_table = tables.take(word);
        check.take(word, Svma(at));
        flow.take_aarch64(word, Svma(at), &inside, by_table);
        flow.loops |=
            aarch64_branch(word, Svma(at)).is_some_and(|branch| !branch.is_call && branch.target.0 == start);
    }
    flow.behind_check = check.behind;
    flow
}

impl FunctionFlow {
    /// Takes one instruction and its address; a computed jump is a switch's if `by_table`.
    ///
    /// Source: Arm ARM C4.1.66 (branches), C6.2 BR, RET, RETAA, BRAA.
    fn take_aarch64(&mut self, word: u32, at: Svma, inside: &std::ops::Range<u64>, by_table: bool) {
        if let Some(branch) = aarch64_branch(word, at) {
            let is_out = !inside.contains(&branch.target.0);
            if is_out || branch.is_call {
                self.callees.push(branch.target);
            }
            match word & 0xfc00_0000 {
                0x1400_0000 if is_out => self.jumps.push((at, branch.target)),
                0x9400_0000 => {}
                _ => self.jumps_out |= is_out,
            }
        } else if word & 0xffff_fc1f == 0xd65f_0000 {
            self.returns.push(at);
        } else if word & 0xffff_fc1f == 0xd61f_0000 {
            self.computed.extend((!by_table).then_some(at));
        } else if matches!(word, 0xd65f_0bff | 0xd65f_0fff) || word & 0xfeff_f800 == 0xd61f_0800 {
            // Those that check a signature are not probed by the kernel.
            self.jumps_out = true;
        }
    }
}

/// Distinguishes a switch's jumps from tail calls through pointers.
#[derive(Default)]
struct Tables {
    /// Instructions since a distance was read from a table.
    since: Option<u32>,
}

impl Tables {
    /// A compiler puts no more between reading the table and jumping.
    const MOST: u32 = 12;

    /// Whether the instruction may be a switch's jump: a byte, half word or word was loaded by an index before.
    fn take(&mut self, word: u32) -> bool {
        let by_index = word & 0x3b20_0c00 == 0x3820_0800;
        let (size, is_load) = (word >> 30, word >> 22 & 3 != 0);
        let reads_distance = by_index && is_load && size < 3;
        self.since = if reads_distance { Some(0) } else { self.since.map(|since| since + 1) };
        self.since.is_some_and(|since| since <= Self::MOST)
    }
}

/// Looks for the check that a function begins with.
#[derive(Default)]
struct Check {
    target: Option<Svma>,
    behind: Option<Svma>,
    /// The next instruction is the one after it.
    follows: bool,
    over: bool,
}

impl Check {
    fn take(&mut self, word: u32, at: Svma) {
        if self.over {
            return;
        }
        if std::mem::take(&mut self.follows) {
            self.behind = is_probeable(word).then_some(at);
        }
        match aarch64_branch(word, at) {
            Some(branch)
                if is_conditional(word) && self.target.is_none_or(|known| known == branch.target) =>
            {
                self.target = Some(branch.target);
                self.follows = true;
            }
            None if !moves_stack(word) => {}
            _ => self.over = true,
        }
    }
}

/// b.cond, cbz, cbnz, tbz, tbnz.
fn is_conditional(word: u32) -> bool {
    word & 0xff00_0000 == 0x5400_0000 || word & 0x7c00_0000 == 0x3400_0000
}

/// Whether it writes the stack pointer: an addition of a number, or an access that moves its base.
///
/// Source: Arm ARM C4.1.65 (add/subtract immediate), C4.1.94 (pairs and registers, pre- and post-indexed).
fn moves_stack(word: u32) -> bool {
    const SP: u32 = 31;
    let adds = word & 0x3f80_0000 == 0x1100_0000 && word & 31 == SP;
    let is_pair = word & 0x3a80_0000 == 0x2880_0000;
    let is_single = word & 0x3b20_0400 == 0x3800_0400;
    adds || (is_pair || is_single) && word >> 5 & 31 == SP
}

/// Whether uprobes take the instruction; of those that don't matter at a function's entry some are left out.
///
/// Source: linux v6.1 arch/arm64/kernel/probes/decode-insn.c, aarch64_insn_is_steppable, aarch64_insn_is_steppable_hint.
fn is_probeable(word: u32) -> bool {
    let is_exclusive = word & 0x3f80_0000 == 0x0800_0000;
    let is_exception = word & 0xff00_0000 == 0xd400_0000;
    let is_register_write = word & 0xfff0_0000 == 0xd510_0000 || word & 0xfff8_f01f == 0xd500_401f;
    let is_prefetch_at = word & 0xff00_0000 == 0xd800_0000;
    let is_hint = word & 0xffff_f01f == 0xd503_201f;
    // nop, xpaclri, pacia1716, pacib1716, paciaz to pacibsp, bti.
    let is_good_hint = matches!(word >> 5 & 0x7f, 0 | 7 | 8 | 10 | 24..=27 | 32 | 34 | 36 | 38);
    !is_exclusive && !is_exception && !is_register_write && !is_prefetch_at && (!is_hint || is_good_hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(words: &[u32]) -> FunctionFlow {
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        flow_of(&code, 0x1000)
    }

    #[test]
    fn returns_and_jumps_out_are_leaves_and_jumps_within_are_not() {
        // paciasp; bl 2000; b.eq 1010; ret; b 1014; b 3000; b 1000
        let words =
            [0xd503_233f, 0x9400_03ff, 0x5400_0040, 0xd65f_03c0, 0x1400_0001, 0x1400_07fb, 0x17ff_fffa];
        let flow = flow(&words);
        assert_eq!((flow.entry, flow.loops), (Some(Svma(0x1000)), true));
        assert_eq!(flow.returns, [Svma(0x100c)]);
        assert_eq!(flow.jumps, [(Svma(0x1014), Svma(0x3000))]);
        assert_eq!(flow.callees, [Svma(0x2000), Svma(0x3000)]);
        assert!(!flow.jumps_out && !flow.damaged);
    }

    #[test]
    fn conditional_and_computed_jumps_out_are_found() {
        // cbz x0, 2000; b.ne 2000
        assert!(flow(&[0xb400_8000]).jumps_out && flow(&[0x5400_8001]).jumps_out);
        // ldr x16, [x0, #8]; br x16: by a pointer.
        assert_eq!(flow(&[0xf940_0410, 0xd61f_0200]).computed, [Svma(0x1004)]);
        // ldr x16, [x1, x0, lsl #3]; br x16: by a table of pointers.
        assert_eq!(flow(&[0xf860_7830, 0xd61f_0200]).computed, [Svma(0x1004)]);
        // ldrb w0, [x1, w0, uxtw]; adr x1, 1010; add x0, x1, w0, sxtb #2; br x0: a switch's.
        let switch = [0x3860_4820, 0x1000_0061, 0x8b20_8820, 0xd61f_0000];
        assert!(flow(&switch).computed.is_empty());
        // retaa; braa x1, sp
        assert!(flow(&[0xd65f_0bff]).jumps_out && flow(&[0xd71f_083f]).jumps_out);
        // ret; and zeros up to the next function.
        assert!(!flow(&[0xd65f_03c0, 0, 0]).damaged);
        // Data, and a function cut in the middle of an instruction.
        assert!(flow(&[0x0000_0010]).damaged && flow_of(&[0xc0, 0x03], 0x1000).damaged);
    }

    #[test]
    fn a_go_function_continues_after_its_stack_check() {
        // ldr x16, [x28, #16]; cmp sp, x16; b.ls 1014; str x30, [sp, #-32]!; ret; 1014: b 1000
        let words = [0xf940_0b90, 0xeb30_63ff, 0x5400_0069, 0xf81e_0ffe, 0xd65f_03c0, 0x17ff_fffb];
        let found = flow(&words);
        assert_eq!((found.behind_check, found.loops), (Some(Svma(0x100c)), true));
        // stp x29, x30, [sp, #-16]!; cbz x0, 100c; ret: by then the stack pointer is another.
        assert_eq!(flow(&[0xa9bf_7bfd, 0xb400_0040, 0xd65f_03c0, 0xd65f_03c0]).behind_check, None);
        // sub sp, sp, #32; b.eq 100c
        assert_eq!(flow(&[0xd100_83ff, 0x5400_0040, 0xd65f_03c0, 0xd65f_03c0]).behind_check, None);
    }

    #[test]
    fn what_the_kernel_can_not_probe_is_no_entry() {
        // ldxr w0, [x1]; svc #0; msr tpidr_el0, x0; autiasp; wfi
        for word in [0x885f_7c20, 0xd400_0001, 0xd51b_d040, 0xd503_23bf, 0xd503_207f] {
            assert_eq!(flow(&[word]).entry, None, "{word:#x}");
        }
        // bti c; stp x29, x30, [sp, #-16]!; adrp x0, …; mrs x0, tpidr_el0
        for word in [0xd503_245f, 0xa9bf_7bfd, 0xb000_0000, 0xd53b_d040] {
            assert_eq!(flow(&[word]).entry, Some(Svma(0x1000)), "{word:#x}");
        }
    }
}
