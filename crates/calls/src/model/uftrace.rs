//! A thread's calls as uftrace recorded them. Its records have the depth, but don't show calls left without returning.

use std::rc::Rc;
use tracer::layout::uftrace::{RECORD_BYTES, UftraceKind, UftraceRecord, record_from_bytes, values_end};

pub use tracer::layout::uftrace::UftraceValue;

use super::{Extra, ExtraKind, RawStep, Step};

/// A thread's steps, and what could not be read.
#[derive(Debug, Default)]
pub struct UftraceSteps {
    /// Time in ns of `CLOCK_MONOTONIC`, and step.
    pub steps: Vec<(u64, RawStep)>,
    /// Records passed over: events, and exits of calls that began before.
    pub skipped: u64,
    /// Arguments and results, as the tracer of tally writes them (`tracer::layout::values`): where [`Extra::at`] counts
    /// from, in bytes.
    pub values: Vec<u8>,
    /// Records followed by values that are not read, because their format is unknown or their content is invalid.
    pub values_passed_over: u64,
    /// Bytes at the end that aren't records.
    pub unread_bytes: usize,
}

/// Format of the values after entries of the function at an address or, if `true`, after its exits; empty if not known.
pub type UftraceValues<'a> = dyn FnMut(u64, bool) -> Rc<[UftraceValue]> + 'a;

/// Maximum bytes of values: of the arguments or of the result of one call.
const VALUES_BYTES: usize = 4096;
/// Maximum time between consecutive records, ns: 19 hours.
const GAP_NS: u64 = 1 << 46;

/// Reads a thread's file. A call deeper than the next entry or exit shows was left by longjmp or an exception.
#[must_use]
pub fn parse_uftrace(bytes: &[u8], values: &mut UftraceValues<'_>) -> UftraceSteps {
    let mut read = UftraceSteps::default();
    let mut open: Vec<u16> = Vec::new();
    let mut at = 0;
    while let Some(record) = record_at(bytes, at) {
        at += RECORD_BYTES;
        let mut extra = None;
        if record.more {
            (at, extra) = read.take_values(bytes, at, &record, values);
        }
        let mut step = |step| read.steps.push((record.time_ns, step));
        let mut leave = |open: &mut Vec<u16>, gone: &dyn Fn(u16) -> bool| {
            while open.pop_if(|depth| gone(*depth)).is_some() {
                step(RawStep::Other(Step::Unwound(0)));
            }
        };
        match record.kind {
            UftraceKind::Entry => {
                leave(&mut open, &|depth| depth >= record.depth);
                open.push(record.depth);
                step(RawStep::Enter(record.address));
                extra.into_iter().for_each(|extra| step(RawStep::Other(Step::Extra(extra))));
            }
            UftraceKind::Exit => {
                leave(&mut open, &|depth| depth > record.depth);
                if open.pop_if(|depth| *depth == record.depth).is_some() {
                    extra.into_iter().for_each(|extra| step(RawStep::Other(Step::Extra(extra))));
                    step(RawStep::Other(Step::Exit(0)));
                } else {
                    read.skipped += 1;
                }
            }
            UftraceKind::Lost => step(RawStep::Other(Step::Lost(record.address))),
            UftraceKind::Event => read.skipped += 1,
        }
    }
    read.unread_bytes = bytes.len() - at;
    read
}

impl UftraceSteps {
    /// Reads the values after `record`, from `from` on. Returns their end and the place of the kept ones.
    fn take_values(
        &mut self,
        bytes: &[u8],
        from: usize,
        record: &UftraceRecord,
        values: &mut UftraceValues<'_>,
    ) -> (usize, Option<Extra>) {
        let is_result = record.kind == UftraceKind::Exit;
        let at = self.values.len();
        let end = values_end(bytes, from, &values(record.address, is_result), &mut self.values)
            .filter(|end| ends_values(bytes, *end, record));
        let (Some(end), Ok(extra_at)) = (end, u32::try_from(at)) else {
            self.values.truncate(at);
            self.values_passed_over += 1;
            return (behind_values(bytes, from, record), None);
        };
        let kind = if is_result { ExtraKind::Result } else { ExtraKind::Arguments };
        (end, Some(Extra { kind, at: extra_at, bytes: (self.values.len() - at) as u32 }))
    }
}

fn record_at(bytes: &[u8], at: usize) -> Option<UftraceRecord> {
    record_from_bytes(bytes.get(at..)?.first_chunk()?)
}

/// End of values with unknown format. The file doesn't record their length, but they are padded to 8 bytes and followed
/// by a record that can come after that one, or by the end of the file.
fn behind_values(bytes: &[u8], from: usize, before: &UftraceRecord) -> usize {
    let last = bytes.len().min(from + VALUES_BYTES);
    (from..=last).step_by(8).find(|at| ends_values(bytes, *at, before)).unwrap_or(from)
}

/// Whether the file ends there or goes on with a record that can come after that one.
fn ends_values(bytes: &[u8], at: usize, before: &UftraceRecord) -> bool {
    at == bytes.len() || record_at(bytes, at).is_some_and(|record| may_follow(before, &record))
}

fn may_follow(before: &UftraceRecord, record: &UftraceRecord) -> bool {
    let deepest = match (before.kind, record.kind) {
        (UftraceKind::Entry, UftraceKind::Entry | UftraceKind::Event) => before.depth + 1,
        (UftraceKind::Entry | UftraceKind::Exit, _) => before.depth,
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
        let read = parse_uftrace(&bytes.concat(), &mut |_, _| Rc::new([]));
        let exits = RawStep::Other(Step::Exit(0));
        let wanted = [(10, RawStep::Enter(0x10)), (12, RawStep::Enter(0x20)), (13, exits), (20, exits)];
        assert_eq!((read.steps.as_slice(), read.values_passed_over, read.unread_bytes), (&wanted[..], 2, 0));
        // Values without an end are not taken for records.
        let endless = [&entry[..], &[0xff; 8000]].concat();
        assert_eq!(parse_uftrace(&endless, &mut |_, _| Rc::new([])).unread_bytes, 8000);
    }

    #[test]
    fn values_that_are_known_are_read_and_those_that_do_not_fit_passed_over() {
        const MORE: u64 = 4;
        let known: &[UftraceValue] = &[UftraceValue::Text, UftraceValue::Bytes(1), UftraceValue::Record(12)];
        let number: &[UftraceValue] = &[UftraceValue::Auto];
        let mut of = |_: u64, is_result: bool| if is_result { number.into() } else { known.into() };
        let values = [b"\x03\0abc\0\0\0".as_slice(), b"x\0\0\0", &[9; 12]].concat();
        let result = [&(-5i32).to_le_bytes()[..], &[0; 4]].concat();
        let bytes =
            [&record(10, MORE, 0, 0x10)[..], &values, &record(20, 1 | MORE, 0, 0x10), &result].concat();
        let read = parse_uftrace(&bytes, &mut of);
        let extra = |kind, at, bytes| RawStep::Other(Step::Extra(Extra { kind, at, bytes }));
        let wanted = [
            (10, RawStep::Enter(0x10)),
            (10, extra(ExtraKind::Arguments, 0, 7)),
            (20, extra(ExtraKind::Result, 7, 5)),
            (20, RawStep::Other(Step::Exit(0))),
        ];
        assert_eq!((read.steps.as_slice(), read.values_passed_over), (&wanted[..], 0));
        assert_eq!(read.values, b"\x03abc\x01x\0\x04\xfb\xff\xff\xff");
        // The file's values don't match the declared ones.
        let read = parse_uftrace(&bytes, &mut |_, _| number.into());
        assert_eq!((read.values_passed_over, read.unread_bytes), (1, 0));
        assert_eq!(read.steps.len(), 3);
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
        let read = parse_uftrace(&bytes.concat(), &mut |_, _| Rc::new([]));
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
