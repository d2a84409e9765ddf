//! The end of a recording: the unwinder catches up, the file gets its header, the books are closed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use perfdata::Endian;

use super::Recording;
use crate::accounting::account::Closed;
use crate::accounting::summary::{CounterValue, Notice, RecorderUse, RunSummary};
use crate::error::Error;
use crate::files::build_id_cache;
use crate::files::features::{self, SeenFiles};
use crate::machine::proc;
use crate::machine::process_titles;
use crate::machine::processes::Processes;
use crate::open::target::Whom;
use crate::pipeline::queue::Spilled;
use crate::pipeline::worker::{Finished, TraceAmounts};
use crate::runtimes::python::PythonReader;
use crate::session::opts::{Output, RecordOpts};
use crate::sys::signal::SIGPIPE;
use crate::sys::{Child, ExitKind, mem};

/// Bounds of the pauses between looks whether the worker is done.
const SHORTEST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// When and with what the target ended.
pub(super) struct Ending {
    /// From the start of the command (or of recording) to the moment its end was noticed, in ns.
    pub wall_ns: u64,
    /// The end, in ns of the recording's clock.
    pub time_ns: u64,
    /// Our own CPU time before it began, in ns.
    pub cpu_ns: u64,
    /// Our own CPU time from there to the end, in ns.
    pub cpu_while_running_ns: u64,
    /// CPU time of our BPF programs, in ns.
    pub programs_ns: u64,
    /// The counters at that moment.
    pub counters: Vec<CounterValue>,
}

impl Recording<'_> {
    /// Waits until the worker has taken all. A signal meanwhile means that the user won't wait: what is left gets
    /// its leaf only.
    fn catch_up(&mut self) -> Result<(), Error> {
        // Without a descriptor more: at their limit the command's status would be lost.
        let begin = Instant::now();
        let mut shown = begin;
        let asked = self.signals.requests();
        while !self.worker.is_finished() {
            if shown.elapsed() >= Duration::from_secs(1) {
                shown = Instant::now();
                (self.opts.observers.on_catch_up)(self.shared.queue.waiting_bytes());
            }
            // An eighth of the time so far: short recordings end at once, long ones without many looks.
            std::thread::sleep((begin.elapsed() / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
            self.signals.take(None).map_err(Error::system("signalfd"))?;
            self.shared.gives_up.fetch_or(self.signals.requests() > asked, Ordering::Relaxed);
        }
        self.signals.take(None).map_err(Error::system("signalfd"))?;
        Ok(())
    }

    /// Waits for the worker, completes the file, and returns the summary.
    pub(super) fn finish(mut self, end: Ending) -> Result<RunSummary, Error> {
        self.shared.queue.close();
        self.catch_up()?;
        let is_unread = self.signals.came() == Some(SIGPIPE);
        let Self {
            opts,
            child,
            setup,
            worker,
            phase,
            shared,
            tasks,
            sources,
            descriptors,
            disk_files,
            go_waits,
            contexts,
            ..
        } = self;
        let (ending, attached, python) = (phase.ending, tasks.attached, sources.python);
        let mut finished = worker.join().map_err(|_| Error::Worker)?;
        let wall_ns = shared.recorded_ns(&opts.target.whom, end.time_ns).unwrap_or(end.wall_ns);
        python.iter().for_each(PythonReader::end);
        let mut notices = setup.notices;
        notices.extend(python.as_ref().and_then(PythonReader::notice));
        notices.extend(spill_notices(shared.queue.spilled()));
        let sample_bytes = finished.written.sample_bytes;
        let trace_bytes = finished.written.traced.bytes;
        notices.extend(of_trace(opts, &finished));
        let own_ns = mem::own_use().cpu_ns().saturating_sub(end.cpu_ns);
        notices.extend(finished.switches.and_then(|of| Notice::of_switches(of, own_ns, wall_ns)));
        notices.extend(finished.sink.must_stop());
        if opts.target.whom == Whom::Command && ending == Some(ExitKind::Code(0)) {
            notices.extend(gone_on(&finished.processes, child.as_ref()));
        }
        let seen = finished.processes.objects().seen();
        let seen = SeenFiles { objects: &seen, with_kernel: setup.kernel };
        let features = features::at_end(opts, finished.sink.events(), seen, finished.written.sample_times);
        if !opts.file.no_build_ids && opts.file.output != Output::Discard {
            build_id_cache::default_root()
                .map(|root| build_id_cache::keep(&root, seen, opts.file.keep_files));
        }
        let appendix = finished.account.notes().filter(|_| !opts.file.overwrite);
        let mut appendix = appendix.map_or_else(Vec::new, |n| n.to_bytes(Endian::NATIVE));
        appendix.extend(finished.processes.jit_maps().to_bytes(Endian::NATIVE));
        appendix.extend(python.iter().flat_map(|python| python.functions().to_bytes(Endian::NATIVE)));
        appendix.extend(descriptors.to_bytes(Endian::NATIVE));
        appendix.extend(disk_files.to_bytes(Endian::NATIVE));
        appendix.extend(go_waits.to_bytes(Endian::NATIVE));
        appendix.extend(finished.open_spans.to_bytes(Endian::NATIVE));
        appendix.extend(finished.processes.objects().same_paths().to_bytes(Endian::NATIVE));
        appendix.extend(contexts.to_bytes(Endian::NATIVE));
        appendix.extend(finished.kept_time.iter().flat_map(|kept| kept.to_bytes(Endian::NATIVE)));
        appendix.extend(python.iter().flat_map(|python| python.labels().to_bytes(Endian::NATIVE)));
        if let Err(error) = finished.sink.finish(&features, &appendix)
            && !notices.iter().any(|n| matches!(n, Notice::WriteStopped(_)))
        {
            notices.push(Notice::WriteStopped(error.to_string()));
        }
        if is_unread {
            // The program that closed the pipe knows.
            notices.retain(|notice| !matches!(notice, Notice::WriteStopped(_)));
        }
        finished.account.leave_out(finished.sink.unwritten_samples());
        let counters = counted(finished.account.counters(), end.counters);
        let file_bytes = finished.sink.all_bytes();
        let overwritten = finished.sink.overwritten();
        if overwritten > 0 {
            notices.push(Notice::Overwritten(overwritten));
            finished.account.leave_out(overwritten);
        }
        let Closed { mut threads, more_threads, loss: lost, quality } = finished.account.finish(end.time_ns);
        process_titles::add(&mut threads);
        notices.extend(finished.sink.name_taken());
        let used = mem::own_use();
        let (user_ns, system_ns, peak_memory_bytes) = (used.user_ns, used.system_ns, used.peak_memory_bytes);
        Ok(RunSummary {
            child_pid: child.as_ref().map(Child::pid),
            exit: ending,
            wall_ns,
            counters,
            threads,
            more_threads,
            quality,
            lost,
            recorder: RecorderUse {
                user_ns,
                system_ns,
                while_running_ns: end.cpu_while_running_ns,
                programs_ns: end.programs_ns,
                peak_memory_bytes,
                file_bytes,
                sample_bytes,
                trace_bytes,
            },
            notices,
            attached_processes: attached.processes,
            children_left_out: attached.children_left_out,
            file: finished.sink.file(),
            event: setup.plan.file.first().map_or_else(String::new, |e| e.name.clone()),
            more_events: setup.plan.file.len().saturating_sub(1),
            frequency_hz: setup.plan.file.first().filter(|e| e.attr.is_freq()).map(|e| e.attr.sample_period),
        })
    }
}

/// Processes that the command started and left running. They aren't recorded any more. The work done since the
/// command's end gave ending processes a moment.
fn gone_on(processes: &Processes, command: Option<&Child>) -> Option<Notice> {
    let command = command.map(Child::pid);
    let left = processes.living().into_iter().filter(|pid| Some(*pid) != command && proc::is_alive(*pid));
    let name = |pid| proc::status(pid).map(|status| String::from_utf8_lossy(&status.comm).into_owned());
    let named: Vec<(u32, String)> = left.filter_map(|pid| Some((pid, name(pid)?))).collect();
    (!named.is_empty()).then_some(Notice::GoesOn(named))
}

/// The counts of events, after the counts that only the off-CPU engine has.
fn counted(mut told: Vec<CounterValue>, by_events: Vec<CounterValue>) -> Vec<CounterValue> {
    told.retain(|counter| by_events.iter().all(|other| other.name != counter.name));
    told.extend(by_events);
    told
}

/// Notices about stacks that waited on disk.
fn spill_notices(spilled: Spilled) -> Vec<Notice> {
    let mut notices = Vec::new();
    if spilled.bytes > 0 {
        notices.push(Notice::Spilled(spilled.bytes));
    }
    if spilled.broken.is_some() || spilled.unread_bytes > 0 {
        notices.push(Notice::SpillFailed(spilled.broken.unwrap_or_default(), spilled.unread_bytes));
    }
    notices
}

/// Notices about a processor's trace.
fn of_trace(opts: &RecordOpts, finished: &Finished) -> Vec<Notice> {
    let TraceAmounts { bytes, stopped, holes } = finished.written.traced;
    let mut notices = Vec::new();
    if stopped > 0 && opts.trace.snapshot.is_none() {
        notices.push(Notice::TraceStopped(stopped));
    }
    if holes > 0 {
        notices.push(Notice::TraceHoles(holes));
    }
    if bytes == 0 && opts.traces() && opts.trace.snapshot.is_some_and(|snapshot| !snapshot.at_exit) {
        notices.push(Notice::NoSnapshot);
    }
    notices
}
