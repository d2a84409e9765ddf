//! A thread's calls as uftrace recorded them: its records tell the depth, not what was left without returning.

use tracer::layout::uftrace::{Kind, RECORD_BYTES, record_from_bytes};

use super::{RawStep, Step};

/// A thread's steps, and what could not be read.
#[derive(Debug, Default)]
pub struct UftraceSteps {
    /// Time in ns of `CLOCK_MONOTONIC`, and step.
    pub steps: Vec<(u64, RawStep)>,
    /// Records passed over: events, and exits of calls that began before.
    pub skipped: u64,
    /// Bytes at the end that are no records (or come after arguments, whose length the file does not tell).
    pub unread_bytes: usize,
}

/// Reads a thread's file. A call deeper than the next entry or exit shows was left by longjmp or an exception.
#[must_use]
pub fn parse_uftrace(bytes: &[u8]) -> UftraceSteps {
    let mut read = UftraceSteps::default();
    let mut open: Vec<u16> = Vec::new();
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    read.unread_bytes = rest.len();
    for (at, bytes) in records.iter().enumerate() {
        let Some(record) = record_from_bytes(bytes).filter(|record| !record.more) else {
            read.unread_bytes += (records.len() - at) * RECORD_BYTES;
            break;
        };
        let mut step = |step| read.steps.push((record.time_ns, step));
        let mut leave = |open: &mut Vec<u16>, gone: &dyn Fn(u16) -> bool| {
            while open.pop_if(|depth| gone(*depth)).is_some() {
                step(RawStep::Other(Step::Unwound(0)));
            }
        };
        match record.kind {
            Kind::Entry => {
                leave(&mut open, &|depth| depth >= record.depth);
                open.push(record.depth);
                step(RawStep::Enter(record.address));
            }
            Kind::Exit => {
                leave(&mut open, &|depth| depth > record.depth);
                if open.pop_if(|depth| *depth == record.depth).is_some() {
                    step(RawStep::Other(Step::Exit(0)));
                } else {
                    read.skipped += 1;
                }
            }
            Kind::Lost => step(RawStep::Other(Step::Lost(record.address))),
            Kind::Event => read.skipped += 1,
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(ns: u64, kind: u64, depth: u64, address: u64) -> [u8; 16] {
        let data = kind | 5 << 3 | depth << 6 | address << 16;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&ns.to_le_bytes());
        bytes[8..].copy_from_slice(&data.to_le_bytes());
        bytes
    }

    #[test]
    fn calls_left_by_a_longjmp_are_closed_where_the_depth_shows_it() {
        let bytes = [
            record(1, 0, 0, 0x10),
            record(2, 0, 1, 0x20),
            record(3, 0, 2, 0x30),
            record(4, 0, 1, 0x40),
            record(5, 1, 1, 0x40),
            record(6, 1, 0, 0x10),
            record(7, 1, 0, 0x10),
        ];
        let read = parse_uftrace(&bytes.concat());
        let unwound = RawStep::Other(Step::Unwound(0));
        let exit = RawStep::Other(Step::Exit(0));
        let wanted = [
            (1, RawStep::Enter(0x10)),
            (2, RawStep::Enter(0x20)),
            (3, RawStep::Enter(0x30)),
            (4, unwound),
            (4, unwound),
            (4, RawStep::Enter(0x40)),
            (5, exit),
            (6, exit),
        ];
        assert_eq!((read.steps.as_slice(), read.skipped), (&wanted[..], 1));
    }
}
