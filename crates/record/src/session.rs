//! One recording from start to end: the main thread drains the rings and minds the command, the worker unwinds and
//! writes.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perfdata::{Endian, Event, Features, WriterOpts};

use crate::build_id_cache;
use crate::drain::{Layouts, drain};
use crate::error::Error;
use crate::features;
use crate::followed::{self, Followed};
use crate::off_cpu::{self, Engine, OffCpu, Scope};
use crate::open::{Places, Start};
use crate::opts::{Delay, Output, RecordOpts};
use crate::proc;
use crate::setup::{self, Setup};
use crate::summary::{Notice, RecorderUse, RunSummary};
use crate::synthesize::{self, ProcessOpts};
use crate::sys::signal::{self, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use crate::sys::{Child, ExitKind, Poller, SignalReader, mem};
use crate::target::{Whom, open_cgroup};
use crate::totals::Totals;
use crate::worker::{Finished, Shared, Worker};

/// The rings are looked at no less often, so that files of short processes are found while they live; more often
/// while stacks are deeper than their copies, so that memory still holds what was copied.
const TICKS: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(4), Duration::from_millis(1)];

const SIGNALS: u64 = u64::MAX;

/// Records as `opts` say, until the command ends, the watched processes end, or a signal comes. Blocks until all is
/// written.
pub fn record(opts: &RecordOpts) -> Result<RunSummary, Error> {
    let watched = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD];
    let signals = SignalReader::new(&watched).map_err(Error::system("signalfd"))?;
    // More descriptors for more threads; without, opening says so.
    let _ = mem::raise_open_files();
    let command = &opts.target.command;
    let child = if command.is_empty() {
        None
    } else {
        let piped = opts.output == Output::Stdout;
        Some(Child::fork_with(command, Some(&signals), piped).map_err(Error::system("fork"))?)
    };
    let (places, start) = places_of(opts, child.as_ref())?;
    let mut engine = start_engine(opts, child.as_ref(), &places);
    let mut opts = opts.clone();
    if let Some(Err(_)) = &engine {
        // The next best: when threads ran is in switch records, which need no rights.
        opts.off_cpu = None;
        opts.extra.switches = true;
    }
    let opts = &opts;
    let by_cpu = engine.as_mut().and_then(|engine| followed::open(opts, engine.as_mut().ok()?));
    let (mut setup, start, follows) = match by_cpu {
        Some(setup) => (setup, Start::ByHand, true),
        None => (setup::open(opts, &places, start)?, start, false),
    };
    let totals = if opts.summary { Totals::open(&places, start, setup.kernel) } else { Totals::default() };
    let off_cpu = match (engine, setup.plan.off_cpu) {
        (Some(Ok(engine)), Some(attr)) => Some(OffCpu::new(engine, attr)),
        (Some(Err(error)), _) => {
            setup.notices.push(Notice::NoOffCpu(error.to_string()));
            None
        }
        _ => None,
    };
    let followed = if follows { Some(Followed::new(places.tids.iter().copied())) } else { None };
    let prepared = Prepared { places, start, setup, totals, off_cpu, followed };
    Recording::begin(opts, signals, child, prepared)?.run(start)
}

fn places_of(opts: &RecordOpts, child: Option<&Child>) -> Result<(Places, Start), Error> {
    let cpus = opts.target.cpus();
    let cgroup = opts.target.cgroup.as_ref().map(|name| open_cgroup(name)).transpose()?;
    let by_exec = opts.delay == Delay::None;
    match (&opts.target.whom, child) {
        (Whom::Command, None) => Err(Error::NoTarget),
        (Whom::Command, Some(child)) => {
            let start = if by_exec { Start::OnExec } else { Start::ByHand };
            Ok((Places { tids: vec![child.pid()], cpus, cgroup }, start))
        }
        (Whom::System, _) => Ok((Places { tids: Vec::new(), cpus, cgroup }, Start::ByHand)),
        _ => Ok((Places { tids: opts.target.threads()?, cpus, cgroup }, Start::ByHand)),
    }
}

/// Everything that is open when the recording begins.
struct Prepared {
    places: Places,
    start: Start,
    setup: Setup,
    totals: Totals,
    off_cpu: Option<OffCpu>,
    followed: Option<Followed>,
}

struct Recording<'o> {
    opts: &'o RecordOpts,
    signals: SignalReader,
    child: Option<Child>,
    setup: Setup,
    totals: Totals,
    off_cpu: Option<OffCpu>,
    poller: Poller,
    layouts: Layouts,
    shared: Shared,
    step: usize,
    rounds: Sender<Vec<u8>>,
    worker: JoinHandle<Finished>,
    /// Of each ring: the counter whose end is watched; `None` when all its tasks have ended.
    watched: Vec<Option<usize>>,
    ending: Option<ExitKind>,
    interrupted: bool,
}

impl<'o> Recording<'o> {
    fn begin(
        opts: &'o RecordOpts,
        signals: SignalReader,
        child: Option<Child>,
        prepared: Prepared,
    ) -> Result<Self, Error> {
        let Prepared { places, start, setup, totals, off_cpu, followed } = prepared;
        let shared = Shared::default();
        let ids = setup.opened.counters.iter().map(|c| (c.id, c.event));
        let layouts = Layouts::new(&setup.plan, ids);
        let sink = crate::output::Sink::create(&opts.output, writer_opts(opts, &setup), opts.max_size_bytes)?;
        let mut worker = Worker::new(&setup.plan, layouts.clone(), sink, shared.clone(), opts.extra.switches)
            .watched(opts.watch.clone());
        worker.only(followed);
        if start == Start::ByHand {
            // Before /proc is read, so that nothing begins unseen in between.
            setup.opened.enable_tracking(&setup.plan).map_err(Error::system("PERF_EVENT_IOC_ENABLE"))?;
        }
        describe(opts, &places, &setup, child.as_ref(), &mut worker);
        worker.start(opts.clock.now_ns());
        let (rounds, received) = mpsc::channel();
        let worker = std::thread::Builder::new()
            .name("tally-unwind".to_owned())
            .spawn(move || worker.run(&received))
            .map_err(Error::system("starting a thread"))?;
        let poller = Poller::new().map_err(Error::system("epoll_create1"))?;
        poller.add(signals.as_fd(), SIGNALS).map_err(Error::system("epoll_ctl"))?;
        let watched = vec![None; setup.opened.rings.len()];
        let mut recording = Self {
            opts,
            signals,
            child,
            setup,
            totals,
            off_cpu,
            poller,
            layouts,
            shared,
            step: 0,
            rounds,
            worker,
            watched,
            ending: None,
            interrupted: false,
        };
        (0..recording.watched.len()).for_each(|ring| recording.watch_next(ring, 0));
        Ok(recording)
    }

    /// Watches the first counter of a ring from index `from` on: wake-ups, and the end of its task.
    fn watch_next(&mut self, ring: usize, from: usize) {
        let counters = &self.setup.opened.counters;
        let next = (from..counters.len()).find(|&i| {
            counters[i].ring == ring && self.poller.add(counters[i].counter.as_fd(), ring as u64).is_ok()
        });
        self.watched[ring] = next;
    }

    fn run(mut self, start: Start) -> Result<RunSummary, Error> {
        let begin = Instant::now();
        if start == Start::ByHand && self.opts.delay == Delay::None {
            self.enable()?;
        }
        if let Some(child) = &mut self.child
            && let Err(source) = child.exec()
        {
            return self.not_run(source);
        }
        self.wait(begin)?;
        let end = Instant::now();
        let _ = self.setup.opened.disable(&self.setup.plan);
        self.drain();
        if let Some(off_cpu) = self.off_cpu.take() {
            let bytes = off_cpu.finish(&mut self.setup.notices);
            self.shared.backlog.add(bytes.len());
            let _ = self.rounds.send(bytes);
        }
        self.drain();
        let wall_ns = end.duration_since(begin).as_nanos() as u64;
        self.finish(wall_ns)
    }

    /// The command could not be started: no file is left behind.
    fn not_run(self, source: std::io::Error) -> Result<RunSummary, Error> {
        let command =
            self.opts.target.command.first().map_or_else(String::new, |c| c.to_string_lossy().into_owned());
        drop(self.rounds);
        let _ = self.worker.join();
        if let Output::File(path) = &self.opts.output {
            let _ = std::fs::remove_file(path);
        }
        Err(Error::Exec { command, source })
    }

    fn enable(&self) -> Result<(), Error> {
        self.totals.enable();
        self.setup.opened.enable(&self.setup.plan, self.step).map_err(Error::system("PERF_EVENT_IOC_ENABLE"))
    }

    /// The main loop: until the target ends or someone says stop.
    fn wait(&mut self, begin: Instant) -> Result<(), Error> {
        let mut delayed = match self.opts.delay {
            Delay::After(delay) => Some(delay),
            Delay::None | Delay::Off => None,
        };
        let mut recording = true;
        loop {
            if delayed.is_some_and(|delay| begin.elapsed() >= delay) {
                delayed = None;
                self.enable()?;
            }
            let hurry = self.shared.hurry.load(Ordering::Relaxed);
            let tick = TICKS[hurry.min(TICKS.len() - 1)];
            let timeout = delayed.map_or(tick, |d| tick.min(d.saturating_sub(begin.elapsed())));
            let ready = self.poller.wait(Some(timeout)).map_err(Error::system("epoll_wait"))?;
            if ready.iter().any(|r| r.token == SIGNALS) {
                self.take_signals()?;
            }
            for hung in ready.iter().filter(|r| r.hung_up && r.token != SIGNALS) {
                self.hung_up(hung.token as usize);
            }
            self.drain();
            if hurry > 0 {
                // A record waits until a later pass has found all that is older; let that be now.
                self.drain();
            }
            self.climb();
            if let Some(child) = &mut self.child {
                // Not only when told: a signal may have gone to a thread that does not block it.
                self.ending = child.try_wait().map_err(Error::system("waitpid"))?;
            }
            let targets_gone = self.child.is_none() && self.watched.iter().all(Option::is_none);
            if self.ending.is_some() || targets_gone || (self.interrupted && self.child.is_none()) {
                return Ok(());
            }
            if recording && self.shared.must_stop.load(Ordering::Relaxed) {
                recording = false;
                let _ = self.setup.opened.disable(&self.setup.plan);
                if self.child.is_none() {
                    return Ok(());
                }
            }
        }
    }

    /// Ctrl-C reaches the command by itself (the terminal signals the whole group): its end ends the recording. A
    /// signal sent to us alone is passed on.
    fn take_signals(&mut self) -> Result<(), Error> {
        while let Some(signal) = self.signals.next().map_err(Error::system("signalfd"))? {
            if signal.number == SIGCHLD {
                continue;
            }
            let watches_child = self.opts.target.whom == Whom::Command;
            if let Some(child) = &self.child {
                let again = self.interrupted && signal.number == SIGINT;
                if signal.sender.is_some() || again || !watches_child {
                    // It may be gone already.
                    let _ = signal::send(child.pid(), if watches_child { signal.number } else { SIGTERM });
                }
            }
            self.interrupted = true;
        }
        Ok(())
    }

    fn hung_up(&mut self, ring: usize) {
        let Some(at) = self.watched.get(ring).copied().flatten() else { return };
        let _ = self.poller.remove(self.setup.opened.counters[at].counter.as_fd());
        self.watch_next(ring, at + 1);
    }

    fn drain(&mut self) {
        let mut bytes = drain(&mut self.setup.opened.rings, &self.layouts, &self.shared.backlog);
        if let Some(off_cpu) = &mut self.off_cpu {
            let before = bytes.len();
            off_cpu.poll(&self.shared.cut_processes, &mut bytes);
            self.shared.backlog.add(bytes.len() - before);
        }
        // The worker gone means that it panicked, which `finish` reports.
        let _ = self.rounds.send(bytes);
    }

    /// Changes to the snapshot size that the worker wants.
    fn climb(&mut self) {
        let wanted = self.shared.wanted_step.load(Ordering::Relaxed);
        if wanted != self.step && self.setup.opened.change_step(&self.setup.plan, self.step, wanted).is_ok() {
            self.step = wanted;
        }
    }

    fn finish(self, wall_ns: u64) -> Result<RunSummary, Error> {
        let Self { opts, child, setup, totals, rounds, worker, ending, .. } = self;
        drop(rounds);
        let counters = totals.read();
        let end_ns = opts.clock.now_ns();
        let mut finished = worker.join().map_err(|_| Error::Worker)?;
        let mut notices = setup.notices;
        let (file_bytes, sample_bytes) = (finished.sink.bytes(), finished.sample_bytes);
        notices.extend(finished.sink.must_stop().map(Notice::WriteStopped));
        let features = end_features(opts, setup.kernel, &finished);
        if !opts.no_build_ids && !opts.no_build_id_cache && opts.output != Output::Discard {
            let root = build_id_cache::default_root();
            root.map(|root| build_id_cache::keep(&root, &finished.processes.objects().seen(), setup.kernel));
        }
        let appendix = finished.account.notes().map_or_else(Vec::new, |n| n.to_bytes(Endian::NATIVE));
        if let Err(error) = finished.sink.finish(&features, &appendix)
            && !notices.iter().any(|n| matches!(n, Notice::WriteStopped(_)))
        {
            notices.push(Notice::WriteStopped(error.to_string()));
        }
        let (threads, lost, quality) = finished.account.finish(end_ns);
        let used = mem::own_use();
        let (user_ns, system_ns, peak_memory_bytes) = (used.user_ns, used.system_ns, used.peak_memory_bytes);
        Ok(RunSummary {
            child_pid: child.as_ref().map(Child::pid),
            exit: ending,
            wall_ns,
            counters,
            threads,
            quality,
            lost,
            recorder: RecorderUse { user_ns, system_ns, peak_memory_bytes, file_bytes, sample_bytes },
            notices,
            file: if let Output::File(path) = &opts.output { Some(path.clone()) } else { None },
            event: setup.plan.file.first().map_or_else(String::new, |e| e.name.clone()),
            frequency_hz: setup.plan.file.first().filter(|e| e.attr.is_freq()).map(|e| e.attr.sample_period),
        })
    }
}

/// Starts the off-CPU engine if it is wanted.
fn start_engine(
    opts: &RecordOpts,
    child: Option<&Child>,
    places: &Places,
) -> Option<Result<Engine, off_cpu::Error>> {
    let options = opts.off_cpu.as_ref()?;
    let scope = match (&opts.target.whom, child) {
        (Whom::Command, Some(child)) => Scope::Command(child.pid()),
        (Whom::System, _) => Scope::System,
        (Whom::Threads(tids), _) => Scope::Threads(tids.clone()),
        (Whom::Processes(pids), _) => Scope::Processes(pids.clone()),
        _ => {
            let mut pids: Vec<u32> =
                places.tids.iter().filter_map(|&t| proc::status(t)).map(|s| s.tgid).collect();
            pids.sort_unstable();
            pids.dedup();
            Scope::Processes(pids)
        }
    };
    Some(Engine::start(&scope, options))
}

fn writer_opts(opts: &RecordOpts, setup: &Setup) -> WriterOpts {
    let ids = setup.opened.ids(&setup.plan);
    let events: Vec<Event> = setup
        .plan
        .file
        .iter()
        .zip(ids)
        .map(|(event, ids)| Event { attr: event.attr, ids, name: event.name.clone() })
        .collect();
    let pipe_features = features::of_machine(opts, &events);
    WriterOpts { events, zstd_level: opts.compression, pipe_features }
}

/// Tells the worker what already runs.
fn describe(opts: &RecordOpts, places: &Places, setup: &Setup, child: Option<&Child>, worker: &mut Worker) {
    if setup.kernel {
        synthesize::kernel(|record, id| worker.synthesized(record, id));
    }
    let process = ProcessOpts { data: opts.extra.data_maps, namespaces: opts.extra.namespaces };
    let pids: Vec<u32> = match opts.target.whom {
        // Its old image is ours, and exec replaces it.
        Whom::Command => child.into_iter().map(Child::pid).collect(),
        Whom::System => proc::pids(),
        _ => {
            let mut pids: Vec<u32> =
                places.tids.iter().filter_map(|&t| proc::status(t)).map(|s| s.tgid).collect();
            pids.sort_unstable();
            pids.dedup();
            pids
        }
    };
    for pid in pids {
        synthesize::process(pid, process, |record, id| worker.synthesized(record, id));
    }
}

/// The header as it is known at the end.
fn end_features(opts: &RecordOpts, kernel: bool, finished: &Finished) -> Features {
    let mut features = features::of_machine(opts, finished.sink.events());
    features.sample_time_ns = finished.sample_times;
    if !opts.no_build_ids {
        features.build_ids = features::build_ids(&finished.processes.objects().seen(), kernel);
    }
    features
}
