//! Methods that HotSpot interprets: all run in the interpreter's code, which alone a callchain has. The method of
//! each such frame is on the stack, and the chain gets an address in its place.

use dso::Avma;
use dso::unwind::{FrameSize, MadeFrame, Regs, Stack};

use super::Look;
use super::known_methods::Position;

/// From the end of a frame, which is its caller's stack pointer, down to the word with its `Method`: the return
/// address, the frame pointer, the caller's stack pointers before and now. Known for this machine only.
// Source: HotSpot's frame_x86.hpp, `interpreter_frame_method_offset` = -3 words from the frame pointer, JDK 8 to 25
const METHOD_BELOW_END: Option<u64> = if cfg!(target_arch = "x86_64") { Some(2 * 8 + 3 * 8) } else { None };
/// The same to the word with the caller's stack pointer, as that was before the method's variables were put there.
// Source: the same, `interpreter_frame_sender_sp_offset` = -1
const SP_BELOW_END: u64 = 2 * 8 + 8;
/// Words of variables looked past.
const MOST_VARIABLES: u64 = 1024;
/// The same to the word with the address of the bytecode that made a call.
// Source: the same, `interpreter_frame_bcp_offset` = -8
const BYTECODE_BELOW_END: u64 = 2 * 8 + 8 * 8;
/// Has it in the innermost frame: r13.
// Source: HotSpot's interp_masm_x86.hpp, `_bcp_register`
const BYTECODE_REGISTER: usize = 13;
/// A larger interpreter than HotSpot makes.
const MOST_CODE_BYTES: u64 = 16 << 20;

/// The end of the frame's fixed part. The method's own variables are between it and the caller's stack pointer, which is
/// kept in the frame.
fn end_of_frame(sp: u64, stack: &Stack<'_>) -> u64 {
    let ends = (0..MOST_VARIABLES).map(|words| sp.wrapping_sub(8 * words));
    let keeps = |end: &u64| stack.read(end.wrapping_sub(SP_BELOW_END)) == Some(sp);
    ends.into_iter().find(keeps).unwrap_or(sp)
}

/// The interpreter of a JVM that has started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interpreter {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// An interpreted method's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterpretedFrame {
    /// Address of its `Method`.
    pub(super) method: u64,
    /// Where its bytecode may be.
    pub(super) position: Position,
}

impl InterpretedFrame {
    /// The frame whose caller's stack pointer is `end`; with the registers, if it is the innermost. `None` where its
    /// layout isn't known, or its stack.
    pub(super) fn read(end: u64, stack: &Stack<'_>, regs: Option<&Regs>) -> Option<Self> {
        let end = end_of_frame(end, stack);
        let method = stack.read(end.wrapping_sub(METHOD_BELOW_END?))?;
        let current = match regs {
            Some(Regs::X86_64(regs)) => Some(regs.0[BYTECODE_REGISTER]),
            _ => None,
        };
        let kept = stack.read(end.wrapping_sub(BYTECODE_BELOW_END));
        Some(Self { method, position: Position::Bcp([current, kept]) })
    }
}

impl Interpreter {
    /// The frames of its code.
    pub(super) fn frame(&self) -> MadeFrame {
        MadeFrame { code: Avma(self.start)..Avma(self.end), size: FrameSize::Interpreter }
    }

    /// `None` as long as the JVM hasn't made it.
    pub(super) fn find(look: &mut Look<'_, '_>) -> Option<Self> {
        let offsets = look.offsets;
        let queue = look.u64(offsets.interpreter_code).filter(|queue| *queue != 0)?;
        let start = look.u64(queue.wrapping_add(offsets.code_start)).filter(|start| *start != 0)?;
        let bytes = u64::from(look.u32(queue.wrapping_add(offsets.code_limit))?);
        let bytes = Some(bytes).filter(|bytes| (1..=MOST_CODE_BYTES).contains(bytes))?;
        Some(Self { start, end: start.saturating_add(bytes) })
    }
}
