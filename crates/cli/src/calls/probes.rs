//! `tally calls record` on any binary: uprobes put in by the kernel, nothing loaded into the program.

use record::calls::{Counted, Exits, Mode, Options};
use std::path::Path;
use std::process::ExitCode;

use super::choose::Chosen;
use super::kernel;
use super::objects::sources;
use super::observer::RecordingObserver;
use super::probe_filters;
use super::record_spec::RecordSpec;
use super::return_probes;
use super::scripts::{self, Became};
use super::session::Session;
use super::wish::Wish;

/// Bytes of the ring between kernel and tally.
const RING_BYTES: u32 = 16 << 20;

/// Runs the command or attaches, records, writes the folder.
///
/// # Errors
/// If nothing can be probed, with what can be done instead.
pub fn run(
    args: &RecordSpec,
    program: Option<&Path>,
    why: &str,
    live: Option<&mut dyn RecordingObserver>,
) -> anyhow::Result<ExitCode> {
    let wish = wish(args, program)?;
    let chosen = Chosen::from(&sources(args, program, &wish)?, &wish)?;
    start(args, (chosen, wish.exits), why, None, live)
}

/// The same of a script: what it becomes is recorded.
///
/// # Errors
/// If it becomes nothing in which a function is selected.
pub fn run_script(args: &RecordSpec, live: Option<&mut dyn RecordingObserver>) -> anyhow::Result<ExitCode> {
    let (became, program, chosen) = scripts::follow(args)?;
    let why = format!("{} is a script that became {}", args.command[0].display(), program.display());
    start(args, chosen, &why, Some(became), live)
}

/// The functions that the flags mean, in a program or processes.
///
/// # Errors
/// If a list of functions can't be read, or return probes would end the program.
pub fn wish(args: &RecordSpec, program: Option<&Path>) -> anyhow::Result<Wish> {
    let exits = exits_for(args, program)?;
    let callees = args.probes.callees.as_ref();
    let of_program = args.patch.iter().filter(|word| !kernel::is_of_kernel(word));
    let words: Vec<String> =
        of_program.chain(callees.and_then(|callees| callees.of.as_ref())).cloned().collect();
    Wish::parse(&words, callees.map_or(0, |callees| callees.depth), exits)
}

fn start(
    args: &RecordSpec,
    (chosen, exits): (Chosen, Exits),
    why: &str,
    became: Option<Became>,
    live: Option<&mut dyn RecordingObserver>,
) -> anyhow::Result<ExitCode> {
    let wants_calls = live.as_ref().is_some_and(|live| live.wants_calls());
    let sums = args.probes.counts || args.probes.entries || live.is_some() && !wants_calls;
    let mode = match (sums, args.min_ns) {
        (true, _) => Mode::Totals,
        (false, Some(min_ns)) => Mode::Slow(min_ns),
        (false, None) => Mode::Events,
    };
    let mut filters = probe_filters::of(args, &chosen, (mode, why))?;
    if live.is_some() {
        filters.forget_slow();
    }
    super::own_folder::prepare(&args.output)?;
    let (kernel, kernel_wish) = kernel::wanted(args)?;
    let counted =
        if mode == Mode::Totals { probe_filters::counted(args, &filters) } else { Counted::default() };
    let options = Options { mode, exits, ring_bytes: RING_BYTES, kernel, kernel_wish, counted };
    let mut session = Session::start(args, chosen, options, became)?;
    if !args.quiet {
        session.tell_before(why);
    }
    let end = session.run(args, filters, live)?;
    let finished = session.finish(args, end);
    Ok(ExitCode::from(finished.map_or_else(|why| session.go_on_without(why), |()| Ok(end))?))
}

/// Return probes only where asked for, or where no return instruction can be found.
fn exits_for(args: &RecordSpec, program: Option<&Path>) -> anyhow::Result<Exits> {
    if args.probes.entries {
        return Ok(Exits::None);
    }
    if !args.probes.return_probes {
        return Ok(Exits::Sites);
    }
    return_probes::check(program, &args.probes.pid, args.quiet)?;
    Ok(Exits::Return)
}

/// The kernel's error, and the alternatives.
pub fn refusal(why: &record::calls::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "uprobes are refused: {}; run as root, or setcap cap_perfmon,cap_bpf,cap_sys_ptrace=ep tally; in docker \
         --cap-add PERFMON --cap-add BPF. Without: build with -pg or -fpatchable-function-entry=5 and run \
         `tally calls record -- CMD`",
        short(why)
    )
}

/// Without the verifier's log.
pub fn short(why: &record::calls::Error) -> String {
    let text = why.to_string();
    text.split(" | ").next().unwrap_or(&text).to_owned()
}
