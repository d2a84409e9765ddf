//! Code that HotSpot has compiled: the method is found by the address, as HotSpot itself finds it.
//!
//! Code is in blobs, one in each used block of a heap. A map has a byte for each segment of the heap: how many segments
//! to go back towards the start of the block.
// Source: HotSpot's heap.cpp, `CodeHeap::find_block_for`, and codeBlob.hpp, JDK 9 to 25

use std::collections::BTreeMap;

use super::structs::{CodeOffsets, CodeStart, read_name};
use super::{Look, methods};
use crate::runtimes::method_addresses::MethodAddresses;

/// More heaps than HotSpot has.
const MOST_HEAPS: u32 = 16;
/// A segment that belongs to no block.
const FREE_SEGMENT: u8 = 0xff;
/// Steps back to the start of a block: a larger one than HotSpot makes needs more.
const MOST_STEPS: usize = 1 << 14;
/// Pieces of code that get a name in a process.
const MOST_PIECES: usize = 1 << 17;
/// A larger piece than HotSpot makes.
const MOST_PIECE_BYTES: u64 = 64 << 20;
/// Kinds of blobs that are methods: compiled from bytecode, and bridges to native code.
const METHOD_KINDS: [&str; 2] = ["nmethod", "native nmethod"];

/// The compiled code of one JVM that was met.
#[derive(Debug, Default)]
pub(super) struct CompiledCode {
    heaps: Vec<CodeHeap>,
    /// By the address at which the code begins.
    pieces: BTreeMap<u64, Piece>,
}

/// A range of code and the map of its segments (Avma).
#[derive(Clone, Copy, Debug)]
struct CodeHeap {
    start: u64,
    end: u64,
    segments: u64,
    segment_log2: u32,
}

/// A blob that was named.
#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    blob: u64,
    /// Its `Method` when it was named: other code may take its place. `None` for HotSpot's own code.
    method: Option<u64>,
    /// When it was compared last.
    round: u32,
}

impl CompiledCode {
    /// True if none was met.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The code around `pc` gets a line in `names`, unless it has one or is not HotSpot's.
    pub(super) fn name(&mut self, pc: u64, look: &mut Look<'_, '_>, names: &mut MethodAddresses) {
        let Some(offsets) = look.offsets.code else { return };
        if self.heaps.is_empty() {
            self.heaps = read_heaps(&offsets, look).unwrap_or_default();
        }
        let Some(heap) = self.heaps.iter().find(|heap| (heap.start..heap.end).contains(&pc)).copied() else {
            return;
        };
        if self.is_known(pc, &offsets, look) {
            return;
        }
        if self.pieces.len() >= MOST_PIECES {
            self.pieces.clear();
        }
        let Some(blob) = heap.blob_at(pc, &offsets, look) else { return };
        let Some((start, piece, name)) = read_blob(blob, &offsets, look) else { return };
        if (start..piece.end).contains(&pc) {
            names.add_line(start, piece.end - start, &name);
            self.pieces.insert(start, piece);
        }
    }

    /// True if the code at `pc` has its name, and is still the code that got it.
    fn is_known(&mut self, pc: u64, offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> bool {
        let Some((_, piece)) = self.pieces.range_mut(..=pc).next_back().filter(|(_, piece)| pc < piece.end)
        else {
            return false;
        };
        if piece.round == look.round {
            return true;
        }
        piece.round = look.round;
        match piece.method {
            // A process that has ended can't be read.
            Some(method) => look.u64(piece.blob.wrapping_add(offsets.method)).is_none_or(|now| now == method),
            None => true,
        }
    }
}

fn read_heaps(offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<Vec<CodeHeap>> {
    let array = look.u64(offsets.heaps).filter(|array| *array != 0)?;
    let count = look.u32(array.wrapping_add(offsets.array_length))?.min(MOST_HEAPS);
    let data = look.u64(array.wrapping_add(offsets.array_data))?;
    let heap_at = |index: u32| data.wrapping_add(8 * u64::from(index));
    (0..count)
        .map(|index| look.u64(heap_at(index)).and_then(|heap| CodeHeap::read(heap, offsets, look)))
        .collect()
}

impl CodeHeap {
    fn read(heap: u64, offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<Self> {
        let memory = heap.wrapping_add(offsets.heap_memory);
        let segments = heap.wrapping_add(offsets.heap_segments);
        let segment_log2 = look.u32(heap.wrapping_add(offsets.segment_log2))?;
        Some(Self {
            start: look.u64(memory.wrapping_add(offsets.space_start))?,
            end: look.u64(memory.wrapping_add(offsets.space_end))?,
            segments: look.u64(segments.wrapping_add(offsets.space_start))?,
            segment_log2: Some(segment_log2).filter(|log2| (1..32).contains(log2))?,
        })
    }

    /// The `CodeBlob` around `pc`, which is in this heap.
    fn blob_at(&self, pc: u64, offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<u64> {
        let mut segment = (pc - self.start) >> self.segment_log2;
        for _ in 0..MOST_STEPS {
            match look.u8(self.segments.wrapping_add(segment))? {
                FREE_SEGMENT => return None,
                0 => {
                    let block = self.start + (segment << self.segment_log2);
                    let is_used = look.u8(block.wrapping_add(offsets.block_used))? != 0;
                    return is_used.then_some(block.wrapping_add(offsets.block_bytes));
                }
                back => segment = segment.checked_sub(u64::from(back))?,
            }
        }
        None
    }
}

/// The start of a blob's code, the blob, and its name: a method's, or the kind of HotSpot's own code.
fn read_blob(blob: u64, offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<(u64, Piece, String)> {
    let start = match offsets.blob_code {
        CodeStart::Address(at) => look.u64(blob.wrapping_add(at))?,
        CodeStart::Offset(at) => blob.wrapping_add(u64::from(look.u32(blob.wrapping_add(at))?)),
    };
    let end = blob.wrapping_add(u64::from(look.u32(blob.wrapping_add(offsets.blob_code_end))?));
    let bytes = end.checked_sub(start).filter(|bytes| (1..=MOST_PIECE_BYTES).contains(bytes));
    bytes.filter(|_| start >= blob)?;
    let kind = look.u64(blob.wrapping_add(offsets.blob_name)).map(|name| read_name(name, look.memory))?;
    let kind = Some(kind).filter(|kind| !kind.is_empty() && !kind.chars().any(char::is_control))?;
    if !METHOD_KINDS.contains(&&*kind) {
        return Some((start, Piece { end, blob, method: None, round: look.round }, kind));
    }
    let all = look.offsets;
    let method = look.u64(blob.wrapping_add(offsets.method))?;
    let constant = methods::const_method(&all, method, look.memory)?;
    let name = methods::name_of(&all, constant, look.memory)?;
    Some((start, Piece { end, blob, method: Some(method), round: look.round }, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::hotspot::structs::JvmOffsets;

    /// A heap of code from 0x4000 to 0x5000 in segments of 128 bytes: a stub in segments 0 and 1, `buy` in 2 to 4, a free
    /// block in 5.
    fn memory() -> Vec<u8> {
        let mut bytes = vec![0; 0x5000];
        let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
        let mut words = |at: usize, words: &[u64]| {
            words.iter().enumerate().for_each(|(i, word)| put(at + 8 * i, &word.to_le_bytes()));
        };
        words(0x100, &[0x110, 0, 1, 0x130]);
        words(0x130, &[0x140]);
        words(0x140, &[0x4000, 0x5000, 0, 0, 0x200, 0x300]);
        words(0x180, &[7]);
        // Blobs: name, nothing, ends, method.
        words(0x4000, &[1 << 32, 0x400, 0, 0x40 << 32 | 0xe0]);
        words(0x4100, &[1 << 32, 0x410, 0, 0x40 << 32 | 0x170, 0x1000]);
        words(0x4280, &[0, 0x410, 0, 0x40 << 32 | 0x60, 0x1000]);
        words(0x1008, &[0x1100]);
        words(0x1108, &[0x1200]);
        words(0x1218, &[0x1500]);
        words(0x1240 + 16, &[0x1301, 0x1400]);
        words(0x1510, &[0x1600]);
        put(0x200, &[0, 1, 0, 1, 2, 0, 0xff]);
        put(0x400, b"Stubs\0");
        put(0x410, b"nmethod\0");
        put(0x1122, &[2, 0, 3, 0]);
        put(0x1300, b"\0\0\0\0\x03\0buy");
        put(0x1400, b"\0\0\0\0\x04\0(I)V");
        put(0x1600, b"\0\0\0\0\x08\0app/Shop");
        bytes
    }

    /// The lines that these addresses make, in rounds of their own.
    fn lines_of(code: &mut CompiledCode, bytes: &[u8], pcs: &[u64]) -> String {
        let mut read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..).unwrap_or_default();
            let count = from.len().min(into.len());
            into[..count].copy_from_slice(&from[..count]);
            count
        };
        let mut names = MethodAddresses::default();
        for (round, pc) in (1..).zip(pcs) {
            code.name(*pc, &mut Look { offsets: JvmOffsets::MADE_UP, memory: &mut read, round }, &mut names);
        }
        names.take_lines()
    }

    #[test]
    fn code_is_named_once_by_its_method() {
        let bytes = memory();
        let mut code = CompiledCode::default();
        let lines = lines_of(&mut code, &bytes, &[0x4250, 0x4150, 0x4160, 0x4090, 0x4050]);
        assert_eq!(lines, "4148 130 void app.Shop.buy(int)\n4048 a0 Stubs\n");
        assert!(!code.is_empty());
    }

    #[test]
    fn code_in_free_blocks_and_elsewhere_has_no_name() {
        let mut code = CompiledCode::default();
        assert_eq!(lines_of(&mut code, &memory(), &[0x4290, 0x4310, 0x4010, 0x6000, 0, u64::MAX]), "");
    }

    #[test]
    fn another_method_in_the_place_of_one_gets_its_own_name() {
        let mut bytes = memory();
        let mut code = CompiledCode::default();
        lines_of(&mut code, &bytes, &[0x4150]);
        bytes[0x1306..0x1309].copy_from_slice(b"pay");
        assert_eq!(lines_of(&mut code, &bytes, &[0x4150]), "", "the method is the same");
        bytes.copy_within(0x1000..0x1010, 0x1080);
        bytes[0x4108 + 0x18..0x4108 + 0x20].copy_from_slice(&0x1080u64.to_le_bytes());
        assert_eq!(lines_of(&mut code, &bytes, &[0x4150, 0x4150]), "4148 130 void app.Shop.pay(int)\n");
    }

    #[test]
    fn memory_that_makes_no_sense_gives_nothing() {
        let mut code = CompiledCode::default();
        assert_eq!(lines_of(&mut code, &vec![0xff; 0x5000], &[0x4150, u64::MAX]), "");
        assert_eq!(lines_of(&mut code, &[], &[0x4150]), "");
    }
}
