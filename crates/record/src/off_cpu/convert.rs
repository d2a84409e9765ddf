//! Ring records as perf samples, as the kernel itself would have written them: with kernel chain, user registers
//! and a piece of user stack. So they join the records of the perf rings, and one path orders, unwinds and writes
//! them all.
//!
//! Conservation: the periods of all samples of a thread, by event, add up to its totals.

mod attrs;
mod ends;

use perfdata::abi::*;
use perfdata::off_cpu::{IDLE_CPU, OffCpuInterval, OtherThread, State, flag};
use perfdata::record_to_bytes;
use perfdata::{Attr, Avma, Callchain, CpuMode, Event, Sample, SampleId, SampleRegs, UserStack};

use super::layout;
use super::layout::{OffCpuRecord, OffRecord};
use super::proc_sampler::ProcSample;
use super::registers::{pt_regs_index, syscall_of, user_pc, word};
use crate::sys::perf_abi::register;
pub use attrs::{FILE_EVENTS, event_id, event_of, file_attr, is_of_off_cpu, regs_mask, snapshot_attr};
pub use ends::end_samples;
use ends::sums_of;

/// Name of the recorder's own threads where they ran instead of the target's.
const OWN_NAME: &str = "tally (itself)";

/// The recorder's threads seldom run for longer at a time, ns.
const RECORDER_RUNS_NS: u64 = 5_000_000;

/// Index, after [`FILE_EVENTS`], of the wakers' samples, which are joined to their sleepers' and not written.
pub const WAKER: usize = FILE_EVENTS.len();

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
    /// Target of the thread's wait: an event, or a CPU.
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
    pub fn encode(&self, record: &OffCpuRecord<'_>, out: &mut Vec<u8>) {
        match record {
            OffCpuRecord::Waker(waker) => self.encode_waker(waker, out),
            OffCpuRecord::Sample(sample) => self.encode_sample(sample, out),
            OffCpuRecord::End(end) => self.encode_end(end, out),
            OffCpuRecord::Rest(rest) => self.encode_rest(rest, out),
            OffCpuRecord::Exec(_) | OffCpuRecord::Site(_) => {}
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

    /// The thread that woke this one, or ran instead of it: the one that took its CPU. The recorder's own threads run for
    /// moments only, so if one of them did, it is the one that had the CPU last.
    fn other_of(&self, sample: &OffRecord<'_>) -> OtherThread {
        let (pid, tid) = (sample.other_pid(), sample.other_tid());
        let first = |comm| OtherThread { pid, tid, comm, chain: Vec::new() };
        let is_preempted = State::from_code(sample.kind() as u8) == State::Preempted;
        if !is_preempted || pid == sample.pid() {
            return first(String::new());
        }
        if pid != self.own_pid {
            return first(String::from_utf8_lossy(sample.other_comm()).into_owned());
        }
        let last = self.ran_instead(sample).filter(|last| last.comm != IDLE_CPU);
        last.unwrap_or_else(|| first(OWN_NAME.to_owned()))
    }

    /// The thread that had the CPU last which this one waited for.
    fn ran_instead(&self, sample: &OffRecord<'_>) -> Option<OtherThread> {
        let (pid, tid, comm) = sample.ran_instead()?;
        let comm = match comm {
            _ if pid == self.own_pid => OWN_NAME.to_owned(),
            comm if tid == 0 && comm.starts_with(b"swapper") => IDLE_CPU.to_owned(),
            _ if pid == sample.pid() && tid != 0 => String::new(),
            comm => String::from_utf8_lossy(comm).into_owned(),
        };
        Some(OtherThread { pid, tid, comm, chain: Vec::new() })
    }

    fn encode_sample(&self, sample: &OffRecord<'_>, out: &mut Vec<u8>) {
        let (syscall, args) = syscall_of(sample.regs());
        let other = self.other_of(sample);
        let site = sample.site();
        let put = |state, (since_ns, length_ns), period, sums, out: &mut Vec<u8>| {
            // Which other threads had the CPU before a moment of the recorder isn't known.
            let is_moment = |ran: &OtherThread| ran.pid == self.own_pid && length_ns > RECORDER_RUNS_NS;
            let ran = if state == State::Runnable { self.ran_instead(sample) } else { None };
            let ran = ran.filter(|ran| !is_moment(ran));
            let is_told = if ran.is_some() { flag::RAN_INSTEAD } else { 0 };
            let other = ran.unwrap_or_else(|| other.clone());
            let (flags, place) = (sample.flags() | is_told, String::new());
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
        let raw = OffCpuInterval { flags: flag::LOOK, ..interval_of(look) };
        let bytes = layout::user_record(look.pc, look.sp, &look.stack);
        let Some(OffCpuRecord::Sample(record)) = layout::parse(&bytes) else { return };
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
        let since_ns = time_ns.saturating_sub(length_ns);
        let raw = OffCpuInterval { state, since_ns, length_ns, ..interval_of(look) };
        let bytes = layout::user_record(look.pc, look.sp, &look.stack);
        let Some(OffCpuRecord::Sample(record)) = layout::parse(&bytes) else { return };
        let (event, task, raw) = (event_of(state), (look.pid, look.tid), raw.to_bytes());
        let parts = Parts { event, record: Some(&record), task, time_ns, cpu: 0, period: length_ns, raw };
        self.put(&parts, out);
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
                abi: register::FORM,
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

/// Facts about a wait that a look at the thread gives: no times.
fn interval_of(look: &ProcSample) -> OffCpuInterval {
    OffCpuInterval {
        state: look.state,
        flags: 0,
        since_ns: 0,
        length_ns: 0,
        syscall: look.syscall,
        args: look.args,
        sums: None,
        other: OtherThread::default(),
        place: look.place.clone(),
    }
}

/// A difference of two times; 0 if the second was before the first. The clocks of two CPUs may differ by a µs, and a
/// thread may be woken by one while the other still puts it to sleep.
fn not_negative(ns: u64) -> u64 {
    if ns.cast_signed() < 0 { 0 } else { ns }
}
