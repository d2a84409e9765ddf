//! `jit-PID.dump`: the code that a just-in-time compiler generated, with its bytes and names.
//!
//! The runtime maps the file executable once, so that a recording has a record with its path.
//
// Layout: header { u32 magic; u32 version, total_size, elf_mach, pad1, pid; u64 timestamp, flags; }
//         record { u32 id, total_size; u64 timestamp; ... }
//         LOAD (0) { u32 pid, tid; u64 vma, code_addr, code_size, code_index; char name[]; u8 code[]; }
//         MOVE (1) { u32 pid, tid; u64 vma, old_code_addr, new_code_addr, code_size, code_index; }
//         2 lines, 3 end, 4 unwind tables: passed over.
// Source: linux tools/perf/Documentation/jitdump-specification.txt; V8 src/diagnostics/perf-jit.cc, which writes it.

use crate::wire::{Endian, Wire};
use crate::{Avma, Error};

/// "JiTD" as a big-endian number: its byte order is the file's.
const MAGIC: u32 = 0x4A69_5444;
const HEADER_BYTES: u64 = 40;
const RECORD_BYTES: u64 = 16;
/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`: times are the processor's counter, not `CLOCK_MONOTONIC`.
const ARCH_TIMESTAMP: u64 = 1;

const LOAD: u32 = 0;
const MOVE: u32 = 1;

/// One file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitDump<'a> {
    /// The process that made the code.
    pub pid: u32,
    /// `EM_*` of the code.
    pub machine: u32,
    /// Times are values of the time stamp counter; else ns of `CLOCK_MONOTONIC`.
    pub is_tsc: bool,
    /// In the file's order.
    pub events: Vec<JitEvent<'a>>,
    /// Why the file ended before its end.
    pub cut: Option<Error>,
}

/// Code came, or went elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitEvent<'a> {
    /// When; in ns, or in ticks if [`JitDump::is_tsc`].
    pub time: u64,
    /// Kind and content.
    pub kind: JitKind<'a>,
}

/// Kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitKind<'a> {
    /// New code.
    Load {
        /// Where it runs.
        addr: Avma,
        /// The function's name, as the runtime gave it.
        name: &'a [u8],
        /// Bytes.
        code: &'a [u8],
    },
    /// Code that was loaded moved to another address.
    Move {
        /// Where it was.
        from: Avma,
        /// Where it is.
        to: Avma,
        /// How much of it, bytes.
        bytes: u64,
    },
}

impl<'a> JitDump<'a> {
    /// Reads all records. Those after a damaged one are left out, and [`JitDump::cut`] is set.
    ///
    /// # Errors
    /// If it isn't a jitdump file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let truncated = || Error::Truncated {
            what: "the header of a jitdump file",
            offset: 0,
            needed: HEADER_BYTES,
            have: bytes.len() as u64,
        };
        let magic = Wire::new(bytes, Endian::Little).u32().ok_or_else(truncated)?;
        let endian = match magic {
            MAGIC => Endian::Little,
            _ if magic.swap_bytes() == MAGIC => Endian::Big,
            _ => {
                return Err(Error::BadValue {
                    what: "the magic of a jitdump file",
                    offset: 0,
                    value: magic.into(),
                });
            }
        };
        let mut wire = Wire::new(bytes, endian);
        let mut header = || {
            let words = [wire.u32()?, wire.u32()?, wire.u32()?, wire.u32()?, wire.u32()?, wire.u32()?];
            let (_written, flags) = (wire.u64()?, wire.u64()?);
            Some((words, flags))
        };
        let ([_, version, size, machine, _, pid], flags) = header().ok_or_else(truncated)?;
        if version != 1 {
            let what = "the version of a jitdump file";
            return Err(Error::BadValue { what, offset: 4, value: version.into() });
        }
        let is_tsc = flags & ARCH_TIMESTAMP != 0;
        let mut dump = Self { pid, machine, is_tsc, events: Vec::new(), cut: None };
        dump.read(bytes, endian, u64::from(size).max(HEADER_BYTES));
        Ok(dump)
    }

    fn read(&mut self, bytes: &'a [u8], endian: Endian, first: u64) {
        let mut at = first;
        while let Some(rest) = usize::try_from(at).ok().and_then(|at| bytes.get(at..)) {
            if rest.is_empty() {
                return;
            }
            let have = rest.len() as u64;
            let cut =
                |needed| Error::Truncated { what: "a record of a jitdump file", offset: at, needed, have };
            let mut wire = Wire::new(rest, endian);
            let Some((id, size, time)) = record(&mut wire) else {
                self.cut = Some(cut(RECORD_BYTES));
                return;
            };
            let Some(body) = u64::from(size).checked_sub(RECORD_BYTES).and_then(|size| wire.take(size))
            else {
                self.cut = Some(cut(u64::from(size).max(RECORD_BYTES)));
                return;
            };
            let kind = match id {
                LOAD => load(body, endian),
                MOVE => moved(body, endian),
                _ => None,
            };
            match kind {
                Some(kind) => self.events.push(JitEvent { time, kind }),
                // Its size still leads to the next.
                None if matches!(id, LOAD | MOVE) => self.cut = Some(cut(u64::from(size))),
                None => {}
            }
            at = at.saturating_add(size.into());
        }
    }
}

fn record(wire: &mut Wire<'_>) -> Option<(u32, u32, u64)> {
    Some((wire.u32()?, wire.u32()?, wire.u64()?))
}

/// `None` if the record is too short for its own counts.
fn load(body: &[u8], endian: Endian) -> Option<JitKind<'_>> {
    let mut wire = Wire::new(body, endian);
    let (_pid, _tid, _vma, addr, size, _index) =
        (wire.u32()?, wire.u32()?, wire.u64()?, wire.u64()?, wire.u64()?, wire.u64()?);
    let rest = wire.rest();
    let name_bytes = memchr::memchr(0, rest)?;
    let (name, code) = (rest.get(..name_bytes)?, rest.get(name_bytes + 1..)?);
    let code = code.get(..usize::try_from(size).ok()?)?;
    Some(JitKind::Load { addr: Avma(addr), name, code })
}

fn moved(body: &[u8], endian: Endian) -> Option<JitKind<'_>> {
    let mut wire = Wire::new(body, endian);
    let (_pid, _tid, _vma, from, to, bytes) =
        (wire.u32()?, wire.u32()?, wire.u64()?, wire.u64()?, wire.u64()?, wire.u64()?);
    Some(JitKind::Move { from: Avma(from), to: Avma(to), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[u64], bytes: usize) -> Vec<u8> {
        list.iter().flat_map(|word| word.to_le_bytes()[..bytes].to_vec()).collect()
    }

    fn record(id: u64, time: u64, body: &[u8]) -> Vec<u8> {
        [words(&[id, 16 + body.len() as u64], 4), words(&[time], 8), body.to_vec()].concat()
    }

    fn dump() -> Vec<u8> {
        let header = [words(&[MAGIC.into(), 1, 40, 62, 0, 7], 4), words(&[0, 1], 8)].concat();
        let load = [words(&[7, 7], 4), words(&[0, 0x1000, 2, 0], 8), b"f()\0\x90\xc3".to_vec()].concat();
        let moved = [words(&[7, 7], 4), words(&[0, 0x1000, 0x2000, 2, 0], 8)].concat();
        [header, record(0, 5, &load), record(2, 6, &[0; 24]), record(1, 9, &moved)].concat()
    }

    #[test]
    fn code_with_its_name_and_its_moves_is_read_and_lines_are_passed_over() {
        let bytes = dump();
        let dump = JitDump::parse(&bytes).unwrap();
        assert_eq!((dump.pid, dump.machine, dump.is_tsc, &dump.cut), (7, 62, true, &None));
        let load = JitKind::Load { addr: Avma(0x1000), name: b"f()", code: b"\x90\xc3" };
        let moved = JitKind::Move { from: Avma(0x1000), to: Avma(0x2000), bytes: 2 };
        assert_eq!(dump.events, [JitEvent { time: 5, kind: load }, JitEvent { time: 9, kind: moved }]);
    }

    #[test]
    fn a_file_cut_anywhere_keeps_what_is_whole() {
        let bytes = dump();
        for end in 0..bytes.len() {
            match JitDump::parse(&bytes[..end]) {
                Ok(dump) => assert_eq!(dump.cut.is_none(), [40, 102, 142].contains(&end), "{end}"),
                Err(_) => assert!(end < 40),
            }
        }
        let mut other = bytes;
        other[4] = 2;
        assert!(matches!(JitDump::parse(&other), Err(Error::BadValue { offset: 4, value: 2, .. })));
    }
}
