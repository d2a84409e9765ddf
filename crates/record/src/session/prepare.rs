//! Preparation before a recording's first event: the signals it reacts to, opened events or timers, a queue.

use std::io;
use std::path::Path;

use super::python::{Arrival, Loading, READ_AT_TIMERS, SampleSource};
use super::state::AttachedCounts;
use super::timers::Timers;
use crate::accounting::totals::{Counted, Totals};
use crate::error::Error;
use crate::files::scratch;
use crate::machine::attach;
use crate::machine::pid_filter::Followed;
use crate::off_cpu::disk_files::DiskFileWatch;
use crate::off_cpu::{OffCpu, Switches, Tracepoints};
use crate::open::event_fallback::Setup;
use crate::open::{Places, Start};
use crate::pipeline::queue::{Limits, Queue};
use crate::runtimes::otel::ContextWatch;
use crate::runtimes::python::PythonReader;
use crate::session::opts::{EndsBy, Output, RecordOpts};
use crate::session::stop_signals::StopSignals;
use crate::sys::mem;
use crate::sys::signal::SIGUSR2;

/// Signals that end the recording or request a snapshot.
pub(super) fn signals_of(opts: &RecordOpts) -> io::Result<StopSignals> {
    // Only who takes snapshots asks for that signal; else it does what it always does.
    let minds_usr2 = opts.takes_snapshots() || opts.file.switch_output.is_some();
    let others: &[i32] = if minds_usr2 { &[SIGUSR2] } else { &[] };
    if opts.span.ends_by == EndsBy::Caller {
        return StopSignals::none();
    }
    let mut signals = StopSignals::new(others)?;
    if opts.span.ends_by == EndsBy::SignalsAndStdout || opts.file.output == Output::Stdout {
        signals.watch_stdout();
    }
    Ok(signals)
}

/// Refuses to begin where memory would run out: the first allocation that fails ends the program in the middle.
pub(super) fn check_address_space(opts: &RecordOpts) -> Result<(), Error> {
    const NEEDED_BYTES: u64 = 64 << 20;
    /// With the off-CPU engine: its maps, its loader.
    const NEEDED_OFF_CPU_BYTES: u64 = 192 << 20;
    let needed_bytes = if opts.off_cpu.is_some() { NEEDED_OFF_CPU_BYTES } else { NEEDED_BYTES };
    match mem::address_space_left() {
        Some(left_bytes) if left_bytes < needed_bytes => {
            Err(Error::AddressSpace { left_bytes, needed_bytes })
        }
        _ => Ok(()),
    }
}

/// Counters for all that is recorded, and for what began while they were opened.
pub(super) fn totals(opts: &RecordOpts, places: &Places, start: Start, setup: &Setup) -> Totals {
    let mut totals = Totals::open(places, start, setup.kernel, opts.clock, Counted::All);
    if opts.target.is_attached() && setup.plan.tracepoints.is_none() {
        while totals.adopt(&attach::forks(&setup.opened, &setup.plan)) {}
    }
    totals
}

/// Where stacks may wait on disk: next to the output, which must have room anyway. Not where only the kernel makes
/// files.
pub(super) fn spill_queue(output: &Output) -> Queue {
    let beside = match output {
        Output::File(path) => path.parent().map(|p| if p == Path::new("") { Path::new(".") } else { p }),
        Output::Stdout | Output::Discard => None,
    };
    let is_disk = |dir: &&Path| !["/dev", "/proc"].iter().any(|of_kernel| dir.starts_with(of_kernel));
    let dir = beside.filter(is_disk).map_or_else(scratch::nameless_parent, Path::to_path_buf);
    Queue::new(&dir, Limits::for_dir(&dir))
}

/// Sources besides the events' rings.
pub(super) struct Sources {
    pub(super) totals: Totals,
    pub(super) off_cpu: Option<OffCpu>,
    /// In place of events.
    pub(super) timers: Option<Timers>,
    /// Reads Python's frames.
    pub(super) python: Option<PythonReader>,
    /// Programs, until they are loaded.
    pub(super) python_loading: Loading,
    /// Finds the files of requests to disks.
    pub(super) disk_files: Option<DiskFileWatch>,
    /// Looks at OpenTelemetry's thread contexts.
    pub(super) contexts: Option<ContextWatch>,
    /// The off-CPU engine's program chooses the samples of whole CPUs.
    pub(super) engine_chooses: bool,
}

impl Sources {
    /// Takes Python's programs once they are loaded, or waits for them.
    pub(super) fn python_arrives(&mut self, arrival: Arrival, setup: &Setup) {
        let Some(reader) = &self.python else { return };
        let chooser = self.off_cpu.as_mut().filter(|_| self.engine_chooses);
        self.python_loading.arrive(arrival, reader, SampleSource { setup, chooser });
    }
}

/// Everything that is open when the recording begins.
pub(super) struct Prepared {
    pub(super) places: Places,
    pub(super) setup: Setup,
    pub(super) sources: Sources,
    pub(super) followed: Option<Followed>,
    pub(super) switches: Option<(Switches, Tracepoints)>,
    /// Threads to which we attached by events of whole CPUs. Those events don't show when the threads have ended.
    pub(super) roots: Vec<u32>,
    pub(super) attached: AttachedCounts,
    /// The command writes maps of its code because of us.
    pub(super) makes_maps: bool,
}

impl Prepared {
    /// Without any event of the kernel's.
    pub(super) fn by_timers(opts: &RecordOpts, places: Places, setup: Setup, mut timers: Timers) -> Self {
        let reads_python = READ_AT_TIMERS && opts.stacks.runtimes && setup.plan.live;
        let python = reads_python.then(|| timers.read_python());
        Self {
            places,
            setup,
            sources: Sources {
                totals: Totals::none(),
                off_cpu: None,
                timers: Some(timers),
                python,
                python_loading: Loading::none(),
                disk_files: None,
                contexts: None,
                engine_chooses: false,
            },
            followed: None,
            switches: None,
            roots: Vec::new(),
            attached: AttachedCounts::default(),
            makes_maps: false,
        }
    }
}
