//! Samples and records about time off the CPU, on their way into `OffCpu`.

use super::{Session, ids_of};
use crate::callchain::steps_of;
use crate::grow::Grow as _;
use crate::off_cpu::{
    Contenders, Contention, EventKind, OffCpuSource, Out, RecordedLives, RelatedThread, Stat, Stats,
    SwitchStates, ThreadBirth, ThreadTotals, Tracker, Wait, WaitReason, WaitSample, cut_to_window,
    of_samples, of_unfinished,
};
use crate::profile::TaskId;
use crate::table::{CallsiteId, StringId};
use perfdata::off_cpu::{NO_TIME_NS, Payload, State, flag};
use perfdata::{Item, Record, Sample};
use rustc_hash::FxHashMap;

/// Waits put together here, from samples of the scheduler's tracepoints and from switch records.
#[derive(Default)]
pub(super) struct WaitAssembly {
    has_switch_samples: bool,
    tracker: Tracker,
    /// Those that the tracker ended.
    tracked: Vec<Wait>,
    /// Whole stacks of switch-outs, by thread and time.
    switch_sites: FxHashMap<(TaskId, u64), CallsiteId>,
    states: SwitchStates,
    /// Waits by the scheduler's own lengths.
    stats: Stats,
    contenders: Contenders,
}

/// Gives waits the whole stacks of their switch-outs, once those are unwound. The wait for a CPU that follows a wait
/// has its stack.
fn name_switches(waits: &mut [Wait], sites: &FxHashMap<(TaskId, u64), CallsiteId>) {
    let mut last: FxHashMap<TaskId, (u64, CallsiteId)> = FxHashMap::default();
    for wait in waits.iter_mut().filter(|_| !sites.is_empty()) {
        let before =
            last.get(&wait.task).filter(|(end_ns, _)| *end_ns == wait.since_ns).map(|(_, site)| *site);
        let follows = before.filter(|_| wait.state == State::Runnable);
        let Some(site) = sites.get(&(wait.task, wait.since_ns)).copied().or(follows) else { continue };
        wait.callsite = Some(site);
        last.insert(wait.task, (wait.since_ns.saturating_add(wait.length_ns), site));
    }
}

impl Session {
    /// Adds a sample's data about waits. `self.path` holds its resolved path.
    pub(super) fn note_off_cpu(&mut self, event: usize, task: TaskId, sample: &Sample<'_>) {
        match self.events.of(event).off_cpu {
            EventKind::Other => {}
            EventKind::OffCpu => self.note_interval(task, sample),
            EventKind::Switch => self.note_switch(event, task, sample),
            EventKind::Stat(stat) => self.note_stat(event, stat, sample),
            EventKind::Wakeup => self.note_wakeup(event, sample),
            EventKind::ContentionBegin => self.note_contention(event, task, sample),
            EventKind::ContentionEnd => self.note_contention_end(event, sample),
        }
    }

    fn note_interval(&mut self, task: TaskId, sample: &Sample<'_>) {
        let callsite = self.off_cpu_callsite(sample);
        let labels = self.labels_of(sample);
        let (weight_ns, time_ns) = (sample.period.unwrap_or(0), sample.time_ns.unwrap_or(0));
        match sample.raw.and_then(Payload::parse) {
            Some(Payload::Interval(of)) if of.flags & flag::LOOK != 0 => {
                let by_place = WaitReason::of_kernel_frames(std::iter::once(of.place.as_str()));
                let numbering = self.profile.off_cpu.numbering;
                let by_call = || of.syscall.and_then(|nr| WaitReason::of_syscall(nr, numbering));
                let Some((_, tid)) = sample.pid_tid else { return };
                let (state, syscall, args) = (of.state, of.syscall, of.args);
                let told = by_place.or_else(by_call);
                self.waits.tracker.look(tid, WaitSample { state, syscall, args, told, callsite });
            }
            Some(Payload::Interval(of)) => {
                let other = self.other_of(&of.other);
                let off_cpu = &mut self.profile.off_cpu;
                off_cpu.source = Some(OffCpuSource::Tally);
                let is_backwards = is_negative(of.length_ns) || is_negative(weight_ns);
                off_cpu.backwards += u64::from(is_backwards);
                let (length_ns, weight_ns) = if is_backwards { (0, 0) } else { (of.length_ns, weight_ns) };
                off_cpu.waits.push(Wait {
                    task,
                    callsite,
                    state: of.state,
                    since_ns: of.since_ns,
                    length_ns,
                    weight_ns,
                    syscall: of.syscall,
                    args: of.args,
                    told: None,
                    other,
                    flags: of.flags,
                    cpu: sample.cpu,
                    sums: of.sums,
                    labels,
                });
            }
            Some(Payload::Totals(of)) => {
                let (start_ns, end_ns, total_ns, switches) =
                    (of.start_ns, of.end_ns, of.total_ns, of.switches);
                let off_cpu = &mut self.profile.off_cpu;
                off_cpu.source = Some(OffCpuSource::Tally);
                off_cpu.totals.push(ThreadTotals { task, start_ns, end_ns, total_ns, switches });
                off_cpu.queues.extend(of.queue.map(|queue| (task, queue)));
                if !of.title.is_empty() {
                    self.profile.off_cpu.titles.insert(self.profile.task(task).tid, of.title);
                }
            }
            // perf's own, which ends at the switch-in and has no state: one wait, or a sum of many.
            None => {
                let is_sum = time_ns >= NO_TIME_NS;
                let (since_ns, length_ns) =
                    if is_sum { (0, 0) } else { (time_ns.saturating_sub(weight_ns), weight_ns) };
                let off_cpu = &mut self.profile.off_cpu;
                off_cpu.source = off_cpu.source.max(Some(OffCpuSource::PerfOffCpu));
                off_cpu.waits.push(Wait { callsite, since_ns, length_ns, weight_ns, ..Wait::of(task) });
            }
        }
    }

    fn note_switch(&mut self, event: usize, task: TaskId, sample: &Sample<'_>) {
        let (Some(time_ns), Some(raw)) = (sample.time_ns, sample.raw) else { return };
        let texts = self.opts.trace_text.as_ref();
        let field = |name: &str| texts.and_then(|texts| texts.field(event, raw, name));
        let number = |name: &str| texts?.number(event, raw, name);
        let tid = |name: &str| u32::try_from(number(name)?).ok();
        let (prev, next) = (tid("prev_pid"), tid("next_pid"));
        let (state, dies) = self.waits.states.of(event, number("prev_state"), || field("prev_state"));
        let next_comm = field("next_comm").unwrap_or_default();
        let callsite = self.off_cpu_callsite(sample);
        let comm = self.profile.strings.intern(&next_comm);
        self.waits.has_switch_samples = true;
        let WaitAssembly { tracker, tracked, .. } = &mut self.waits;
        if let Some(tid) = prev.filter(|&tid| tid != 0) {
            let other = next.map(|tid| RelatedThread { pid: 0, tid, comm, callsite: None });
            let other = other.filter(|_| state == State::Preempted);
            tracker.switch_out(Out { tid, task, time_ns, state, callsite, other, dies }, tracked);
        }
        if let Some(tid) = next.filter(|&tid| tid != 0) {
            tracker.switch_in(tid, time_ns, tracked);
        }
    }

    /// The user part of the stack of a switch-out has been unwound.
    pub(super) fn complete_switch(&mut self, task: TaskId, time_ns: u64) {
        if let Some(callsite) = self.callsite_of_frames() {
            self.waits.switch_sites.insert((task, time_ns), callsite);
        }
    }

    /// `sched_stat_*`: an interval that ends now. The payload has its thread, while the sample belongs to the running
    /// one.
    fn note_stat(&mut self, event: usize, stat: Stat, sample: &Sample<'_>) {
        let (Some(time_ns), Some(raw)) = (sample.time_ns, sample.raw) else { return };
        let Some(texts) = self.opts.trace_text.as_ref() else { return };
        let number = |name: &str| texts.number(event, raw, name).and_then(|value| u64::try_from(value).ok());
        let length = if stat == Stat::Runtime { "runtime" } else { "delay" };
        let (Some(tid), Some(length_ns)) = (number("pid"), number(length)) else { return };
        let tid = i32::try_from(tid).unwrap_or(-1);
        let span = self.machine.span_of(self.machine.pid_of(tid).unwrap_or(tid), tid);
        let task = self.task_of(span);
        let other = self.waker_of(sample);
        self.waits.stats.add(Wait {
            state: stat.state(),
            since_ns: time_ns.saturating_sub(length_ns),
            length_ns: length_ns.min(time_ns),
            weight_ns: length_ns.min(time_ns),
            other: Some(other).filter(|_| matches!(stat, Stat::Sleep | Stat::Blocked)),
            ..Wait::of(task)
        });
    }

    /// Thread that runs at `sample`, and its stack: the one that wakes or ends another's wait.
    fn waker_of(&mut self, sample: &Sample<'_>) -> RelatedThread {
        let (pid, tid) = ids_of(sample);
        RelatedThread {
            callsite: self.off_cpu_callsite(sample),
            pid: pid.cast_unsigned(),
            tid: tid.cast_unsigned(),
            comm: self.profile.strings.intern(""),
        }
    }

    fn note_wakeup(&mut self, event: usize, sample: &Sample<'_>) {
        let (Some(time_ns), Some(raw)) = (sample.time_ns, sample.raw) else { return };
        let number = self.opts.trace_text.as_ref().and_then(|texts| texts.number(event, raw, "pid"));
        let Some(tid) = number.and_then(|tid| u32::try_from(tid).ok()) else { return };
        let other = self.waker_of(sample);
        self.waits.tracker.wake(tid, other, time_ns);
    }

    fn note_contention(&mut self, event: usize, task: TaskId, sample: &Sample<'_>) {
        let (Some(since_ns), Some(address)) = (sample.time_ns, self.lock_address(event, sample)) else {
            return;
        };
        let number = |texts: &dyn super::TraceText| texts.number(event, sample.raw?, "flags");
        let flags = self.opts.trace_text.as_deref().and_then(number).unwrap_or(0);
        let flags = u32::try_from(flags).unwrap_or(0);
        let callsite = self.off_cpu_callsite(sample);
        let (_, tid) = ids_of(sample);
        self.waits
            .contenders
            .begin(tid, Contention { task, callsite, address, flags, since_ns, length_ns: 0 });
    }

    fn note_contention_end(&mut self, event: usize, sample: &Sample<'_>) {
        let (Some(time_ns), Some(address)) = (sample.time_ns, self.lock_address(event, sample)) else {
            return;
        };
        let (_, tid) = ids_of(sample);
        match self.waits.contenders.end(tid, address, time_ns) {
            Some(wait) => self.profile.off_cpu.contentions.push(wait),
            None => self.profile.off_cpu.half_contentions += 1,
        }
    }

    fn lock_address(&self, event: usize, sample: &Sample<'_>) -> Option<u64> {
        let text = self.opts.trace_text.as_ref()?.field(event, sample.raw?, "lock_addr")?;
        u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    }

    /// Births and switches, for recordings whose samples have no better data.
    pub(super) fn note_task_record(&mut self, item: &Item<'_>) {
        let id = item.sample_id.unwrap_or_default();
        // Records about what ran before have time 0.
        let (Some((pid, tid)), Some(time_ns @ 1..)) = (id.pid_tid, id.time_ns) else { return };
        match &item.record {
            Record::Fork(task) => {
                let (tid, parent_tid) = (task.tid, task.ptid);
                self.profile.off_cpu.births.push(ThreadBirth { tid, parent_tid, time_ns });
                self.waits.tracker.fork(tid, time_ns);
            }
            Record::Exit(exit) => {
                let span = self.machine.span_of(exit.pid.cast_signed(), exit.tid.cast_signed());
                let task = self.task_of(span);
                self.waits.tracker.exit(exit.tid, task, time_ns);
            }
            Record::Switch(switch) if tid != 0 => {
                // For one task's events, `sched_switch` records when it leaves, these records when it comes back.
                let is_told =
                    if switch.out { self.waits.tracker.is_off(tid) } else { self.waits.tracker.is_on(tid) };
                if self.waits.has_switch_samples && is_told {
                    return;
                }
                if self.events.has(EventKind::OffCpu) {
                    self.waits.tracker.expect_looks();
                }
                if !switch.out {
                    return self.waits.tracker.switch_in(tid, time_ns, &mut self.waits.tracked);
                }
                let span = self.machine.span_of(pid.cast_signed(), tid.cast_signed());
                let task = self.task_of(span);
                let state = if switch.preempt { State::Preempted } else { State::Unknown };
                let out = Out { tid, task, time_ns, state, callsite: None, other: None, dies: false };
                self.waits.tracker.switch_out(out, &mut self.waits.tracked);
            }
            _ => {}
        }
    }

    /// Ends the recording for intervals put together here. They are dropped if samples have the same time exactly.
    pub(super) fn finish_off_cpu(&mut self) {
        self.profile.off_cpu.half_contentions.grow(self.waits.contenders.unfinished() as u64);
        let tracker = std::mem::take(&mut self.waits.tracker);
        let off_cpu = &mut self.profile.off_cpu;
        if off_cpu.source.is_none() {
            let source = if self.waits.has_switch_samples {
                OffCpuSource::Tracepoints
            } else {
                OffCpuSource::SwitchRecords
            };
            if tracker.has_switches() {
                off_cpu.waits = std::mem::take(&mut self.waits.tracked);
                tracker.finish(source, off_cpu);
            }
            if !self.waits.has_switch_samples {
                std::mem::take(&mut self.waits.stats).finish(off_cpu);
            }
            name_switches(&mut off_cpu.waits, &self.waits.switch_sites);
        }
        if self.profile.off_cpu.source == Some(OffCpuSource::PerfOffCpu) {
            self.profile.off_cpu.totals = of_samples(&self.profile);
        }
        if self.profile.off_cpu.source == Some(OffCpuSource::Tally) {
            match self.lives {
                RecordedLives::Summed => {}
                RecordedLives::Unfinished => {
                    let rest = of_unfinished(&self.profile);
                    self.profile.off_cpu.totals.extend(rest);
                }
                RecordedLives::Window(kept) => cut_to_window(&mut self.profile, kept),
            }
        }
    }

    /// The path in `self.path`; `None` without a recorded chain.
    fn off_cpu_callsite(&mut self, sample: &Sample<'_>) -> Option<CallsiteId> {
        let has_chain = sample.callchain.is_some_and(|chain| !chain.is_empty());
        if has_chain { self.callsite_of_frames() } else { None }
    }

    /// The waker, with its own chain resolved in its own process.
    fn other_of(&mut self, of: &perfdata::off_cpu::OtherThread) -> Option<RelatedThread> {
        if of.tid == 0 && of.chain.is_empty() && of.comm.is_empty() {
            return None;
        }
        let chain =
            Sample { callchain: Some(perfdata::Callchain(of.chain.as_slice().into())), ..Sample::default() };
        let mut steps = Vec::new();
        steps_of(&chain, false, &mut steps);
        let mut frames = Vec::with_capacity(steps.len());
        for step in steps {
            let frame =
                self.machine.resolve(of.pid.cast_signed(), step.mode, step.addr, &mut self.profile.dsos);
            frames.push(self.profile.frames.intern(frame));
        }
        let comm: StringId = self.profile.strings.intern(&of.comm);
        let callsite = self.profile.callsites.intern_leaf_first(&frames);
        Some(RelatedThread { pid: of.pid, tid: of.tid, comm, callsite })
    }
}

/// True for a difference of two times whose second is the earlier one.
fn is_negative(ns: u64) -> bool {
    ns.cast_signed() < 0
}
