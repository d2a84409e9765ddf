//! Where CPython keeps its frames, in words, and how copied frames are written. The BPF programs have the same words.
//
// Layout: record/bpf/python_shared.h, struct py_process and PY_*; `record::runtimes::python::layout` compares them.

/// Words of the description of an interpreter.
pub const PROCESS_WORDS: usize = 9;
/// Most frames copied of a thread.
pub const MAX_FRAMES: usize = 4096;
/// The address in the first word of a frame: its code object.
pub const CODE: u64 = 0x0000_ffff_ffff_fff8;
/// In a frame's first word: how many more such frames follow, in the highest 16 bits.
pub const REPEAT: u64 = 1 << 48;
/// Bytes of a frame that are read at most.
pub const FRAME_MAX_BYTES: usize = 128;
/// The offset where there is no `_PyCFrame`.
pub const NO_CFRAME: u32 = u32::MAX;
/// In the header of copied frames: more than fit.
pub const CUT: u64 = 1 << 40;
/// In the header: a frame could not be read.
pub const BROKEN: u64 = 1 << 41;
/// In the header: the thread switches too often to look each time.
pub const SKIPPED: u64 = 1 << 42;

/// Frames are objects, one per C frame: 3.8 to 3.10.
pub const OBJECTS: u32 = 1;
/// Frames have a mark if they begin a C frame: 3.11.
pub const ENTRY: u32 = 2;
/// A frame on the C stack begins those that share a C frame: 3.12 and later.
pub const SHIM: u32 = 3;

/// The description, with offsets in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterpreterLayout {
    /// Address of the pointer to the first interpreter.
    pub interpreters: u64,
    /// One of [`OBJECTS`], [`ENTRY`] and [`SHIM`].
    pub kind: u32,
    /// In an interpreter: the next one.
    pub interp_next: u32,
    /// In an interpreter: the first thread state.
    pub interp_threads: u32,
    /// In a thread state: the next one.
    pub thread_next: u32,
    /// In a thread state: `pthread_self()` of its thread.
    pub thread_id: u32,
    /// In a thread state: the innermost frame, or the `_PyCFrame`.
    pub thread_frame: u32,
    /// In a `_PyCFrame`: the innermost frame; [`NO_CFRAME`]: there is none.
    pub cframe_frame: u32,
    /// Bytes of a frame that are needed.
    pub frame_bytes: u32,
    /// In a frame: its code object.
    pub frame_code: u32,
    /// In a frame: its caller.
    pub frame_back: u32,
    /// In a frame: its instruction.
    pub frame_instr: u32,
    /// In a frame: the byte that shows whether it begins a group.
    pub frame_kind: u32,
    /// That byte of a frame on the C stack.
    pub shim_owner: u32,
}

impl InterpreterLayout {
    /// The words, of an address space of this number.
    #[must_use]
    pub fn to_words(&self, space: u64) -> [u64; PROCESS_WORDS] {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        [
            space,
            self.interpreters,
            pair(self.kind, self.interp_next),
            pair(self.interp_threads, self.thread_next),
            pair(self.thread_id, self.thread_frame),
            pair(self.cframe_frame, self.frame_bytes),
            pair(self.frame_code, self.frame_back),
            pair(self.frame_instr, self.frame_kind),
            pair(self.shim_owner, 0),
        ]
    }

    /// Reads [`InterpreterLayout::to_words`].
    #[must_use]
    pub fn from_words(words: &[u64; PROCESS_WORDS]) -> Self {
        let low = |at: usize| words[at] as u32;
        let high = |at: usize| (words[at] >> 32) as u32;
        Self {
            interpreters: words[1],
            kind: low(2),
            interp_next: high(2),
            interp_threads: low(3),
            thread_next: high(3),
            thread_id: low(4),
            thread_frame: high(4),
            cframe_frame: low(5),
            frame_bytes: high(5),
            frame_code: low(6),
            frame_back: high(6),
            frame_instr: low(7),
            frame_kind: high(7),
            shim_owner: low(8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_as_written() {
        let layout = InterpreterLayout {
            interpreters: 0x1234_5678_9abc,
            kind: SHIM,
            interp_next: 1,
            interp_threads: 2,
            thread_next: 3,
            thread_id: 4,
            thread_frame: 5,
            cframe_frame: NO_CFRAME,
            frame_bytes: 6,
            frame_code: 7,
            frame_back: 8,
            frame_instr: 9,
            frame_kind: 10,
            shim_owner: 11,
        };
        assert_eq!(InterpreterLayout::from_words(&layout.to_words(77)), layout);
        assert_eq!(layout.to_words(77)[0], 77);
    }
}
