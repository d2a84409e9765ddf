//! Code that HotSpot has compiled: the method is found by the address, as HotSpot itself finds it, and so are the
//! methods that were inlined there.
// Source: HotSpot's codeBlob.hpp and nmethod.hpp, JDK 9 to 25

use std::collections::BTreeMap;

use dso::Avma;
use dso::unwind::{FrameSize, MadeFrame};

use super::code_heap::{CodeHeap, read_heaps};
use super::known_methods::{KnownMethods, Position};
use super::scopes::{ScopeMethod, ScopeRange, ScopesOfCode};
use super::structs::{CodeOffsets, CodeStart};
use super::tables::read_name;
use super::{Look, methods, stubs};
use crate::runtimes::method_addresses::MethodAddresses;

/// Pieces of code that get a name in a process.
const MOST_PIECES: usize = 1 << 17;
/// Parts of code with their lines and inlined methods in a process.
const MOST_PARTS: usize = 1 << 18;
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
    /// Parts whose lines and inlined methods were looked for.
    parts: usize,
    /// Frames of the methods that weren't taken yet.
    frames: Vec<MadeFrame>,
}

/// Where the names of methods go.
pub(super) struct FoundMethods<'f> {
    pub(super) methods: &'f mut KnownMethods,
    pub(super) names: &'f mut MethodAddresses,
}

/// A blob that was named.
#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    blob: u64,
    /// When it was named: other code may take its place. `None` for HotSpot's own code.
    compiled: Option<Compilation>,
    /// When it was compared last.
    round: u32,
    /// The parts whose lines and inlined methods were looked for: ends by starts, in bytes from its start.
    parts: BTreeMap<u64, u64>,
    scopes: Option<ScopesOfCode>,
}

/// The method and the compilation that an `nmethod` is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compilation {
    method: u64,
    /// 0 where the JVM doesn't number them.
    number: u32,
}

impl Compilation {
    fn read(blob: u64, offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<Self> {
        let method = look.u64(blob.wrapping_add(offsets.method))?;
        let number = look.offsets.scopes.map(|scopes| look.u32(blob.wrapping_add(scopes.compile_id)));
        Some(Self { method, number: number.unwrap_or(Some(0))? })
    }
}

impl CompiledCode {
    /// True if none was met.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The code around `pc` gets its lines in the map, unless it has them or is not HotSpot's.
    pub(super) fn name(&mut self, pc: u64, look: &mut Look<'_, '_>, found: &mut FoundMethods<'_>) {
        self.find(pc, look, found.names);
        self.add_part(pc, look, found);
    }

    /// The code around `pc` gets its name, unless it has it or is not HotSpot's.
    pub(super) fn find(&mut self, pc: u64, look: &mut Look<'_, '_>, names: &mut MethodAddresses) {
        let Some(offsets) = look.offsets.code else { return };
        if self.heaps.is_empty() {
            self.heaps = read_heaps(&offsets, look).unwrap_or_default();
        }
        let Some(heap) = self.heaps.iter().find(|heap| (heap.start..heap.end).contains(&pc)).copied() else {
            return;
        };
        if !self.is_known(pc, &offsets, look) {
            self.name_piece(heap, pc, look, names);
        }
    }

    /// Frames of the methods that were found since the last call.
    pub(super) fn take_frames(&mut self) -> Vec<MadeFrame> {
        std::mem::take(&mut self.frames)
    }

    /// The whole piece around `pc` gets its name.
    fn name_piece(&mut self, heap: CodeHeap, pc: u64, look: &mut Look<'_, '_>, names: &mut MethodAddresses) {
        if self.pieces.len() >= MOST_PIECES {
            self.pieces.clear();
        }
        let Some(offsets) = look.offsets.code else { return };
        let Some(blob) = heap.blob_at(pc, &offsets, look) else { return };
        let Some((start, piece, name)) = read_blob(blob, &offsets, look) else { return };
        if (start..piece.end).contains(&pc) {
            match piece.compiled {
                Some(_) => names.add_line(start, piece.end - start, &name),
                None => stubs::add_lines(start..piece.end, &name, look, names),
            }
            if let Some(bytes) = piece.frame_bytes(&offsets, look) {
                self.frames
                    .push(MadeFrame { code: Avma(start)..Avma(piece.end), size: FrameSize::Bytes(bytes) });
            }
            self.pieces.insert(start, piece);
        }
    }

    /// The part around `pc` gets its line and the methods that were inlined there.
    fn add_part(&mut self, pc: u64, look: &mut Look<'_, '_>, found: &mut FoundMethods<'_>) {
        let Some((&start, piece)) = self.pieces.range_mut(..=pc).next_back() else { return };
        let Some(scopes) = piece.scopes.filter(|_| pc < piece.end && self.parts < MOST_PARTS) else { return };
        let offset = pc - start;
        if piece.parts.range(..=offset).next_back().is_some_and(|(_, end)| offset < *end) {
            return;
        }
        self.parts += 1;
        let part = look.offsets.scopes.and_then(|of| scopes.range_at(offset, &of, look));
        let Some(part) = part.filter(|part| part.end <= piece.end - start) else {
            piece.parts.insert(offset, offset + 1);
            return;
        };
        piece.parts.insert(part.start, part.end);
        if let Some(lines) = piece.lines_of(&part, look, found) {
            found.names.add_scope(start + part.start, part.end - part.start, &lines);
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
        match piece.compiled {
            // A process that has ended can't be read.
            Some(compiled) => Compilation::read(piece.blob, offsets, look).is_none_or(|now| now == compiled),
            None => true,
        }
    }
}

impl Piece {
    /// Bytes of a method's frames; `None` for HotSpot's own code, some of which changes them.
    fn frame_bytes(&self, offsets: &CodeOffsets, look: &mut Look<'_, '_>) -> Option<u16> {
        self.compiled?;
        let words = look.u32(self.blob.wrapping_add(offsets.frame_words))?;
        u16::try_from(words.checked_mul(8)?).ok()
    }

    /// Addresses of the lines that a part is of, innermost first. `None` if they make no sense: the outermost has to be
    /// of the method that was compiled.
    fn lines_of(
        &self,
        part: &ScopeRange,
        look: &mut Look<'_, '_>,
        found: &mut FoundMethods<'_>,
    ) -> Option<Vec<u64>> {
        let offsets = look.offsets.scopes?;
        let methods = self.scopes?.methods(part, &offsets, look)?;
        let outermost = methods.last()?.method;
        self.compiled.filter(|compiled| compiled.method == outermost)?;
        let FoundMethods { methods: known, names } = found;
        let lines = methods
            .into_iter()
            .map(|ScopeMethod { method, bci }| known.line_address(method, Position::Bci(bci), look, names));
        lines.collect()
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
    let own = Piece { end, blob, compiled: None, round: look.round, parts: BTreeMap::new(), scopes: None };
    if !METHOD_KINDS.contains(&&*kind) {
        return Some((start, own, kind));
    }
    let all = look.offsets;
    let compiled = Compilation::read(blob, offsets, look)?;
    let constant = methods::const_method(&all, compiled.method, look.memory)?;
    let name = methods::name_of(&all, constant, look.memory)?;
    let scopes = all.scopes.and_then(|of| ScopesOfCode::read(blob, &of, look));
    Some((start, Piece { compiled: Some(compiled), scopes, ..own }, name))
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
        let (mut names, mut methods) = (MethodAddresses::default(), KnownMethods::default());
        for (round, pc) in (1..).zip(pcs) {
            let mut look = Look { offsets: JvmOffsets::MADE_UP, memory: &mut read, round };
            code.name(*pc, &mut look, &mut FoundMethods { methods: &mut methods, names: &mut names });
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

    #[test]
    fn a_part_of_code_gets_its_lines_and_inlined_methods_once() {
        let mut bytes = memory();
        let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        // The tables of `buy`: `pay` (0x1080), at its start, is inlined at byte 4.
        put(0x412c, &words(&[0x418, 0x430, 0x4f8, 0x4500]));
        put(0x4500, &[0, 0, 1, 5, 1, 2, 1]);
        put(0x4520, &words(&[u32::MAX, 0, 8, 4, 0x7fff_ffff, 0]));
        put(0x4600, &words(&[0x1000, 0, 0x1080, 0]));
        put(0x1088, &words(&[0x1180]));
        put(0x1188, &words(&[0x1200]));
        put(0x11a2, &[4, 0, 3, 0]);
        put(0x1260, &words(&[0x1700, 0, 0x1720]));
        put(0x1704, b"\x03\0pay");
        put(0x1724, b"\x09\0Shop.java");
        put(0x1236, &[5]);
        // Words, flags, bytes of code; lines after the code.
        for method in [0x1100, 0x1180] {
            put(method + 0x18, &[8, 0, 0, 0, 1, 0, 0, 0, 8]);
        }
        put(0x1138, &[5, 4 << 3 | 1, 0]);
        put(0x11b8, &[7, 0]);
        let mut code = CompiledCode::default();
        let lines = lines_of(&mut code, &bytes, &[0x4150, 0x4148, 0x4160]);
        let expected = "4148 130 void app.Shop.buy(int)\n\
             4a56000000000000 1000000 void app.Shop.pay(int)\n=4a56000000000000 10 app/Shop.java\n\
             4a56000001000000 1000000 void app.Shop.buy(int)\n=4a56000001000000 10 app/Shop.java\n\
             @4148 9 4a56000000000078 4a56000001000068\n";
        assert_eq!(lines, expected);
        // The outermost isn't the method that was compiled.
        bytes[0x4502] = 2;
        assert_eq!(
            lines_of(&mut CompiledCode::default(), &bytes, &[0x4150]),
            "4148 130 void app.Shop.buy(int)\n"
        );
    }
}
