//! Names of JIT code as they were when recording ended: tally's appendix, after the stack notes.
//!
//! A container's `/tmp/perf-PID.map` is gone with the container, and has another number in its name.
//
// Layout: docs/formats/jit-maps.md. In the byte order of the file.

use crate::appendix::section::{Section, read_section};
use crate::appendix::stack_notes::StackNotes;
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tJM1";

/// The map of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitMap {
    /// The process, as the recording numbers it.
    pub pid: u32,
    /// The file's text: `START SIZE NAME` lines.
    pub text: Vec<u8>,
}

/// All maps that were kept with a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JitMaps(pub Vec<JitMap>);

impl JitMaps {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]), after the stack notes if there are some; `None` if
    /// it holds no maps, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the stack notes; none without maps.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.0.is_empty() {
            return p.bytes;
        }
        p.raw(&MAGIC);
        p.u32(u32::try_from(self.0.len()).unwrap_or(u32::MAX));
        for map in &self.0 {
            p.u32(map.pid);
            p.u32(0);
            p.u64(map.text.len() as u64);
            p.raw(&map.text);
            p.pad(8);
        }
        p.bytes
    }
}

impl Section for JitMaps {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = StackNotes;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let mut maps = Vec::new();
        for _ in 0..w.u32()? {
            let (pid, _padding, len) = (w.u32()?, w.u32()?, w.u64()?);
            let text = w.take(len.checked_next_multiple_of(8)?)?;
            maps.push(JitMap { pid, text: text.get(..usize::try_from(len).ok()?)?.to_vec() });
        }
        Some(Self(maps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps() -> JitMaps {
        let map = |pid, text: &[u8]| JitMap { pid, text: text.to_vec() };
        JitMaps(vec![map(7, b"1000 10 JS:~fib /a.js:1:1\n"), map(8, b"")])
    }

    #[test]
    fn maps_are_read_with_and_without_stack_notes_before_them() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = maps().to_bytes(endian);
            assert_eq!(JitMaps::read(&bytes, endian), Some(maps()));
            let notes = StackNotes { stacks: 3, complete: 3, ..StackNotes::default() };
            let appendix = [notes.to_bytes(endian), bytes].concat();
            assert_eq!(JitMaps::read(&appendix, endian), Some(maps()));
            assert_eq!(StackNotes::read(&appendix, endian), Some(notes));
        }
        assert!(JitMaps::default().to_bytes(Endian::Little).is_empty());
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = maps().to_bytes(Endian::Little);
        for len in 0..bytes.len() {
            assert_eq!(JitMaps::read(&bytes[..len], Endian::Little), None, "{len}");
        }
    }
}
