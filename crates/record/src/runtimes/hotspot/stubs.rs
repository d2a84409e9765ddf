//! Routines that HotSpot makes when it starts, such as copies of arrays: all are in a few pieces of code, and HotSpot keeps
//! a list of them for its own reports.
// Source: HotSpot's stubCodeGenerator.hpp, `StubCodeDesc`: next, group, name, begin, end; JDK 8 to 25

use std::ops::Range;

use super::Look;
use super::tables::read_name;
use crate::runtimes::method_addresses::MethodAddresses;

/// Begins the names of the pieces.
const PIECE: &str = "StubRoutines";
/// More than a version has.
const MOST_STUBS: usize = 4096;

/// One routine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stub {
    start: u64,
    end: u64,
    name: String,
}

/// Names a piece of HotSpot's own code, and its routines where it has some.
pub(super) fn add_lines(code: Range<u64>, name: &str, look: &mut Look<'_, '_>, names: &mut MethodAddresses) {
    let mut rest = code.start;
    let stubs = if name.starts_with(PIECE) { stubs_in(&code, look) } else { Vec::new() };
    for stub in stubs {
        if stub.start < rest {
            continue;
        }
        if stub.start > rest {
            names.add_line(rest, stub.start - rest, name);
        }
        names.add_line(stub.start, stub.end - stub.start, &format!("{PIECE}::{}", stub.name));
        rest = stub.end;
    }
    if rest < code.end {
        names.add_line(rest, code.end - rest, name);
    }
}

/// The routines in this code, by their addresses. The tables for debuggers don't state how the list is laid out: it ends
/// where it makes no sense.
fn stubs_in(code: &Range<u64>, look: &mut Look<'_, '_>) -> Vec<Stub> {
    let first = look.offsets.stubs.and_then(|list| look.u64(list)).unwrap_or(0);
    let (mut stubs, mut next) = (Vec::new(), first);
    for _ in 0..MOST_STUBS {
        let Some((stub, after)) = (next != 0).then(|| read_stub(next, look)).flatten() else { break };
        if code.contains(&stub.start) && stub.end <= code.end {
            stubs.push(stub);
        }
        next = after;
    }
    stubs.sort_by_key(|stub| stub.start);
    stubs
}

/// A routine, and where the next one is. `None` if that is none.
fn read_stub(at: u64, look: &mut Look<'_, '_>) -> Option<(Stub, u64)> {
    let mut word = |index: u64| look.u64(at.wrapping_add(8 * index));
    let (next, name, start, end) = (word(0)?, word(2)?, word(3)?, word(4)?);
    let name = read_name(name, look.memory);
    let is_name =
        !name.is_empty() && !name.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER);
    // One that is being made has no end yet.
    let end = end.max(start);
    (is_name && start != 0).then_some((Stub { start, end, name }, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::hotspot::structs::JvmOffsets;

    /// Lines of a piece from 0x4000 to 0x4100 with the list at 0x100.
    fn lines(name: &str, bytes: &[u8]) -> String {
        let mut read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..).unwrap_or_default();
            let count = from.len().min(into.len());
            into[..count].copy_from_slice(&from[..count]);
            count
        };
        let offsets = JvmOffsets { stubs: Some(0x100), ..JvmOffsets::MADE_UP };
        let mut look = Look { offsets, memory: &mut read, round: 0 };
        let mut names = MethodAddresses::default();
        add_lines(0x4000..0x4100, name, &mut look, &mut names);
        names.take_lines()
    }

    fn memory() -> Vec<u8> {
        let mut bytes = vec![0; 0x1000];
        let mut words = |at: usize, words: &[u64]| {
            let all = words.iter().flat_map(|word| word.to_le_bytes());
            all.enumerate().for_each(|(i, byte)| bytes[at + i] = byte);
        };
        words(0x100, &[0x200]);
        // The newest is first; the third is elsewhere, the last overlaps.
        words(0x200, &[0x240, 0, 0x400, 0x4080, 0x40c0]);
        words(0x240, &[0x280, 0, 0x410, 0x4020, 0x4080]);
        words(0x280, &[0x2c0, 0, 0x410, 0x9000, 0x9080]);
        words(0x2c0, &[0x200, 0, 0x410, 0x4030, 0x4040]);
        bytes[0x400..0x405].copy_from_slice(b"copy\0");
        bytes[0x410..0x415].copy_from_slice(b"fill\0");
        bytes
    }

    #[test]
    fn routines_have_their_names_and_the_piece_has_the_rest() {
        let expected = "4000 20 StubRoutines (1)\n4020 60 StubRoutines::fill\n\
                        4080 40 StubRoutines::copy\n40c0 40 StubRoutines (1)\n";
        assert_eq!(lines("StubRoutines (1)", &memory()), expected);
        assert_eq!(lines("Interpreter", &memory()), "4000 100 Interpreter\n");
    }

    #[test]
    fn a_list_that_makes_no_sense_ends() {
        let whole = "4000 100 StubRoutines (1)\n";
        assert_eq!(lines("StubRoutines (1)", &[]), whole);
        assert_eq!(lines("StubRoutines (1)", &[0xff; 0x1000]), whole);
    }
}
