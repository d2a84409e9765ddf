//! Content of pages: plain values, and numbers of a dictionary's entries.

use super::TextList;
use super::thrift::{read_varint, take, varint};

/// Numbers, as they are.
#[must_use]
pub fn plain_numbers(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Texts, each after its length.
#[must_use]
pub fn plain_texts(texts: &TextList) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts.iter() {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// Entries of a dictionary by number: the width in bits, then one run, of equal or of packed numbers.
#[must_use]
pub fn indices(rows: &[u32]) -> Vec<u8> {
    let most = rows.iter().copied().max().unwrap_or(0);
    let width = (u32::BITS - most.leading_zeros()).max(1);
    let mut bytes = vec![width as u8];
    if rows.iter().all(|row| *row == rows[0]) {
        bytes.extend(varint((rows.len() as u64) << 1));
        bytes.extend(&most.to_le_bytes()[..width.div_ceil(8) as usize]);
        return bytes;
    }
    bytes.extend(varint((rows.len().div_ceil(8) as u64) << 1 | 1));
    let end = bytes.len() + rows.len().div_ceil(8) * width as usize;
    let (mut held, mut bits) = (0u64, 0);
    for &row in rows {
        held |= u64::from(row) << bits;
        bits += width;
        while bits >= 8 {
            bytes.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    bytes.push(held as u8);
    bytes.resize(end, 0);
    bytes
}

/// The first `count` of plain numbers.
#[must_use]
pub fn read_numbers(bytes: &[u8], count: usize) -> Option<Vec<i64>> {
    let numbers = bytes.get(..count.checked_mul(8)?)?.as_chunks::<8>().0;
    Some(numbers.iter().map(|number| i64::from_le_bytes(*number)).collect())
}

/// Adds the first `count` of plain texts to a list, in `memory`. `None` if there are fewer: then nothing is
/// added.
#[must_use]
pub fn read_texts(mut bytes: &[u8], count: usize, to: &mut TextList, memory: Vec<u8>) -> Option<()> {
    let (mut texts, mut ends) = (memory, Vec::new());
    texts.clear();
    texts.reserve(bytes.len());
    for _ in 0..count {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        bytes = rest;
        texts.extend_from_slice(take(&mut bytes, u32::from_le_bytes(*len) as usize)?);
        ends.push(texts.len());
    }
    to.extend(texts, &ends);
    Some(())
}

/// The first `count` numbers of entries, each below `entries`.
#[must_use]
pub fn read_indices(mut bytes: &[u8], count: usize, entries: usize) -> Option<Vec<u32>> {
    let width = u32::from(*take(&mut bytes, 1)?.first()?);
    if width > u32::BITS {
        return None;
    }
    let mut rows = Vec::new();
    while rows.len() < count {
        let head = read_varint(&mut bytes)?;
        let left = count - rows.len();
        if head & 1 == 0 {
            let value = take(&mut bytes, width.div_ceil(8) as usize)?;
            let value = value.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
            let run = usize::try_from(head >> 1).ok().filter(|run| *run > 0)?;
            rows.resize(rows.len() + run.min(left), value);
        } else {
            let groups = usize::try_from(head >> 1).ok().filter(|groups| *groups > 0)?;
            // The last run may end early.
            let len = groups.checked_mul(width as usize)?.min(bytes.len());
            let packed = take(&mut bytes, len)?;
            unpack(packed, width, groups.saturating_mul(8).min(left), &mut rows)?;
        }
    }
    rows.iter().all(|row| (*row as usize) < entries).then_some(rows)
}

fn unpack(packed: &[u8], width: u32, count: usize, rows: &mut Vec<u32>) -> Option<()> {
    let mask = (1u64 << width) - 1;
    let mut packed = packed.iter();
    let (mut held, mut bits) = (0u64, 0);
    for _ in 0..count {
        while bits < width {
            held |= u64::from(*packed.next()?) << bits;
            bits += 8;
        }
        rows.push((held & mask) as u32);
        held >>= width;
        bits -= width;
    }
    Some(())
}
