//! The records of uftrace's own data folders (`TID.dat`), so that its recordings can be read too.
//
// Layout: u64 time in ns; u64 with type in bits 0-1, more in bit 2, magic (5) in bits 3-5, depth in bits 6-15, address
// in bits 16-63; little-endian. With `more`, values follow, padded to 8 bytes, of a length that only the folder's options tell.
// Source: uftrace doc/uftrace-record.md and the records that `uftrace record` writes (struct uftrace_record).

/// Bytes of one record.
pub const RECORD_BYTES: usize = 16;
const MAGIC: u64 = 5;

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function was entered; the address is its own.
    Entry,
    /// It returned.
    Exit,
    /// So many records were lost.
    Lost,
    /// Something else happened.
    Event,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// What it tells.
    pub kind: Kind,
    /// Open calls around it.
    pub depth: u16,
    /// The function's address in the traced process; of lost records their number.
    pub address: u64,
    /// Arguments follow.
    pub more: bool,
}

/// Reads a record; `None` where its magic is another, as it is where a file was cut short.
#[must_use]
pub fn record_from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let (time_ns, data) = (word(0), word(8));
    let kind = match data & 3 {
        0 => Kind::Entry,
        1 => Kind::Exit,
        2 => Kind::Lost,
        _ => Kind::Event,
    };
    let depth = (data >> 6 & 0x3ff) as u16;
    (data >> 3 & 7 == MAGIC).then_some(Record {
        time_ns,
        kind,
        depth,
        address: data >> 16,
        more: data & 4 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_written_by_uftrace_reads_as_it_was_meant() {
        let bytes = [0xaf, 0x62, 0xfc, 0xde, 0xa9, 4, 0, 0, 0x69, 0, 0xa5, 0x22, 0x87, 0x71, 0x9b, 0x55];
        let record = record_from_bytes(&bytes).unwrap();
        assert_eq!((record.kind, record.depth, record.more), (Kind::Exit, 1, false));
        assert_eq!((record.time_ns, record.address), (0x4a9_defc_62af, 0x559b_7187_22a5));
        assert_eq!(record_from_bytes(&[0; 16]), None);
    }
}
