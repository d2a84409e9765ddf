//! A recording by uprobes, from attach to the folder written.

mod cut_short;
mod notices;

use anyhow::Context;
use record::calls::{
    CallAddresses, CallEvent, CallEventKind, CallFilters, CallFolder, CallMode, CountRules, Exits,
    FunctionRules, KernelParts, KernelSelection, OpenedSource, ProbeOptions,
};
use record::output_file::write_part;
use record::stop_signals::{RunningCommand, SignalRole, StopSignals};
use record::sys::Child;
use record::sys::time::Clock;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use super::observer::RecordingObserver;
use super::rate_limiter::RateLimiter;
use super::record_spec::RecordSpec;
use super::script_follower::FollowedScript;
use super::{kernel, totals};
use crate::terminal::out;
use calls::probing::ProbePlan;
use display::number;
use notices::{other_program, refusal, short};

/// How often what the kernel wrote is read.
const PAUSE: Duration = Duration::from_millis(4);
/// Latest time at which recorded data is in the files.
const FLUSH: Duration = Duration::from_millis(250);
/// How long the rate of calls is looked at before an attach.
const LOOK: Duration = Duration::from_millis(200);

/// A running recording.
pub struct ProbeSession {
    engine: Box<dyn record::calls::CallSource>,
    chosen: ProbePlan,
    options: ProbeOptions,
    cost_ns: Option<f64>,
    why_no_bpf: Option<String>,
    child: Option<Child>,
    signals: StopSignals,
    addresses: CallAddresses,
    start_ns: u64,
    /// Last event to keep; the highest number while it runs.
    stopped_ns: u64,
    attach: Duration,
    watch: RateLimiter,
    /// Programs that recorded processes became, of which nothing is probed.
    became: BTreeSet<String>,
    /// The command was seen to start.
    started: bool,
    /// Why not all of it was recorded.
    cut_short: Option<String>,
}

impl ProbeSession {
    /// Opens and attaches; a command is forked but does not run yet.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn start(
        args: &RecordSpec,
        chosen: ProbePlan,
        options: ProbeOptions,
        became: Option<FollowedScript>,
    ) -> anyhow::Result<Self> {
        let cost_ns =
            record::calls::cost_per_call(options.mode, options.exits).map_err(|why| refusal(&why))?;
        let cost_ns = cost_ns.map(|cost| cost.ns);
        let OpenedSource { source: mut engine, why_no_bpf } =
            record::calls::open(&chosen.objects, &chosen.functions, &options).map_err(|why| refusal(&why))?;
        let is_script = became.is_some();
        let (signals, child) = match became {
            Some(FollowedScript { signals, child }) => (signals, Some(child)),
            None => {
                let signals = StopSignals::new(&[]).context("can't wait for signals")?;
                let child = (!args.command.is_empty()).then(|| Child::fork(&args.command, signals.reader()));
                (signals, child.transpose().context("can't fork")?)
            }
        };
        for pid in args.probes.pid.iter().copied().chain(child.as_ref().map(Child::pid)) {
            engine.add_process(pid)?;
        }
        let watch =
            RateLimiter::new(args.probes.max_rate.unwrap_or_else(|| RateLimiter::usual_rate(cost_ns)));
        // A script's starts were seen before.
        let started = !args.command.is_empty() && is_script;
        let addresses = super::addresses::of(&chosen, options.kernel);
        let start_ns = Clock::Monotonic.now_ns();
        let mut session = Self {
            engine,
            chosen,
            options,
            cost_ns,
            why_no_bpf: why_no_bpf.map(|why| short(&why)),
            child,
            signals,
            addresses,
            start_ns,
            stopped_ns: u64::MAX,
            attach: Duration::ZERO,
            watch,
            became: BTreeSet::new(),
            started,
            cut_short: None,
        };
        session.look_first(args)?;
        let begin = Instant::now();
        session.engine.attach().map_err(|why| refusal(&why))?;
        session.attach = begin.elapsed();
        session.watch.begin();
        session.start_ns = Clock::Monotonic.now_ns();
        Ok(session)
    }

    /// How often the functions of a running process are called, by a short look at their entries alone.
    fn look_first(&mut self, args: &RecordSpec) -> anyhow::Result<()> {
        if args.probes.pid.is_empty() || args.quiet {
            return Ok(());
        }
        let options = ProbeOptions {
            mode: CallMode::Totals,
            exits: Exits::None,
            ring_bytes: 1 << 20,
            kernel: KernelParts::default(),
            kernel_selection: KernelSelection::default(),
            counted: CountRules::default(),
        };
        let opened = record::calls::open(&self.chosen.objects, &self.chosen.functions, &options);
        let mut look = opened.map_err(|why| refusal(&why))?.source;
        args.probes.pid.iter().try_for_each(|pid| look.add_process(*pid))?;
        look.attach().map_err(|why| refusal(&why))?;
        let begin = Instant::now();
        while begin.elapsed() < LOOK {
            std::thread::sleep(PAUSE);
            look.poll(&mut |_| {});
        }
        let entries: u64 = look.entries().iter().map(|watched| watched.entries).sum();
        self.watch.expected_per_s = Some(entries as f64 / begin.elapsed().as_secs_f64());
        Ok(())
    }

    /// Runs it to its end; its exit status.
    ///
    /// # Errors
    /// If the command can't be started or the recording can't be written.
    pub fn run(
        &mut self,
        args: &RecordSpec,
        filters: CallFilters,
        live: Option<&mut dyn RecordingObserver>,
    ) -> anyhow::Result<u8> {
        if live.is_some() {
            self.signals.watch_stdout();
        }
        if let Some(child) = &mut self.child {
            child.exec().with_context(|| format!("can't start {}", args.command[0].display()))?;
        }
        self.record(args, filters, live).or_else(|why| self.go_on_without(why))
    }

    fn record(
        &mut self,
        args: &RecordSpec,
        filters: CallFilters,
        mut live: Option<&mut dyn RecordingObserver>,
    ) -> anyhow::Result<u8> {
        let mut folder = CallFolder::new(
            &args.output,
            FunctionRules { addresses: self.addresses.clone(), filters },
            self.start_ns,
        );
        super::function_list::write(&args.output, &self.addresses, &self.chosen)?;
        self.name_kernel(args)?;
        let mut flushed = Instant::now();
        let end_at = args.probes.duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        let end = loop {
            self.poll(&mut folder)?;
            if let Some(line) = self.watch.look(&mut *self.engine, &self.chosen.names)? {
                out::note(&line);
            }
            if let Some(live) = &mut live {
                self.look(&mut **live, args, false)?;
            }
            if let Some(end) = self.ended(args, end_at)? {
                break end;
            }
            if flushed.elapsed() >= FLUSH {
                flushed = Instant::now();
                folder.flush().context("can't write the recording")?;
            }
            std::thread::sleep(PAUSE);
        };
        self.stopped_ns = Clock::Monotonic.now_ns();
        self.engine.stop();
        self.poll(&mut folder)?;
        self.watch.written = folder.finish().context("can't write the recording")?;
        if let Some(live) = &mut live {
            self.look(&mut **live, args, true)?;
        }
        Ok(end)
    }

    /// Shows what there is so far: sums, or what was written.
    fn look(&self, live: &mut dyn RecordingObserver, args: &RecordSpec, at_end: bool) -> anyhow::Result<()> {
        match self.options.mode {
            CallMode::Totals => live.look_at_probes(&*self.engine, &self.chosen, at_end),
            _ => live.look_at_folder(&args.output, at_end),
        }
    }

    fn poll(&mut self, folder: &mut CallFolder) -> anyhow::Result<()> {
        let (mut failed, stopped_ns) = (None, self.stopped_ns);
        let (objects, became, started) = (&self.chosen.objects, &mut self.became, &mut self.started);
        let child = self.child.as_ref().map(Child::pid);
        self.engine.poll(&mut |event: CallEvent| {
            // The command's first one is its start.
            let mut starts = || Some(event.pid) == child && !std::mem::replace(started, true);
            if event.kind == CallEventKind::Exec && !starts() {
                became.extend(other_program(event.pid, objects));
            }
            // While probes are taken away one after the other, some ends of calls are not seen any more.
            if failed.is_none() && event.time_ns <= stopped_ns {
                failed = folder.take(&event).err();
            }
        });
        failed.map_or(Ok(()), |error| Err(error).context("can't write the recording"))
    }

    /// The status to end with, once it is over.
    fn ended(&mut self, args: &RecordSpec, end_at: Option<Instant>) -> anyhow::Result<Option<u8>> {
        let command = self.child.as_ref().map(|child| RunningCommand::of(child, SignalRole::Recorded));
        self.signals.take(command)?;
        self.signals.hint(command).iter().for_each(|hint| out::note(hint));
        let is_late = end_at.is_some_and(|end| Instant::now() >= end);
        let is_stopped = is_late || self.child.is_none() && self.signals.came().is_some();
        if let Some(child) = &mut self.child {
            if let Some(end) = child.try_wait()? {
                return Ok(Some(end.shell_code()));
            }
        } else if args.probes.pid.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            return Ok(Some(0));
        }
        Ok(is_stopped.then_some(0))
    }

    /// Writes the rest of the folder, and reports what was recorded.
    ///
    /// # Errors
    /// If the folder can't be written.
    pub fn finish(&mut self, args: &RecordSpec, status: u8) -> anyhow::Result<()> {
        let wall_ns = Clock::Monotonic.now_ns() - self.start_ns;
        let sums = if self.options.mode == CallMode::Totals { self.engine.sums() } else { Vec::new() };
        let entries: u64 = match self.options.mode {
            CallMode::Events => self.watch.written.calls,
            _ => self.engine.all_entries(),
        };
        if self.options.mode == CallMode::Totals {
            totals::write(&args.output, &self.addresses, &sums, self.start_ns)?;
        }
        self.name_kernel(args)?;
        let recorded = match self.options.mode {
            CallMode::Totals => sums.iter().map(|(_, sums)| sums.count + sums.open).sum(),
            _ => self.watch.written.calls,
        };
        let mut notes = self.notes(entries, wall_ns);
        notes.extend(self.depth_notice(&sums));
        let command = args.command_text();
        let mut info = format!("command {command}\nstatus {status}\nwall_ns {wall_ns}\nback_end uprobes\n");
        for (at, note) in notes.iter().enumerate() {
            info += &format!("note{at} {}\n", out::harmless(note));
        }
        write_part(&args.output.join("info"), info).context("can't write the recording's info")?;
        if !args.quiet {
            out::note(&format!(
                "tally calls: {} calls of {} functions recorded by uprobes in {}",
                number::grouped(recorded),
                number::grouped(self.chosen.functions.len() as u64),
                args.output.display()
            ));
            // Detached functions were reported when it happened.
            let new = notes.iter().skip(self.watch.detached.len());
            new.for_each(|note| out::note(&format!("tally calls: {note}")));
            super::summary::note_exit_status(status);
        }
        Ok(())
    }

    /// Names the kernel's parts, as far as they are known: some of its functions are met only while it runs.
    fn name_kernel(&self, args: &RecordSpec) -> anyhow::Result<()> {
        let functions = self.engine.kernel_functions();
        kernel::write_names(&args.output, &self.addresses, self.options.kernel, &functions)
    }
}
