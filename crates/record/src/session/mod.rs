//! One recording from start to end: the main thread drains the rings and minds the command, the worker unwinds and
//! writes.

mod begin;
pub mod bounded_command;
pub mod control;
pub mod count;
mod end;
pub mod opts;
mod orders;
mod prepare;
mod python;
mod running;
mod starting;
mod state;
pub mod stop_signals;
mod tier;
mod timers;

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use perfdata::appendix::descriptors::NamedDescriptors;
use perfdata::appendix::disk_files::DiskFiles;
use perfdata::appendix::go_waits::GoWaits;
use perfdata::appendix::thread_contexts::ThreadContexts;

use crate::accounting::summary::{Notice, RunSummary};
use crate::accounting::totals::{Counted, Totals};
use crate::error::Error;
use crate::files::output::RecordingSink;
use crate::machine::hotplug::CpuWatch;
use crate::off_cpu::disk_files::DiskFileWatch;
use crate::off_cpu::{OffCpu, Source};
use crate::open::Start;
use crate::open::event_fallback::Setup;
use crate::pipeline::ring_reader::{Layouts, drain};
use crate::pipeline::worker::HeaderOpts;
use crate::pipeline::worker::{Finished, Shared, Worker};
use crate::runtimes::go_waits::GoLooker;
use crate::runtimes::otel::{ContextWatch, SPAN_NAME, notice_of};
use crate::session::control::Control;
use crate::session::opts::{Delay, Output, RecordOpts};
use crate::session::stop_signals::StopSignals;
use crate::sys::process::become_realtime;
use crate::sys::{Child, Prompt, Rank, Surroundings, mem, time};
use prepare::{Prepared, Sources, check_address_space, signals_of, spill_queue, totals};
use python::Arrival;
use state::{RecordedTasks, RecordingPhase, RingWatch};
use tier::OpenedTier;
use timers::Timers;

const SIGNALS: u64 = u64::MAX;
const CONTROL: u64 = u64::MAX - 1;

/// Records with `opts` until the command ends, the watched processes end, or a signal comes. Blocks until all is
/// written.
pub fn record(opts: &RecordOpts) -> Result<RunSummary, Error> {
    check_address_space(opts)?;
    let signals = signals_of(opts).map_err(Error::system("signalfd"))?;
    // More descriptors for more threads. If the limit is too low, opening reports it.
    let _ = mem::raise_open_files();
    let preparation = timers::prepare(opts)?;
    let command = &opts.target.command;
    let support = python::support_of(opts, preparation.is_some());
    let child = if command.is_empty() {
        None
    } else {
        let stdout_to_stderr = opts.file.output == Output::Stdout;
        let command = support.as_ref().map_or_else(|| command.clone(), |of| of.command(command));
        let mut variables: Vec<_> = support.iter().filter_map(|of| of.variable.clone()).collect();
        variables.extend(preparation.iter().flat_map(timers::Preparation::variables));
        let surroundings = Surroundings { stdout_to_stderr, variables };
        let forked = Child::fork_with(&command, signals.reader(), &surroundings);
        Some(forked.map_err(Error::system("fork"))?)
    };
    // After the fork, for the command keeps the priority it would have; before our threads, which get this one.
    if let Some(priority) = opts.realtime {
        become_realtime(priority).map_err(|source| Error::Priority { priority, source })?;
    }
    if let Some(preparation) = preparation {
        let (opts, mut setup) = timers::setup(opts, &preparation);
        setup.notices.extend(support.iter().map(|of| Notice::RuntimeSupport(of.runtime, of.means)));
        let needs_bpf = || Notice::NoSpans(SPAN_NAME.to_owned(), "timers take the samples here".to_owned());
        setup.notices.extend(opts.thread_contexts.then(needs_bpf));
        let (places, start) = begin::places_of(&opts, child.as_ref())?;
        let mut timers =
            Timers::new(preparation, &setup.plan, begin::roots_of_timers(&opts, child.as_ref(), &places));
        timers.attach(if opts.target.is_attached() { &places.tids } else { &[] });
        let roots = if opts.target.is_attached() { places.tids.clone() } else { Vec::new() };
        let attached = begin::attached(&opts, &places);
        let makes_maps = support.is_some();
        let prepared =
            Prepared { makes_maps, roots, attached, ..Prepared::by_timers(&opts, places, setup, timers) };
        return Recording::begin(&opts, signals, child, prepared)?.run(start);
    }
    // Before the engine, for a target that is not there; and after it, for it takes its time to start.
    let (listed, _) = begin::places_of(opts, child.as_ref())?;
    let mut python_loading = python::Loading::begin(opts);
    let disk_files = DiskFileWatch::begin(opts);
    let contexts = ContextWatch::begin(opts)?;
    let engine = tier::load_engine(opts, child.as_ref(), &listed);
    let (mut places, start) = begin::places_of(opts, child.as_ref())?;
    let opened = tier::open(opts, engine, child.as_ref(), tier::OpeningPlan { places: &mut places, start })?;
    let OpenedTier { opts, mut setup, start, followed, source, switches } = opened;
    setup.notices.extend(support.iter().map(|of| Notice::RuntimeSupport(of.runtime, of.means)));
    let python = python_loading.reader(&setup);
    let opts = &opts;
    let counted = match &source {
        _ if !opts.summary => Totals::none(),
        Some(Source::Engine(_)) if followed.is_some() => {
            Totals::open(&places, start, setup.kernel, opts.clock, Counted::Hardware)
        }
        _ => totals(opts, &places, start, &setup),
    };
    let waits = source.zip(setup.plan.off_cpu).zip(opts.off_cpu.as_ref());
    let off_cpu = waits.map(|((source, attr), waits)| OffCpu::new(source, attr, waits.detail));
    let roots =
        if followed.is_some() && opts.target.is_attached() { places.tids.clone() } else { Vec::new() };
    let attached = begin::attached(opts, &places);
    let makes_maps = support.is_some();
    disk_files.iter().for_each(DiskFileWatch::arrive);
    let refused = contexts.as_ref().and_then(ContextWatch::refusal);
    let contexts = contexts.filter(|_| refused.is_none());
    setup.notices.extend(refused.map(|why| Notice::NoSpans(SPAN_NAME.to_owned(), why)));
    let prepared = Prepared {
        attached,
        places,
        setup,
        sources: Sources {
            totals: counted,
            off_cpu,
            timers: None,
            python,
            python_loading,
            disk_files,
            contexts,
            engine_chooses: followed.is_some(),
        },
        followed,
        switches,
        roots,
        makes_maps,
    };
    Recording::begin(opts, signals, child, prepared)?.run(start)
}

struct Recording<'o> {
    opts: &'o RecordOpts,
    signals: StopSignals,
    child: Option<Child>,
    control: Option<Control>,
    setup: Setup,
    tasks: RecordedTasks,
    sources: Sources,
    rings: RingWatch,
    phase: RecordingPhase,
    shared: Shared,
    worker: JoinHandle<Finished>,
    /// Targets of threads' waits, once recording has ended.
    descriptors: NamedDescriptors,
    /// Files of the requests to disks, once recording has ended.
    disk_files: DiskFiles,
    /// Requests that threads worked on, once recording has ended.
    contexts: ThreadContexts,
    /// Looks at goroutines; what it has found after the end.
    go: Option<GoLooker>,
    go_waits: GoWaits,
}

impl<'o> Recording<'o> {
    fn begin(
        opts: &'o RecordOpts,
        signals: StopSignals,
        child: Option<Child>,
        prepared: Prepared,
    ) -> Result<Self, Error> {
        let Prepared { places, mut setup, mut sources, followed, switches, roots, attached, makes_maps } =
            prepared;
        let left_out = Some(attached.children_left_out).filter(|&count| count > 0);
        setup.notices.extend(left_out.map(Notice::ChildrenLeftOut));
        let is_filtered = followed.is_some();
        let is_by_cpu = followed.is_some() || opts.target.is_system_wide();
        let shared = Shared::new(spill_queue(&opts.file.output));
        if let Some(off_cpu) = &sources.off_cpu {
            let _ = shared.descriptors.set(off_cpu.descriptors());
        }
        let ids = setup.opened.counters.iter().map(|c| (c.id, c.event));
        let ids = ids.chain(setup.opened.made.iter().copied());
        let layouts = Layouts::new(&setup.plan, ids);
        let control = opts.span.control.as_ref().map(Control::open).transpose();
        let control = control.map_err(Error::system("--control"))?;
        let sink = RecordingSink::create(opts, begin::writer_opts(opts, &setup), setup.opened.ring_bytes())?;
        let mut header = HeaderOpts { opts: opts.clone(), samples_kernel: setup.kernel };
        header.opts.extra.switches |= setup.trace.is_some();
        let mut worker = Worker::new(&setup.plan, layouts.clone(), sink, shared.clone(), header);
        worker.only(followed);
        if makes_maps {
            worker.removes_jit_maps();
        }
        let asked = python::asked_runtimes(opts, &places);
        if !asked.is_empty() {
            worker.asks_runtimes();
            setup.notices.extend(python::asking_notices(&asked));
        }
        python::start(sources.python.as_ref(), opts, &places, child.as_ref())?;
        sources.python_arrives(Arrival::of(opts, sources.python.as_ref()), &setup);
        worker.with_python(sources.python.clone());
        if let Some((switches, points)) = switches {
            worker.clocked(switches, points);
        }
        begin::introduce(opts, &setup, &mut worker);
        let running = begin::running(opts, child.as_ref(), &places);
        begin::describe(opts, &running, &mut worker, || {
            shared.queue.push(drain(&mut setup.opened.rings, &layouts, false));
        });
        worker.described();
        let go = begin::go_looker(opts, child.as_ref(), &places);
        let is_realtime = opts.realtime.is_some();
        let worker = std::thread::Builder::new()
            .name("tally-unwind".to_owned())
            .spawn(move || {
                let _prompt = (!is_realtime).then(|| Prompt::begin(Rank::Unwinder));
                worker.run()
            })
            .map_err(Error::system("starting a thread (raise ulimit -v or ulimit -u)"))?;
        let mut rings = RingWatch::new(layouts).map_err(Error::system("epoll_create1"))?;
        rings.poller.add(signals.as_fd(), SIGNALS).map_err(Error::system("epoll_ctl"))?;
        if let Some(control) = &control {
            control.watch(&rings.poller, CONTROL).map_err(Error::system("--control: epoll_ctl"))?;
        }
        rings.watch_all(&setup.opened);
        let takes_new = opts.target.cpus.is_none();
        let cpus = CpuWatch::new(if is_by_cpu { &places.cpus } else { &[] }, takes_new);
        let cpus = if opts.file.overwrite { cpus.seldom() } else { cpus };
        Ok(Self {
            opts,
            signals,
            child,
            control,
            setup,
            tasks: RecordedTasks { roots, attached, cpus, cgroup: places.cgroup, is_filtered },
            sources,
            rings,
            phase: RecordingPhase::default(),
            shared,
            worker,
            descriptors: NamedDescriptors::default(),
            disk_files: DiskFiles::default(),
            contexts: ThreadContexts::default(),
            go,
            go_waits: GoWaits::default(),
        })
    }

    fn run(mut self, start: Start) -> Result<RunSummary, Error> {
        let begin = Instant::now();
        let suspended_ns = time::suspended_ns();
        let cpu_ns = mem::own_use().cpu_ns();
        if start == Start::ByHand && self.opts.span.delay == Delay::None {
            self.enable()?;
        } else if start == Start::OnExec {
            self.begin_clocks();
            self.phase.has_enabled = true;
            self.started();
        }
        if let Some(child) = &mut self.child {
            self.shared.command.store(child.pid(), Ordering::Release);
            if let Err(source) = child.exec() {
                return self.not_run(source);
            }
            self.shared.runs_ns.store(self.opts.clock.now_ns(), Ordering::Release);
        }
        let prompt = self.opts.realtime.is_none().then(|| Prompt::begin(Rank::Reader));
        self.wait(begin)?;
        drop(prompt);
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let cpu_while_running_ns = mem::own_use().cpu_ns().saturating_sub(cpu_ns);
        let time_ns = self.opts.clock.now_ns();
        self.shared.ended_ns.store(time_ns, Ordering::Release);
        let counters = self.sources.totals.read();
        self.go_waits = self.go.take().map(GoLooker::finish).unwrap_or_default();
        self.setup.notices.extend(self.tasks.cpus.notices());
        self.setup.notices.extend(Notice::of_suspension(suspended_ns, time::suspended_ns()));
        let _ = self.setup.opened.disable(&self.setup.plan);
        if self.opts.trace.snapshot.is_some_and(|snapshot| snapshot.at_exit) {
            self.take_snapshot();
        }
        self.drain(true);
        *self.shared.dropped.lock().expect("invariant: no panic while held") =
            self.setup.opened.dropped(&self.setup.plan);
        let programs_ns = self.sources.off_cpu.as_ref().map_or(0, |off_cpu| off_cpu.programs_ns());
        if let Some(off_cpu) = self.sources.off_cpu.take() {
            let (bytes, descriptors) = off_cpu.finish(&mut self.setup.notices);
            self.shared.queue.push(bytes);
            self.descriptors = descriptors;
        }
        self.disk_files = self.sources.disk_files.take().map(DiskFileWatch::finish).unwrap_or_default();
        if let Some(contexts) = self.sources.contexts.take() {
            self.contexts = contexts.finish();
            self.setup.notices.extend(notice_of(&self.contexts));
        }
        if let Some(timers) = self.sources.timers.take() {
            let mut bytes = Vec::new();
            timers.finish(time_ns, &mut bytes, &mut self.setup.notices);
            self.shared.queue.push(bytes);
        }
        self.drain(true);
        self.finish(end::Ending { wall_ns, time_ns, cpu_ns, cpu_while_running_ns, programs_ns, counters })
    }
}
