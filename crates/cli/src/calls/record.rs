//! `tally calls record`: runs a program with the tracer preloaded.

use ::record::output_file::write_part;
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::kernel;
use super::late_objects::LateObjects;
use super::launch;
use super::observer::RecordingObserver;
use super::overhead::OverheadEstimate;
use super::own_folder;
use super::preloaded_tracer::PreloadedTracer;
use super::probe_args::ProbeArgs;
use super::probes;
use super::record_spec::RecordSpec;
use super::script_follower;
use super::summary;
use super::trace_args::TraceArgs;
use crate::terminal::out;
use calls::instrumented::sleds::{self, Instrumented};
use calls::selection::rules::{Imports, Rules};
use calls::values;
use tracer::layout::{self, sleds as list};

/// Run a program, or attach to a process, and record its calls
#[derive(clap::Args)]
#[command(after_help = "\
A program built with -pg, -pg -mfentry, -finstrument-functions, -fpatchable-function-entry=5 or
-pg -mfentry -mnop-mcount records itself (the last two cost nothing while not recorded).
Any other, and a running process, gets uprobes: dearer a call, no rebuild, nothing loaded into it.

Examples:
  tally calls record ./app && tally calls graph
  tally calls record -a -- ./app                     with arguments and results
  tally calls record -T 'parse@depth=2,arg1/s' ./app  two levels of parse(); its argument as text
  tally calls record --libcall -- ls                 library calls of any program
  tally calls record -P 'parse_*' -- ./app --fast    only these functions
  tally calls record -p 4711 -P 'parse_*' -d 5       five seconds of a running process
  tally calls record -p 4711 -P malloc@libc --counts  sums only, made in the kernel
  tally calls record -p 4711 -P '*' --entries -d 2   how often, no times: about half the price
  tally calls record --callees main:2 -- ./app       main, what it calls, and what that calls
  tally calls record --uprobes -F parse -N 'log_*' -- ./app  in parse(), but not in log_…()
  tally calls record -p 4711 --max-bytes 16M         a flight recorder: each thread's last 16 MB
  tally calls record -p 4711 -P file:parse.c         the functions of a source file")]
pub struct Args {
    /// The folder to record into; an earlier recording there is replaced
    #[arg(short, long, value_name = "DIR", default_value = calls::recording::folder::DEFAULT)]
    pub output: PathBuf,
    /// Record calls nested at most this deep
    #[arg(short = 'D', long, value_name = "N")]
    pub depth: Option<u32>,
    /// Only functions of this name or pattern, /REGEX/, file:SOURCE.c, @LIST (a file of such words); by uprobes also
    /// FUNC@LIBRARY (can be repeated)
    #[arg(short = 'P', long = "patch", value_name = "FUNC")]
    pub patch: Vec<String>,
    /// Drop calls that took less, unless one in them was kept: 10us, 1ms (without a unit: ns)
    #[arg(short = 't', long = "min", visible_alias = "time-filter", value_name = "TIME", value_parser = calls::selection::duration_ns_of)]
    pub min_ns: Option<u64>,
    /// Keep only the last SIZE of each thread: 512k, 16M, 1G (8 to 16 bytes a call)
    #[arg(long, value_name = "SIZE", value_parser = crate::flags::recording::value::parse_bytes)]
    pub max_bytes: Option<u64>,
    /// For programs that record themselves.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// For uprobes.
    #[command(flatten)]
    pub probes: ProbeArgs,
    /// Don't record context switches: then time off the CPU is not separated
    #[arg(long)]
    pub no_switches: bool,
    /// Print no summary at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl Args {
    /// The same without clap.
    #[must_use]
    pub fn spec(&self) -> RecordSpec {
        RecordSpec {
            output: self.output.clone(),
            depth: self.depth,
            patch: self.patch.clone(),
            min_ns: self.min_ns,
            max_bytes: self.max_bytes,
            trace: self.trace.spec(),
            probes: self.probes.spec(),
            no_switches: self.no_switches,
            quiet: self.quiet,
            command: self.command.clone(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If the program can't be started or has nothing to record.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    run_with(&args.spec(), None)
}

/// The same; `live` looks at what was recorded so far, every now and then.
///
/// # Errors
/// As [`run`].
pub fn run_with(args: &RecordSpec, live: Option<&mut dyn RecordingObserver>) -> anyhow::Result<ExitCode> {
    if !PreloadedTracer::is_there() {
        bail!("recording calls needs an x86-64 or aarch64 processor; `tally record` samples on every one");
    }
    let Some(name) = args.command.first() else { return probes::run(args, None, "attached", live) };
    let program = find_program(name)?;
    if script_follower::is_one(&program) {
        return probes::run_script(args, live);
    }
    let mut rules = Rules::new(&args.patch, &args.trace)?;
    if live.is_some() {
        // A look while it runs finds the slow ones by itself: what was read can't be taken back.
        rules.take_slow();
    }
    let found = sleds::look(&program, &rules, rules.imports != Imports::None)?;
    if let Some(why) = why_uprobes(args, &program, &found) {
        return probes::run(args, Some(&program), &why, live);
    }
    check(&program, &found, &rules)?;
    let tracer = prepare(&args.output, &program, &found)?;
    let tells = !args.quiet && live.is_none();
    let estimate = if tells { OverheadEstimate::now(args, &tracer, &found) } else { None };
    let opened = LateObjects::new(&args.output.canonicalize()?, &program, &rules)?;
    let ended = launch::run(args, tracer.environment(&found), opened, live)?;
    if tells {
        summary::print_summary(args, &tracer, &ended, estimate.as_ref())?;
    }
    Ok(ExitCode::from(ended.status))
}

/// The file that the shell would start.
fn find_program(name: &OsString) -> anyhow::Result<PathBuf> {
    let path = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        return path.canonicalize().with_context(|| format!("can't start {}", path.display()));
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .map(|dir| dir.join(path))
        .find(|file| file.is_file())
        .and_then(|file| file.canonicalize().ok())
        .with_context(|| format!("can't start {}: no such command in PATH", path.display()))
}

/// Reports what is missing when nothing would be recorded.
fn check(program: &Path, found: &Instrumented, rules: &Rules) -> anyhow::Result<()> {
    let shown = program.display();
    if found.late > 0 {
        out::note(&format!(
            "tally calls: of {} functions no arguments are recorded: -pg calls the tracer when they have been moved; \
             build {shown} with -fpatchable-function-entry=2",
            found.late
        ));
    }
    if rules.any() && found.ruled == 0 && found.late == 0 {
        let none = format!(
            "-F, -N, -C, -T, -A and -R match no function of {shown} that can be patched (`-pg`, `-mfentry`, patchable \
             entry, XRay, -finstrument-functions) and none that it imports"
        );
        if !found.opens_libraries {
            bail!("{none}; `tally calls` takes -F and -N too, when all is recorded");
        }
        out::note(&format!("tally calls: {none}; they may match functions of libraries that it opens"));
    }
    warn_of_read_imports(&found.read_imports, program);
    if found.untold > 0 {
        out::note(&format!(
            "tally calls: at {} calls of __cyg_profile_func_enter no arguments or results are recorded: of functions inlined \
             there, or behind code that is not understood",
            found.untold
        ));
    }
    if rules.any_values() && found.valued == 0 && found.late == 0 {
        out::note(&format!(
            "tally calls: no arguments or results are recorded: {shown} has no debug information for those functions \
             (build it with -g), or they can't be patched; -A FUNC@arg1/s needs none"
        ));
    }
    let none =
        found.wanted_sleds == 0 && found.wanted_calls == 0 && found.imports.is_empty() && found.ruled == 0;
    if none && found.left > 0 {
        bail!("none of its {} instrumented functions matches -P; `nm {shown}` lists them", found.left);
    }
    if !found.is_instrumented() && !rules.imports_anyway {
        // Libraries it loads may still be instrumented: record, but print what to expect.
        out::note(&format!(
            "tally calls: {shown} is not instrumented, only calls in instrumented libraries will be seen; \
             build it with -pg, -finstrument-functions or -fpatchable-function-entry=5"
        ));
    } else if !rules.wanted.is_empty() && none {
        out::note("tally calls: -P has no effect on -finstrument-functions: all its calls are recorded");
    }
    Ok(())
}

/// Reports which imported functions are not recorded, because pointers to them are taken.
fn warn_of_read_imports(names: &[String], program: &Path) {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return;
    }
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| dso::demangle(name)).collect();
    out::note(&format!(
        "tally calls: calls of {} are not recorded, because {} also takes their addresses from where it calls them through: {}{}",
        if names.len() == 1 {
            "a library function".to_owned()
        } else {
            format!("{} library functions", names.len())
        },
        program.display(),
        shown.join(", "),
        if names.len() > SHOWN { ", …" } else { "" }
    ));
}

/// Whether the program runs as another user or group than the one that starts it: then `LD_PRELOAD` is ignored.
fn is_privileged(program: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let (Ok(file), Ok(own)) = (fs::metadata(program), fs::metadata("/proc/self")) else { return false };
    file.mode() & SET_USER != 0 && file.uid() != own.uid()
        || file.mode() & SET_GROUP != 0 && file.gid() != own.gid()
}

/// Why the program can't, or shan't, record itself; `None` if it can.
fn why_uprobes(args: &RecordSpec, program: &Path, found: &Instrumented) -> Option<String> {
    let shown = program.display();
    if args.probes.uprobes
        || args.probes.counts
        || args.probes.entries
        || args.probes.callees.is_some()
        || kernel::is_wanted(args)
    {
        return Some("as asked for".to_owned());
    }
    if is_privileged(program) {
        return Some(format!(
            "{shown} runs with other rights than ours (set-user-ID or set-group-ID), so the loader puts no tracer into it"
        ));
    }
    if found.is_static {
        return Some(format!("{shown} is statically linked, no tracer can be loaded into it"));
    }
    if calls::instrumented::shadow_stack::is_expected(found.allows_shadow_stack) {
        return Some(format!(
            "{shown} runs with a shadow stack (CET), under which no return can be hooked (GLIBC_TUNABLES=glibc.cpu.x86_shstk=off \
             turns it off)"
        ));
    }
    if let Some(word) = args.patch.iter().find(|word| names_library(word)) {
        return Some(format!("-P {word} names a library's function"));
    }
    let none = !found.is_instrumented() && !args.trace.libcall;
    none.then(|| format!("{shown} is not instrumented (-pg, -fpatchable-function-entry=5 …)"))
}

/// `FUNC@LIBRARY`: what is compiled into the program calls no tracer there.
fn names_library(word: &str) -> bool {
    let is_other = word.starts_with(['/', '@']) || word.starts_with("file:");
    !is_other && word.contains('@')
}

/// Puts there what the tracer needs.
fn prepare(dir: &Path, program: &Path, found: &Instrumented) -> anyhow::Result<PreloadedTracer> {
    own_folder::prepare(dir)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        write_part(&path, bytes).with_context(|| format!("can't write {}", path.display()))
    };
    if !found.formats.is_empty() {
        write(values::NAME, found.formats.as_bytes())?;
    }
    write(layout::LOST_NAME, &[0; layout::LOST_BYTES])?;
    let mut sleds = list::MAGIC.to_vec();
    let object = list::ObjectStart { path: program.as_os_str().as_bytes(), start: 0 };
    list::add_object(&mut sleds, object, &found.sleds, &found.specs);
    write(list::NAME, &sleds)?;
    PreloadedTracer::write(&dir.canonicalize()?)
}
