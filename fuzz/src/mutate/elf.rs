//! Changes of object files: of one section's bytes or of the headers.

use std::ops::Range;

use super::number;
use super::random::Random;

// Layout: Elf64_Ehdr with e_phoff at 32, e_shoff at 40, e_phnum at 56, e_shnum at 60; Elf64_Shdr of 64 bytes with
// sh_offset at 24, sh_size at 32.
// Source: gABI chapter 4, elf.h.
const SECTION_HEADER: usize = 64;

/// Is this a 64-bit little-endian object file?
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01") && bytes.len() > 64
}

/// Makes one change.
pub fn change(random: &mut Random, bytes: &mut [u8]) {
    let sections = sections(bytes);
    let part = match random.below(10) {
        0 => 0..64,
        1 => at_least(word(bytes, 32), 56 * 12, bytes.len()),
        2 => at_least(word(bytes, 40), SECTION_HEADER * sections.len(), bytes.len()),
        // Small sections as often as large ones: unwind tables and abbreviations are small.
        _ if !sections.is_empty() => sections[random.below(sections.len())].clone(),
        _ => 0..bytes.len(),
    };
    if part.is_empty() {
        return;
    }
    for _ in 0..1 + random.below(3) {
        let at = random.below(part.len());
        if random.one_in(3) {
            bytes[part.start + at] = random.next() as u8;
        } else {
            number::change(random, &mut bytes[part.clone()], at);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word) as usize)
}

/// Up to `size` bytes from `start` on.
fn at_least(start: usize, size: usize, end: usize) -> Range<usize> {
    start.min(end)..start.saturating_add(size).min(end)
}

/// Ranges of the sections' bytes.
fn sections(bytes: &[u8]) -> Vec<Range<usize>> {
    let (table, count) = (word(bytes, 40), usize::from(u16::from_le_bytes([bytes[60], bytes[61]])));
    let headers = (0..count.min(100)).map(|index| table.saturating_add(SECTION_HEADER * index));
    let bytes_of = |header: usize| {
        let (start, size) = (word(bytes, header.saturating_add(24)), word(bytes, header.saturating_add(32)));
        at_least(start, size, bytes.len())
    };
    headers.map(bytes_of).filter(|range| !range.is_empty()).collect()
}
