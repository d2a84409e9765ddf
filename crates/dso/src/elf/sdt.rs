//! Probes that a program's authors placed (`DTRACE_PROBE` of <sys/sdt.h>): names, places and arguments.
//
// Layout: { pc, base, semaphore; char provider[], name[], arguments[]; }, numbers of the file's own width.
// Source: systemtap 4.8 includes/sys/sdt.h, _SDT_ASM_BODY; sourceware.org/systemtap/wiki/UserSpaceProbeImplementation.

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, NoteType};
use object::read::elf::{FileHeader, NoteIterator};

use crate::{ObjectFile, Svma};

/// `NT_STAPSDT`.
const NOTE_TYPE: NoteType = NoteType(3);

/// One probe; the same name may have several places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SdtProbe {
    /// Provider that placed it: `libc`.
    pub provider: String,
    /// Name: `setjmp`.
    pub name: String,
    /// The address of its `nop`.
    pub at: Svma,
    /// A counter that must not be 0 for the probe to be reached; `None`: it always is.
    pub semaphore: Option<Svma>,
    /// Where its arguments are, in assembler's words, each as `SIZE@PLACE`: `8@%rdi -4@%eax`.
    pub arguments: String,
}

/// The probes of a file, in its order; what is damaged is left out.
pub fn probes(file: &ObjectFile) -> Vec<SdtProbe> {
    let Ok(Some(notes)) = file.section_bytes(".note.stapsdt") else { return Vec::new() };
    // The base section moves with prelink; the notes' addresses do not.
    let base = file.section(".stapsdt.base").map(|section| section.svma.start);
    let endian = if file.is_little_endian() { Endianness::Little } else { Endianness::Big };
    let found = if file.is_64() {
        read::<FileHeader64<Endianness>>(&notes, endian)
    } else {
        read::<FileHeader32<Endianness>>(&notes, endian)
    };
    let moved = |(mut probe, noted_base): (SdtProbe, u64)| {
        let by = base.filter(|_| noted_base != 0).map_or(0, |base| base.wrapping_sub(noted_base));
        probe.at = Svma(probe.at.0.wrapping_add(by));
        probe.semaphore = probe.semaphore.map(|at| Svma(at.0.wrapping_add(by)));
        probe
    };
    found.into_iter().map(moved).collect()
}

/// Probes with the base that their addresses were noted for.
fn read<H: FileHeader<Endian = Endianness>>(notes: &[u8], endian: Endianness) -> Vec<(SdtProbe, u64)> {
    let width = size_of::<H::Word>();
    let Ok(mut notes) = NoteIterator::<H>::new(endian, H::Word::default(), notes) else { return Vec::new() };
    let mut found = Vec::new();
    while let Ok(Some(note)) = notes.next() {
        if note.n_type(endian) == NOTE_TYPE && note.name() == b"stapsdt" {
            found.extend(read_one(note.desc(), width, endian));
        }
    }
    found
}

fn read_one(desc: &[u8], width: usize, endian: Endianness) -> Option<(SdtProbe, u64)> {
    let word = |nth: usize| {
        let bytes = desc.get(nth * width..(nth + 1) * width)?;
        let fold = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(match endian {
            Endianness::Little => bytes.iter().rev().fold(0, fold),
            Endianness::Big => bytes.iter().fold(0, fold),
        })
    };
    let mut texts = desc.get(3 * width..)?.split(|&byte| byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    let (provider, name, arguments) = (text()?, text()?, text().unwrap_or_default());
    let semaphore = Some(Svma(word(2)?)).filter(|at| at.0 != 0);
    let is_named = !provider.is_empty() && !name.is_empty();
    is_named.then_some((SdtProbe { provider, name, at: Svma(word(0)?), semaphore, arguments }, word(1)?))
}

/// Any bytes as notes of either width and byte order.
pub(crate) fn fuzz(bytes: &[u8]) {
    for endian in [Endianness::Little, Endianness::Big] {
        let _ = read::<FileHeader64<Endianness>>(bytes, endian);
        let _ = read::<FileHeader32<Endianness>>(bytes, endian);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(words: [u64; 3], texts: &[u8]) -> Vec<u8> {
        let desc: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).chain(texts.iter().copied()).collect();
        let mut bytes =
            [8u32.to_le_bytes(), (desc.len() as u32).to_le_bytes(), NOTE_TYPE.0.to_le_bytes()].concat();
        bytes.extend_from_slice(b"stapsdt\0");
        bytes.extend_from_slice(&desc);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn notes_give_name_place_and_arguments() {
        let notes = [
            note([0x1000, 0x9000, 0], b"libc\0setjmp\x008@%rdi -4@%eax\0"),
            note([0x2000, 0x9000, 0x4010], b"app\0done\0\0"),
        ];
        let found = read::<FileHeader64<Endianness>>(&notes.concat(), Endianness::Little);
        let [(first, base), (second, _)] = &found[..] else { panic!("two probes: {found:?}") };
        assert_eq!((first.provider.as_str(), first.name.as_str(), *base), ("libc", "setjmp", 0x9000));
        assert_eq!(
            (first.at, first.semaphore, first.arguments.as_str()),
            (Svma(0x1000), None, "8@%rdi -4@%eax")
        );
        assert_eq!((second.at, second.semaphore), (Svma(0x2000), Some(Svma(0x4010))));
    }

    #[test]
    fn a_cut_note_is_no_probe() {
        let whole = note([1, 2, 3], b"a\0b\0c\0");
        for len in 0..whole.len() - 4 {
            assert!(read::<FileHeader64<Endianness>>(&whole[..len], Endianness::Little).is_empty(), "{len}");
        }
    }
}
