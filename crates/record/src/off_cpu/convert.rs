//! Ring records as perf samples, as the kernel itself would have written them: with kernel chain, user registers
//! and a piece of user stack. So they join the records of the perf rings, and one path orders, unwinds and writes
//! them all.
//!
//! Conservation: the periods of all samples of a thread, by event, add up to its totals.

use dso::Machine;
use dso::unwind::Regs as UnwindRegs;
use perfdata::abi::*;
use perfdata::off_cpu::{OffCpuInterval, OffCpuTotals, OtherThread, State, WaitSums, event_name, flag};
use perfdata::record_to_bytes;
use perfdata::{Attr, AttrFlags, Avma, Callchain, CpuMode, Event, Sample, SampleId, SampleRegs, UserStack};

use crate::machine::process_titles;

use super::layout::{self, EndRecord, Kind, OffRecord, Record, SiteRest, SiteSums};
use super::proc_sampler::ProcSample;
use super::registers::{pt_regs_index, syscall_of, user_pc, word};

/// The events of off-CPU samples, in the file's order.
pub const FILE_EVENTS: [&str; 4] =
    [event_name::OFF_CPU, event_name::RUNNABLE, event_name::PREEMPTED, event_name::TOTALS];

/// Name of the recorder's own threads where they ran instead of the target's.
const OWN_NAME: &str = "tally (itself)";

/// Index, after [`FILE_EVENTS`], of the wakers' samples, which are joined to their sleepers' and not written.
pub const WAKER: usize = FILE_EVENTS.len();

/// The id of the event of this index: far from the kernel's, which count up from 1.
#[must_use]
pub fn event_id(index: usize) -> u64 {
    0x7461_6c6c_7900_0000 + index as u64
}

/// The attribute of off-CPU samples in the file. `common` has the recording's identifying fields and clock.
#[must_use]
pub fn file_attr(common: &Attr) -> Attr {
    let sample_type = PERF_SAMPLE_IDENTIFIER
        | PERF_SAMPLE_IP
        | PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_CPU
        | PERF_SAMPLE_PERIOD
        | PERF_SAMPLE_CALLCHAIN
        | PERF_SAMPLE_RAW;
    let flags = AttrFlags::SAMPLE_ID_ALL | AttrFlags::USE_CLOCKID;
    Attr {
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_BPF_OUTPUT,
        sample_period: 1,
        sample_type,
        flags,
        clockid: common.clockid,
        ..Attr::default()
    }
}

/// The same with what unwinding needs; `regs_mask` in perf's numbers.
#[must_use]
pub fn snapshot_attr(common: &Attr, regs_mask: u64) -> Attr {
    let mut attr = file_attr(common);
    attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr.sample_regs_user = regs_mask;
    attr.sample_stack_user = layout::STACK_MAX_BYTES as u32;
    attr
}

/// Turns the engine's records into sample records.
#[derive(Debug)]
pub struct Encoder {
    event: Event,
    regs_mask: u64,
    /// PID of the recorder itself.
    own_pid: u32,
}

/// A part of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPart {
    /// What the thread waited for: an event, or a CPU.
    pub state: State,
    /// How long, ns.
    pub length_ns: u64,
    /// When it was over, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
}

/// One sample before it becomes bytes.
struct Parts<'a> {
    event: usize,
    record: Option<&'a OffRecord<'a>>,
    task: (u32, u32),
    time_ns: u64,
    cpu: u32,
    period: u64,
    raw: Vec<u8>,
}

impl Encoder {
    /// For samples in the layout of [`snapshot_attr`].
    #[must_use]
    pub fn new(attr: Attr) -> Self {
        Self {
            regs_mask: attr.sample_regs_user,
            event: Event { attr, ..Event::default() },
            own_pid: std::process::id(),
        }
    }

    /// Appends the sample records of one ring record.
    pub fn encode(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        match record {
            Record::Waker(waker) => self.encode_waker(waker, out),
            Record::Sample(sample) => self.encode_sample(sample, out),
            Record::End(end) => self.encode_end(end, out),
            Record::Rest(rest) => self.encode_rest(rest, out),
            Record::Exec(_) | Record::Site(_) => {}
        }
    }

    fn encode_waker(&self, waker: &OffRecord<'_>, out: &mut Vec<u8>) {
        let raw = OffCpuInterval {
            state: State::On,
            flags: waker.flags(),
            since_ns: waker.since_ns(),
            length_ns: 0,
            syscall: None,
            args: [0; 3],
            sums: None,
            other: OtherThread {
                pid: waker.pid(),
                tid: waker.tid(),
                comm: String::from_utf8_lossy(waker.other_comm()).into_owned(),
                chain: Vec::new(),
            },
            place: String::new(),
        };
        self.put(
            &Parts {
                event: WAKER,
                record: Some(waker),
                task: (waker.other_pid(), waker.other_tid()),
                time_ns: waker.time_ns(),
                cpu: waker.cpu(),
                period: 1,
                raw: raw.to_bytes(),
            },
            out,
        );
    }

    /// The name of who ran instead; empty for the process's own threads, which the file names anyway.
    fn name_of_other(&self, sample: &OffRecord<'_>) -> String {
        let is_preempted = State::from_code(sample.kind() as u8) == State::Preempted;
        if !is_preempted || sample.other_pid() == sample.pid() {
            return String::new();
        }
        if sample.other_pid() == self.own_pid {
            return OWN_NAME.to_owned();
        }
        String::from_utf8_lossy(sample.other_comm()).into_owned()
    }

    fn encode_sample(&self, sample: &OffRecord<'_>, out: &mut Vec<u8>) {
        let (syscall, args) = syscall_of(sample.regs());
        let other = OtherThread {
            pid: sample.other_pid(),
            tid: sample.other_tid(),
            comm: self.name_of_other(sample),
            chain: Vec::new(),
        };
        let site = sample.site();
        let put = |state, (since_ns, length_ns), period, sums, out: &mut Vec<u8>| {
            let (flags, other, place) = (sample.flags(), other.clone(), String::new());
            let raw = OffCpuInterval { state, flags, since_ns, length_ns, syscall, args, sums, other, place };
            self.put(
                &Parts {
                    event: event_of(state),
                    record: Some(sample),
                    task: (sample.pid(), sample.tid()),
                    time_ns: sample.time_ns(),
                    cpu: sample.cpu(),
                    period,
                    raw: raw.to_bytes(),
                },
                out,
            );
        };
        let wait_weight_ns = not_negative(sample.wait_weight_ns());
        if wait_weight_ns > 0 {
            let state = State::from_code(sample.kind() as u8);
            let times = (sample.since_ns(), not_negative(sample.wait_ns()));
            put(state, times, wait_weight_ns, site.as_ref().map(|site| sums_of(site, true)), out);
        }
        let (runnable_ns, runnable_weight_ns) =
            (not_negative(sample.runnable_ns()), not_negative(sample.runnable_weight_ns()));
        if runnable_weight_ns > 0 {
            let since = sample.time_ns().saturating_sub(runnable_ns);
            // The place is for whoever unwinds: both samples are to have the same stack.
            let sums = site.as_ref().map(|site| sums_of(site, false));
            put(State::Runnable, (since, runnable_ns), runnable_weight_ns, sums, out);
        }
    }

    /// Appends the sample of a look at a thread that waits.
    pub fn encode_look(&self, look: &ProcSample, out: &mut Vec<u8>) {
        let raw = OffCpuInterval {
            state: look.state,
            flags: flag::LOOK,
            since_ns: 0,
            length_ns: 0,
            syscall: look.syscall,
            args: look.args,
            sums: None,
            other: OtherThread::default(),
            place: look.place.clone(),
        };
        let bytes = layout::user_record(look.pc, look.sp, &look.stack);
        let Some(Record::Sample(record)) = layout::parse(&bytes) else { return };
        self.put(
            &Parts {
                event: event_of(look.state),
                record: Some(&record),
                task: (look.pid, look.tid),
                time_ns: look.time_ns,
                cpu: 0,
                period: look.since_last_ns,
                raw: raw.to_bytes(),
            },
            out,
        );
    }

    /// Appends the sample of a wait that a look has shown. Nothing without a length.
    pub fn encode_wait(&self, look: &ProcSample, part: &WaitPart, out: &mut Vec<u8>) {
        let WaitPart { state, length_ns, time_ns } = *part;
        if length_ns == 0 {
            return;
        }
        let raw = OffCpuInterval {
            state,
            flags: 0,
            since_ns: time_ns.saturating_sub(length_ns),
            length_ns,
            syscall: look.syscall,
            args: look.args,
            sums: None,
            other: OtherThread::default(),
            place: look.place.clone(),
        };
        let bytes = layout::user_record(look.pc, look.sp, &look.stack);
        let Some(Record::Sample(record)) = layout::parse(&bytes) else { return };
        let (event, task, raw) = (event_of(state), (look.pid, look.tid), raw.to_bytes());
        let parts = Parts { event, record: Some(&record), task, time_ns, cpu: 0, period: length_ns, raw };
        self.put(&parts, out);
    }

    fn encode_end(&self, end: &EndRecord, out: &mut Vec<u8>) {
        for (event, period, raw) in end_samples(end, process_titles::own_title(end)) {
            let (task, time_ns) = ((end.pid, end.tid), end.end_ns);
            self.put(&Parts { event, record: None, task, time_ns, cpu: 0, period, raw }, out);
        }
    }

    /// Waits that no sample took along: their stack is what samples of the same place showed.
    fn encode_rest(&self, rest: &SiteRest, out: &mut Vec<u8>) {
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

    fn put(&self, parts: &Parts<'_>, out: &mut Vec<u8>) {
        let mut chain = vec![PERF_CONTEXT_KERNEL];
        chain.extend(parts.record.into_iter().flat_map(OffRecord::kernel_chain));
        if chain.len() == 1 {
            chain.clear();
        }
        let in_kernel = !chain.is_empty() || parts.record.is_none_or(|record| record.regs().is_empty());
        let (of_kernel, user_chain) = (chain.len(), parts.record.into_iter().flat_map(OffRecord::user_chain));
        chain.push(PERF_CONTEXT_USER);
        chain.extend(user_chain);
        if chain.len() == of_kernel + 1 {
            chain.truncate(of_kernel);
        }
        let values = parts.record.and_then(|record| self.registers(record.regs()));
        let stack = parts.record.map_or(&[][..], OffRecord::stack);
        let sample = Sample {
            misc: if in_kernel { CpuMode::Kernel.to_misc() } else { CpuMode::User.to_misc() },
            identifier: Some(event_id(parts.event)),
            ip: if in_kernel { chain.get(1).map(|&ip| Avma(ip)) } else { parts.record.and_then(user_pc) },
            pid_tid: Some(parts.task),
            time_ns: Some(parts.time_ns),
            cpu: Some(parts.cpu),
            period: Some(parts.period),
            callchain: Some(Callchain(chain.as_slice().into())),
            raw: Some(&parts.raw),
            regs_user: values.as_deref().map(|values| SampleRegs {
                abi: PERF_SAMPLE_REGS_ABI_64,
                mask: self.regs_mask,
                values: values.into(),
            }),
            stack_user: values
                .as_ref()
                .map(|_| UserStack { bytes: stack, reserved: stack.len().max(16) as u64 }),
            ..Sample::default()
        };
        let record = perfdata::Record::Sample(sample);
        // At most 24 kB of stack and 5 kB of all else: it always fits.
        out.extend(record_to_bytes(&self.event, &record, &SampleId::default()).unwrap_or_default());
    }

    /// The values of the mask's registers, lowest perf number first; `None` for kernel threads.
    fn registers(&self, pt_regs: &[u8]) -> Option<Vec<u64>> {
        if pt_regs.is_empty() || self.regs_mask == 0 {
            return None;
        }
        let index = |bit: u32| pt_regs_index(bit).map_or(0, |index| word(pt_regs, index));
        Some((0..64).filter(|bit| self.regs_mask >> bit & 1 == 1).map(index).collect())
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
    let totals = (event_of(State::On), end.total_ns[Kind::On as usize], totals.to_bytes());
    rests.chain([totals]).collect()
}

/// The sums of a sample's place; without `counts` only the place, because another sample has the counts.
fn sums_of(site: &SiteSums, counts: bool) -> Box<WaitSums> {
    let SiteSums { print, stack_print, since_ns, longest_ns, count, lengths, .. } = *site;
    if !counts {
        return Box::new(WaitSums { print, stack_print, since_ns, ..WaitSums::default() });
    }
    Box::new(WaitSums { print, stack_print, since_ns, longest_ns, count, lengths })
}

/// Which registers to pass on.
#[must_use]
pub fn regs_mask() -> u64 {
    UnwindRegs::perf_mask(Machine::host())
}

/// The event, of [`FILE_EVENTS`], of a thread that is in this state.
#[must_use]
pub fn event_of(state: State) -> usize {
    match state {
        State::On => 3,
        State::Runnable => 1,
        State::Preempted => 2,
        _ => 0,
    }
}

/// A difference of two times; 0 if the second was before the first. The clocks of two CPUs may differ by a µs, and a
/// thread may be woken by one while the other still puts it to sleep.
fn not_negative(ns: u64) -> u64 {
    if ns.cast_signed() < 0 { 0 } else { ns }
}
