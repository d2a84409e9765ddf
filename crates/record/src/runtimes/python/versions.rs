//! Where CPython keeps what is read of it, by version: offsets in bytes on 64-bit machines.
//!
//! Releases of one minor version don't move these fields. Since 3.13 they state most of them themselves.
//
// Source: the headers of CPython 3.8.18, 3.9.18, 3.10.13, 3.11.2, 3.11.7, 3.12.1, 3.13.0 and 3.14.10:
//         Include/cpython/code.h, frameobject.h, unicodeobject.h, pystate.h, Include/internal/pycore_{runtime,interp,
//         frame,interpframe_structs}.h

use super::line_table::LineTable;

/// Major and minor version.
pub type PythonVersion = (u8, u8);

/// How an interpreter keeps its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// `PyFrameObject`: each runs in a C frame of its own (3.8 to 3.10).
    Objects = 1,
    /// `_PyInterpreterFrame` with `is_entry`: true in the first of those that share a C frame (3.11).
    Entry = 2,
    /// `_PyInterpreterFrame`: one that the C stack owns begins those that share a C frame (3.12 and later).
    Shim = 3,
}

/// Offsets of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The version they are of.
    pub version: PythonVersion,
    /// Offsets of frames.
    pub kind: FrameKind,
    /// In `_PyRuntimeState`: the pointer to the first interpreter.
    pub interpreters: u32,
    /// In `PyInterpreterState`: the next interpreter.
    pub interp_next: u32,
    /// In `PyInterpreterState`: the first thread state.
    pub interp_threads: u32,
    /// In `PyThreadState`: the next one.
    pub thread_next: u32,
    /// In `PyThreadState`: `pthread_self()` of its thread.
    pub thread_id: u32,
    /// In `PyThreadState`: the innermost frame, or the `_PyCFrame`.
    pub thread_frame: u32,
    /// In `_PyCFrame`: the innermost frame; `None` if the thread state has it.
    pub cframe_frame: Option<u32>,
    /// Bytes of a frame that are needed.
    pub frame_bytes: u32,
    /// In a frame: its code object.
    pub frame_code: u32,
    /// In a frame: its caller.
    pub frame_back: u32,
    /// In a frame: the instruction it is at; an `int` for [`FrameKind::Objects`].
    pub frame_instr: u32,
    /// In a frame: the byte that shows whether it begins a group.
    pub frame_kind: u32,
    /// Fields of code objects.
    pub code: CodeOffsets,
    /// Size of `PyASCIIObject`, after which ASCII text begins.
    pub ascii: u32,
    /// Size of `PyCompactUnicodeObject`, after which other text begins.
    pub compact: u32,
}

/// Fields of `PyCodeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeOffsets {
    /// `co_qualname`, or `co_name` before 3.11.
    pub name: u32,
    /// `co_filename`.
    pub file: u32,
    /// `co_firstlineno`.
    pub first_line: u32,
    /// The table of lines.
    pub table: u32,
    /// The instructions; 0 where frames hold a position, not a pointer.
    pub instructions: u32,
}

/// The owner of a frame on the C stack.
// Source: up to 3.13 Include/internal/pycore_frame.h, FRAME_OWNED_BY_CSTACK; 3.14 pycore_interpframe_structs.h,
//         FRAME_OWNED_BY_INTERPRETER
pub const OWNED_BY_C_STACK: u32 = 3;

const OBJECTS: Offsets = Offsets {
    version: (3, 9),
    kind: FrameKind::Objects,
    interpreters: 32,
    interp_next: 0,
    interp_threads: 8,
    thread_next: 8,
    thread_id: 176,
    thread_frame: 24,
    cframe_frame: None,
    frame_bytes: 112,
    frame_code: 32,
    frame_back: 24,
    frame_instr: 104,
    frame_kind: 0,
    code: CodeOffsets { name: 112, file: 104, first_line: 40, table: 120, instructions: 0 },
    ascii: 48,
    compact: 72,
};

const ENTRY: Offsets = Offsets {
    version: (3, 11),
    kind: FrameKind::Entry,
    interpreters: 40,
    interp_next: 0,
    interp_threads: 16,
    thread_next: 8,
    thread_id: 152,
    thread_frame: 56,
    cframe_frame: Some(8),
    frame_bytes: 72,
    frame_code: 32,
    frame_back: 48,
    frame_instr: 56,
    frame_kind: 68,
    code: CodeOffsets { name: 128, file: 112, first_line: 72, table: 136, instructions: 184 },
    ascii: 48,
    compact: 72,
};

const SHIM: Offsets = Offsets {
    version: (3, 12),
    kind: FrameKind::Shim,
    interpreters: 40,
    interp_next: 0,
    interp_threads: 72,
    thread_next: 8,
    thread_id: 136,
    thread_frame: 56,
    cframe_frame: Some(0),
    frame_bytes: 72,
    frame_code: 0,
    frame_back: 8,
    frame_instr: 56,
    frame_kind: 70,
    code: CodeOffsets { name: 128, file: 112, first_line: 68, table: 136, instructions: 192 },
    ascii: 40,
    compact: 56,
};

impl Offsets {
    /// Offsets of this version; `None` if it isn't known.
    #[must_use]
    pub fn of(version: PythonVersion) -> Option<Self> {
        Some(match version {
            (3, 8 | 9) => Self { version, ..OBJECTS },
            (3, 10) => Self { version, frame_instr: 96, frame_bytes: 104, ..OBJECTS },
            (3, 11) => ENTRY,
            (3, 12) => SHIM,
            (3, 13) => Self {
                version,
                interpreters: 632,
                interp_next: 7264,
                interp_threads: 7344,
                thread_id: 152,
                thread_frame: 72,
                cframe_frame: None,
                code: CodeOffsets { instructions: 200, ..SHIM.code },
                ..SHIM
            },
            // A frame's code object has marks in its lowest bits, which whoever copies a frame leaves out.
            (3, 14) => Self {
                version,
                interpreters: 808,
                interp_next: 7272,
                interp_threads: 7344,
                thread_id: 152,
                thread_frame: 72,
                cframe_frame: None,
                frame_bytes: 80,
                frame_kind: 74,
                code: CodeOffsets { instructions: 208, ..SHIM.code },
                ..SHIM
            },
            _ => return None,
        })
    }

    /// Takes over what 3.13 and 3.14 state at the beginning of `_PyRuntime`; `None` if these bytes don't state it, or
    /// state a build whose objects are laid out otherwise (free-threaded).
    // Layout: char cookie[8]; u64 version, free_threaded; then the structs of offsets, a u64 each
    // Source: struct _Py_DebugOffsets in CPython 3.13 Include/internal/pycore_runtime.h, 3.14 pycore_debug_offsets.h
    #[must_use]
    pub fn stated(self, runtime: &[u8]) -> Option<Self> {
        let at = |index: usize| {
            let bytes = runtime.get(index * 8..index * 8 + 8)?;
            u32::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
        };
        if !runtime.starts_with(b"xdebugpy") || at(2)? != 0 {
            return None;
        }
        let (thread, frame, code) = match (at(1)? >> 16, self.version) {
            (0x30d, (3, 13)) => (19, 28, 34),
            (0x30e, (3, 14)) => (22, 31, 39),
            _ => return None,
        };
        Some(Self {
            interpreters: at(5)?,
            interp_next: at(8)?,
            interp_threads: at(9)?,
            thread_next: at(thread + 2)?,
            thread_frame: at(thread + 4)?,
            thread_id: at(thread + 5)?,
            frame_back: at(frame + 1)?,
            frame_code: at(frame + 2)?,
            frame_instr: at(frame + 3)?,
            frame_kind: at(frame + 5)?,
            code: CodeOffsets {
                file: at(code + 1)?,
                name: at(code + 3)?,
                table: at(code + 4)?,
                first_line: at(code + 5)?,
                instructions: at(code + 9)?,
            },
            ..self
        })
    }

    /// How this version notes lines.
    #[must_use]
    pub fn line_table(&self) -> LineTable {
        match self.version {
            (3, ..=9) => LineTable::Steps,
            (3, 10) => LineTable::Ranges,
            _ => LineTable::Locations,
        }
    }

    /// The position in bytes of a frame's instruction, of `word` in the frame of a code object at `code`.
    #[must_use]
    pub fn position(&self, word: u64, code: u64) -> i64 {
        let index = i64::from(word as u32 as i32);
        match self.version {
            (3, ..=9) => index,
            (3, 10) => index * 2,
            _ => word.wrapping_sub(code).wrapping_sub(u64::from(self.code.instructions)).cast_signed(),
        }
    }
}
