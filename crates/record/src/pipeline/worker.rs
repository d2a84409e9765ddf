//! The unwinding thread: records in time order, samples turned into callchains, everything written.
//!
//! It is the only one that follows the processes, so that each sample is unwound with the mappings of its moment.

mod next_file;
mod python;
mod samples;
mod shared;
mod waits;

use std::sync::atomic::Ordering;

use perfdata::abi::{PERF_AUX_FLAG_COLLISION, PERF_AUX_FLAG_PARTIAL, PERF_AUX_FLAG_TRUNCATED};
use perfdata::record::Auxtrace;
use perfdata::{Record, Sample, SampleId};
use rustc_hash::FxHashSet;

use crate::accounting::account::{Account, SwitchKind};
use crate::files::output::RecordingSink;
use crate::machine::pid_filter::Followed;
use crate::machine::processes::Processes;
use crate::off_cpu::{SiteChains, Switches, Tracepoints, WakerJoin};
use crate::open::plan::Plan;
use crate::pipeline::order::RecordOrder;
use crate::pipeline::ring_reader::Layouts;
use crate::pipeline::stacks::LiveUnwinder;
use crate::pt::info::{self, Info};
use crate::runtimes::python::PythonReader;
use crate::session::opts::{RecordOpts, SampleWatch, Watched};
use crate::sys::time::thread_cpu_ns;
use perfdata::PidTid;

pub use shared::Shared;

/// The state of the unwinding thread.
pub struct Worker {
    order: RecordOrder,
    rest: Rest,
}

/// Options for the headers of the files.
pub struct HeaderOpts {
    /// Those of the recording.
    pub opts: RecordOpts,
    /// The kernel is sampled.
    pub samples_kernel: bool,
}

/// All but the queue, so that records can be borrowed from the queue meanwhile.
struct Rest {
    layouts: Layouts,
    /// Index of the file event of each opened event.
    file_events: Vec<usize>,
    /// Whether the snapshots of each opened event become callchains here.
    unwound: Vec<bool>,
    steps: usize,
    writes_switches: bool,
    processes: Processes,
    stacks: LiveUnwinder,
    account: Account,
    sink: RecordingSink,
    shared: Shared,
    sample_times: Option<(u64, u64)>,
    window: (u32, u32),
    sample_bytes: u64,
    /// First file event of the off-CPU engine.
    first_off_cpu: usize,
    wakers: WakerJoin,
    site_chains: SiteChains,
    /// Tier B: threads' clocks by tracepoints, in place of the engine's.
    switches: Option<(Switches, Tracepoints)>,
    first_tracepoint: usize,
    /// Only records of these processes count; `None` if the kernel sends no others.
    followed: Option<Followed>,
    watch: Option<SampleWatch>,
    header: HeaderOpts,
    traced: TraceAmounts,
    /// Reads Python's frames, and the processes that have their mapping in the file.
    python: Option<PythonReader>,
    python_mapped: FxHashSet<u32>,
}

/// A sample of one of the file's events.
struct EventSample<'a> {
    /// Index of the event.
    file_event: usize,
    /// Its snapshot becomes a callchain here.
    is_unwound: bool,
    time_ns: u64,
    sample: &'a Sample<'a>,
    /// Its record.
    bytes: &'a [u8],
}

/// Amounts written of a processor's trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceAmounts {
    /// Bytes.
    pub bytes: u64,
    /// Times an area was full.
    pub stopped: u64,
    /// Times the processor paused by itself.
    pub holes: u64,
}

/// Results of the thread when it ends.
pub struct Finished {
    /// The books.
    pub account: Account,
    /// The output, all records written, features not yet.
    pub sink: RecordingSink,
    /// The processes at the end, with the files seen.
    pub processes: Processes,
    /// Time of the first and last sample, in ns.
    pub sample_times: Option<(u64, u64)>,
    /// Bytes of sample records handed to the output.
    pub sample_bytes: u64,
    /// The processor's trace.
    pub traced: TraceAmounts,
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
        let first_off_cpu = plan.first_off_cpu();
        let off_cpu_events = first_off_cpu..plan.file.len() + usize::from(plan.off_cpu.is_some());
        let rest = Rest {
            layouts,
            file_events: plan.opened.iter().map(|e| e.file_event).chain(off_cpu_events).collect(),
            unwound: plan.unwound(),
            steps: plan.steps.len(),
            writes_switches: header.opts.extra.switches,
            processes: Processes::default(),
            stacks: LiveUnwinder::new(&plan.steps),
            account: Account::on_hold(),
            sink,
            shared,
            sample_times: None,
            window: (0, 0),
            sample_bytes: 0,
            first_off_cpu,
            wakers: WakerJoin::default(),
            site_chains: SiteChains::default(),
            switches: None,
            first_tracepoint: plan.first_tracepoint(),
            followed: None,
            watch: header.opts.observers.watch.clone(),
            header,
            traced: TraceAmounts::default(),
            python: None,
            python_mapped: FxHashSet::default(),
        };
        Self { order: RecordOrder::default(), rest }
    }

    /// Leaves out records of other processes than these and their children.
    pub fn only(&mut self, followed: Option<Followed>) {
        self.rest.followed = followed;
    }

    /// Puts Python's frames into the stacks.
    pub fn with_python(&mut self, python: Option<PythonReader>) {
        self.rest.python = python;
    }

    /// Maps of JIT code are written because of us, and removed once they are read.
    pub fn removes_jit_maps(&mut self) {
        self.rest.processes.remove_jit_maps();
    }

    /// JVMs that still run at the end are asked for the names of their code.
    pub fn asks_java(&mut self) {
        self.rest.processes.ask_java();
    }

    /// Keeps threads' clocks by tracepoints.
    pub fn clocked(&mut self, switches: Switches, points: Tracepoints) {
        self.rest.switches = Some((switches, points));
    }

    /// Passes it a record made from /proc before the recording began; it is written as well.
    pub fn synthesized(&mut self, record: &Record<'_>, id: &SampleId) {
        self.rest.follow(record, id, 0);
        self.rest.sink.record(0, record, id);
    }

    /// Writes the file's description of a processor's trace, before all else.
    pub fn introduce(&mut self, trace: &Info) {
        let words = trace.words();
        self.rest.sink.record(0, &Record::AuxtraceInfo(info::record(&words)), &SampleId::default());
    }

    /// Ends a round: all records so far belong to it.
    pub fn described(&mut self) {
        self.rest.sink.finish_round();
    }

    /// Takes rounds until the queue is closed, then writes what still waits.
    #[must_use]
    pub fn run(self) -> Finished {
        let Self { mut order, mut rest } = self;
        let mut has_started = false;
        while let Some(bytes) = rest.shared.queue.pop() {
            let started_ns = rest.shared.started_ns.load(Ordering::Acquire);
            if !has_started && started_ns != 0 {
                has_started = true;
                rest.account.start(started_ns);
            }
            rest.account.end_at(rest.shared.ended_ns.load(Ordering::Acquire));
            if let Some(piece) = Auxtrace::of_bytes(&bytes) {
                rest.traced.bytes += piece.data.len() as u64;
                rest.sink.auxtrace(&piece);
                rest.mind_the_end();
                continue;
            }
            order.push(bytes, |record| rest.layouts.of(record).1.time_of(record));
            order.emit(|time_ns, record| rest.take(time_ns, record));
            rest.sink.finish_round();
            let asked = rest.shared.snapshot.swap(false, Ordering::Relaxed);
            if asked {
                // All that has come belongs into this file; what is older and comes later is in the next.
                order.emit_all(|time_ns, record| rest.take(time_ns, record));
            }
            if asked || rest.sink.is_part_full() {
                rest.next_file();
            }
            rest.mind_the_end();
        }
        order.emit_all(|time_ns, record| rest.take(time_ns, record));
        rest.finish_clocks();
        rest.write_dropped();
        rest.sink.finish_round();
        let Rest { account, sink, processes, sample_times, sample_bytes, traced, switches, .. } = rest;
        let switches = switches.map(|(switches, _)| switches.seen());
        Finished { account, sink, processes, sample_times, sample_bytes, traced, switches }
    }
}

impl Rest {
    /// Sets `must_stop` when no more can or should be written.
    fn mind_the_end(&self) {
        if self.sink.must_stop().is_some() {
            self.shared.must_stop.store(true, Ordering::Relaxed);
        }
    }

    /// One record, in time order.
    fn take(&mut self, time_ns: u64, bytes: &[u8]) {
        let (event, layout) = self.layouts.of(bytes);
        let layout = *layout;
        let Some((record, id)) = layout.parse(bytes) else {
            // Not as the kernel should have written it: keep it for the reader to judge.
            return self.sink.raw(bytes);
        };
        if let Record::Sample(sample) = &record {
            let file_event = self.file_events[event];
            if file_event >= self.first_tracepoint {
                return self.tracepoint(file_event - self.first_tracepoint, sample, time_ns);
            }
            if file_event >= self.first_off_cpu {
                let before_ns = thread_cpu_ns();
                self.off_cpu_sample(file_event, sample, time_ns);
                let spent_ns = thread_cpu_ns().saturating_sub(before_ns);
                self.shared.off_cpu.spent_ns.fetch_add(spent_ns, Ordering::Relaxed);
                return;
            }
            let is_unwound = self.unwound.get(event).is_some_and(|unwound| *unwound);
            return self.sample(&EventSample { file_event, is_unwound, time_ns, sample, bytes });
        }
        if self.followed.as_mut().is_some_and(|followed| !followed.concerns(&record)) {
            return;
        }
        self.follow(&record, &id, time_ns);
        if self.writes_switches || !matches!(record, Record::Switch(_)) {
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
                self.hand_on(|| Watched::Fork { pid: task.pid, ppid: task.ppid });
                self.account.fork(task.pid, task.tid, task.ptid, time_ns);
            }
            Record::Exit(task) => {
                self.shared.exit_of_process(task.pid, time_ns);
                self.processes.exit(task.pid, task.tid);
                self.account.exit(task.tid, time_ns);
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
                self.traced.stopped += is(PERF_AUX_FLAG_TRUNCATED);
                self.traced.holes += is(PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION);
            }
            _ => {}
        }
    }
}
