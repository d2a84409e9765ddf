//! Puts the records of all rings into the order of time, as perf's rounds do.
//!
//! ```text
//! pass n−1   ring 0 ….a   ring 1 …..c        newest of pass n−1 = c
//! pass n     ring 0 b……   ring 1 ….e         all ≤ c are here now: a b c go out, e waits for pass n+1
//! ```
//! A record is written to its ring right after its time was taken, so whatever is older than the newest record of
//! one pass is found by the next pass at the latest.

use std::collections::VecDeque;

use perfdata::Endian;
use perfdata::record::Header;

/// Records waiting for their turn.
#[derive(Debug, Default)]
pub struct RecordOrder {
    /// Buffers of the passes not yet gone out entirely, oldest first.
    buffers: VecDeque<Buffer>,
    /// Number of the first buffer ever minus those dropped.
    first_buffer: u64,
    entries: Vec<Entry>,
    /// Newest time of the pass before the last.
    safe_until_ns: u64,
    newest_ns: u64,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    waiting: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    time_ns: u64,
    buffer: u64,
    offset: u32,
    size: u32,
}

impl RecordOrder {
    /// Takes the records of one pass over all rings. `time_of` returns a record's time; records without one go out
    /// with the record before them. An incomplete record ends the buffer (the kernel writes none such).
    pub fn push(&mut self, bytes: Vec<u8>, time_of: impl Fn(&[u8]) -> Option<u64>) {
        let number = self.first_buffer + self.buffers.len() as u64;
        let before = self.entries.len();
        self.safe_until_ns = self.newest_ns;
        let mut time_ns = 0;
        let mut at = 0;
        while let Some(size) = record_size(&bytes[at..]) {
            time_ns = time_of(&bytes[at..at + size]).unwrap_or(time_ns);
            self.newest_ns = self.newest_ns.max(time_ns);
            self.entries.push(Entry { time_ns, buffer: number, offset: at as u32, size: size as u32 });
            at += size;
        }
        self.buffers.push_back(Buffer { bytes, waiting: self.entries.len() - before });
        // Stable: records of equal time keep the order of their ring.
        self.entries.sort_by_key(|e| e.time_ns);
    }

    /// Hands out, oldest first, the records that nothing older can follow any more.
    pub fn emit(&mut self, mut with: impl FnMut(u64, &[u8])) {
        let ready = self.entries.partition_point(|e| e.time_ns <= self.safe_until_ns);
        self.emit_first(ready, &mut with);
    }

    /// Hands out all that waits: after the last pass.
    pub fn emit_all(&mut self, mut with: impl FnMut(u64, &[u8])) {
        self.emit_first(self.entries.len(), &mut with);
    }

    fn emit_first(&mut self, count: usize, with: &mut impl FnMut(u64, &[u8])) {
        for entry in self.entries.drain(..count) {
            let buffer = &mut self.buffers[(entry.buffer - self.first_buffer) as usize];
            buffer.waiting -= 1;
            with(entry.time_ns, &buffer.bytes[entry.offset as usize..][..entry.size as usize]);
        }
        while self.buffers.front().is_some_and(|b| b.waiting == 0) {
            self.buffers.pop_front();
            self.first_buffer += 1;
        }
    }
}

/// The size of the record at the beginning of `bytes`; `None` if it is not there entirely.
fn record_size(bytes: &[u8]) -> Option<usize> {
    let size = usize::from(Header::parse(bytes, Endian::NATIVE)?.size);
    (size >= Header::SIZE && size <= bytes.len()).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of 16 bytes whose last eight are its time.
    fn record(time_ns: u64) -> Vec<u8> {
        let mut bytes = vec![3, 0, 0, 0, 0, 0, 16, 0];
        bytes.extend(time_ns.to_ne_bytes());
        bytes
    }

    fn pass(order: &mut RecordOrder, times: &[u64]) -> Vec<u64> {
        let bytes = times.iter().flat_map(|&t| record(t)).collect();
        order.push(bytes, |r| Some(u64::from_ne_bytes(r[8..].try_into().expect("eight bytes"))));
        let mut out = Vec::new();
        order.emit(|t, r| {
            assert_eq!(r, record(t));
            out.push(t);
        });
        out
    }

    #[test]
    fn records_go_out_once_nothing_older_can_come() {
        let mut order = RecordOrder::default();
        assert_eq!(pass(&mut order, &[10, 30, 20]), [0u64; 0]);
        assert_eq!(pass(&mut order, &[15, 40, 25]), [10, 15, 20, 25, 30]);
        assert_eq!(pass(&mut order, &[]), [40]);
        pass(&mut order, &[60, 50]);
        let mut rest = Vec::new();
        order.emit_all(|t, _| rest.push(t));
        assert_eq!(rest, [50, 60]);
        assert!(order.buffers.is_empty());
    }

    #[test]
    fn a_cut_record_ends_the_buffer() {
        let mut order = RecordOrder::default();
        let mut bytes = record(5);
        bytes.extend([9, 0, 0, 0, 0, 0, 200, 0]);
        order.push(bytes, |_| Some(5));
        let mut count = 0;
        order.emit_all(|_, _| count += 1);
        assert_eq!(count, 1);
    }
}
