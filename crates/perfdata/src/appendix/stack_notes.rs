//! How the user stacks of a recording ended: tally's appendix after the last feature section.
//!
//! A callchain does not record why it ends. These notes give the reason for all chains except the complete
//! ones. A file without notes has no information about completeness.
//
// Layout: docs/formats/stack-notes.md. In the byte order of the file.

use crate::appendix::section::{First, Section, read_section};
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tSQ1";

/// The whole of the notes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackNotes {
    /// Samples that have a user stack.
    pub stacks: u64,
    /// Those whose chain reaches the thread's start by its own copy of the stack.
    pub complete: u64,
    /// The causes that `stops` refer to.
    pub causes: Vec<StackCause>,
    /// One entry for every other chain, by time.
    pub stops: Vec<StackStop>,
}

/// A way in which chains ended, in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackCause {
    /// Kind of event.
    pub end: StackEnd,
    /// The DSO of the outermost frame; empty if unknown.
    pub dso: Vec<u8>,
}

/// One chain that is not complete by itself, found again by time and thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackStop {
    /// The sample's time, in ns of the recording's clock.
    pub time_ns: u64,
    /// Thread.
    pub tid: u32,
    /// Index into the causes.
    pub cause: u32,
}

/// How a chain ended that is not complete by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StackEnd {
    /// It reaches the thread's start; its outer part comes from another moment of the same stack.
    Joined,
    /// Early.
    Stopped(StopReason),
}

/// Why a user stack ends before the thread's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StopReason {
    /// The copy of the stack ended, after this many bytes.
    CopyEnd(u32),
    /// The DSO has no rules for its frames, and frame pointers led nowhere.
    NoUnwindInfo,
    /// An address outside every mapping.
    NoMapping,
    /// The unwind information or the stack is damaged.
    Bad,
    /// The object file could not be opened while the process lived.
    NoObjectFile,
    /// More frames than a record holds.
    TooDeep,
    /// The recorder could not keep up and kept only the leaf.
    Behind,
    /// The kernel gave no registers (the sample hit a kernel thread, or a 32-bit task).
    NoRegisters,
    /// The frames would go round for ever.
    Loop,
    /// The object file became shorter while it was read.
    FileShrank,
    /// The thread had changed stacks, and no frame pointer leads to the one before.
    OtherStack,
    /// A signal's handler has a stack of its own, and the interrupted stack was not there to be followed.
    InterruptedStack,
    /// A frame or a function of Python's could not be read.
    PythonUnread,
    /// A code not known here.
    Other(u32),
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CopyEnd(bytes) => write!(f, "cut after {bytes} bytes"),
            Self::NoUnwindInfo => write!(f, "without unwind information"),
            Self::NoMapping => write!(f, "led outside every mapping"),
            Self::Bad => write!(f, "with damaged frames"),
            Self::NoObjectFile => write!(f, "without object file"),
            Self::TooDeep => write!(f, "with too many frames"),
            Self::Behind => write!(f, "left out: the unwinder could not keep up"),
            Self::NoRegisters => write!(f, "without registers"),
            Self::Loop => write!(f, "in an endless loop of frames"),
            Self::FileShrank => write!(f, "in a file that became shorter"),
            Self::OtherStack => write!(f, "where the thread changed stacks"),
            Self::InterruptedStack => write!(f, "in a signal handler with its own stack"),
            Self::PythonUnread => write!(f, "with Python functions that could not be read"),
            Self::Other(code) => write!(f, "for a reason not known here (code {code})"),
        }
    }
}

impl StackEnd {
    fn code(self) -> (u32, u32) {
        match self {
            Self::Joined => (1, 0),
            Self::Stopped(StopReason::CopyEnd(bytes)) => (2, bytes),
            Self::Stopped(StopReason::NoUnwindInfo) => (3, 0),
            Self::Stopped(StopReason::NoMapping) => (4, 0),
            Self::Stopped(StopReason::Bad) => (5, 0),
            Self::Stopped(StopReason::NoObjectFile) => (6, 0),
            Self::Stopped(StopReason::TooDeep) => (7, 0),
            Self::Stopped(StopReason::Behind) => (8, 0),
            Self::Stopped(StopReason::NoRegisters) => (9, 0),
            Self::Stopped(StopReason::Loop) => (10, 0),
            Self::Stopped(StopReason::FileShrank) => (11, 0),
            Self::Stopped(StopReason::OtherStack) => (12, 0),
            Self::Stopped(StopReason::InterruptedStack) => (13, 0),
            Self::Stopped(StopReason::PythonUnread) => (14, 0),
            Self::Stopped(StopReason::Other(code)) => (code, 0),
        }
    }

    fn from_code(code: u32, detail: u32) -> Self {
        Self::Stopped(match code {
            1 => return Self::Joined,
            2 => StopReason::CopyEnd(detail),
            3 => StopReason::NoUnwindInfo,
            4 => StopReason::NoMapping,
            5 => StopReason::Bad,
            6 => StopReason::NoObjectFile,
            7 => StopReason::TooDeep,
            8 => StopReason::Behind,
            9 => StopReason::NoRegisters,
            10 => StopReason::Loop,
            11 => StopReason::FileShrank,
            12 => StopReason::OtherStack,
            13 => StopReason::InterruptedStack,
            14 => StopReason::PythonUnread,
            other => StopReason::Other(other),
        })
    }
}

impl StackNotes {
    /// Reads an appendix ([`crate::PerfData::appendix`]); `None` if it holds something else or is damaged.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The appendix's bytes.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        p.raw(&MAGIC);
        p.u32(u32::try_from(self.causes.len()).unwrap_or(u32::MAX));
        p.u64(self.stacks);
        p.u64(self.complete);
        for cause in &self.causes {
            let (code, detail) = cause.end.code();
            let dso = cause.dso.get(..cause.dso.len().min(4096)).unwrap_or_default();
            p.u32(code);
            p.u32(detail);
            p.u32(u32::try_from(dso.len()).unwrap_or_default());
            p.u32(0);
            p.raw(dso);
            p.pad(8);
        }
        p.count(self.stops.len());
        for stop in &self.stops {
            p.u64(stop.time_ns);
            p.u32(stop.tid);
            p.u32(stop.cause);
        }
        p.bytes
    }

    /// How the chain of the sample of this thread at this time ended; `None`: complete (or no user stack).
    #[must_use]
    pub fn end_of(&self, time_ns: u64, tid: u32) -> Option<&StackCause> {
        let from = self.stops.partition_point(|s| s.time_ns < time_ns);
        let same_time = self.stops.get(from..)?.iter().take_while(|s| s.time_ns == time_ns);
        let stop = same_time.into_iter().find(|s| s.tid == tid)?;
        self.causes.get(stop.cause as usize)
    }
}

impl Section for StackNotes {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = First;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let cause_count = w.u32()?;
        let mut notes = Self { stacks: w.u64()?, complete: w.u64()?, ..Self::default() };
        for _ in 0..cause_count {
            let (code, detail, len) = (w.u32()?, w.u32()?, w.u32()?);
            let _padding = w.u32()?;
            let dso = w.take(u64::from(len).next_multiple_of(8))?;
            let dso = dso.get(..usize::try_from(len).ok()?)?.to_vec();
            notes.causes.push(StackCause { end: StackEnd::from_code(code, detail), dso });
        }
        let count = usize::try_from(w.u64()?).ok().filter(|&n| n <= w.len() / 16)?;
        for _ in 0..count {
            let stop = StackStop { time_ns: w.u64()?, tid: w.u32()?, cause: w.u32()? };
            notes.causes.get(stop.cause as usize)?;
            notes.stops.push(stop);
        }
        Some(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> StackNotes {
        let cause = |end, dso: &[u8]| StackCause { end, dso: dso.to_vec() };
        StackNotes {
            stacks: 10,
            complete: 7,
            causes: vec![
                cause(StackEnd::Stopped(StopReason::CopyEnd(65_528)), b"/bin/x"),
                cause(StackEnd::Joined, b""),
            ],
            stops: vec![
                StackStop { time_ns: 5, tid: 1, cause: 0 },
                StackStop { time_ns: 9, tid: 1, cause: 1 },
                StackStop { time_ns: 9, tid: 2, cause: 0 },
            ],
        }
    }

    #[test]
    fn notes_read_as_written_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            assert_eq!(StackNotes::read(&notes().to_bytes(endian), endian), Some(notes()));
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = notes().to_bytes(Endian::Little);
        for len in 0..bytes.len() {
            assert_eq!(StackNotes::read(&bytes[..len], Endian::Little), None, "{len}");
        }
    }

    #[test]
    fn a_sample_is_found_by_time_and_thread() {
        assert_eq!(notes().end_of(9, 2).map(|c| c.end), Some(StackEnd::Stopped(StopReason::CopyEnd(65_528))));
        assert_eq!(notes().end_of(9, 3), None);
        assert_eq!(notes().end_of(6, 1), None);
    }
}
