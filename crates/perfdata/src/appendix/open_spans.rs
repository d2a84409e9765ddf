//! Calls of spans that had no end when a flight recorder wrote its window: tally's appendix, after the waits
//! of goroutines. The begins of those that are older than the window aren't in the file.
//
// Layout: docs/formats/open-spans.md. In the byte order of the file.

use crate::appendix::go_waits::GoWaits;
use crate::appendix::section::{Section, read_section};
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tOS1";

/// A call without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSpan {
    /// The function's name, as the user gave it.
    pub function: String,
    /// Its thread, as the recording numbers it.
    pub tid: u32,
    /// Begin, ns of the recording's clock.
    pub begin_ns: u64,
}

/// All calls without an end, those with a begin in the file among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenSpans {
    /// In no order.
    pub calls: Vec<OpenSpan>,
}

impl OpenSpans {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the waits of goroutines; none without calls.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.calls.is_empty() {
            return p.bytes;
        }
        p.raw(&MAGIC);
        p.u32(u32::try_from(self.calls.len()).unwrap_or(u32::MAX));
        for call in &self.calls {
            p.u64(call.begin_ns);
            p.u32(call.tid);
            p.u32(u32::try_from(call.function.len()).unwrap_or(u32::MAX));
            p.raw(call.function.as_bytes());
            p.pad(8);
        }
        p.bytes
    }
}

impl Section for OpenSpans {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = GoWaits;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let mut read = Self::default();
        for _ in 0..w.u32()? {
            let (begin_ns, tid, length) = (w.u64()?, w.u32()?, w.u32()?);
            let padded = u64::from(length).checked_next_multiple_of(8)?;
            let name = w.take(padded)?.get(..usize::try_from(length).ok()?)?;
            read.calls.push(OpenSpan { function: String::from_utf8_lossy(name).into_owned(), tid, begin_ns });
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::appendix::disk_files::DiskFiles;

    #[test]
    fn open_calls_survive_after_files_and_without_them() {
        let call = |function: &str, tid, begin_ns| OpenSpan { function: function.to_owned(), tid, begin_ns };
        let open = OpenSpans { calls: vec![call("handle", 7, 100), call("a::b", 8, 0)] };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = open.to_bytes(endian);
            assert_eq!(OpenSpans::read(&bytes, endian), Some(open.clone()));
            let files = DiskFiles::refused("no BPF".to_owned()).to_bytes(endian);
            assert_eq!(OpenSpans::read(&[files, bytes.clone()].concat(), endian), Some(open.clone()));
            assert_eq!(OpenSpans::read(&bytes[..bytes.len() - 1], endian), None);
        }
        assert!(OpenSpans::default().to_bytes(Endian::Little).is_empty());
    }
}
