//! Layouts shared with `bpf/python_shared.h`: the description of an interpreter, and records in the rings.

use dso::unwind::GoroutineLayout;

use super::versions::{FrameKind, OWNED_BY_C_STACK, Offsets};
use super::weave::FramesEnd;
use crate::runtimes::goroutine_labels::CopiedLabels;
use crate::runtimes::goroutines::Goroutine;
use tracer::layout::interpreter::*;

pub use tracer::layout::interpreter::{PROCESS_WORDS, RawFrame};

/// Fields of `struct go_layout`.
pub const LAYOUT_FIELDS: usize = 8;
/// `GO_LAYOUTS`.
pub const MOST_LAYOUTS: usize = 8;
/// Words of a record before its frames.
const HEAD_WORDS: usize = 4;
/// `PY_RING_WORDS`.
pub const RING_WORDS: usize = 65536;
/// Bytes of `struct py_ring`.
pub const RING_BYTES: usize = 64 + 64 + 128 + RING_WORDS * 8;
/// Where in it, in words: `head`, `dropped`, `interrupted`, `tail` and the records.
pub const HEAD_AT: usize = 0;
/// See [`HEAD_AT`].
pub const DROPPED_AT: usize = 2;
/// See [`HEAD_AT`].
pub const INTERRUPTED_AT: usize = 3;
/// See [`HEAD_AT`].
pub const TAIL_AT: usize = 8;
/// See [`HEAD_AT`].
pub const WORDS_AT: usize = 32;

/// Where an interpreter whose `_PyRuntime` is at `runtime` has its states and frames.
#[must_use]
pub fn layout_of(offsets: &Offsets, runtime: u64) -> InterpreterLayout {
    let is_shim = offsets.kind == FrameKind::Shim;
    InterpreterLayout {
        interpreters: runtime.wrapping_add(offsets.interpreters.into()),
        kind: offsets.kind as u32,
        interp_next: offsets.interp_next,
        interp_threads: offsets.interp_threads,
        thread_next: offsets.thread_next,
        thread_id: offsets.thread_id,
        thread_frame: offsets.thread_frame,
        cframe_frame: offsets.cframe_frame.unwrap_or(NO_CFRAME),
        frame_bytes: offsets.frame_bytes,
        frame_code: offsets.frame_code,
        frame_back: offsets.frame_back,
        frame_instr: offsets.frame_instr,
        frame_kind: offsets.frame_kind,
        shim_owner: if is_shim { OWNED_BY_C_STACK } else { 0 },
    }
}

/// The value of `go_layouts`, `struct go_layout`.
#[must_use]
pub fn layout_value(layout: &GoroutineLayout) -> [u32; LAYOUT_FIELDS] {
    let GoroutineLayout { g_m, m_g0, m_curg, sched_sp, sched_pc, sched_bp, labels } = *layout;
    [g_m, m_g0, m_curg, sched_sp, sched_pc, sched_bp, labels.unwrap_or(0), 0]
}

/// When frames were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedAt {
    /// At a sample.
    Sample,
    /// As the thread left its CPU.
    Switch,
}

/// A record of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingRecord {
    /// The frames of a thread, innermost first.
    Frames {
        /// At what.
        when: CopiedAt,
        /// CLOCK_MONOTONIC, ns.
        time_ns: u64,
        /// Process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// All of them are there.
        end: FramesEnd,
        /// The frames; empty if the thread switched too often to look each time.
        frames: Vec<RawFrame>,
    },
    /// The goroutine of a thread that is on its own stack.
    Goroutine {
        /// At what.
        when: CopiedAt,
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The goroutine.
        goroutine: Goroutine,
    },
    /// The labels of the goroutine that a thread runs.
    Labels {
        /// At what.
        when: CopiedAt,
        /// CLOCK_MONOTONIC, ns.
        time_ns: u64,
        /// The thread.
        tid: u32,
        /// The labels.
        labels: CopiedLabels,
    },
    /// A process that is not known yet was sampled.
    Unknown {
        /// The process.
        pid: u32,
        /// Address space.
        mm: u64,
    },
}

/// A frame as many times as it is in a row: `word` holds its code object, its mark and the repeats.
fn frames_of(word: u64, instruction: u64) -> impl Iterator<Item = RawFrame> {
    let frame = RawFrame { code: word & CODE, instruction, is_entry: word & 1 != 0 };
    std::iter::repeat_n(frame, 1 + (word >> 48) as usize)
}

/// Reads the record at the beginning of `words` and its length; `None` if it is not whole.
// Layout: bpf/python_shared.h, PY_*
#[must_use]
pub fn parse_record(words: &[u64]) -> Option<(RingRecord, usize)> {
    let &[header, time_ns, task, last, ..] = words else { return None };
    let len = usize::try_from(header & 0xffff_ffff).ok().filter(|len| *len >= HEAD_WORDS)?;
    let (pid, tid) = ((task >> 32) as u32, task as u32);
    let body = words.get(HEAD_WORDS..len)?;
    let when = match header >> 32 & 0xff {
        1 => CopiedAt::Sample,
        2 => CopiedAt::Switch,
        3 => return Some((RingRecord::Unknown { pid, mm: last }, len)),
        kind @ (4 | 5) => {
            let when = if kind == 4 { CopiedAt::Sample } else { CopiedAt::Switch };
            let is_cut = header & CUT != 0;
            let goroutine = Goroutine { time_ns, sp: last, words: body.to_vec(), is_cut };
            return Some((RingRecord::Goroutine { when, pid, tid, goroutine }, len));
        }
        kind @ (6 | 7) => {
            let when = if kind == 6 { CopiedAt::Sample } else { CopiedAt::Switch };
            let labels = CopiedLabels::of_words(header, body);
            return Some((RingRecord::Labels { when, time_ns, tid, labels }, len));
        }
        _ => return None,
    };
    let (frames, end) = copied_frames(header, body);
    Some((RingRecord::Frames { when, time_ns, pid, tid, end, frames }, len))
}

/// Frames in two words each, innermost first, and by the flags of their header whether all of them are there.
#[must_use]
pub fn copied_frames(header: u64, words: &[u64]) -> (Vec<RawFrame>, FramesEnd) {
    let frames = words.chunks_exact(2).flat_map(|pair| frames_of(pair[0], pair[1])).take(MAX_FRAMES);
    let end = match header {
        _ if header & (BROKEN | SKIPPED) != 0 => FramesEnd::Unread,
        _ if header & CUT != 0 => FramesEnd::TooDeep,
        _ => FramesEnd::Start,
    };
    (frames.collect(), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_the_programs_has_these_numbers() {
        let text = include_str!("../../../bpf/python_shared.h");
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
            line.map(|line| line.split("/*").next().unwrap_or_default().trim().to_owned())
        };
        let numbers = [
            ("PY_RING_WORDS", RING_WORDS),
            ("PY_HEAD_WORDS", HEAD_WORDS),
            ("PY_MAX_FRAMES", MAX_FRAMES),
            ("GO_LAYOUTS", MOST_LAYOUTS),
        ];
        for (name, number) in numbers {
            assert_eq!(value(name).as_deref(), Some(number.to_string().as_str()), "{name}");
        }
        for (name, bit) in [("PY_CUT", CUT), ("PY_BROKEN", BROKEN), ("PY_SKIPPED", SKIPPED)] {
            assert_eq!(value(name), Some(format!("(1ULL << {})", bit.trailing_zeros())), "{name}");
        }
        assert_eq!(value("PY_CODE"), Some(format!("{CODE:#018x}ULL")));
        assert_eq!(value("PY_REPEAT"), Some(format!("(1ULL << {})", REPEAT.trailing_zeros())));
        assert_eq!(value("FRAME_MAX_BYTES"), Some(FRAME_MAX_BYTES.to_string()));
        for (name, number) in [("FRAMES_OBJECTS", OBJECTS), ("FRAMES_ENTRY", ENTRY), ("FRAMES_SHIM", SHIM)] {
            assert_eq!(value(name), Some(number.to_string()), "{name}");
        }
        assert_eq!(WORDS_AT * 8 + RING_WORDS * 8, RING_BYTES);
    }

    #[test]
    fn equal_frames_in_a_row_are_one_pair_of_words() {
        let record = [1 << 32 | 8, 50, 7 << 32 | 9, 1, 0x1000, 0x10, 0x2001 | 3 << 48, 0x20];
        let Some((RingRecord::Frames { frames, .. }, 8)) = parse_record(&record) else { panic!("frames") };
        let codes: Vec<_> = frames.iter().map(|frame| (frame.code, frame.is_entry)).collect();
        let deep = [(0x2000, true); 4];
        assert_eq!(codes, [&[(0x1000, false)][..], &deep].concat());
        let endless = [1 << 32 | 6, 50, 7 << 32 | 9, 1, 0x1000 | 0xffff << 48, 0x10];
        let Some((RingRecord::Frames { frames, .. }, 6)) = parse_record(&endless) else { panic!("frames") };
        assert_eq!(frames.len(), MAX_FRAMES);
    }

    #[test]
    fn records_are_read_as_written() {
        let frames = [1 << 32 | 8 | BROKEN, 50, 7 << 32 | 9, 1, 0x1001, 0x2000, 0x3000, 0x4000];
        let Some((RingRecord::Frames { when, pid, tid, end, frames, .. }, 8)) = parse_record(&frames) else {
            panic!("a record of frames")
        };
        assert_eq!((when, pid, tid, end), (CopiedAt::Sample, 7, 9, FramesEnd::Unread));
        let ends = [0, CUT, BROKEN, SKIPPED, CUT | BROKEN].map(|flags| copied_frames(flags, &[]).1);
        assert_eq!(ends[..2], [FramesEnd::Start, FramesEnd::TooDeep]);
        assert_eq!(ends[2..], [FramesEnd::Unread; 3]);
        assert_eq!(frames[0], RawFrame { code: 0x1000, instruction: 0x2000, is_entry: true });
        assert_eq!(frames[1], RawFrame { code: 0x3000, instruction: 0x4000, is_entry: false });
        let asked = parse_record(&[3 << 32 | 4, 50, 7 << 32 | 9, 77, 1]);
        assert_eq!(asked, Some((RingRecord::Unknown { pid: 7, mm: 77 }, 4)));
        let goroutine = parse_record(&[4 << 32 | 6 | CUT, 50, 7 << 32 | 9, 0x7000, 10, 20]);
        let goroutine_of_9 = Goroutine { time_ns: 50, sp: 0x7000, words: vec![10, 20], is_cut: true };
        assert_eq!(
            goroutine,
            Some((
                RingRecord::Goroutine { when: CopiedAt::Sample, pid: 7, tid: 9, goroutine: goroutine_of_9 },
                6
            ))
        );
        let labels = parse_record(&[7 << 32 | 6 | BROKEN, 50, 7 << 32 | 9, 0xc000, 1, 0x61]);
        let of_9 =
            CopiedLabels { labels: vec![("a".to_owned(), String::new())], is_cut: false, is_broken: true };
        let wanted = RingRecord::Labels { when: CopiedAt::Switch, time_ns: 50, tid: 9, labels: of_9 };
        assert_eq!(labels, Some((wanted, 6)));
        assert_eq!(parse_record(&[1 << 32 | 9, 0, 0, 0, 0]), None);
        assert_eq!(parse_record(&[1 << 32, 0, 0, 0, 0]), None);
    }
}
