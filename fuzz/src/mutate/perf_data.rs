//! Changes of perf.data that leave it readable: of one record, of one attribute, of one header section.

use std::ops::Range;

use super::number;
use super::random::Random;

// Layout: perf_file_header: magic, size, attr_size, then sections (offset, size): attrs at 24, data at 40, event types;
// 256 bits of features from 72 on. A section of each feature follows the data.
// Source: tools/perf/util/header.c, perf_session__do_write_header.
const ATTRS: usize = 24;
const DATA: usize = 40;
const FEATURES: Range<usize> = 72..104;
const RECORD_HEADER: usize = 8;
const AUXTRACE: u32 = 71;

/// Is this a file of the current form, with a readable data section?
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PERFILE2") && word(bytes, 8) == Some(104) && data(bytes).is_some()
}

/// Makes one change.
pub fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let records = records(bytes);
    if random.one_in(8) || records.is_empty() {
        return change_head(random, bytes);
    }
    // The first and the last records are chosen as often as all between them: they set up the rest.
    let at = if random.one_in(4) { random.below(records.len().min(8)) } else { random.below(records.len()) };
    let record = records[at].clone();
    match random.below(10) {
        0..4 => change_word(random, bytes, &record),
        4 => bytes[record.start + random.below(RECORD_HEADER)] = random.next() as u8,
        5 => replace(bytes, record, &[]),
        6 => {
            let copy = bytes[record].to_vec();
            let to = records[random.below(records.len())].start;
            replace(bytes, to..to, &copy);
        }
        7 => swap(bytes, record, records[random.below(records.len())].clone()),
        8 => resize(random, bytes, record),
        _ => {
            let theirs = if is_one(other) { self::records(other) } else { Vec::new() };
            if !theirs.is_empty() {
                let copy = other[theirs[random.below(theirs.len())].clone()].to_vec();
                replace(bytes, record.start..record.start, &copy);
            }
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The section whose offset and size are at `at`.
fn section(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let start = usize::try_from(word(bytes, at)?).ok()?;
    let end = start.checked_add(usize::try_from(word(bytes, at + 8)?).ok()?)?;
    (end <= bytes.len()).then_some(start..end)
}

fn data(bytes: &[u8]) -> Option<Range<usize>> {
    section(bytes, DATA)
}

/// All records, each with the trace that may follow it, up to the first that can't be one.
fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut records = Vec::new();
    let Some(data) = data(bytes) else { return records };
    let mut at = data.start;
    while at + RECORD_HEADER <= data.end {
        let size = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
        let kind = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let trace = if kind == AUXTRACE { word(bytes, at + RECORD_HEADER).unwrap_or(0) as usize } else { 0 };
        let Some(end) = at.checked_add(size).and_then(|end| end.checked_add(trace)) else { break };
        if size < RECORD_HEADER || end > data.end {
            break;
        }
        records.push(at..end);
        at = end;
    }
    records
}

/// A number of the record's body.
fn change_word(random: &mut Random, bytes: &mut [u8], record: &Range<usize>) {
    let body = record.start + RECORD_HEADER..record.end;
    if !body.is_empty() {
        let at = random.below(body.len());
        number::change(random, &mut bytes[body], at);
    }
}

/// The file's header, an attribute, or the section of a feature.
fn change_head(random: &mut Random, bytes: &mut [u8]) {
    let end = data(bytes).map_or(bytes.len(), |data| data.end);
    let part = match random.below(4) {
        0 => Some(0..FEATURES.end.min(bytes.len())),
        1 => section(bytes, ATTRS),
        2 => Some(end..bytes.len()),
        _ => {
            let index = random.below(32);
            section(bytes, end + 16 * index)
        }
    };
    if let Some(part) = part.filter(|part| !part.is_empty()) {
        let at = random.below(part.len());
        number::change(random, &mut bytes[part], at);
    }
}

/// Replaces the bytes in `old`, a range of the data section, with `new`, and moves everything after them.
fn replace(bytes: &mut Vec<u8>, old: Range<usize>, new: &[u8]) {
    let Some(data) = data(bytes) else { return };
    let moved = |value: u64| value.wrapping_add(new.len() as u64).wrapping_sub(old.len() as u64);
    let features: u32 = bytes[FEATURES].iter().map(|byte| byte.count_ones()).sum();
    for index in 0..features as usize {
        let at = data.end + 16 * index;
        if let Some(offset) = word(bytes, at).filter(|offset| *offset >= old.end as u64) {
            bytes[at..at + 8].copy_from_slice(&moved(offset).to_le_bytes());
        }
    }
    let size = moved(data.len() as u64);
    bytes[DATA + 8..DATA + 16].copy_from_slice(&size.to_le_bytes());
    bytes.splice(old, new.iter().copied());
}

fn swap(bytes: &mut [u8], one: Range<usize>, other: Range<usize>) {
    let (first, second) = if one.start < other.start { (one, other) } else { (other, one) };
    if first.end > second.start {
        return;
    }
    let (between, lengths) = (bytes[first.end..second.start].to_vec(), (first.len(), second.len()));
    let both = [&bytes[second.clone()], &between, &bytes[first.clone()]].concat();
    debug_assert_eq!(both.len(), lengths.0 + lengths.1 + between.len());
    bytes[first.start..second.end].copy_from_slice(&both);
}

/// Cuts the record, or extends it with its own bytes, and sets its size accordingly.
fn resize(random: &mut Random, bytes: &mut Vec<u8>, record: Range<usize>) {
    let mut copy = bytes[record.clone()].to_vec();
    let words = (copy.len() - RECORD_HEADER) / 8;
    if random.one_in(2) {
        copy.truncate(RECORD_HEADER + 8 * random.below(words + 1));
    } else {
        let from = RECORD_HEADER + 8 * random.below(words + 1);
        let more = copy[from.min(copy.len())..].to_vec();
        copy.extend(more);
    }
    if let Ok(size) = u16::try_from(copy.len()) {
        copy[6..8].copy_from_slice(&size.to_le_bytes());
        replace(bytes, record, &copy);
    }
}

/// A file with one attribute, three records and a feature.
#[cfg(test)]
pub fn sample_of_tests() -> Vec<u8> {
    let mut bytes = b"PERFILE2".to_vec();
    for number in [104_u64, 136, 104, 136, 240, 72, 0, 0, 1 << 3, 0, 0, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.resize(240, 1);
    for kind in 1..4_u64 {
        bytes.extend((kind | 24 << 48).to_le_bytes());
        bytes.extend([kind as u8; 16]);
    }
    bytes.extend([328_u64.to_le_bytes(), 4_u64.to_le_bytes()].concat());
    bytes.extend(*b"host");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_can_be_taken_out_and_the_feature_is_found_again() {
        let mut bytes = sample_of_tests();
        assert!(is_one(&bytes));
        let all = records(&bytes);
        assert_eq!(all.len(), 3);
        replace(&mut bytes, all[1].clone(), &[]);
        let end = data(&bytes).expect("it is still there").end;
        assert_eq!(records(&bytes).len(), 2);
        assert_eq!(section(&bytes, end).map(|host| &bytes[host]), Some(&b"host"[..]));
    }

    #[test]
    fn records_can_be_swapped() {
        let mut bytes = sample_of_tests();
        let all = records(&bytes);
        let third = bytes[all[2].clone()].to_vec();
        swap(&mut bytes, all[2].clone(), all[0].clone());
        assert_eq!(bytes[records(&bytes)[0].clone()], third);
    }
}
