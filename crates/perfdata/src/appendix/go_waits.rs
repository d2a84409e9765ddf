//! Where goroutines of Go programs waited, counted at looks: tally's appendix, after the files of requests to disks.
//!
//! A goroutine that waits has no thread, so neither samples nor off-CPU time show it.
//
// Layout: docs/formats/go-waits.md. In the byte order of the file.

use crate::appendix::disk_files::DiskFiles;
use crate::appendix::section::{Section, length, read_section};
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tGO1";

/// Reason of a goroutine's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GoWaitKind {
    /// A `sync.Mutex`.
    Mutex,
    /// A `sync.RWMutex`, to read or to write.
    RwMutex,
    /// A value from a channel.
    Receive,
    /// Room in a channel.
    Send,
    /// The first of several channels.
    Select,
    /// The network or a pipe.
    Io,
    /// `time.Sleep`.
    Sleep,
    /// The others of a `sync.WaitGroup`.
    WaitGroup,
    /// A `sync.Cond`.
    Condition,
    /// Anything else.
    Other,
}

impl GoWaitKind {
    const ALL: [Self; 10] = [
        Self::Mutex,
        Self::RwMutex,
        Self::Receive,
        Self::Send,
        Self::Select,
        Self::Io,
        Self::Sleep,
        Self::WaitGroup,
        Self::Condition,
        Self::Other,
    ];

    /// As the end of `40 goroutines …`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Mutex => "wait for a mutex",
            Self::RwMutex => "wait for an RWMutex",
            Self::Receive => "wait to receive from a channel",
            Self::Send => "wait to send to a channel",
            Self::Select => "wait in select",
            Self::Io => "wait for IO",
            Self::Sleep => "sleep",
            Self::WaitGroup => "wait for a WaitGroup",
            Self::Condition => "wait for a condition",
            Self::Other => "wait otherwise",
        }
    }
}

/// Goroutines that wait for the same in one line of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoWaitPlace {
    /// Reason of their waits.
    pub kind: GoWaitKind,
    /// Innermost function that is not of Go's standard library.
    pub function: String,
    /// Its source file, as it was compiled.
    pub file: String,
    /// The line it has reached, or its first, 1-based.
    pub line: u32,
    /// Their number, summed up over all looks.
    pub seen: u64,
    /// The longest of these waits took at least so long, ns.
    pub longest_ns: u64,
}

/// The goroutines of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoProcessWaits {
    /// The process, as the recording numbers it.
    pub pid: u32,
    /// Number of looks.
    pub looks: u32,
    /// Living goroutines, without the runtime's own, summed up over all looks.
    pub goroutines: u64,
    /// Those among them that went on while they were read: where is not known.
    pub torn: u64,
    /// Where the others waited.
    pub places: Vec<GoWaitPlace>,
}

/// The goroutines of all Go programs in a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoWaits(pub Vec<GoProcessWaits>);

impl GoWaits {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the files of requests to disks; none without Go programs.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.0.is_empty() {
            return p.bytes;
        }
        p.raw(&MAGIC);
        p.u32(length(self.0.len()));
        for process in &self.0 {
            p.u32(process.pid);
            p.u32(process.looks);
            p.u64(process.goroutines);
            p.u64(process.torn);
            p.u64(process.places.len() as u64);
            process.places.iter().for_each(|place| put_place(&mut p, place));
        }
        p.bytes
    }
}

impl Section for GoWaits {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = DiskFiles;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let mut processes = Vec::new();
        for _ in 0..w.u32()? {
            processes.push(read_process(w)?);
        }
        Some(Self(processes))
    }
}

fn read_process(w: &mut Wire<'_>) -> Option<GoProcessWaits> {
    let (pid, looks, goroutines, torn) = (w.u32()?, w.u32()?, w.u64()?, w.u64()?);
    let mut process = GoProcessWaits { pid, looks, goroutines, torn, places: Vec::new() };
    for _ in 0..w.u64()? {
        process.places.push(read_place(w)?);
    }
    Some(process)
}

fn read_place(w: &mut Wire<'_>) -> Option<GoWaitPlace> {
    let (kind, line, seen, longest_ns) = (w.u32()?, w.u32()?, w.u64()?, w.u64()?);
    let (function, file) = (w.u32()?, w.u32()?);
    let mut text = |len: u32| {
        let bytes = w.take(u64::from(len).next_multiple_of(8))?.get(..usize::try_from(len).ok()?)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let (function, file) = (text(function)?, text(file)?);
    let kind = GoWaitKind::ALL.get(usize::try_from(kind).ok()?).copied().unwrap_or(GoWaitKind::Other);
    Some(GoWaitPlace { kind, function, file, line, seen, longest_ns })
}

fn put_place(p: &mut Put, place: &GoWaitPlace) {
    p.u32(place.kind as u32);
    p.u32(place.line);
    p.u64(place.seen);
    p.u64(place.longest_ns);
    p.u32(length(place.function.len()));
    p.u32(length(place.file.len()));
    for text in [&place.function, &place.file] {
        p.raw(text.as_bytes());
        p.pad(8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::appendix::descriptors::{NamedDescriptor, NamedDescriptors};
    use crate::appendix::stack_notes::StackNotes;

    fn waits() -> GoWaits {
        let place = |kind, line| GoWaitPlace {
            kind,
            function: "main.handler".to_owned(),
            file: "/srv/main.go".to_owned(),
            line,
            seen: 40,
            longest_ns: 7,
        };
        let places = vec![place(GoWaitKind::Mutex, 12), place(GoWaitKind::Other, 0)];
        GoWaits(vec![GoProcessWaits { pid: 7, looks: 3, goroutines: 52, torn: 1, places }])
    }

    #[test]
    fn waits_are_read_after_whatever_is_before_them() {
        let named = NamedDescriptor { pid: 7, number: 3, since_ns: 9, name: "a pipe".to_owned() };
        let descriptors = NamedDescriptors { all: vec![named], ..NamedDescriptors::default() };
        let notes = StackNotes { stacks: 3, complete: 3, ..StackNotes::default() };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = waits().to_bytes(endian);
            assert_eq!(GoWaits::read(&bytes, endian), Some(waits()));
            let appendix = [notes.to_bytes(endian), descriptors.to_bytes(endian), bytes].concat();
            assert_eq!(GoWaits::read(&appendix, endian), Some(waits()));
            assert_eq!(NamedDescriptors::read(&appendix, endian), Some(descriptors.clone()));
        }
        assert!(GoWaits::default().to_bytes(Endian::Little).is_empty());
        assert_eq!(GoWaits::read(&descriptors.to_bytes(Endian::Little), Endian::Little), None);
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = waits().to_bytes(Endian::Little);
        for len in 0..bytes.len() {
            assert_eq!(GoWaits::read(&bytes[..len], Endian::Little), None, "{len}");
        }
    }
}
