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

/// Fills words from memory at an address; false if they are not all there.
pub type WordReader<'m> = dyn Fn(u64, &mut [u64]) -> bool + 'm;

/// One frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawFrame {
    /// Address of its code object.
    pub code: u64,
    /// Instruction: a pointer, or an index where frames are [`OBJECTS`].
    pub instruction: u64,
    /// It begins the frames of a C frame.
    pub is_entry: bool,
}

/// Walks through an interpreter's memory, which may change meanwhile. `None`: it can't be read, or isn't as described.
impl InterpreterLayout {
    /// The first thread state of all interpreters that `is_it`; at most `most` states and interpreters are looked at.
    pub fn find_state(
        &self,
        read: &WordReader<'_>,
        most: usize,
        is_it: &mut dyn FnMut(u64) -> bool,
    ) -> Option<u64> {
        let mut left = most;
        let mut interpreter = word_at(read, self.interpreters, 0)?;
        while interpreter != 0 {
            let mut state = word_at(read, interpreter, self.interp_threads)?;
            while state != 0 {
                left = left.checked_sub(1)?;
                if is_it(state) {
                    return Some(state);
                }
                state = word_at(read, state, self.thread_next)?;
            }
            left = left.checked_sub(1)?;
            interpreter = word_at(read, interpreter, self.interp_next)?;
        }
        None
    }

    /// `pthread_self()` of a thread state's thread.
    pub fn thread_of(&self, read: &WordReader<'_>, state: u64) -> Option<u64> {
        word_at(read, state, self.thread_id)
    }

    /// Address of a thread state's innermost frame; 0 if no Python runs.
    pub fn innermost(&self, read: &WordReader<'_>, state: u64) -> Option<u64> {
        let frame = word_at(read, state, self.thread_frame)?;
        if self.cframe_frame == NO_CFRAME || frame == 0 {
            return Some(frame);
        }
        word_at(read, frame, self.cframe_frame)
    }

    /// The frame at an address, and its caller's address; 0 if it has none.
    pub fn frame(&self, read: &WordReader<'_>, at: u64) -> Option<(RawFrame, u64)> {
        let mut words = [0; FRAME_MAX_BYTES / 8];
        let room = words.get_mut(..(self.frame_bytes as usize).div_ceil(8))?;
        if !read(at, room) {
            return None;
        }
        let word = |at: u32| words.get(at as usize / 8).copied().filter(|_| at.is_multiple_of(8));
        let mark = (words.get(self.frame_kind as usize / 8)? >> (self.frame_kind % 8 * 8)) as u8;
        let is_entry = match self.kind {
            OBJECTS => true,
            SHIM => u32::from(mark) == self.shim_owner,
            _ => mark != 0,
        };
        let (code, instruction) = (word(self.frame_code)? & CODE, word(self.frame_instr)?);
        Some((RawFrame { code, instruction, is_entry }, word(self.frame_back)?))
    }
}

fn word_at(read: &WordReader<'_>, base: u64, offset: u32) -> Option<u64> {
    let mut word = [0];
    read(base.wrapping_add(u64::from(offset)), &mut word).then_some(word[0])
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

    /// Memory of words from 0x1000 on.
    fn memory(words: &[u64]) -> impl Fn(u64, &mut [u64]) -> bool + '_ {
        |at, to| {
            let first = at.checked_sub(0x1000).map(|at| at as usize / 8);
            let from = first.and_then(|first| words.get(first..first + to.len()));
            from.is_some_and(|from| {
                to.copy_from_slice(from);
                true
            })
        }
    }

    /// An interpreter's head is { next, threads }, a state's { next, thread, frame }, a frame's { code, back, instr,
    /// kind }.
    const SMALL: InterpreterLayout = InterpreterLayout {
        interpreters: 0x1000,
        kind: SHIM,
        interp_next: 0,
        interp_threads: 8,
        thread_next: 0,
        thread_id: 8,
        thread_frame: 16,
        cframe_frame: NO_CFRAME,
        frame_bytes: 32,
        frame_code: 0,
        frame_back: 8,
        frame_instr: 16,
        frame_kind: 25,
        shim_owner: 3,
    };

    #[test]
    fn a_threads_state_is_found_by_its_thread_and_its_frames_follow_each_other() {
        let words = [
            0x1008, // the pointer to the interpreter
            0,
            0x1018, // its head
            0x1030,
            70,
            0, // states
            0,
            71,
            0x1048,
            0x5001,
            0x1068,
            9,
            0, // frames
            0x6000,
            0,
            8,
            3 << 8,
        ];
        let read = memory(&words);
        let find =
            |thread| SMALL.find_state(&read, 9, &mut |state| SMALL.thread_of(&read, state) == Some(thread));
        assert_eq!((find(70), find(71), find(72)), (Some(0x1018), Some(0x1030), None));
        assert_eq!(SMALL.find_state(&read, 1, &mut |_| false), None);
        assert_eq!((SMALL.innermost(&read, 0x1018), SMALL.innermost(&read, 0x1030)), (Some(0), Some(0x1048)));
        let inner = RawFrame { code: 0x5000, instruction: 9, is_entry: false };
        let shim = RawFrame { code: 0x6000, instruction: 8, is_entry: true };
        assert_eq!(SMALL.frame(&read, 0x1048), Some((inner, 0x1068)));
        assert_eq!(SMALL.frame(&read, 0x1068), Some((shim, 0)));
        assert_eq!(SMALL.frame(&read, 0x1080), None, "past the end");
    }
}
