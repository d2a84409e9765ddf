//! A thread's calls as uftrace recorded them: its records tell the depth, not what was left without returning.

use tracer::layout::uftrace::{Kind, RECORD_BYTES, Record, record_from_bytes};

use super::{RawStep, Step};

/// A thread's steps, and what could not be read.
#[derive(Debug, Default)]
pub struct UftraceSteps {
    /// Time in ns of `CLOCK_MONOTONIC`, and step.
    pub steps: Vec<(u64, RawStep)>,
    /// Records passed over: events, and exits of calls that began before.
    pub skipped: u64,
    /// Records with values behind them (arguments, results), which are not read.
    pub with_values: u64,
    /// Bytes at the end that are no records.
    pub unread_bytes: usize,
}

/// Values stand in as many bytes, at most: of the arguments or of the result of one call.
const VALUES_BYTES: usize = 4096;
/// Times of two records that follow each other are no further apart, ns: 19 hours.
const GAP_NS: u64 = 1 << 46;

/// Reads a thread's file. A call deeper than the next entry or exit shows was left by longjmp or an exception.
#[must_use]
pub fn parse_uftrace(bytes: &[u8]) -> UftraceSteps {
    let mut read = UftraceSteps::default();
    let mut open: Vec<u16> = Vec::new();
    let mut at = 0;
    while let Some(record) = record_at(bytes, at) {
        at += RECORD_BYTES;
        if record.more {
            read.with_values += 1;
            at = behind_values(bytes, at, &record);
        }
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
    read.unread_bytes = bytes.len() - at;
    read
}

fn record_at(bytes: &[u8], at: usize) -> Option<Record> {
    record_from_bytes(bytes.get(at..)?.first_chunk()?)
}

/// Where the values end that follow a record: the file does not tell how long they are, but they are padded to 8 bytes, and
/// what follows is a record that can come after that one, or the end.
fn behind_values(bytes: &[u8], from: usize, before: &Record) -> usize {
    let ends = |at: &usize| {
        *at == bytes.len() || record_at(bytes, *at).is_some_and(|record| may_follow(before, &record))
    };
    let last = bytes.len().min(from + VALUES_BYTES);
    (from..=last).step_by(8).find(ends).unwrap_or(from)
}

fn may_follow(before: &Record, record: &Record) -> bool {
    let deepest = match (before.kind, record.kind) {
        (Kind::Entry, Kind::Entry | Kind::Event) => before.depth + 1,
        (Kind::Entry | Kind::Exit, _) => before.depth,
        _ => u16::MAX,
    };
    record.time_ns >= before.time_ns && record.time_ns - before.time_ns <= GAP_NS && record.depth <= deepest
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
    fn values_behind_a_record_are_passed_over_even_if_they_look_like_records() {
        const MORE: u64 = 4;
        let entry = record(10, MORE, 0, 0x10);
        let values = [b"\x03\0abc\0\0\0".as_slice(), &record(1, 0, 0, 0x99), &7u64.to_le_bytes()].concat();
        let exit = record(20, 1 | MORE, 0, 0x10);
        let bytes = [&entry[..], &values, &record(12, 0, 1, 0x20), &record(13, 1, 1, 0x20), &exit, &[1; 8]];
        let read = parse_uftrace(&bytes.concat());
        let exits = RawStep::Other(Step::Exit(0));
        let wanted = [(10, RawStep::Enter(0x10)), (12, RawStep::Enter(0x20)), (13, exits), (20, exits)];
        assert_eq!((read.steps.as_slice(), read.with_values, read.unread_bytes), (&wanted[..], 2, 0));
        // Values without an end are not taken for records.
        let endless = [&entry[..], &[0xff; 8000]].concat();
        assert_eq!(parse_uftrace(&endless).unread_bytes, 8000);
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
