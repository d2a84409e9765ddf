//! Starts an instrumented program with the tracer in it, and waits for its end.

use anyhow::Context;
use record::output_file::write_part;
use record::stop_signals::{RunningCommand, SignalRole, StopSignals};
use record::sys::time::Clock;
use record::sys::{Child, ExitKind, Surroundings, mem};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::late_objects::LateObjects;
use super::observer::RecordingObserver;
use super::overhead::ResourceUse;
use super::record_spec::RecordSpec;
use super::size_watchdog::SizeWatchdog;
use super::switches;
use crate::terminal::out;
use calls::selection::rules::Rules;
use calls::selection::trace_switch::TraceSwitch;
use tracer::layout::{self, sleds as list};

/// How a run ended, and what it took.
pub struct Ended {
    /// Status as a shell shows it.
    pub status: u8,
    /// Time and CPU.
    pub used: ResourceUse,
    /// Kept until the last message: one Ctrl-C too many does not end that.
    _signals: StopSignals,
}

/// Runs the command to its end, and writes the rest of the folder. `preloading` is what its environment needs for the
/// tracer to be loaded.
///
/// # Errors
/// If it can't be started, or the folder not be written.
pub fn run(
    args: &RecordSpec,
    preloading: Vec<(&'static str, OsString)>,
    mut opened: LateObjects<'_>,
    mut live: Option<&mut dyn RecordingObserver>,
) -> anyhow::Result<Ended> {
    let dir = args.output.canonicalize()?;
    let started_ns = Clock::Monotonic.now_ns();
    let cpu_ns = || mem::children_use().cpu_ns();
    let used_before_ns = cpu_ns();
    let is_live = live.is_some();
    let mut options = options(args, opened.rules());
    // A look while it runs leaves short calls out by itself.
    options.retain(|(name, _)| !(is_live && *name == layout::MIN_VARIABLE));
    options.push((layout::DIR_VARIABLE, dir.as_os_str().to_owned()));
    options.extend(preloading);
    let (command, variables, role) = command(args, options, &dir);
    let mut signals = StopSignals::new(&[]).context("can't wait for signals")?;
    if is_live {
        signals.watch_stdout();
    }
    let surroundings = Surroundings { variables, ..Surroundings::default() };
    let mut child = Child::fork_with(&command, signals.reader(), &surroundings).context("can't fork")?;
    child.exec().with_context(|| format!("can't start {}", args.command[0].display()))?;
    let mut look = |at_end: bool| live.as_mut().map_or(Ok(()), |live| live.look_at_folder(&dir, at_end));
    let mut growth = SizeWatchdog::new(args.quiet || is_live);
    let mut each = || {
        opened.answer();
        if let Some(line) = growth.look(&dir, args) {
            out::note(&line);
        }
        look(false)
    };
    let end = wait(&mut child, role, &mut signals, &mut each)?.shell_code();
    look(true)?;
    let (tsc, ns) = record::sys::time::ticks_and_ns().unwrap_or_default();
    let used =
        ResourceUse { wall_ns: Clock::Monotonic.now_ns() - started_ns, cpu_ns: cpu_ns() - used_before_ns };
    let info = format!(
        "command {}\nstatus {end}\nwall_ns {}\nend tsc {tsc} monotonic_ns {ns}\n",
        args.command_text(),
        used.wall_ns
    );
    if let Err(error) = write_info(&dir, &info) {
        // The program's calls are there, and its status is what counts.
        out::note(&format!("tally calls: {error:#}"));
    }
    Ok(Ended { status: end, used, _signals: signals })
}

/// Writes the folder's `info`; on a full disk in place of the tracer's library, which the program needed until now.
fn write_info(dir: &Path, info: &str) -> anyhow::Result<()> {
    let path = dir.join("info");
    if write_part(&path, info).is_err() {
        // Elsewhere or gone: the second try then fails as the first did.
        let _ = fs::remove_file(dir.join(super::own_folder::TRACER_FILE));
        write_part(&path, info).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

type Variables = Vec<(&'static str, OsString)>;

/// The program with the tracer in it; where that is allowed, below a recording of its context switches.
fn command(args: &RecordSpec, options: Variables, dir: &Path) -> (Vec<OsString>, Variables, SignalRole) {
    let recorder = (!args.no_switches).then(|| switches::recorder(dir)).flatten();
    let Some(mut words) = recorder else { return (args.command.clone(), options, SignalRole::Recorded) };
    // The recorder of switches shall not be recorded itself: `env` sets what only the program is to see.
    words.push("env".into());
    words.extend(options.into_iter().map(|(name, value)| {
        let mut setting = OsString::from(name);
        setting.push("=");
        setting.push(value);
        setting
    }));
    if args.command.first().is_some_and(|program| program.as_encoded_bytes().contains(&b'=')) {
        // To `env` such a program would be one more setting.
        words.extend(["sh", "-c", "exec \"$0\" \"$@\""].map(OsString::from));
    }
    words.extend(args.command.iter().cloned());
    (words, Vec::new(), SignalRole::Recorder)
}

/// The flags in the form that the tracer in the program reads.
fn options(args: &RecordSpec, rules: &Rules) -> Variables {
    let mut options = Variables::new();
    if let Some(depth) = args.depth {
        options.push((layout::DEPTH_VARIABLE, depth.to_string().into()));
    }
    if let Some(ns) = args.min_ns {
        options.push((layout::MIN_VARIABLE, ns.to_string().into()));
    }
    if let Some(bytes) = args.max_bytes {
        options.push((layout::KEEP_VARIABLE, bytes.to_string().into()));
    }
    if rules.has(list::CALLER) {
        options.push((layout::CALLERS_VARIABLE, "1".into()));
    }
    if rules.has(list::BACKTRACE) {
        options.push((layout::BACKTRACE_VARIABLE, "1".into()));
    }
    if !rules.signals.is_empty() {
        let signals: Vec<String> = rules.signals.iter().map(TraceSwitch::word).collect();
        options.push((layout::SIGNALS_VARIABLE, signals.join(",").into()));
    }
    let start = match (!rules.has(list::ONLY), args.trace.disable) {
        (true, false) => return options,
        (false, false) => "only",
        (true, true) => "off",
        (false, true) => "only,off",
    };
    options.push((layout::START_VARIABLE, start.into()));
    options
}

/// Waits for the end of the program.
fn wait(
    child: &mut Child,
    role: SignalRole,
    signals: &mut StopSignals,
    look: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<ExitKind> {
    const PAUSE: Duration = Duration::from_millis(2);
    loop {
        if let Some(end) = child.try_wait()? {
            return Ok(end);
        }
        let command = Some(RunningCommand::of(child, role));
        signals.take(command)?;
        signals.hint(command).iter().for_each(|hint| out::note(hint));
        look()?;
        std::thread::sleep(PAUSE);
    }
}
