//! Machine code → text, in the form objdump prints.
//!
//! x86 by iced-x86, aarch64 by disarm64; other machines are left to the objdump program
//! ([`objdump`]), if it is installed. Every byte of the code is covered by exactly one item.

mod aarch64;
mod external;
mod objdump_dialect;
#[cfg(test)]
mod oracle_test;
mod x86;

pub(crate) use aarch64::branch as aarch64_branch;
pub use external::objdump;

use crate::{Machine, Svma};

/// Which assembler's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Syntax {
    /// `mov %rsp,%rbp`: objdump's and perf's default on x86.
    #[default]
    Att,
    /// `mov rbp,rsp`: objdump's `-M intel`.
    Intel,
}

/// Where a branch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchTarget {
    /// The target.
    pub target: Svma,
    /// A call: execution comes back.
    pub is_call: bool,
}

/// One instruction, or bytes that are none (`(bad)`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Address.
    pub start: Svma,
    /// Length in bytes.
    pub len: usize,
    /// Mnemonic padded to 6 columns, operands; branch targets and data addresses with their symbol.
    pub text: String,
    /// For a direct jump or call.
    pub branch: Option<BranchTarget>,
}

/// Names an address as `symbol+0x10`.
pub type Namer<'a> = &'a dyn Fn(Svma) -> Option<String>;

/// Whether [`disassemble`] knows the machine.
pub fn is_supported(machine: Machine) -> bool {
    matches!(machine, Machine::X86_64 | Machine::X86 | Machine::Aarch64)
}

/// The instructions of `code`, whose first byte has the address `start`; empty for a machine that isn't supported.
pub fn disassemble(
    machine: Machine,
    code: &[u8],
    start: Svma,
    syntax: Syntax,
    name: Namer<'_>,
) -> Vec<Instruction> {
    match machine {
        Machine::X86_64 => x86::disassemble(64, code, start, syntax, name),
        Machine::X86 => x86::disassemble(32, code, start, syntax, name),
        Machine::Aarch64 => aarch64::disassemble(code, start, name),
        _ => Vec::new(),
    }
}
