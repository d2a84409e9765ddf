//! Changes of files whose records state their size, as jitdumps do: records dropped, doubled, swapped, changed.

use std::ops::Range;

use super::number;
use super::random::Random;

// Layout: a header of 40 bytes, then records: id (u32), total_size (u32), timestamp, …
// Source: tools/perf/Documentation/jitdump-specification.txt.
const FILE_HEADER: usize = 40;
const RECORD_HEADER: usize = 8;

/// Is this a jitdump?
pub fn is_one(bytes: &[u8]) -> bool {
    (bytes.starts_with(b"JiTD") || bytes.starts_with(b"DTiJ")) && bytes.len() > FILE_HEADER
}

/// Makes one change.
pub fn change(random: &mut Random, bytes: &mut Vec<u8>) {
    let records = records(bytes);
    if records.is_empty() || random.one_in(8) {
        let at = random.below(FILE_HEADER);
        return number::change(random, bytes, at);
    }
    let record = records[random.below(records.len())].clone();
    match random.below(6) {
        0 => drop(bytes.drain(record)),
        1 => {
            let copy = bytes[record].to_vec();
            let to = records[random.below(records.len())].start;
            bytes.splice(to..to, copy);
        }
        _ => {
            let at = random.below(record.len());
            number::change(random, &mut bytes[record], at);
        }
    }
}

fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut records = Vec::new();
    let mut at = FILE_HEADER;
    while at + RECORD_HEADER <= bytes.len() {
        let size = u32::from_le_bytes([bytes[at + 4], bytes[at + 5], bytes[at + 6], bytes[at + 7]]) as usize;
        let Some(end) = at.checked_add(size).filter(|end| *end <= bytes.len() && size >= RECORD_HEADER)
        else {
            break;
        };
        records.push(at..end);
        at = end;
    }
    records
}
