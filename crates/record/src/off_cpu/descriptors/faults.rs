//! The file that a thread waits for in a page fault.
//!
//! The kernel doesn't record the address, but the registers and the instruction do: it is that of the instruction's
//! memory operand, or of the instruction itself. Where both are in files, the operand's counts if it is in another one.

use crate::machine::proc;

/// Path of the mapped file; `None` for memory without a file, or if it can't be known.
pub(super) fn faulted_file(pid: u32, regs: &[u8]) -> Option<String> {
    let (code, operands) = addresses(pid, regs)?;
    let maps = proc::maps(pid)?;
    let file = |address: u64| {
        let line = maps.iter().find(|line| (line.start..line.end).contains(&address))?;
        let path = String::from_utf8_lossy(&line.name).into_owned();
        path.starts_with('/').then_some(path)
    };
    let of_operand = operands.into_iter().find_map(file);
    of_operand.or_else(|| file(code))
}

/// Addresses of the instruction and of its operands in memory.
#[cfg(target_arch = "x86_64")]
fn addresses(pid: u32, regs: &[u8]) -> Option<(u64, Vec<u64>)> {
    use iced_x86::{Decoder, DecoderOptions, OpKind};
    use std::os::unix::fs::FileExt as _;

    const LONGEST: usize = 15;
    let pc = register_at(regs, 16);
    let mut code = [0; LONGEST];
    let memory = dso::system_file::open(format!("/proc/{pid}/mem")).ok()?;
    let read = memory.read_at(&mut code, pc).unwrap_or(0);
    let instruction = Decoder::with_ip(64, &code[..read], pc, DecoderOptions::NONE).decode();
    let value = |register, _, _| value_of(register, regs);
    // Other operands have 0.
    let is_memory = |operand: &u32| {
        let kind = instruction.op_kind(*operand);
        kind == OpKind::Memory || (OpKind::MemorySegSI..=OpKind::MemoryESRDI).contains(&kind)
    };
    let operands = (0..instruction.op_count()).filter(is_memory);
    Some((pc, operands.filter_map(|operand| instruction.virtual_address(operand, 0, value)).collect()))
}

/// Value of a register; `None` for those that are not kept, and for the bases of thread-local memory.
#[cfg(target_arch = "x86_64")]
fn value_of(register: iced_x86::Register, regs: &[u8]) -> Option<u64> {
    use iced_x86::Register;

    // Layout: struct pt_regs { r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss }
    const PLACES: [(Register, usize); 16] = [
        (Register::R15, 0),
        (Register::R14, 1),
        (Register::R13, 2),
        (Register::R12, 3),
        (Register::RBP, 4),
        (Register::RBX, 5),
        (Register::R11, 6),
        (Register::R10, 7),
        (Register::R9, 8),
        (Register::R8, 9),
        (Register::RAX, 10),
        (Register::RCX, 11),
        (Register::RDX, 12),
        (Register::RSI, 13),
        (Register::RDI, 14),
        (Register::RSP, 19),
    ];
    if matches!(register, Register::CS | Register::DS | Register::ES | Register::SS) {
        return Some(0);
    }
    let full = register.full_register();
    PLACES.iter().find(|(of, _)| *of == full).map(|&(_, place)| register_at(regs, place))
}

/// A word of `struct pt_regs`; 0 where it isn't kept.
#[cfg(target_arch = "x86_64")]
fn register_at(regs: &[u8], place: usize) -> u64 {
    let bytes = regs.get(place * 8..place * 8 + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

/// Not known for other processors.
#[cfg(not(target_arch = "x86_64"))]
fn addresses(_pid: u32, _regs: &[u8]) -> Option<(u64, Vec<u64>)> {
    None
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "x86_64")]
    use super::*;

    /// Registers with the instruction at `pc` and `rdi`.
    #[cfg(target_arch = "x86_64")]
    fn regs(pc: u64, rdi: u64) -> Vec<u8> {
        let mut regs = vec![0; 168];
        regs[16 * 8..17 * 8].copy_from_slice(&pc.to_ne_bytes());
        regs[14 * 8..15 * 8].copy_from_slice(&rdi.to_ne_bytes());
        regs
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_operand_s_file_counts_before_the_code_s() {
        // mov eax, [rdi + 8]; and ret, which reads the stack.
        let code = [0x8b_u8, 0x47, 0x08, 0xc3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let own = std::process::id();
        let text = faulted_file as *const () as u64;
        let (_, operands) =
            addresses(own, &regs(code.as_ptr() as u64, text)).expect("our memory is readable");
        assert_eq!(operands, [text + 8]);
        let exe = std::env::current_exe().expect("a test has a file");
        let file = faulted_file(own, &regs(code.as_ptr() as u64, text));
        assert_eq!(file.as_deref(), exe.to_str());
        let heap = faulted_file(own, &regs(code.as_ptr() as u64, code.as_ptr() as u64));
        assert_eq!(heap, None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn without_an_operand_in_a_file_it_is_the_code() {
        let text = faulted_file as *const () as u64;
        let exe = std::env::current_exe().expect("a test has a file");
        assert_eq!(faulted_file(std::process::id(), &regs(text, 0)).as_deref(), exe.to_str());
    }
}
