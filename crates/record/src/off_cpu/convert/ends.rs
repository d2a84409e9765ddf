//! The end of a thread: what it summed up without a sample of its own.

use perfdata::off_cpu::{OffCpuInterval, OffCpuTotals, OtherThread, State, WaitSums, flag};

use super::super::layout::{EndRecord, OffCpuRecordKind, SiteRest, SiteSums};
use super::attrs::event_of;
use super::{Encoder, Parts};
use crate::machine::process_titles;

impl Encoder {
    pub(super) fn encode_end(&self, end: &EndRecord, out: &mut Vec<u8>) {
        for (event, period, raw) in end_samples(end, process_titles::recorded_title(end)) {
            let (task, time_ns) = ((end.pid, end.tid), end.end_ns);
            self.put(&Parts { event, record: None, task, time_ns, cpu: 0, period, raw }, out);
        }
    }

    /// Waits that no sample took along: their stack is what samples of the same place showed.
    pub(super) fn encode_rest(&self, rest: &SiteRest, out: &mut Vec<u8>) {
        let sums = &rest.sums;
        let no_stack = SiteSums { print: 0, stack_print: 0, ..*sums };
        let state = State::from_code(sums.kind as u8);
        let parts = [(state, sums.wait_ns), (State::Runnable, sums.runnable_ns)];
        for (at, (state, period)) in parts.into_iter().enumerate().filter(|(_, (_, ns))| *ns > 0) {
            let raw = OffCpuInterval {
                state,
                flags: flag::REST,
                since_ns: sums.since_ns,
                length_ns: 0,
                syscall: sums.syscall,
                args: [sums.arg, 0, 0],
                sums: Some(sums_of(if rest.has_stack { sums } else { &no_stack }, at == 0)),
                other: OtherThread::default(),
                place: String::new(),
            };
            let (task, raw) = ((sums.pid, rest.tid), raw.to_bytes());
            self.put(
                &Parts {
                    event: event_of(state),
                    record: None,
                    task,
                    time_ns: rest.time_ns,
                    cpu: 0,
                    period,
                    raw,
                },
                out,
            );
        }
    }
}

/// The samples made at a thread's end: time not represented by any sample, by state, and its totals with the process's
/// title. Each has an event, a period and a payload.
#[must_use]
pub fn end_samples(end: &EndRecord, title: Option<String>) -> Vec<(usize, u64, Vec<u8>)> {
    let states = (0u8..).map(State::from_code).zip(&end.carry_ns).skip(1);
    let rests = states.filter(|(_, rest)| **rest > 0).map(|(state, &rest)| {
        let interval = OffCpuInterval {
            state,
            flags: flag::REST,
            since_ns: end.start_ns,
            length_ns: 0,
            syscall: None,
            args: [0; 3],
            sums: None,
            other: OtherThread::default(),
            place: String::new(),
        };
        (event_of(state), rest, interval.to_bytes())
    });
    let totals = OffCpuTotals {
        start_ns: end.start_ns,
        end_ns: end.end_ns,
        total_ns: end.total_ns,
        switches: end.switches,
        flags: end.flags,
        comm: String::from_utf8_lossy(&end.comm).into_owned(),
        preemptions: end.preemptions,
        migrations: end.migrations,
        faults: end.faults,
        queue: Some(end.queue.clone()),
        title: title.unwrap_or_default(),
    };
    let totals = (event_of(State::On), end.total_ns[OffCpuRecordKind::On as usize], totals.to_bytes());
    rests.chain([totals]).collect()
}

/// The sums of a sample's place; without `counts` only the place, because another sample has the counts.
pub(super) fn sums_of(site: &SiteSums, counts: bool) -> Box<WaitSums> {
    let SiteSums { print, stack_print, since_ns, longest_ns, count, lengths, .. } = *site;
    if !counts {
        return Box::new(WaitSums { print, stack_print, since_ns, ..WaitSums::default() });
    }
    Box::new(WaitSums { print, stack_print, since_ns, longest_ns, count, lengths })
}
