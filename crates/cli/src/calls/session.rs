//! A recording by uprobes, from attach to the folder written.

mod cut_short;

use anyhow::Context;
use record::calls::{
    CallAddresses, CallEvent, CallEventKind, CallFilters, CallFolder, CallMode, CountRules, Exits,
    FunctionRules, FunctionSums, KernelParts, KernelWish, OpenedSource, ProbeOptions, ProbedObject, STRAYS,
};
use record::output_file::write_part;
use record::stop_signals::{RunningCommand, SignalRole, StopSignals};
use record::sys::Child;
use record::sys::time::Clock;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::observer::RecordingObserver;
use super::record_spec::RecordSpec;
use super::scripts::Became;
use super::watch::Watch;
use super::{kernel, totals};
use crate::terminal::out;
use calls::probing::ProbePlan;
use display::number;

/// How often what the kernel wrote is read.
const PAUSE: Duration = Duration::from_millis(4);
/// Latest time at which recorded data is in the files.
const FLUSH: Duration = Duration::from_millis(250);
/// How long the rate of calls is looked at before an attach.
const LOOK: Duration = Duration::from_millis(200);
/// CPU time may be tick-based; below a few ticks it is meaningless.
const SEVERAL_TICKS_NS: u64 = 40_000_000;
/// A program whose time in the kernel is this many times what its probes cost spends most of it otherwise.
const MOSTLY_OWN: f64 = 4.0;

/// A running recording.
pub struct Session {
    engine: Box<dyn record::calls::CallSource>,
    chosen: ProbePlan,
    options: ProbeOptions,
    cost_ns: Option<f64>,
    why_no_bpf: Option<String>,
    child: Option<Child>,
    signals: StopSignals,
    addresses: CallAddresses,
    start_ns: u64,
    /// What came later is left out; the highest number while it runs.
    stopped_ns: u64,
    attach: Duration,
    watch: Watch,
    /// What recorded processes became, of which nothing is probed.
    became: BTreeSet<String>,
    /// The command was seen to start.
    started: bool,
    /// Why not all of it was recorded.
    cut_short: Option<String>,
}

impl Session {
    /// Opens and attaches; a command is forked but does not run yet.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn start(
        args: &RecordSpec,
        chosen: ProbePlan,
        options: ProbeOptions,
        became: Option<Became>,
    ) -> anyhow::Result<Self> {
        let cost_ns =
            record::calls::cost_per_call(options.mode, options.exits).map_err(|why| refusal(&why))?;
        let cost_ns = cost_ns.map(|cost| cost.ns);
        let OpenedSource { source: mut engine, why_no_bpf } =
            record::calls::open(&chosen.objects, &chosen.functions, &options).map_err(|why| refusal(&why))?;
        let is_script = became.is_some();
        let (signals, child) = match became {
            Some(Became { signals, child }) => (signals, Some(child)),
            None => {
                let signals = StopSignals::new(&[]).context("can't wait for signals")?;
                let child = (!args.command.is_empty()).then(|| Child::fork(&args.command, signals.reader()));
                (signals, child.transpose().context("can't fork")?)
            }
        };
        for pid in args.probes.pid.iter().copied().chain(child.as_ref().map(Child::pid)) {
            engine.add_process(pid)?;
        }
        let watch = Watch::new(args.probes.max_rate.unwrap_or_else(|| Watch::usual_rate(cost_ns)));
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
            kernel_wish: KernelWish::default(),
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

    /// What will be done, and what it will cost.
    pub fn print_plan(&self, why: &str) {
        let functions = number::grouped(self.chosen.functions.len() as u64);
        let mut line = format!(
            "tally calls: {why}: {functions} functions by {} ({} places, attached in {})",
            self.engine.name(),
            number::grouped(self.engine.probes() as u64),
            number::duration_ns(self.attach.as_nanos() as u64)
        );
        if let Some(cost) = self.cost_ns {
            line += &format!("; a call costs about {} here", number::duration_ns(cost as u64));
            if let Some(rate) = self.watch.expected_per_s {
                line += &format!(
                    ", at now {} calls/s {:.1} % of a CPU",
                    number::grouped(rate as u64),
                    rate * cost / 1e7
                );
            }
        }
        out::note(&line);
        if let Some(why) = &self.why_no_bpf {
            out::note(&format!(
                "tally calls: without BPF, which is cheaper ({why}): every call comes out of the kernel as records"
            ));
        }
        if let Some(line) = kernel::told(&*self.engine, &self.options.kernel_wish) {
            out::note(&format!("tally calls: {line}"));
        }
        let left = self.chosen.left_out.iter().map(|(why, count)| (*why, *count));
        let refused =
            Some(("that the kernel can't probe", self.engine.refused().len())).filter(|(_, n)| *n > 0);
        for (why, count) in left.chain(refused) {
            let functions = if count == 1 { "function" } else { "functions" };
            out::note(&format!("tally calls: left out: {count} {functions} {why}"));
        }
        if !self.chosen.unmet.is_empty() {
            let unmet = self.chosen.unmet.join(", ");
            out::note(&format!(
                "tally calls: -P {unmet}: matches no function (`nm -C` and `nm -CD` list them)"
            ));
        }
        self.engine.missing().iter().for_each(|why| out::note(&format!("tally calls: not recorded: {why}")));
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
        super::named::write(&args.output, &self.addresses, &self.chosen)?;
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
            // Of the command, the first is its start.
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
            super::closing::note_exit_status(status);
        }
        Ok(())
    }

    /// Names the kernel's parts, as far as they are known: some of its functions are met only while it runs.
    fn name_kernel(&self, args: &RecordSpec) -> anyhow::Result<()> {
        let functions = self.engine.kernel_functions();
        kernel::write_names(&args.output, &self.addresses, self.options.kernel, &functions)
    }

    /// What the calls really cost a command that was run: its time in the kernel, where the probes are; it made system
    /// calls of its own there, too. `None` where those are most of it, or too little was used to measure.
    fn measured(&self, entries: u64) -> Option<String> {
        let used = self.child.as_ref()?.used();
        let each_ns = used.system_ns.checked_div(entries)?;
        let expected_ns = entries as f64 * self.cost_ns?;
        let tells = used.system_ns >= SEVERAL_TICKS_NS && expected_ns * MOSTLY_OWN > used.system_ns as f64;
        tells.then(|| {
            format!(
                "measured: the program used {} of CPU by itself and {} in the kernel, where the probes run: {} a call, its own \
                 system calls included",
                number::duration_ns(used.user_ns),
                number::duration_ns(used.system_ns),
                number::duration_ns(each_ns)
            )
        })
    }

    /// What the kernel's limit of return probes did to deep recursion, if it may have.
    //
    // Source: linux v6.18 include/linux/uprobes.h: MAX_URETPROBE_DEPTH; kernel/events/uprobes.c: prepare_uretprobe()
    fn depth_notice(&self, sums: &[(u32, FunctionSums)]) -> Option<String> {
        const MOST_RETURNS: usize = 64;
        let was_left = sums.iter().any(|(_, sums)| sums.unwound > 0);
        let is_deep = self.watch.written.deepest > MOST_RETURNS;
        (self.options.exits == Exits::Return && (was_left || is_deep)).then(|| {
            format!(
                "by return probes the kernel sees no more than {MOST_RETURNS} open calls of a thread return: deeper ones end \
                 with those around them and are told as left; without --return-probes there is no such limit"
            )
        })
    }

    /// What is to be known besides the numbers.
    fn notes(&self, entries: u64, wall_ns: u64) -> Vec<String> {
        let mut notes = self.watch.detached.clone();
        notes.extend(self.cut_short.clone());
        if let Some(cost) = self.cost_ns {
            let spent_ns = entries as f64 * cost;
            notes.push(format!(
                "cost: {} calls at about {} each, {:.1} % of a CPU over {}",
                number::grouped(entries),
                number::duration_ns(cost as u64),
                spent_ns * 100.0 / wall_ns.max(1) as f64,
                number::duration_ns(wall_ns)
            ));
        }
        notes.extend(self.measured(entries));
        notes.extend(self.became.iter().map(|program| {
            format!(
                "a process became {program}, whose functions are not probed; record it under its own name"
            )
        }));
        let losses = self.engine.losses();
        let strays = (self.watch.written.strays, STRAYS);
        let losses = losses.into_iter().chain([strays]).filter(|(count, _)| *count > 0);
        notes.extend(losses.map(|(count, name)| {
            let why = match (name == STRAYS, &self.child) {
                (true, None) => ", as of calls that were open when tally attached",
                _ => "",
            };
            format!("{} {name}{why}", number::grouped(count))
        }));
        notes
    }
}

/// The program that a process runs now, if none of its functions is probed.
fn other_program(pid: u32, objects: &[ProbedObject]) -> Option<String> {
    let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else {
        return Some("another program (it ended before its name was read)".to_owned());
    };
    let is_probed = |object: &ProbedObject| object.path.canonicalize().is_ok_and(|path| path == program);
    (!objects.iter().any(is_probed)).then(|| program.display().to_string())
}

/// The kernel's error, and the alternatives.
fn refusal(why: &record::calls::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "uprobes are refused: {}; run as root, or setcap cap_perfmon,cap_bpf,cap_sys_ptrace=ep tally; in docker \
         --cap-add PERFMON --cap-add BPF. Without: build with -pg or -fpatchable-function-entry=5 and run \
         `tally calls record -- CMD`",
        short(why)
    )
}

/// Without the verifier's log.
fn short(why: &record::calls::Error) -> String {
    let text = why.to_string();
    text.split(" | ").next().unwrap_or(&text).to_owned()
}
