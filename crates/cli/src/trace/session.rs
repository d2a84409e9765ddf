//! A trace from its begin to its end.

use super::follow::TracedThreads;
use super::printer::CallPrinter;
use anyhow::Context;
use record::stop_signals::{RunningCommand, SignalRole, StopSignals};
use record::sys::Child;
use record::sys::time::Clock;
use record::syscalls::{Error, SyscallEngine, SyscallLosses, SyscallScope, waiting_call};
use record::{Target, Whom, proc};
use std::ffi::OsString;
use std::time::Duration;
use syscalls::layout::{CallRecord, RecordKind};

/// How often the ring is read while little happens.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the records of a trace.
pub trait CallSink {
    /// Takes one record.
    ///
    /// # Errors
    /// The output can't be written.
    fn take(&mut self, record: &CallRecord<'_>) -> std::io::Result<()>;

    /// Writes what is in buffers: for a while there is no more.
    ///
    /// # Errors
    /// As [`Self::take`].
    fn flush(&mut self) -> std::io::Result<()>;
}

impl CallSink for TracedThreads {
    fn take(&mut self, record: &CallRecord<'_>) -> std::io::Result<()> {
        self.learn(record);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Opens the engine for a scope.
type Open<'a> = &'a dyn Fn(&SyscallScope) -> Result<SyscallEngine, Error>;

/// A running trace.
#[derive(Debug)]
pub struct TraceSession {
    engine: SyscallEngine,
    child: Option<Child>,
    /// Name.
    command: String,
    role: SignalRole,
    signals: StopSignals,
    /// Threads that were there before, with their processes.
    existing: Vec<(u32, u32)>,
    /// The traced command has begun.
    has_begun: bool,
}

/// How a trace ended.
#[derive(Clone, Copy, Debug)]
pub struct TraceEnd {
    /// Status to end with.
    pub status: u8,
    /// Calls that were not recorded.
    pub losses: SyscallLosses,
    /// How long it ran.
    pub wall_ns: u64,
}

impl TraceSession {
    /// Attaches; a command is forked but does not run yet.
    ///
    /// # Errors
    /// A process that does not exist, or what the kernel refuses.
    pub fn start(target: &Target, open: Open<'_>) -> anyhow::Result<Self> {
        let existing = existing(target)?;
        let mut signals = StopSignals::new(&[]).context("can't wait for signals")?;
        let child = fork(&target.command, &signals)?;
        let scope = match (&target.whom, &child) {
            (Whom::Command, Some(child)) => SyscallScope::Command(child.pid()),
            (Whom::Command, None) => anyhow::bail!("give a command, -p PID or -a"),
            (Whom::System, _) => SyscallScope::System,
            (Whom::Threads(tids), _) => SyscallScope::Threads(tids.clone()),
            _ => SyscallScope::Processes(processes(&existing)),
        };
        let engine = open(&scope).map_err(|why| refusal(&why))?;
        signals.watch_stdout();
        let is_command = target.whom == Whom::Command;
        let role = if is_command { SignalRole::Recorded } else { SignalRole::Stopwatch };
        let command =
            target.command.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned());
        Ok(Self { engine, child, command, role, signals, existing, has_begun: !is_command })
    }

    /// Prints calls until the end.
    ///
    /// # Errors
    /// The command can't be started, or the output can't be written.
    pub fn print(&mut self, printer: &mut CallPrinter<'_>) -> anyhow::Result<TraceEnd> {
        if let (SignalRole::Recorded, Some(child)) = (self.role, &self.child) {
            printer.threads.look_up_files(child.pid());
        }
        processes(&self.existing).iter().for_each(|pid| printer.threads.look_up_files(*pid));
        printer.show_waiting(&self.existing, false)?;
        let end = self.run(printer)?;
        printer.show_waiting(&printer.threads.living_with_processes(), true)?;
        printer.flush()?;
        Ok(end)
    }

    /// Only adds up: what is learned of threads comes into `threads`, the sums stay with the kernel.
    ///
    /// # Errors
    /// As [`Self::print`].
    pub fn add_up(&mut self, threads: &mut TracedThreads) -> anyhow::Result<TraceEnd> {
        self.run(threads)
    }

    /// The engine, which has the sums.
    #[must_use]
    pub fn engine(&self) -> &SyscallEngine {
        &self.engine
    }

    /// The calls that threads are in now.
    #[must_use]
    pub fn waiting(&self, threads: &TracedThreads) -> Vec<CallRecord<'static>> {
        let mut all = self.existing.clone();
        all.extend(threads.living_with_processes());
        all.sort_unstable();
        all.dedup();
        all.into_iter().filter_map(|(tid, tgid)| waiting_call(tid, tgid)).collect()
    }

    fn run(&mut self, sink: &mut dyn CallSink) -> anyhow::Result<TraceEnd> {
        let begin_ns = Clock::Monotonic.now_ns();
        if let Some(child) = &mut self.child {
            child.exec().with_context(|| format!("can't start {}", self.command))?;
        }
        let status = loop {
            let bytes = self.poll(sink)?;
            if let Some(status) = self.ended()? {
                break status;
            }
            if bytes < 1 << 16 {
                sink.flush()?;
                self.signals.wait(PAUSE)?;
            }
        };
        let wall_ns = Clock::Monotonic.now_ns() - begin_ns;
        self.engine.stop();
        while self.poll(sink)? > 0 {}
        Ok(TraceEnd { status, losses: self.engine.losses(), wall_ns })
    }

    fn poll(&mut self, sink: &mut dyn CallSink) -> anyhow::Result<usize> {
        let mut failed = None;
        let command = self.child.as_ref().map(Child::pid);
        let has_begun = &mut self.has_begun;
        let bytes = self.engine.poll(&mut |record| {
            // The child's calls before it becomes the command are ours.
            *has_begun = *has_begun || Some(record.tgid) == command && record.kind == RecordKind::New;
            if *has_begun && failed.is_none() {
                failed = sink.take(record).err();
            }
        });
        match failed {
            Some(error) => Err(error).context("can't write"),
            None => Ok(bytes),
        }
    }

    /// The status to end with, once it is over.
    fn ended(&mut self) -> anyhow::Result<Option<u8>> {
        let command = self.child.as_ref().map(|child| RunningCommand::of(child, self.role));
        self.signals.take(command)?;
        self.signals.hint(command).iter().for_each(|hint| crate::terminal::out::note(hint));
        if let Some(child) = &mut self.child {
            return Ok(child.try_wait()?.map(record::sys::ExitKind::shell_code));
        }
        let is_gone = !self.existing.is_empty() && self.existing.iter().all(|(_, pid)| !proc::is_alive(*pid));
        Ok((is_gone || self.signals.came().is_some()).then_some(0))
    }
}

fn fork(command: &[OsString], signals: &StopSignals) -> anyhow::Result<Option<Child>> {
    let child = (!command.is_empty()).then(|| Child::fork(command, signals.reader()));
    child.transpose().context("can't fork")
}

/// Threads of the target that are there now, with their processes.
fn existing(target: &Target) -> anyhow::Result<Vec<(u32, u32)>> {
    let tids = target.threads()?;
    let with_process = |tid: u32| Some((tid, proc::status(tid)?.tgid));
    Ok(tids.into_iter().filter_map(with_process).collect())
}

fn processes(threads: &[(u32, u32)]) -> Vec<u32> {
    let pids: std::collections::BTreeSet<u32> = threads.iter().map(|(_, pid)| *pid).collect();
    pids.into_iter().collect()
}

/// Refusal, and the alternatives that work.
fn refusal(why: &Error) -> anyhow::Error {
    let strace = "strace works without rights on your own programs, but stops them at each call";
    anyhow::anyhow!("system calls can't be traced: {}; {strace}", why.short())
}
