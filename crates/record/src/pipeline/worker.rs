//! The unwinding thread: records in time order, samples turned into callchains, everything written.
//!
//! It is the only one that follows the processes, so that each sample is unwound with the mappings of its moment.

mod amounts;
mod events;
mod ladder;
mod next_file;
mod python;
mod rule_looks;
mod rule_watch;
mod sampled_clock;
mod samples;
mod shared;
mod span_edges;
mod span_notices;
mod waits;

use std::sync::atomic::Ordering;

use perfdata::abi::{PERF_AUX_FLAG_COLLISION, PERF_AUX_FLAG_PARTIAL, PERF_AUX_FLAG_TRUNCATED};
use perfdata::appendix::kept_window::KeptTime;
use perfdata::appendix::open_spans::OpenSpans;
use perfdata::record::Auxtrace;
use perfdata::{Record, Sample, SampleId};

use crate::accounting::account::{Account, SwitchKind};
use crate::files::output::RecordingSink;
use crate::machine::pid_filter::Followed;
use crate::machine::processes::Processes;
use crate::off_cpu::{self, Switches, Tracepoints};
use crate::open::plan::Plan;
use crate::pipeline::order::RecordOrder;
use crate::pipeline::ring_reader::Layouts;
use crate::pipeline::stacks::LiveUnwinder;
use crate::pt::info::{self, Info};
use crate::runtimes::python::PythonReader;
use crate::session::opts::{RecordOpts, Watched};
use perfdata::PidTid;

pub use amounts::{TraceAmounts, WrittenAmounts};
pub use shared::Shared;

use events::WorkerEvents;
use ladder::SnapshotLadder;
use python::PythonFrames;
use rule_watch::RuleWatch;
use sampled_clock::SampledClock;
use span_edges::SpanEdges;
use waits::WaitsInProgress;

/// The state of the unwinding thread.
pub struct Worker {
    order: RecordOrder,
    state: WorkerState,
}

/// Options for the headers of the files.
pub struct HeaderOpts {
    /// Those of the recording.
    pub opts: RecordOpts,
    /// The kernel is sampled.
    pub samples_kernel: bool,
}

/// All but the queue, so that records can be borrowed from the queue meanwhile.
struct WorkerState {
    header: HeaderOpts,
    events: WorkerEvents,
    /// Only records of these processes count; `None` if the kernel sends no others.
    followed: Option<Followed>,
    processes: Processes,
    stacks: LiveUnwinder,
    ladder: SnapshotLadder,
    waits: WaitsInProgress,
    spans: SpanEdges,
    rules: RuleWatch,
    python: PythonFrames,
    account: Account,
    written: WrittenAmounts,
    sink: RecordingSink,
    shared: Shared,
}

/// A sample of one of the file's events.
struct EventSample<'a> {
    /// Index of the event.
    file_event: usize,
    /// Snapshot becomes a callchain here.
    is_unwound: bool,
    time_ns: u64,
    sample: &'a Sample<'a>,
    /// Record.
    bytes: &'a [u8],
}

/// Results of the thread when it ends.
pub struct Finished {
    /// The books.
    pub account: Account,
    /// The output, all records written, features not yet.
    pub sink: RecordingSink,
    /// The processes at the end, with the files seen.
    pub processes: Processes,
    /// Amounts in it.
    pub written: WrittenAmounts,
    /// Calls without an end, where the file may lack their begins.
    pub open_spans: OpenSpans,
    /// The time that the file is of; `None` but for flight recorders.
    pub kept_time: Option<KeptTime>,
    /// Switches of whomever that were gone through one by one; `None` where the kernel kept the clocks.
    pub switches: Option<u64>,
}

impl Worker {
    /// Ready to take rounds.
    #[must_use]
    pub fn new(
        plan: &Plan,
        layouts: Layouts,
        sink: RecordingSink,
        shared: Shared,
        header: HeaderOpts,
    ) -> Self {
        let copy_sizes: Vec<u32> = plan.steps.iter().chain(&off_cpu::COPY_BYTES).copied().collect();
        let state = WorkerState {
            events: WorkerEvents::new(plan, layouts),
            followed: None,
            processes: Processes::default(),
            stacks: LiveUnwinder::new(&copy_sizes),
            ladder: SnapshotLadder::new(plan.steps.len()),
            waits: WaitsInProgress::default(),
            spans: SpanEdges::new(plan, &header.opts),
            rules: RuleWatch::new(&header.opts),
            python: PythonFrames::default(),
            header,
            account: Account::on_hold(),
            written: WrittenAmounts::default(),
            sink,
            shared,
        };
        Self { order: RecordOrder::default(), state }
    }

    /// Leaves out records of other processes than these and their children.
    pub fn only(&mut self, followed: Option<Followed>) {
        self.state.followed = followed;
    }

    /// Puts Python's frames into the stacks.
    pub fn with_python(&mut self, python: Option<PythonReader>) {
        self.state.python.reader = python;
    }

    /// Maps of JIT code are written because of us, and removed once they are read.
    pub fn removes_jit_maps(&mut self) {
        self.state.processes.remove_jit_maps();
    }

    /// JVMs and .NET runtimes that still run at the end are asked for the names of their code.
    pub fn asks_runtimes(&mut self) {
        self.state.processes.ask_runtimes();
    }

    /// Keeps threads' clocks by tracepoints.
    pub fn clocked(&mut self, switches: Switches, points: Tracepoints) {
        self.state.waits.switches = Some((switches, points));
    }

    /// Passes it a record made from /proc before the recording began; it is written as well.
    pub fn synthesized(&mut self, record: &Record<'_>, id: &SampleId) {
        self.state.follow(record, id, 0);
        self.state.sink.record(0, record, id);
    }

    /// Writes the file's description of a processor's trace, before all else.
    pub fn introduce(&mut self, trace: &Info) {
        let words = trace.words();
        self.state.sink.record(0, &Record::AuxtraceInfo(info::record(&words)), &SampleId::default());
    }

    /// Ends a round: all records so far belong to it.
    pub fn described(&mut self) {
        self.state.sink.finish_round();
    }

    /// Takes rounds until the queue is closed, then writes what still waits.
    #[must_use]
    pub fn run(self) -> Finished {
        let Self { mut order, mut state } = self;
        let mut has_started = false;
        while let Some(bytes) = state.shared.queue.pop() {
            let started_ns = state.shared.started_ns.load(Ordering::Acquire);
            if !has_started && started_ns != 0 {
                has_started = true;
                state.account.start(started_ns);
            }
            state.account.end_at(state.shared.ended_ns.load(Ordering::Acquire));
            if let Some(piece) = Auxtrace::of_bytes(&bytes) {
                state.written.traced.bytes += piece.data.len() as u64;
                state.sink.auxtrace(&piece);
                state.mind_the_end();
                continue;
            }
            order.push(bytes, |record| state.events.layouts.of(record).1.time_of(record));
            order.emit(|time_ns, record| state.take(time_ns, record));
            state.sink.finish_long_round();
            let asked = state.shared.snapshot.swap(false, Ordering::Relaxed) || state.is_triggered();
            if asked {
                // All that has come belongs into this file; what is older and comes later is in the next.
                order.emit_all(|time_ns, record| state.take(time_ns, record));
            }
            if asked || state.sink.is_part_full() {
                state.next_file();
            }
            state.mind_rules();
            state.mind_the_end();
        }
        order.emit_all(|time_ns, record| state.take(time_ns, record));
        state.abandon_look();
        state.report_triggers();
        state.finish_clocks();
        state.write_dropped();
        state.sink.finish_round();
        let (open_spans, kept_time) = (state.spans.unended(&state.header.opts), state.kept_time());
        let WorkerState { account, sink, processes, written, waits, .. } = state;
        let switches = waits.switches.map(|(switches, _)| switches.seen());
        Finished { account, sink, processes, written, open_spans, kept_time, switches }
    }
}

impl WorkerState {
    /// Sets `must_stop` when no more can or should be written.
    fn mind_the_end(&self) {
        if self.sink.must_stop().is_some() {
            self.shared.must_stop.store(true, Ordering::Relaxed);
        }
    }

    /// One record, in time order.
    fn take(&mut self, time_ns: u64, bytes: &[u8]) {
        self.spans.newest_ns = time_ns;
        let (event, layout) = self.events.layouts.of(bytes);
        let layout = *layout;
        let Some((record, id)) = layout.parse(bytes) else {
            // Not as the kernel should have written it: keep it for the reader to judge.
            return self.sink.raw(bytes);
        };
        if let Record::Sample(sample) = &record {
            let file_event = self.events.file_event(event);
            if file_event >= self.events.first_tracepoint {
                return self.tracepoint(file_event - self.events.first_tracepoint, sample, time_ns);
            }
            if file_event >= self.events.first_off_cpu {
                let begin_ns = self.waits.clock.begin();
                self.off_cpu_sample(file_event, sample, time_ns);
                let spent_ns = SampledClock::spent_ns(begin_ns);
                self.shared.off_cpu.spent_ns.fetch_add(spent_ns, Ordering::Relaxed);
                return;
            }
            if self.spans.watch.has(event) {
                return self.span_edge(event, sample, time_ns, bytes);
            }
            let is_unwound = self.events.is_unwound(event);
            return self.sample(&EventSample { file_event, is_unwound, time_ns, sample, bytes });
        }
        if self.followed.as_mut().is_some_and(|followed| !followed.concerns(&record)) {
            return;
        }
        self.follow(&record, &id, time_ns);
        if self.header.opts.extra.switches || !matches!(record, Record::Switch(_)) {
            self.sink.raw(bytes);
        }
    }

    /// Takes a record other than a sample, for processes and losses.
    fn follow(&mut self, record: &Record<'_>, id: &SampleId, time_ns: u64) {
        let (pid, tid) = id.pid_tid.unwrap_or_default();
        self.follow_clocks(record, time_ns);
        match record {
            Record::Mmap(mmap) => self.processes.mmap(mmap),
            Record::Comm(comm) => {
                if comm.exec {
                    self.shared.exec_of_process(comm.pid, time_ns);
                    self.processes.exec(comm.pid);
                    self.python_exec(comm.pid);
                    self.account.exec(comm.pid, comm.tid, time_ns);
                }
                self.account.comm(comm.tid, comm.comm);
            }
            Record::Fork(task) => {
                self.processes.fork(task.pid, task.ppid);
                self.python_fork(task.pid, task.ppid);
                self.python_birth(task.tid, task.ptid);
                self.hand_on(|| Watched::Fork { pid: task.pid, ppid: task.ppid });
                self.account.fork(task.pid, task.tid, task.ptid, time_ns);
            }
            Record::Exit(task) => {
                self.shared.exit_of_process(task.pid, time_ns);
                self.processes.exit(task.pid, task.tid);
                self.account.exit(task.tid, time_ns);
                self.spans.thread_ends(task.tid);
                self.stacks.forget(PidTid { pid: task.pid, tid: task.tid });
                self.python_exit(task.pid, task.tid);
            }
            Record::Switch(switch) => {
                self.account.switch(PidTid { pid, tid }, SwitchKind::of(switch), time_ns)
            }
            Record::Lost(lost) => self.account.lost(tid, lost.lost, time_ns),
            Record::LostSamples(lost) => self.account.lost_samples(tid, *lost),
            Record::Throttle(_) => self.account.throttled(),
            Record::Aux(aux) => {
                let is = |flag: u64| u64::from(aux.flags & flag != 0);
                self.written.traced.stopped += is(PERF_AUX_FLAG_TRUNCATED);
                self.written.traced.holes += is(PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION);
            }
            _ => {}
        }
    }
}
