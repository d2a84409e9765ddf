//! How a function is left and whom it calls, read off its code (x86-64 and aarch64).

mod aarch64;
mod probes;
mod x86_64;

pub use probes::{Exits, Leave, ProbedFunction, ProbedObject};
pub use x86_64::straight_bytes;

use crate::{Machine, ObjectFile, Svma};

/// Ends and calls of a function, from its code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlow {
    /// First instruction that the kernel can probe with the stack pointer as at entry, or a cheaper one soon after it;
    /// `None` if there is none.
    pub entry: Option<Svma>,
    /// It jumps back to `entry`, or before it: seeing it does not mean a new call.
    pub loops: bool,
    /// The instruction after the check at its start, if there is one and it can be probed: conditional jumps to
    /// one place before anything is put on the stack. Go's functions come back to `entry` when their stack has
    /// grown.
    pub behind_check: Option<Svma>,
    /// Return instructions, ascending.
    pub returns: Vec<Svma>,
    /// The unconditional direct jumps out of it and where they go, ascending: calls in the place of a return, or the
    /// way to a part of the function that the compiler put elsewhere.
    pub jumps: Vec<(Svma, Svma)>,
    /// The conditional direct jumps out of it: where, to where, and x86's number of the condition (the low four
    /// bits of the opcode), ascending. None on aarch64, where compilers use such jumps only within a function.
    pub conditional: Vec<(Svma, Svma, u8)>,
    /// Computed jumps that do not look like a switch's: calls in the place of a return if the stack pointer is there
    /// as at entry.
    pub computed: Vec<Svma>,
    /// It may also be left by a jump that can't be probed.
    pub jumps_out: bool,
    /// Targets of its direct calls and jumps out, in order.
    pub callees: Vec<Svma>,
    /// Some bytes are not an instruction: the bytes after them can't be trusted.
    pub damaged: bool,
}

/// Reads the code in `[start, end)`; `None` for another machine and where there is no code.
#[must_use]
pub fn function_flow(object: &ObjectFile, start: Svma, end: Svma) -> Option<FunctionFlow> {
    let flow_of = match object.machine() {
        Machine::X86_64 => x86_64::flow_of,
        Machine::Aarch64 => aarch64::flow_of,
        _ => return None,
    };
    if !object.is_code(start) {
        return None;
    }
    let len = usize::try_from(end.0.checked_sub(start.0)?).ok()?;
    let code = object.bytes_at(start, len)?;
    Some(flow_of(code, start.0))
}
