//! Off-CPU work of the unwinding thread: the engine's samples, or threads' clocks by tracepoints.

use std::sync::atomic::Ordering;

use perfdata::abi::*;
use perfdata::off_cpu::{OffCpuInterval, OffCpuTotals, Payload, State, WaitSums, flag};
use perfdata::{Avma, CpuMode, Record, Sample, SampleId};

use super::WorkerState;
use super::sampled_clock::SampledClock;
use crate::accounting::account::StackEnding;
use crate::machine::process_titles;
use crate::off_cpu::switches::ClockResult;
use crate::off_cpu::thread_clock::{EndedInterval, Moment, Spot};
use crate::off_cpu::tracepoints::{EVENTS, SchedEvent, SchedPoint};
use crate::off_cpu::{
    EndRecord, SiteChains, SiteId, Switches, Tracepoints, WakerJoin, convert, has_user_part, registers,
};
use crate::runtimes::python::StackMoment;
use perfdata::PidTid;

/// Waits that are not written yet.
#[derive(Default)]
pub(super) struct WaitsInProgress {
    /// Stacks of wakers that wait for the sample of the wait they ended.
    wakers: WakerJoin,
    /// The usual stacks of each place.
    site_chains: SiteChains,
    /// Thread, end and begin of the last wait, ns: the time in the run queue after it has the same stack.
    last: (u32, u64, u64),
    /// Cost of the samples of waits.
    pub clock: SampledClock,
    /// Tier B: threads' clocks by tracepoints, in place of the engine's.
    pub switches: Option<(Switches, Tracepoints)>,
}

impl WaitsInProgress {
    /// When the thread left its CPU for this wait, ns; 0 if that isn't known. Looks come in the middle of a wait, and
    /// have no begin.
    fn begin_of(&mut self, tid: u32, time_ns: u64, payload: Option<&Payload>) -> u64 {
        let Some(Payload::Interval(of)) = payload else { return 0 };
        let (last_tid, last_end_ns, last_begin_ns) = self.last;
        match of.state {
            State::Runnable if (last_tid, last_end_ns) == (tid, time_ns) => last_begin_ns,
            State::Runnable => of.since_ns,
            _ => {
                self.last = (tid, time_ns, of.since_ns);
                of.since_ns
            }
        }
    }
}

impl WorkerState {
    /// A sample of the off-CPU engine: always unwound here. Wakers wait for the sample of the wait they ended.
    pub(super) fn off_cpu_sample(&mut self, file_event: usize, sample: &Sample<'_>, time_ns: u64) {
        let task = PidTid::of_record(sample.pid_tid);
        let PidTid { pid, tid } = task;
        let raw = sample.raw.unwrap_or_default();
        let is_waker = file_event == self.events.first_off_cpu + convert::WAKER;
        let payload = if is_waker { None } else { Payload::parse(raw) };
        let mut moment = StackMoment::Sample(time_ns);
        if !is_waker {
            let since_ns = self.waits.begin_of(tid, time_ns, payload.as_ref());
            moment = StackMoment::Wait { since_ns, time_ns };
            self.add_python(task, time_ns, moment);
            self.add_goroutine(task, moment);
        }
        let unwound = self.unwind(sample, time_ns);
        if is_waker {
            return self.waits.wakers.waker(task, raw, self.stacks.chain());
        }
        self.written.note_time(time_ns);
        if let Some(Payload::Interval(of)) = &payload
            && of.flags & flag::LOOK != 0
            && let Some((switches, _)) = &mut self.waits.switches
        {
            let chain = self.stacks.chain().into();
            let spot = Spot { chain, place: None, syscall: of.syscall, args: of.args };
            let spot = Some(spot).filter(|spot| !spot.chain.is_empty());
            return switches.begin(task, time_ns, of.state, spot);
        }
        if let Some(Payload::Totals(totals)) = &payload {
            self.thread_totals(task, totals);
            self.waits.site_chains.forget(tid);
        }
        if let Some(Payload::Interval(of)) = &payload
            && of.flags & flag::REST != 0
            && of.sums.is_some()
        {
            return self.rest_of_site(file_event, sample, of);
        }
        let is_whole = matches!(unwound.ending, Some(StackEnding::Complete | StackEnding::Joined));
        // A thread that has not run yet has no stack, so nothing is lost.
        let is_new = matches!(&payload, Some(Payload::Interval(of)) if of.flags & flag::NEW != 0);
        if let Some(ending) = unwound.ending.filter(|_| !is_new) {
            let ending = self.with_dso(pid, sample, ending);
            self.account.stack(tid, time_ns, ending);
            if unwound.was_cut {
                self.shared.off_cpu.cut_processes.lock().expect("invariant: no panic while held").push(pid);
            }
        }
        let joined =
            if file_event == self.events.first_off_cpu { self.waits.wakers.join(tid, raw) } else { None };
        let mut chain = self.chain_at_site(sample, payload.as_ref(), is_whole);
        self.add_labels(task, moment, &mut chain);
        let chain = perfdata::Callchain(chain.as_slice().into());
        let without_place = without_place(payload.as_ref());
        let raw = joined.as_deref().or(without_place.as_deref()).or(Some(raw));
        let written = Sample { callchain: Some(chain), raw, stack_user: None, regs_user: None, ..*sample };
        self.sink.record(file_event, &Record::Sample(written), &SampleId::default());
    }

    /// The chain just made, or where it is not whole the one usual at this place.
    fn chain_at_site(&mut self, sample: &Sample<'_>, payload: Option<&Payload>, is_whole: bool) -> Vec<u64> {
        let chain = self.stacks.chain();
        let Some(Payload::Interval(OffCpuInterval { sums: Some(sums), flags, state, .. })) = payload else {
            return chain.to_vec();
        };
        let (_, tid) = sample.pid_tid.unwrap_or_default();
        let site = SiteId::of(tid, sums);
        if is_whole || flags & flag::KTHREAD != 0 {
            // The wait for a CPU has the stack of the wait before, which counts already.
            let period = sample.period.filter(|_| *state != State::Runnable);
            let stack = sample.stack_user.as_ref().map_or(&[][..], |stack| stack.bytes);
            let split = self.waits.site_chains.saw_stack(site, chain, period.unwrap_or(0), stack);
            self.shared.off_cpu.splits.lock().expect("invariant: no panic while held").extend(split);
            return chain.to_vec();
        }
        // If no chain of the place is complete, a truncated one represents the others.
        if has_user_part(chain) {
            self.waits.site_chains.saw(site, chain, 0);
        }
        self.waits.site_chains.usual(site).unwrap_or(chain).to_vec()
    }

    /// Waits of a place that no sample took along, with the stacks seen there.
    fn rest_of_site(&mut self, file_event: usize, sample: &Sample<'_>, of: &OffCpuInterval) {
        let (_, tid) = sample.pid_tid.unwrap_or_default();
        let Some(sums) = &of.sums else { return };
        // Counts belong to the place, so only one part has them.
        let without_counts =
            WaitSums { print: sums.print, stack_print: sums.stack_print, ..WaitSums::default() };
        let parts = self.waits.site_chains.share(SiteId::of(tid, sums), sample.period.unwrap_or(0));
        for (at, (chain, period)) in parts.into_iter().enumerate() {
            let sums = if at == 0 { of.sums.clone() } else { Some(Box::new(without_counts)) };
            let raw = OffCpuInterval { sums, ..of.clone() }.to_bytes();
            let (ip, callchain) = (chain.get(1).map(|&ip| Avma(ip)), perfdata::Callchain(chain.into()));
            let written = Sample {
                ip,
                period: Some(period),
                callchain: Some(callchain),
                raw: Some(&raw),
                stack_user: None,
                regs_user: None,
                ..*sample
            };
            self.sink.record(file_event, &Record::Sample(written), &SampleId::default());
        }
    }

    /// A hit of one of the tracepoints that replace the engine.
    pub(super) fn tracepoint(&mut self, index: usize, sample: &Sample<'_>, time_ns: u64) {
        let Some(&SchedEvent { point, has_stacks }) = EVENTS.get(index) else { return };
        let task = PidTid::of_record(sample.pid_tid);
        let at = Moment { time_ns, cpu: sample.cpu.unwrap_or_default(), task };
        let raw = sample.raw.unwrap_or_default();
        let runs_ns = self.shared.runs_ns.load(Ordering::Acquire);
        let Some((switches, points)) = &mut self.waits.switches else { return };
        let points = *points;
        if runs_ns != 0 && runs_ns <= time_ns {
            switches.runs_since(runs_ns);
        }
        match point {
            SchedPoint::Switch => {
                let Some(switch) = points.switch(raw) else { return };
                let follows = switches.follows(task.tid);
                let chain =
                    if has_stacks && follows { self.waiting_chain(sample, time_ns) } else { [].into() };
                let spot = follows.then(|| Spot {
                    chain,
                    place: registers::place(sample),
                    syscall: None,
                    args: registers::call_args(sample),
                });
                let Some((switches, _)) = &mut self.waits.switches else { return };
                switches.switched(at, &switch, spot, has_stacks);
            }
            SchedPoint::Waking => {
                let Some((tid, by_interrupt)) = points.woken(raw).filter(|(tid, _)| switches.follows(*tid))
                else {
                    return;
                };
                if has_stacks {
                    self.unwind(sample, time_ns);
                }
                let chain = if has_stacks { self.stacks.chain() } else { &[] };
                let Some((switches, _)) = &mut self.waits.switches else { return };
                switches.woken(at, tid, by_interrupt, chain);
            }
        }
        self.write_finished();
    }

    /// The stack of the thread that leaves its CPU.
    fn waiting_chain(&mut self, sample: &Sample<'_>, time_ns: u64) -> Box<[u64]> {
        let (pid, tid) = sample.pid_tid.unwrap_or_default();
        let unwound = self.unwind(sample, time_ns);
        if let Some(ending) = unwound.ending {
            let ending = self.with_dso(pid, sample, ending);
            self.account.stack(tid, time_ns, ending);
        }
        self.stacks.chain().into()
    }

    /// Passes records to the threads' clocks.
    pub(super) fn follow_clocks(&mut self, record: &Record<'_>, time_ns: u64) {
        let Some((switches, _)) = &mut self.waits.switches else { return };
        match record {
            Record::Fork(task) if time_ns > 0 => {
                switches.fork(PidTid { pid: task.pid, tid: task.tid }, task.ptid, time_ns)
            }
            Record::Comm(comm) => {
                switches.name(comm.tid, comm.comm);
                if comm.exec {
                    switches.exec(PidTid { pid: comm.pid, tid: comm.tid }, time_ns);
                }
            }
            Record::Lost(_) | Record::LostSamples(_) => switches.lost(),
            _ => {}
        }
    }

    /// The recording has ended: all clocks stop.
    pub(super) fn finish_clocks(&mut self) {
        let [runs_ns, ended_ns] =
            [&self.shared.runs_ns, &self.shared.ended_ns].map(|time| time.load(Ordering::Acquire));
        let Some((switches, _)) = &mut self.waits.switches else { return };
        if runs_ns != 0 {
            switches.runs_since(runs_ns);
        }
        switches.finish(ended_ns);
        self.write_finished();
    }

    /// Writes the results of the clocks.
    fn write_finished(&mut self) {
        let Some((switches, _)) = &mut self.waits.switches else { return };
        for told in switches.take_finished().collect::<Vec<_>>() {
            match told {
                ClockResult::Interval(at, ended) => self.write_interval(at, &ended),
                ClockResult::End(end) => self.write_end_samples(&end),
            }
        }
    }

    fn write_interval(&mut self, at: Moment, ended: &EndedInterval) {
        let Moment { time_ns, cpu, task } = at;
        let event = convert::event_of(ended.interval.state);
        let sample = Sample { cpu: Some(cpu), ..waits_sample(event, task, time_ns, ended.weight_ns) };
        let in_kernel = ended.chain.first() == Some(&PERF_CONTEXT_KERNEL);
        let mode = if in_kernel { CpuMode::Kernel } else { CpuMode::User };
        let chain = perfdata::Callchain((&*ended.chain).into());
        let (misc, ip) = (mode.to_misc(), ended.chain.get(1).map(|&ip| Avma(ip)));
        let raw = ended.interval.to_bytes();
        let sample = Sample { misc, ip, callchain: Some(chain), raw: Some(&raw), ..sample };
        self.written.note_time(time_ns);
        self.sink.record(self.events.first_off_cpu + event, &Record::Sample(sample), &SampleId::default());
    }

    fn thread_totals(&mut self, task: PidTid, totals: &OffCpuTotals) {
        if totals.flags & flag::EXITED != 0 {
            // The kernel takes a program's memory back after the record of its exit. Its CPU time has that part, too.
            self.shared.exit_of_process(task.pid, totals.end_ns);
        }
        self.account.totals(task, totals);
    }

    fn write_end_samples(&mut self, end: &EndRecord) {
        let task = PidTid { pid: end.pid, tid: end.tid };
        for (event, period, raw) in convert::end_samples(end, process_titles::recorded_title(end)) {
            let chain = perfdata::Callchain([].as_slice().into());
            let sample = waits_sample(event, task, end.end_ns, period);
            let sample = Sample { callchain: Some(chain), raw: Some(&raw), ..sample };
            self.sink.record(
                self.events.first_off_cpu + event,
                &Record::Sample(sample),
                &SampleId::default(),
            );
            if let Some(Payload::Totals(totals)) = Payload::parse(&raw) {
                self.thread_totals(task, &totals);
            }
        }
    }
}

/// The payload of a wait for a CPU as it is written: sums are the sample's of the wait before.
fn without_place(payload: Option<&Payload>) -> Option<Vec<u8>> {
    let Some(Payload::Interval(of)) = payload else { return None };
    let has_none = of.state != State::Runnable || of.sums.is_none();
    (!has_none).then(|| OffCpuInterval { sums: None, flags: of.flags & !flag::SUMS, ..of.clone() }.to_bytes())
}

/// A sample of one of the off-CPU events, but for stack and payload.
fn waits_sample(event: usize, task: PidTid, time_ns: u64, period: u64) -> Sample<'static> {
    Sample {
        misc: CpuMode::Kernel.to_misc(),
        identifier: Some(convert::event_id(event)),
        ip: None,
        pid_tid: Some(task.to_record()),
        time_ns: Some(time_ns),
        cpu: Some(0),
        period: Some(period),
        ..Sample::default()
    }
}

#[cfg(test)]
mod tests {
    use perfdata::record::live::LiveFormat;

    use super::*;
    use crate::off_cpu::layout::{self, OffCpuRecord};

    /// The payloads written for a sample's record with these words at these offsets.
    fn encoded(words: &[(usize, u64)], other_comm: &[u8]) -> Vec<Payload> {
        let mut bytes = layout::user_record(0x1000, 0x2000, &[]);
        for &(at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[96..96 + other_comm.len()].copy_from_slice(other_comm);
        let Some(record @ OffCpuRecord::Sample(_)) = layout::parse(&bytes) else { panic!("a sample") };
        let attr = convert::snapshot_attr(&perfdata::Attr::default(), 0);
        let (mut records, format) = (Vec::new(), LiveFormat::new(&attr));
        convert::Encoder::new(attr).encode(&record, &mut records);
        let mut left = records.as_slice();
        let mut payloads = Vec::new();
        while let Some((Record::Sample(sample), _)) = format.parse(left) {
            payloads.push(sample.raw.and_then(Payload::parse).expect("ours"));
            left = &left[usize::from(u16::from_ne_bytes([left[6], left[7]]))..];
        }
        payloads
    }

    #[test]
    fn a_wait_and_the_wait_for_a_cpu_after_it_name_one_place_until_they_are_written() {
        let words = [(24, 70), (32, 90), (40, 5), (48, 6), (56, 8 << 32 | 7), (72, 3), (136, 99)];
        let payloads = encoded(&words, b"");
        let [Payload::Interval(wait), Payload::Interval(runnable)] = &payloads[..] else {
            panic!("{payloads:?}")
        };
        let print = |of: &OffCpuInterval| of.sums.as_ref().map(|sums| sums.print);
        assert_eq!((wait.state, runnable.state), (State::Sleep, State::Runnable));
        assert_eq!((print(wait), print(runnable)), (Some(99), Some(99)));
        let written = without_place(payloads.get(1)).as_deref().and_then(Payload::parse);
        assert_eq!(
            written,
            Some(Payload::Interval(OffCpuInterval { sums: None, flags: 0, ..runnable.clone() }))
        );
        assert_eq!(without_place(payloads.first()), None);
    }

    #[test]
    fn who_ran_instead_has_the_name_from_the_switch_and_the_recorder_is_named_as_such() {
        let name = |pid: u64| {
            let payloads =
                encoded(&[(24, 70), (32, 90), (56, 8 << 32 | 7), (64, pid << 32 | 9), (72, 2)], b"cc1plus");
            let [Payload::Interval(of)] = &payloads[..] else { panic!("{payloads:?}") };
            of.other.comm.clone()
        };
        assert_eq!(name(5), "cc1plus");
        assert_eq!(name(8), "", "a thread of the same process");
        assert_eq!(name(u64::from(std::process::id())), "tally (itself)");
    }

    #[test]
    fn a_moment_of_the_recorder_after_a_long_wait_for_a_cpu_does_not_explain_it() {
        let own = u64::from(std::process::id());
        let name = |runnable_ns: u64| {
            let woken = [(24, 70), (32, 90), (40, runnable_ns), (48, runnable_ns), (56, 8 << 32 | 7)];
            let ran = [(72, 3), (112, own << 32 | 6), (120, u64::from_le_bytes(*b"tally\0\0\0"))];
            let words: Vec<(usize, u64)> = woken.into_iter().chain(ran).collect();
            let payloads = encoded(&words, b"");
            let runnable = payloads.iter().find_map(|payload| match payload {
                Payload::Interval(of) if of.state == State::Runnable => Some(of),
                _ => None,
            });
            runnable.expect("it waited for a CPU").other.comm.clone()
        };
        assert_eq!(name(1_000_000), "tally (itself)");
        assert_eq!(name(20_000_000), "");
    }

    #[test]
    fn a_moment_of_the_recorder_before_another_program_is_not_the_whole_wait() {
        let own = u64::from(std::process::id());
        let name = |last_ids: u64, last: &[u8; 8]| {
            let preempted = [(24, 70), (32, 90), (56, 8 << 32 | 7), (64, own << 32 | 9), (72, 2)];
            let ran = [(112, last_ids), (120, u64::from_le_bytes(*last))];
            let words: Vec<(usize, u64)> = preempted.into_iter().chain(ran).collect();
            let payloads = encoded(&words, b"tally");
            let [Payload::Interval(of)] = &payloads[..] else { panic!("{payloads:?}") };
            of.other.comm.clone()
        };
        assert_eq!(name(5 << 32 | 6, b"rustc\0\0\0"), "rustc");
        assert_eq!(
            name(own << 32 | 6, b"tally\0\0\0"),
            "tally (itself)",
            "it had the CPU at the begin and at the end"
        );
        assert_eq!(name(0, b"swapper/"), "tally (itself)", "the thread went to a CPU that had nothing to do");
    }
}
