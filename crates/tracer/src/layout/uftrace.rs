//! The records of uftrace's own data folders (`TID.dat`) and the values that follow them, so that its
//! recordings can be read too.
//
// Layout: u64 time in ns; u64 with type in bits 0-1, more in bit 2, magic (5) in bits 3-5, depth in bits 6-15,
// address in bits 16-63; little-endian. With `more`, values follow, padded to 8 bytes, of a length that depends
// on the folder's options. Each value is padded to 4 bytes.
// Source: uftrace doc/uftrace-record.md and the records that `uftrace record` writes (struct uftrace_record).

use super::values::{VALUE_NO_ROOM, VALUE_NULL, VALUES_BYTES_MAX, WIDE_BYTES};

/// Bytes of one record.
pub const RECORD_BYTES: usize = 16;
const MAGIC: u64 = 5;

/// Kind and contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UftraceKind {
    /// A function was entered; the address is its own.
    Entry,
    /// It returned.
    Exit,
    /// Number of records lost.
    Lost,
    /// Something else happened.
    Event,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UftraceRecord {
    /// ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Kind and contents.
    pub kind: UftraceKind,
    /// Open calls around it.
    pub depth: u16,
    /// The function's address in the traced process; of lost records their number.
    pub address: u64,
    /// Arguments follow.
    pub more: bool,
}

/// Reads a record; `None` where its magic is another, as it is where a file was cut short.
#[must_use]
pub fn record_from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<UftraceRecord> {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let (time_ns, data) = (word(0), word(8));
    let kind = match data & 3 {
        0 => UftraceKind::Entry,
        1 => UftraceKind::Exit,
        2 => UftraceKind::Lost,
        _ => UftraceKind::Event,
    };
    let depth = (data >> 6 & 0x3ff) as u16;
    (data >> 3 & 7 == MAGIC).then_some(UftraceRecord {
        time_ns,
        kind,
        depth,
        address: data >> 16,
        more: data & 4 != 0,
    })
}

/// Encoding of a value after a record; padded to 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UftraceValue {
    /// Size in bytes.
    Bytes(u8),
    /// A number in 8 bytes that may be a small negative one of 4.
    Auto,
    /// A number of x87's in 10 bytes.
    X87,
    /// A length in 2 bytes, then text; `NULL` for a null pointer.
    Text,
    /// A struct of this size in bytes, which is not shown.
    Record(u32),
}

/// Copies values as the tracer of tally writes them; where they end. `None`: none are known, or the file ends.
#[must_use]
pub fn values_end(bytes: &[u8], from: usize, values: &[UftraceValue], to: &mut Vec<u8>) -> Option<usize> {
    let first = to.len();
    let mut at = from;
    for how in values {
        let rest = bytes.get(at..)?;
        let (value, taken) = match *how {
            UftraceValue::Bytes(count) => (rest.get(..usize::from(count))?, usize::from(count)),
            UftraceValue::Auto => (narrowed(rest.first_chunk()?), 8),
            UftraceValue::Text => {
                let count = usize::from(u16::from_le_bytes(*rest.first_chunk()?));
                (rest.get(2..2 + count)?, 2 + count)
            }
            UftraceValue::X87 => (rest.get(..10)?, 10),
            UftraceValue::Record(count) => (&[][..], count as usize),
        };
        let padding = if *how == UftraceValue::X87 { WIDE_BYTES - value.len() } else { 0 };
        at = at.checked_add(taken.next_multiple_of(4))?;
        let has_room = to.len() - first + 1 + value.len() + padding <= VALUES_BYTES_MAX;
        match (value, u8::try_from(value.len() + padding)) {
            (b"NULL", _) if *how == UftraceValue::Text => to.push(VALUE_NULL),
            (_, Ok(length)) if has_room => {
                to.push(length);
                to.extend_from_slice(value);
                to.resize(to.len() + padding, 0);
            }
            _ => to.push(VALUE_NO_ROOM),
        }
    }
    (!values.is_empty()).then(|| from + (at - from).next_multiple_of(8))
}

/// The lower half of a number that may be an `int`'s: a small negative one.
fn narrowed(bytes: &[u8; 8]) -> &[u8] {
    const SMALL: i32 = 100_000;
    let (low, high) = bytes.split_at(4);
    let is_small = low.first_chunk().is_some_and(|low| (-SMALL..0).contains(&i32::from_le_bytes(*low)));
    if high == [0; 4] && is_small { low } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_written_by_uftrace_reads_correctly() {
        let bytes = [0xaf, 0x62, 0xfc, 0xde, 0xa9, 4, 0, 0, 0x69, 0, 0xa5, 0x22, 0x87, 0x71, 0x9b, 0x55];
        let record = record_from_bytes(&bytes).unwrap();
        assert_eq!((record.kind, record.depth, record.more), (UftraceKind::Exit, 1, false));
        assert_eq!((record.time_ns, record.address), (0x4a9_defc_62af, 0x559b_7187_22a5));
        assert_eq!(record_from_bytes(&[0; 16]), None);
    }
}
