//! The time that a flight recorder's file is of: tally's appendix, after the requests of threads. Sums of threads over
//! their lives reach back further than that.
//
// Layout: docs/formats/kept-window.md. In the byte order of the file.

use crate::appendix::section::{Section, read_section};
use crate::appendix::thread_contexts::ThreadContexts;
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tKW1";

/// The time from the oldest record that was kept to the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptTime {
    /// Begin, ns of the recording's clock.
    pub begin_ns: u64,
    /// End, ns of the recording's clock.
    pub end_ns: u64,
}

impl KeptTime {
    /// Reads it from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or a damaged one.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the requests of threads.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        p.raw(&MAGIC);
        p.u32(0);
        p.u64(self.begin_ns);
        p.u64(self.end_ns);
        p.bytes
    }
}

impl Section for KeptTime {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = ThreadContexts;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let _reserved = w.u32()?;
        Some(Self { begin_ns: w.u64()?, end_ns: w.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::appendix::disk_files::DiskFiles;

    #[test]
    fn the_kept_time_survives_after_other_sections_and_without_them() {
        let kept = KeptTime { begin_ns: 7, end_ns: 9 };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = kept.to_bytes(endian);
            assert_eq!(KeptTime::read(&bytes, endian), Some(kept));
            let files = DiskFiles::refused("no BPF".to_owned()).to_bytes(endian);
            assert_eq!(KeptTime::read(&[files, bytes.clone()].concat(), endian), Some(kept));
            assert_eq!(KeptTime::read(&bytes[..bytes.len() - 1], endian), None);
        }
    }
}
