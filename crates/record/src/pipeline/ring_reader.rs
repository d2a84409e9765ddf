//! Empties the rings: the records of one pass over all of them become one buffer for the unwinding thread.
//!
//! Samples are copied without the unused part of their stack's room, which is most of it. If neither memory nor disk
//! has room for more, the stacks are left out as well: the sample stays, its loss of depth is counted.

use perfdata::abi::PERF_RECORD_SAMPLE;
use perfdata::record::live::{LiveFormat, StackSpan, shorten_snapshot};
use rustc_hash::FxHashMap;

use crate::off_cpu::convert;
use crate::open::plan::Plan;
use crate::pipeline::queue::Room;
use crate::sys::{Ring, RingSpan};

/// A stack that was left out keeps one word, to distinguish it from one that the kernel could not copy.
pub const LEFT_OUT_BYTES: usize = 8;

/// How the records of each opened event are laid out, by the id that they carry.
#[derive(Debug, Clone)]
pub struct Layouts {
    by_event: Vec<LiveFormat>,
    event_of: FxHashMap<u64, usize>,
    /// Records carry their event's id; without, all sampling events share one layout.
    has_ids: bool,
    sampling: usize,
    /// Ids of events that were opened again, with those that the file knows.
    aliases: FxHashMap<u64, u64>,
}

impl Layouts {
    /// From the plan and the ids of the opened events: (id, index of the opened event).
    #[must_use]
    pub fn new(plan: &Plan, ids: impl IntoIterator<Item = (u64, usize)>) -> Self {
        let samples =
            |e: &crate::open::plan::OpenedEvent| e.attr.sample_type & perfdata::abi::PERF_SAMPLE_IP != 0;
        let off_cpu = plan.off_cpu.iter().flat_map(|attr| std::iter::repeat_n(attr, convert::WAKER + 1));
        let attrs = plan.opened.iter().map(|e| &e.attr).chain(off_cpu);
        let off_cpu_ids = (0..=convert::WAKER).map(|i| (convert::event_id(i), plan.opened.len() + i));
        Self {
            by_event: attrs.map(LiveFormat::new).collect(),
            event_of: ids.into_iter().chain(off_cpu_ids.filter(|_| plan.off_cpu.is_some())).collect(),
            has_ids: plan.has_ids(),
            sampling: plan.opened.iter().position(samples).unwrap_or(0),
            aliases: FxHashMap::default(),
        }
    }

    /// From now on records of event `new` count as those of `known`, which has the same layout.
    pub fn alias(&mut self, new: u64, known: u64) {
        let event = self.event_of.get(&known).copied();
        self.event_of.extend(event.map(|event| (new, event)));
        self.aliases.insert(new, known);
    }

    /// The opened event a record belongs to, and its layout.
    #[must_use]
    pub fn of(&self, record: &[u8]) -> (usize, &LiveFormat) {
        let by_id = if self.has_ids { LiveFormat::identifier_of(record) } else { None };
        let event = by_id.and_then(|id| self.event_of.get(&id)).copied().unwrap_or(self.sampling);
        (event, &self.by_event[event])
    }

    /// The opened event with this id.
    #[must_use]
    pub fn event(&self, id: u64) -> Option<usize> {
        self.event_of.get(&id).copied()
    }

    fn of_sample(&self, first_word: Option<u64>) -> &LiveFormat {
        let by_id = first_word.filter(|_| self.has_ids).and_then(|id| self.event_of.get(&id));
        &self.by_event[by_id.copied().unwrap_or(self.sampling)]
    }
}

/// One pass over all rings; empty if nothing waited. Without room for stacks, samples keep their leaf only.
#[must_use]
pub fn drain(rings: &mut [Ring], layouts: &Layouts, without_stacks: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    drain_into(rings, layouts, if without_stacks { Room::Records } else { Room::Stacks }, &mut bytes);
    bytes
}

/// The same, after what `bytes` has already.
pub fn drain_into(rings: &mut [Ring], layouts: &Layouts, room: Room, bytes: &mut Vec<u8>) {
    for ring in rings {
        ring.read(|span| copy_records(&span, layouts, room != Room::Stacks, bytes));
    }
}

/// Copies whole records, samples without the unused part of their stack's room.
fn copy_records(span: &RingSpan<'_>, layouts: &Layouts, without_stacks: bool, out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(header) = span.u64_at(at) {
        let (kind, size) = LiveFormat::type_and_size(header);
        if size < 8 || at + size > span.len() {
            break;
        }
        let is_sample = kind == PERF_RECORD_SAMPLE;
        let begin = out.len();
        let layout = is_sample.then(|| layouts.of_sample(span.u64_at(at + 8)));
        match layout.and_then(|l| l.find_snapshot(size, |offset| span.u64_at(at + offset))) {
            Some(mut snapshot) => {
                if without_stacks {
                    snapshot.used = snapshot.used.min(LEFT_OUT_BYTES);
                }
                copy_sample(span, at, size, &snapshot, out);
            }
            None => span.copy_to(at, size, out),
        }
        if layouts.has_ids && !layouts.aliases.is_empty() {
            LiveFormat::rename(&mut out[begin..], |id| layouts.aliases.get(&id).copied());
        }
        at += size;
    }
}

fn copy_sample(span: &RingSpan<'_>, at: usize, size: usize, snapshot: &StackSpan, out: &mut Vec<u8>) {
    let begin = out.len();
    let tail = snapshot.start + snapshot.reserved;
    span.copy_to(at, snapshot.start + snapshot.used, out);
    // With no room at all, the kernel's count of valid bytes is left out too.
    let skipped = if snapshot.used == 0 { 8 } else { 0 };
    span.copy_to(at + tail + skipped, size - tail - skipped, out);
    shorten_snapshot(&mut out[begin..], snapshot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::abi::*;
    use perfdata::{Attr, AttrFlags, Record};

    fn attr() -> Attr {
        let sample_type = PERF_SAMPLE_IP
            | PERF_SAMPLE_TID
            | PERF_SAMPLE_TIME
            | PERF_SAMPLE_PERIOD
            | PERF_SAMPLE_CALLCHAIN
            | PERF_SAMPLE_REGS_USER
            | PERF_SAMPLE_STACK_USER;
        let flags = AttrFlags::SAMPLE_ID_ALL;
        Attr { sample_type, sample_regs_user: 0b11, sample_stack_user: 64, flags, ..Attr::default() }
    }

    /// A sample as the kernel writes it: 24 of 64 stack bytes valid.
    fn sample(valid: u64) -> Vec<u8> {
        let mut words: Vec<u64> =
            vec![0, 0x1000, 7 | 8 << 32, 99, 5, 2, PERF_CONTEXT_KERNEL, 0xffff, 2, 1, 2, 64];
        words.extend(1..=8u64);
        words.push(valid);
        let size = words.len() as u64 * 8;
        words[0] = u64::from(PERF_RECORD_SAMPLE) | size << 48;
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    fn layouts() -> Layouts {
        let event = crate::open::plan::OpenedEvent {
            name: "x".into(),
            attr: attr(),
            file_event: 0,
            leader: None,
            step: Some(0),
            filter: None,
            aux: false,
            of_tasks: false,
            probe: None,
        };
        let (opened, steps) = (vec![event], vec![64]);
        let plan = Plan { opened, file: Vec::new(), live: true, steps, off_cpu: None, tracepoints: None };
        Layouts::new(&plan, [])
    }

    fn copied(record: &[u8], split: usize, without_stacks: bool) -> Vec<u8> {
        let (first, second) = record.split_at(split);
        let mut out = Vec::new();
        copy_records(&RingSpan { first, second }, &layouts(), without_stacks, &mut out);
        out
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn unused_stack_room_is_not_copied_and_the_sample_still_reads() {
        let record = [sample(24), sample(64)].concat();
        let out = copied(&record, 40, false);
        assert_eq!(out.len(), record.len() - 40);
        let (Record::Sample(s), _) =
            LiveFormat::new(&attr()).parse(&out[..sample(24).len() - 40]).expect("parses")
        else {
            panic!("not a sample")
        };
        let stack = s.stack_user.expect("has a stack");
        assert_eq!(stack.bytes.len(), 24);
        assert_eq!(stack.bytes[..8], 1u64.to_ne_bytes());
        assert_eq!(s.pid_tid, Some((7, 8)));
        assert_eq!(LiveFormat::new(&attr()).time_of(&out), Some(99));
    }

    #[test]
    fn records_of_an_event_opened_again_carry_the_id_that_the_file_knows() {
        let words = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        let header = |kind: u32, size: u64| u64::from(kind) | size << 48;
        let mut layouts = layouts();
        layouts.has_ids = true;
        layouts.event_of.insert(7, 0);
        layouts.alias(99, 7);
        let told = |record: &[u64]| {
            let record = words(record);
            let mut out = Vec::new();
            copy_records(&RingSpan { first: &record, second: &[] }, &layouts, false, &mut out);
            out
        };
        let comm = |id| [header(PERF_RECORD_COMM, 32), 1, 2, id];
        assert_eq!(told(&comm(99)), words(&comm(7)));
        assert_eq!(told(&comm(5)), words(&comm(5)));
        let lost = |id| [header(PERF_RECORD_LOST, 32), id, 99, id];
        assert_eq!(told(&lost(99)), words(&lost(7)));
        let sample = |id| [header(PERF_RECORD_SAMPLE, 24), id, 99];
        assert_eq!(told(&sample(99))[..16], words(&sample(7))[..16]);
        assert_eq!(layouts.event(99), Some(0));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_late_unwinder_gets_samples_without_stacks() {
        let out = copied(&sample(64), 120, true);
        let (Record::Sample(s), _) = LiveFormat::new(&attr()).parse(&out).expect("parses") else {
            panic!("not a sample")
        };
        assert_eq!(s.stack_user.expect("the field").bytes.len(), LEFT_OUT_BYTES);
    }
}
