//! `tally calls record` on any binary: uprobes put in by the kernel, nothing loaded into the program.

use anyhow::{Context, bail};
use record::calls::{Addresses, CallEvent, Engine, Exits, Folder, KernelParts, Mode, Options};
use record::sys::signal::{SIGINT, SIGTERM};
use record::sys::time::Clock;
use record::sys::{Child, SignalReader};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::choose::{Chosen, Source, Wish};
use super::record::Args;
use super::watch::Watch;
use super::{kernel, totals};
use crate::out;
use crate::text::number;
use dso::ObjectFile;

/// Bytes of the ring between kernel and tally.
const RING_BYTES: u32 = 16 << 20;
/// How often the ring is emptied.
const PAUSE: Duration = Duration::from_millis(4);
/// How long the rate of calls is looked at before an attach.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the command or attaches, records, writes the folder.
///
/// # Errors
/// If nothing can be probed, with what can be done instead.
pub fn run(args: &Args, program: Option<&Path>, why: &str) -> anyhow::Result<ExitCode> {
    if !args.not.is_empty() || !args.trigger.is_empty() || args.disable || args.max_bytes.is_some() {
        bail!("{why}: by uprobes there are no -N, -T, --disable and --max-bytes; choose functions with -P");
    }
    let exits = exits_for(args, program)?;
    let wish = Wish::parse(&args.patch, args.probes.callees, exits)?;
    let sources = sources(args, program, &wish)?;
    let chosen = Chosen::from(&sources, &wish)?;
    super::record::prepare_folder(&args.output)?;
    let mode = match (args.probes.counts, args.min_ns) {
        (true, _) => Mode::Totals,
        (false, Some(min_ns)) => Mode::Slow(min_ns),
        (false, None) => Mode::Events,
    };
    let kernel = kernel::wanted(args)?;
    let options = Options { mode, exits, ring_bytes: RING_BYTES, kernel };
    let mut session = Session::start(args, chosen, options)?;
    if !args.quiet {
        session.tell_before(why);
    }
    let end = session.run(args)?;
    session.finish(args, end)?;
    Ok(ExitCode::from(end))
}

/// Return probes only where asked for, or where no return instruction can be found.
fn exits_for(args: &Args, program: Option<&Path>) -> anyhow::Result<Exits> {
    if !args.probes.return_probes {
        return Ok(Exits::Sites);
    }
    let path = match (program, args.probes.pid.first()) {
        (Some(path), _) => path.to_owned(),
        (None, Some(pid)) => PathBuf::from(format!("/proc/{pid}/exe")),
        (None, None) => return Ok(Exits::Return),
    };
    let object = ObjectFile::open(&path).with_context(|| format!("can't read {}", path.display()))?;
    let strings = object.section_bytes(".dynstr").ok().flatten();
    let names = strings.as_deref().unwrap_or_default();
    let danger = ["__cxa_throw", "_Unwind_RaiseException", "swapcontext", "sigaltstack"];
    let found = danger.iter().find(|name| names.split(|byte| *byte == 0).any(|text| text == name.as_bytes()));
    if let Some(name) = found.copied().or_else(|| object.section(".gopclntab").map(|_| "Go's stacks")) {
        bail!(
            "{} uses {name}: return probes would end it; leave --return-probes out (return instructions are \
             probed instead)",
            path.display()
        );
    }
    Ok(Exits::Return)
}

/// The files to look through.
fn sources(args: &Args, program: Option<&Path>, wish: &Wish) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    if let Some(program) = program {
        // Processes that it forks run the same file; so no process is singled out.
        sources.push(Source { path: program.to_owned(), library: None, pid: 0 });
        for library in wish.libraries() {
            sources.push(Source { path: find_library(library)?, library: Some(library.to_owned()), pid: 0 });
        }
    }
    for &pid in &args.probes.pid {
        let exe = fs::read_link(format!("/proc/{pid}/exe"))
            .with_context(|| format!("can't attach to process {pid}: no such process, or not ours"))?;
        sources.push(Source { path: rooted(pid, &exe), library: None, pid });
        for library in wish.libraries() {
            let maps = record::proc::maps(pid).unwrap_or_default();
            let names = maps.iter().map(|map| String::from_utf8_lossy(&map.name).into_owned());
            let path = names.map(PathBuf::from).find(|path| is_named(path, library)).with_context(|| {
                format!("process {pid} has no library {library} mapped; /proc/{pid}/maps lists those it has")
            })?;
            sources.push(Source { path: rooted(pid, &path), library: Some(library.to_owned()), pid });
        }
    }
    Ok(sources)
}

/// The file as the process has it: in its own root where that is another.
fn rooted(pid: u32, path: &Path) -> PathBuf {
    let through = PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
    let same = |a: &Path, b: &Path| {
        use std::os::unix::fs::MetadataExt;
        let (a, b) = (fs::metadata(a).ok(), fs::metadata(b).ok());
        a.zip(b).is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
    };
    if same(path, &through) || !through.exists() { path.to_owned() } else { through }
}

/// `libc` and `libc.so.6` both mean `/lib/libc.so.6`.
fn is_named(path: &Path, library: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path == Path::new(library) || name == library || name.starts_with(&format!("{library}.so"))
}

/// Where the loader would find a library.
fn find_library(library: &str) -> anyhow::Result<PathBuf> {
    if library.contains('/') {
        return Ok(PathBuf::from(library));
    }
    let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let system =
        ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    std::env::split_paths(&own)
        .chain(system.iter().map(PathBuf::from))
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .find(|path| is_named(path, library))
        .and_then(|path| path.canonicalize().ok())
        .with_context(|| {
            format!("no library {library} in the usual places; give its path: FUNC@/path/{library}")
        })
}

/// A running recording.
struct Session {
    engine: Engine,
    chosen: Chosen,
    options: Options,
    cost_ns: Option<f64>,
    child: Option<Child>,
    signals: SignalReader,
    addresses: Addresses,
    start_ns: u64,
    attach: Duration,
    watch: Watch,
}

impl Session {
    fn start(args: &Args, chosen: Chosen, options: Options) -> anyhow::Result<Self> {
        let cost_ns =
            record::calls::cost_per_call_ns(options.mode, options.exits).map_err(|why| refusal(&why))?;
        let mut engine = Engine::load(chosen.objects.clone(), chosen.functions.clone(), options.clone())
            .map_err(|why| refusal(&why))?;
        let signals = SignalReader::new(&[SIGINT, SIGTERM]).context("can't wait for signals")?;
        let child = (!args.command.is_empty()).then(|| Child::fork(&args.command, Some(&signals)));
        let child = child.transpose().context("can't fork")?;
        for pid in args.probes.pid.iter().copied().chain(child.as_ref().map(Child::pid)) {
            engine.add_process(pid)?;
        }
        let watch = Watch::new(args.probes.max_rate);
        let addresses = super::addresses::of(&chosen, options.kernel);
        let start_ns = Clock::Monotonic.now_ns();
        let mut session = Self {
            engine,
            chosen,
            options,
            cost_ns,
            child,
            signals,
            addresses,
            start_ns,
            attach: Duration::ZERO,
            watch,
        };
        session.look_first(args)?;
        let begin = Instant::now();
        session.engine.attach().map_err(|why| refusal(&why))?;
        session.attach = begin.elapsed();
        session.start_ns = Clock::Monotonic.now_ns();
        Ok(session)
    }

    /// How often the functions of a running process are called, by a short look at their entries alone.
    fn look_first(&mut self, args: &Args) -> anyhow::Result<()> {
        if args.probes.pid.is_empty() || args.quiet {
            return Ok(());
        }
        let mut entries_only = self.chosen.functions.clone();
        entries_only.iter_mut().for_each(|function| function.leaves.clear());
        let options = Options {
            mode: Mode::Events,
            exits: Exits::Sites,
            ring_bytes: 1 << 12,
            kernel: KernelParts::default(),
        };
        let mut look =
            Engine::load(self.chosen.objects.clone(), entries_only, options).map_err(|why| refusal(&why))?;
        args.probes.pid.iter().try_for_each(|pid| look.add_process(*pid))?;
        look.attach().map_err(|why| refusal(&why))?;
        let begin = Instant::now();
        std::thread::sleep(LOOK);
        let entries: u64 = look.entries().iter().map(|watched| watched.entries).sum();
        self.watch.expected_per_s = Some(entries as f64 / begin.elapsed().as_secs_f64());
        Ok(())
    }

    /// What will be done, and what it will cost.
    fn tell_before(&self, why: &str) {
        let functions = number::grouped(self.chosen.functions.len() as u64);
        let mut line = format!(
            "tally calls: {why}: {functions} functions by uprobes ({} places, attached in {})",
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
        let left = self.chosen.left_out.iter().map(|(why, count)| (*why, *count));
        let refused =
            Some(("that the kernel can't probe", self.engine.refused.len())).filter(|(_, n)| *n > 0);
        for (why, count) in left.chain(refused) {
            out::note(&format!("tally calls: left out: {count} functions {why}"));
        }
        self.engine.missing.iter().for_each(|why| out::note(&format!("tally calls: not recorded: {why}")));
    }

    fn run(&mut self, args: &Args) -> anyhow::Result<u8> {
        let mut folder = Folder::new(&args.output, self.addresses.clone(), self.start_ns);
        if let Some(child) = &mut self.child {
            child.exec().with_context(|| format!("can't start {}", args.command[0].display()))?;
        }
        let end_at = args.probes.duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        let end = loop {
            self.poll(&mut folder)?;
            if let Some(line) = self.watch.look(&mut self.engine, &self.chosen.names)? {
                out::note(&line);
            }
            if let Some(end) = self.ended(args, end_at)? {
                break end;
            }
            std::thread::sleep(PAUSE);
        };
        self.engine.stop();
        self.poll(&mut folder)?;
        self.watch.written = folder.finish().context("can't write the recording")?;
        Ok(end)
    }

    fn poll(&mut self, folder: &mut Folder) -> anyhow::Result<()> {
        let mut failed = None;
        self.engine.poll(&mut |event: CallEvent| {
            if failed.is_none() {
                failed = folder.take(&event).err();
            }
        });
        failed.map_or(Ok(()), |error| Err(error).context("can't write the recording"))
    }

    /// The status to end with, once it is over.
    fn ended(&mut self, args: &Args, end_at: Option<Instant>) -> anyhow::Result<Option<u8>> {
        let mut stopped = end_at.is_some_and(|end| Instant::now() >= end);
        while let Some(signal) = self.signals.next()? {
            match &self.child {
                // Ctrl-C reaches the program by itself.
                Some(child) if signal.number == SIGTERM => record::sys::signal::send(child.pid(), SIGTERM)?,
                Some(_) => {}
                None => stopped = true,
            }
        }
        if let Some(child) = &mut self.child {
            if let Some(end) = child.try_wait()? {
                return Ok(Some(end.shell_code()));
            }
        } else if args.probes.pid.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            return Ok(Some(0));
        }
        Ok(stopped.then_some(0))
    }

    fn finish(&mut self, args: &Args, status: u8) -> anyhow::Result<()> {
        let wall_ns = Clock::Monotonic.now_ns() - self.start_ns;
        let sums = if self.options.mode == Mode::Totals { self.engine.sums() } else { Vec::new() };
        let entries: u64 = match self.options.mode {
            Mode::Events => self.watch.written.calls,
            _ => self.engine.all_entries(),
        };
        if self.options.mode == Mode::Totals {
            totals::write(&args.output, &self.addresses, &sums, self.start_ns)?;
        }
        kernel::write_names(&args.output, &self.addresses, self.options.kernel)?;
        let notes = self.notes(entries, wall_ns);
        let command = if args.command.is_empty() {
            format!("process {}", args.probes.pid.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
        } else {
            args.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        let mut info = format!("command {command}\nstatus {status}\nwall_ns {wall_ns}\nback_end uprobes\n");
        for (at, note) in notes.iter().enumerate() {
            info += &format!("note{at} {note}\n");
        }
        fs::write(args.output.join("info"), info).context("can't write the recording's info")?;
        if !args.quiet {
            out::note(&format!(
                "tally calls: {} calls of {} functions recorded by uprobes in {}",
                number::grouped(entries),
                number::grouped(self.chosen.functions.len() as u64),
                args.output.display()
            ));
            notes.iter().for_each(|note| out::note(&format!("tally calls: {note}")));
        }
        Ok(())
    }

    /// What is to be known beside the numbers.
    fn notes(&self, entries: u64, wall_ns: u64) -> Vec<String> {
        let mut notes = self.watch.detached.clone();
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
        let losses = self.engine.losses();
        let named = losses.iter().zip(record::calls::layout::COUNT_NAMES).filter(|(count, _)| **count > 0);
        notes.extend(named.map(|(count, name)| format!("{} {name}", number::grouped(*count))));
        if self.watch.written.strays > 0 {
            notes.push(format!(
                "{} returns from calls whose entry was not seen",
                number::grouped(self.watch.written.strays)
            ));
        }
        notes
    }
}

/// What the kernel said, and what can be done instead.
fn refusal(why: &record::calls::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "{why}; uprobes for calls need Linux 6.6 and CAP_BPF + CAP_PERFMON (root). Without: build with -pg or \
         -fpatchable-function-entry=5 and run `tally calls record -- CMD`, or count one function with `tally probe`"
    )
}
