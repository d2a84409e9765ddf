//! The session: records in, in time order; a profile out.
//!
//! ```text
//!   push(item) ─┬─ state record  → Machine
//!               ├─ sample        → Profile
//!               └─ sample with registers and stack → UnwindJob ─ (caller's threads) → complete
//! ```

mod block_io;
mod cache;
mod event_switch;
mod events;
mod filter;
mod frames;
mod inputs;
mod job;
mod known_frames;
mod labels;
mod measure;
mod off_cpu;
mod opts;
mod parallelism;
mod recent_stack;
mod requests;
mod runtimes;
mod single;
mod spans;
mod state;
mod summed;

use self::parallelism::RunningThreads;
pub use crate::profile::SampleWord;
pub use event_switch::EventSwitch;
pub use filter::SampleFilter;
pub use job::{UnwindJob, UnwoundStack};
pub use known_frames::{FrameFinder, KnownFrames};
pub use opts::{Dimensions, SessionOpts, TraceText};
pub use single::SingleSample;
pub use summed::dso_of;

use self::cache::ResolveCache;
use self::events::SessionEvents;
use self::frames::{SamplePath, has_recorded_user_chain};
use self::labels::SessionLabels;
use self::off_cpu::WaitAssembly;
use self::runtimes::Runtimes;
use crate::callchain::LeafOrigin;
use crate::machine::{MachineState, TaskSpanId};
use crate::off_cpu::{EventKind, RecordedLives, RunSample, name_longest_runners, name_others};
use crate::profile::{
    BranchEnds, CellKey, EventInfo, ExtraDimensions, ExtraId, Profile, SpanAssembly, Sums, Task, TaskId,
};
use crate::reason::{Reason, StackEnd};
use crate::table::CallsiteId;
use crate::tracepoints::block_io::Join;
use perfdata::appendix::stack_notes::StackNotes;
use perfdata::appendix::thread_contexts::ThreadContexts;
use perfdata::off_cpu::NO_TIME_NS;
use perfdata::{Endian, Event, Item, Record, Sample};
use rustc_hash::FxHashMap;

/// Takes the records of one recording.
pub struct Session {
    machine: MachineState,
    profile: Profile,
    opts: SessionOpts,
    endian: Endian,
    events: SessionEvents,
    block_join: Join,
    waits: WaitAssembly,
    running: RunningThreads,
    spans: SpanAssembly,
    contexts: ThreadContexts,
    lives: RecordedLives,
    tasks: FxHashMap<TaskSpanId, TaskId>,
    /// The one asked for last.
    last_task: Option<(TaskSpanId, TaskId)>,
    /// The cgroup of each process by its last sample that states one: those of waits don't.
    cgroups: FxHashMap<u32, u64>,
    labels: SessionLabels,
    path: SamplePath,
    /// Distinct frames kept.
    most_frames: usize,
    cache: ResolveCache,
    stack_notes: Option<StackNotes>,
    runtimes: Runtimes,
}

impl Session {
    /// For the events of a file, in its order.
    #[must_use]
    pub fn new(events: &[Event], endian: Endian, opts: SessionOpts) -> Self {
        let mut profile = Profile::default();
        profile.events = event_infos(events);
        profile.trace_fields.clone_from(&opts.dimensions.trace_fields);
        profile.words.clone_from(&opts.dimensions.words);
        profile.intern_extra(ExtraDimensions::default());
        let spans = SpanAssembly::new(events.iter().map(|event| event.name.as_str()));
        let events = SessionEvents::new(events, &profile, &opts);
        profile.block_io.recorded = events.block_tracepoints().collect();
        Self {
            machine: MachineState::default(),
            profile,
            endian,
            events,
            block_join: Join::default(),
            waits: WaitAssembly::default(),
            running: RunningThreads::default(),
            spans,
            contexts: ThreadContexts::default(),
            lives: RecordedLives::default(),
            tasks: FxHashMap::default(),
            last_task: None,
            cgroups: FxHashMap::default(),
            labels: SessionLabels::default(),
            path: SamplePath::default(),
            most_frames: usize::MAX,
            cache: ResolveCache::default(),
            stack_notes: None,
            runtimes: Runtimes::default(),
            opts,
        }
    }

    /// Takes the next record. A sample whose user stack has to be unwound first comes back as a
    /// job: it counts as read, and has to be given to [`Self::complete`].
    pub fn push<'a>(&mut self, item: &Item<'a>) -> Option<UnwindJob<'a>> {
        match &item.record {
            Record::Sample(sample) => self.push_sample(item.event, sample),
            _ => {
                self.running.note(item);
                self.note_task_record(item);
                self.note_span_thread(item);
                self.apply_state(item);
                None
            }
        }
    }

    fn push_sample<'a>(&mut self, event: Option<usize>, sample: &Sample<'a>) -> Option<UnwindJob<'a>> {
        self.profile.diagnostics.samples_read += 1;
        let Some(event) = event.filter(|&event| event < self.profile.events.len()) else {
            self.profile.diagnostics.drop_sample(Reason::UnknownEvent);
            return None;
        };
        let (pid, tid) = ids_of(sample);
        let span = self.machine.span_of(pid, tid);
        if !self.opts.filter.switch.passes(Some(event)) || !self.passes(sample, span) {
            self.profile.diagnostics.drop_sample(Reason::Filtered);
            return None;
        }
        self.note_time(sample);
        let task = self.task_of(span);
        let mut ticket = job::Ticket {
            event: u32::try_from(event).unwrap_or(u32::MAX),
            task,
            cpu: if self.opts.dimensions.cpu { cpu_of(sample) } else { -1 },
            sums: self.sums_of(event, sample),
            extra: self.extra_of(event, sample),
            frames: job::KernelFrames::new(),
            leaf_origin: LeafOrigin::Chain,
            request: None,
            ran_ns: sample.time_ns.filter(|&time_ns| time_ns < NO_TIME_NS && self.events.is_clock(event)),
            ran_on: sample.cpu,
            switched_ns: sample.time_ns.filter(|_| self.events.of(event).off_cpu == EventKind::Switch),
        };
        if self.opts.dimensions.branches && self.profile.events[event].has_branches {
            self.add_branches(&ticket, pid, sample);
            return None;
        }
        self.resolve_steps(event, pid, sample);
        self.note_off_cpu(event, task, sample);
        self.note_span(event, task, sample);
        ticket.request = self.note_block_io(event, task, sample);
        let stack = sample.stack_user.filter(|_| self.opts.callchains && !has_recorded_user_chain(sample));
        match (sample.regs_user, stack) {
            (Some(regs), Some(stack)) if regs.abi != 0 => {
                let (process, maps, map_version) = self.machine.mappings_of(pid);
                let leaf_origin = self.path.leaf_origin;
                let frames = job::KernelFrames::from_slice(&self.path.frames);
                let ticket = job::Ticket { frames, leaf_origin, ..ticket };
                let max_frames = self.opts.max_frames.saturating_sub(ticket.frames.len());
                Some(UnwindJob { regs, stack, process, maps, map_version, max_frames, ticket })
            }
            (_, stack) => {
                let end = if stack.is_some() && pid != 0 {
                    StackEnd::NoRegisters
                } else {
                    self.recorded_end(sample)
                };
                self.add_path(&ticket, end);
                None
            }
        }
    }

    /// Takes the unwound user part of a job's sample.
    pub fn complete(&mut self, job: UnwindJob<'_>, unwound: &UnwoundStack<'_>) {
        self.path.frames.clear();
        self.path.frames.extend_from_slice(&job.ticket.frames);
        self.path.leaf_origin = job.ticket.leaf_origin;
        self.push_unwound(&job, unwound);
        if let Some(request) = job.ticket.request {
            self.name_request(request);
        }
        if let Some(time_ns) = job.ticket.switched_ns {
            self.complete_switch(job.ticket.task, time_ns);
        }
        self.add_path(&job.ticket, unwound.end);
    }

    /// The profile. Every sample pushed is in it or counted under a reason.
    #[must_use]
    pub fn finish(mut self) -> Profile {
        self.finish_off_cpu();
        self.finish_spans();
        let mut profile = std::mem::take(&mut self.profile);
        profile.complete_cgroups();
        self.name_tasks(&mut profile);
        let tasks = profile.tasks().to_vec();
        name_longest_runners(&mut profile.off_cpu, &tasks);
        profile
    }

    /// The profile of what was pushed by now, with the names tasks have by now; waits without an end yet are left
    /// out.
    #[must_use]
    pub fn snapshot(&self) -> Profile {
        let mut profile = self.profile.clone();
        self.name_tasks(&mut profile);
        profile
    }

    fn name_tasks(&self, profile: &mut Profile) {
        let strings = &mut profile.strings;
        let mut names: Vec<_> =
            self.tasks.iter().map(|(&span, &task)| (task, self.machine.comm_of(span, strings))).collect();
        names.sort_unstable_by_key(|(task, _)| *task);
        profile.name_tasks(names.into_iter());
        for thread in self.machine.threads() {
            let comm = self.machine.comm_of(thread.span, &mut profile.strings);
            profile.last_comms.insert(thread.tid, comm);
        }
        let Profile { off_cpu, strings, last_comms, .. } = profile;
        name_others(&mut off_cpu.waits, strings, last_comms);
    }

    /// The machine as it is now.
    #[must_use]
    pub fn machine(&self) -> &MachineState {
        &self.machine
    }

    /// The profile so far (live views); tasks without a name yet have an empty one.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    fn task_of(&mut self, span: TaskSpanId) -> TaskId {
        if let Some((_, task)) = self.last_task.filter(|(last, _)| *last == span) {
            return task;
        }
        let task = self.find_task(span);
        self.last_task = Some((span, task));
        task
    }

    fn find_task(&mut self, span: TaskSpanId) -> TaskId {
        if let Some(&task) = self.tasks.get(&span) {
            return task;
        }
        let state = &self.machine.spans()[span.index()];
        let thread = &self.machine.threads()[state.thread.index()];
        let comm = self.machine.comm_of(span, &mut self.profile.strings);
        let task = Task { pid: thread.pid, tid: thread.tid, process: thread.process.0, comm };
        let task = self.profile.push_task(task);
        self.tasks.insert(span, task);
        task
    }

    /// Counts the sample of `ticket` at `self.path`.
    fn add_path(&mut self, ticket: &job::Ticket, end: StackEnd) {
        let Some(callsite) = self.callsite_of_frames() else {
            self.profile.diagnostics.drop_sample(Reason::NoAddress);
            return;
        };
        self.profile.diagnostics.samples_attributed += 1;
        *self.profile.diagnostics.stack_ends.entry(end).or_default() += 1;
        self.add_cell(ticket, callsite, ticket.extra, ticket.sums);
        if let Some(time_ns) = ticket.ran_ns {
            let (task, period) = (ticket.task, ticket.sums.period);
            let cpu = ticket.ran_on;
            self.profile.off_cpu.seen_running.push(RunSample { task, time_ns, callsite, period, cpu });
        }
    }

    fn add_cell(&mut self, ticket: &job::Ticket, callsite: CallsiteId, extra: ExtraId, sums: Sums) {
        let key = CellKey { event: ticket.event, task: ticket.task, cpu: ticket.cpu, callsite, extra };
        self.profile.add(key, sums);
    }

    /// One cell per branch, with a period of 1 each: perf's branch view counts branches.
    fn add_branches(&mut self, ticket: &job::Ticket, pid: i32, sample: &Sample<'_>) {
        let branches = sample.branches.unwrap_or_default();
        if branches.is_empty() {
            self.profile.diagnostics.drop_sample(Reason::NoBranches);
            return;
        }
        self.profile.diagnostics.samples_attributed += 1;
        for branch in branches.iter() {
            let (from, to) = (self.branch_frame(pid, branch.from.0), self.branch_frame(pid, branch.to.0));
            let flags = branch.flags;
            let ends = BranchEnds {
                from,
                to,
                mispredicted: (flags.mispredicted() || flags.predicted()).then(|| flags.mispredicted()),
                in_tx: flags.in_tx(),
                abort: flags.abort(),
                cycles: flags.cycles(),
            };
            let path = self.profile.callsites.intern_leaf_first(&[to]);
            let callsite = path.expect("invariant: the path has a frame");
            let extra = self.profile.extra(ticket.extra).clone();
            let extra = self.profile.intern_extra(ExtraDimensions { branch: Some(ends), ..extra });
            self.add_cell(
                ticket,
                callsite,
                extra,
                Sums { count: 1, period: 1, weight: 1, ..Sums::default() },
            );
        }
    }

    fn note_time(&mut self, sample: &Sample<'_>) {
        let Some(time) = sample.time_ns.filter(|&time| time < NO_TIME_NS) else { return };
        let (first, last) = self.profile.time_span_ns.unwrap_or((time, time));
        self.profile.time_span_ns = Some((first.min(time), last.max(time)));
    }
}

fn ids_of(sample: &Sample<'_>) -> (i32, i32) {
    let (pid, tid) = sample.pid_tid.unwrap_or((u32::MAX, u32::MAX));
    (pid.cast_signed(), tid.cast_signed())
}

fn cpu_of(sample: &Sample<'_>) -> i32 {
    sample.cpu.map_or(-1, u32::cast_signed)
}

fn event_infos(events: &[Event]) -> Vec<EventInfo> {
    use perfdata::abi::PERF_SAMPLE_BRANCH_STACK;
    let infos = events.iter().enumerate().map(|(index, event)| EventInfo {
        name: event.name.clone(),
        kind: event.attr.type_,
        config: event.attr.config,
        sample_type: event.attr.sample_type,
        by_frequency: event.attr.flags.has(perfdata::AttrFlags::FREQ),
        period_or_hz: event.attr.sample_period,
        leader: index,
        group_name: None,
        has_callchain: event.has_callchain(),
        has_branches: event.attr.sample_type & PERF_SAMPLE_BRANCH_STACK != 0,
    });
    infos.collect()
}
