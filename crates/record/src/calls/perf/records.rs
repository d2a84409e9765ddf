//! Records of the rings → events of calls, in the order of their times.

use perfdata::abi::*;
use perfdata::record::live::LiveFormat;
use perfdata::{Attr, AttrFlags, Record, Sample};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::layout::{CallEvent, CallEventKind};
use super::super::merge::Merge;
use super::ById;
use crate::open::spans::{FLAGS, SP, holds, registers};
use crate::sys::RingSpan;
use crate::sys::bpf::ProbeSide;
use crate::sys::time::Clock;

/// Bytes that a return has taken off the stack when its probe sees it.
const POPPED: u64 = if cfg!(target_arch = "x86_64") { 8 } else { 0 };
/// Bytes before a tracepoint's own fields (`common_*`).
const COMMON: usize = 8;

/// The probe that an event id belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRole {
    /// Number of the function.
    pub function: u32,
    /// Enter or exit.
    pub kind: CallEventKind,
    /// It jumps back to its entry.
    pub loops: bool,
    /// Seen after the return, not on it.
    pub side: ProbeSide,
    /// Only if this condition holds.
    pub condition: Option<u8>,
    /// Only if the function was entered at this place of the stack.
    pub maybe: bool,
}

/// The attribute that all events share.
pub fn attr() -> Attr {
    let mut attr = Attr {
        sample_period: 1,
        sample_type: PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER,
        sample_regs_user: registers(),
        clockid: Clock::Monotonic.id(),
        ..Attr::default()
    };
    attr.flags.set(AttrFlags::SAMPLE_ID_ALL | AttrFlags::USE_CLOCKID, true);
    attr
}

/// Records read but not yet handed out.
pub struct CallRecords {
    probe: LiveFormat,
    tracepoint: LiveFormat,
    probes: ById<ProbeRole>,
    tracepoints: ById<CallEventKind>,
    targets: FxHashSet<u32>,
    pending: Merge,
    bytes: Vec<u8>,
    /// When threads left the CPU.
    away: FxHashMap<u32, u64>,
    /// Records that the kernel had no room for.
    pub lost: u64,
    /// Records of unknown form.
    pub damaged: u64,
    /// No more will come.
    pub stopped: bool,
}

impl CallRecords {
    /// None yet.
    pub fn new() -> Self {
        let with_raw = Attr { sample_type: attr().sample_type | PERF_SAMPLE_RAW, ..attr() };
        Self {
            probe: LiveFormat::new(&attr()),
            tracepoint: LiveFormat::new(&with_raw),
            probes: ById::default(),
            tracepoints: ById::default(),
            targets: FxHashSet::default(),
            pending: Merge::default(),
            bytes: Vec::new(),
            away: FxHashMap::default(),
            lost: 0,
            damaged: 0,
            stopped: false,
        }
    }

    /// The event `id` is a probe there.
    pub fn add_probe(&mut self, id: u64, place: ProbeRole) {
        self.probes.insert(id, place);
    }

    /// The event `id` is a tracepoint of this meaning.
    pub fn add_tracepoint(&mut self, id: u64, kind: CallEventKind) {
        self.tracepoints.insert(id, kind);
    }

    /// Events of this process are handed out, and of what it forks.
    pub fn add_process(&mut self, pid: u32) {
        self.targets.insert(pid);
    }

    /// Reads what waits in a ring.
    pub fn take(&mut self, span: &RingSpan<'_>) {
        let mut at = 0;
        while let Some(header) = span.u64_at(at) {
            let (_, size) = LiveFormat::type_and_size(header);
            if size < 8 || at + size > span.len() {
                self.damaged += 1;
                break;
            }
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes.clear();
            span.copy_to(at, size, &mut bytes);
            self.take_record(&bytes);
            self.bytes = bytes;
            at += size;
        }
    }

    /// Reads one record.
    pub fn take_record(&mut self, bytes: &[u8]) {
        let id = LiveFormat::identifier_of(bytes).unwrap_or_default();
        let tracepoint = self.tracepoints.get(&id).copied();
        let format = if tracepoint.is_some() { &self.tracepoint } else { &self.probe };
        let Some((record, sample_id)) = format.parse(bytes) else {
            self.damaged += 1;
            return;
        };
        let event = |kind, pid, tid, time_ns| CallEvent {
            time_ns,
            sp: 0,
            tid,
            pid,
            function: 0,
            kind,
            generation: false,
            loops: false,
            maybe: false,
        };
        let time_ns = sample_id.time_ns.unwrap_or_default();
        let (pid, tid) = sample_id.pid_tid.unwrap_or_default();
        let new = match record {
            Record::Sample(sample) => match tracepoint {
                Some(kind) => traced(&sample, kind, event),
                None => self.probes.get(&id).and_then(|place| probed(&sample, *place, event)),
            },
            Record::Fork(task) if task.pid != task.ppid => Some(CallEvent {
                function: task.pid,
                ..event(CallEventKind::Fork, task.ppid, task.ptid, time_ns)
            }),
            Record::Comm(comm) if comm.exec => Some(event(CallEventKind::Exec, comm.pid, comm.tid, time_ns)),
            Record::Switch(switch) if switch.out => {
                self.away.insert(tid, time_ns);
                None
            }
            Record::Switch(_) => self.away.remove(&tid).map(|left_ns| CallEvent {
                sp: time_ns.saturating_sub(left_ns),
                ..event(CallEventKind::Off, pid, tid, time_ns)
            }),
            Record::Lost(lost) => {
                self.lost += lost.lost;
                None
            }
            _ => None,
        };
        self.pending.extend(new);
    }

    /// Returns the selected processes' events from before that time, in order.
    pub fn emit(&mut self, before_ns: u64) -> Vec<CallEvent> {
        let targets = &mut self.targets;
        let meant = |event: &CallEvent| {
            let meant = targets.contains(&event.pid);
            if meant && event.kind == CallEventKind::Fork {
                targets.insert(event.function);
            }
            meant
        };
        self.pending.emit(before_ns).filter(meant).collect()
    }
}

fn probed(
    sample: &Sample<'_>,
    place: ProbeRole,
    event: impl Fn(CallEventKind, u32, u32, u64) -> CallEvent,
) -> Option<CallEvent> {
    let ((pid, tid), time_ns) = sample.pid_tid.zip(sample.time_ns)?;
    let registers = sample.regs_user?;
    let sp = registers.reg(SP)? - if place.side == ProbeSide::Return { POPPED } else { 0 };
    let ProbeRole { function, kind, loops, maybe, condition, .. } = place;
    if condition.is_some_and(|number| !holds(number, registers.reg(FLAGS).unwrap_or_default())) {
        return None;
    }
    Some(CallEvent { sp, function, loops, maybe, ..event(kind, pid, tid, time_ns) })
}

/// System calls have their number, page faults their address as the first field.
fn traced(
    sample: &Sample<'_>,
    kind: CallEventKind,
    event: impl Fn(CallEventKind, u32, u32, u64) -> CallEvent,
) -> Option<CallEvent> {
    let ((pid, tid), time_ns) = sample.pid_tid.zip(sample.time_ns)?;
    let first: [u8; 8] = sample.raw?.get(COMMON..COMMON + 8)?.try_into().ok()?;
    let first = u64::from_ne_bytes(first);
    let new = event(kind, pid, tid, time_ns);
    Some(if kind == CallEventKind::System {
        CallEvent { function: first as u32, ..new }
    } else {
        CallEvent { sp: first, ..new }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTER: ProbeRole = ProbeRole {
        function: 3,
        kind: CallEventKind::Enter,
        loops: false,
        side: ProbeSide::Entry,
        condition: None,
        maybe: false,
    };

    fn record(type_: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = (words.len() as u64 + 1) * 8;
        let header = u64::from(type_) | u64::from(misc) << 32 | size << 48;
        std::iter::once(header).chain(words.iter().copied()).flat_map(u64::to_ne_bytes).collect()
    }

    fn ids(pid: u64, tid: u64) -> u64 {
        pid | tid << 32
    }

    /// identifier, pid and tid, time, ABI, sp, flags (zero is set).
    fn sample(id: u64, pid: u64, time: u64, sp: u64) -> Vec<u8> {
        let words = [id, ids(pid, pid), time, PERF_SAMPLE_REGS_ABI_64, sp, 1 << 6];
        record(PERF_RECORD_SAMPLE, 2, &words[..if cfg!(target_arch = "x86_64") { 6 } else { 5 }])
    }

    /// Any other record ends with pid and tid, time, identifier.
    fn fork(parent: u64, child: u64, time: u64) -> Vec<u8> {
        let body = [ids(child, parent), ids(child, parent), time, ids(parent, parent), time, 1];
        record(PERF_RECORD_FORK, 0, &body)
    }

    fn records() -> CallRecords {
        let mut records = CallRecords::new();
        records.add_probe(9, ENTER);
        records.add_probe(10, ProbeRole { kind: CallEventKind::Exit, side: ProbeSide::Return, ..ENTER });
        records.add_process(100);
        records
    }

    #[test]
    fn records_of_two_rings_come_out_in_the_order_of_their_times_and_only_when_settled() {
        let mut records = records();
        records.take_record(&sample(9, 100, 30, 0x70));
        records.take_record(&sample(9, 100, 10, 0x90));
        records.take_record(&sample(10, 100, 20, 0x98));
        let seen: Vec<_> = records.emit(30).iter().map(|e| (e.kind, e.function, e.sp, e.time_ns)).collect();
        assert_eq!(seen, [(CallEventKind::Enter, 3, 0x90, 10), (CallEventKind::Exit, 3, 0x98 - POPPED, 20)]);
        assert_eq!(records.emit(u64::MAX).len(), 1);
    }

    #[test]
    fn other_processes_are_left_out_and_a_child_counts_from_its_fork_on() {
        let mut records = records();
        records.take_record(&sample(9, 200, 10, 0x90));
        records.take_record(&fork(100, 200, 20));
        records.take_record(&sample(9, 200, 30, 0x90));
        let kinds: Vec<_> = records.emit(u64::MAX).iter().map(|event| (event.kind, event.pid)).collect();
        assert_eq!(kinds, [(CallEventKind::Fork, 100), (CallEventKind::Enter, 200)]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_conditional_jump_leaves_only_if_its_condition_holds() {
        let mut records = records();
        for (id, number) in [(11, 4), (12, 5), (13, 15), (14, 14)] {
            records.add_probe(id, ProbeRole { kind: CallEventKind::Exit, condition: Some(number), ..ENTER });
            records.take_record(&sample(id, 100, id, 0x90));
        }
        // When the zero flag is set, two of "equal", "not equal", "greater" and "less or equal" hold.
        let times: Vec<_> = records.emit(u64::MAX).iter().map(|event| event.time_ns).collect();
        assert_eq!(times, [11, 14]);
    }

    #[test]
    fn lost_and_damaged_records_are_counted() {
        let mut records = records();
        records.take_record(&record(PERF_RECORD_LOST, 0, &[9, 42, ids(100, 100), 5, 9]));
        records.take_record(&[1, 2, 3]);
        assert_eq!((records.lost, records.damaged, records.emit(u64::MAX).len()), (42, 1, 0));
    }

    #[test]
    fn time_off_the_cpu_is_from_switch_to_switch() {
        let mut records = records();
        let switch = |misc, time| record(PERF_RECORD_SWITCH, misc, &[ids(100, 101), time, 1]);
        records.take_record(&switch(PERF_RECORD_MISC_SWITCH_OUT, 1000));
        records.take_record(&switch(0, 1700));
        let seen: Vec<_> = records.emit(u64::MAX).iter().map(|e| (e.kind, e.tid, e.sp, e.time_ns)).collect();
        assert_eq!(seen, [(CallEventKind::Off, 101, 700, 1700)]);
    }
}
