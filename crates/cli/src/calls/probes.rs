//! `tally calls record` on any binary: uprobes put in by the kernel, nothing loaded into the program.

use record::calls::{CallMode, CountRules, ProbeOptions};
use std::path::Path;
use std::process::ExitCode;

use super::kernel;
use super::observer::RecordingObserver;
use super::probe_filters;
use super::probe_selection::selection;
use super::record_spec::RecordSpec;
use super::script_follower::{self, ChosenProbes, FollowedScript};
use super::session::ProbeSession;
use calls::probing::ProbePlan;
use calls::probing::searched_files::searched_files;

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
    let selection = selection(args, program)?;
    let chosen = ProbePlan::from(&searched_files(&args.probes.pid, program, &selection)?, &selection)?;
    start(args, ChosenProbes { plan: chosen, exits: selection.exits }, why, None, live)
}

/// The same of a script: what it becomes is recorded.
///
/// # Errors
/// If it becomes nothing in which a function is selected.
pub fn run_script(args: &RecordSpec, live: Option<&mut dyn RecordingObserver>) -> anyhow::Result<ExitCode> {
    let (became, program, chosen) = script_follower::follow(args)?;
    let why = format!("{} is a script that became {}", args.command[0].display(), program.display());
    start(args, chosen, &why, Some(became), live)
}

fn start(
    args: &RecordSpec,
    probes: ChosenProbes,
    why: &str,
    became: Option<FollowedScript>,
    live: Option<&mut dyn RecordingObserver>,
) -> anyhow::Result<ExitCode> {
    let ChosenProbes { plan: chosen, exits } = probes;
    let wants_calls = live.as_ref().is_some_and(|live| live.wants_calls());
    let sums = args.probes.counts || args.probes.entries || live.is_some() && !wants_calls;
    let mode = match (sums, args.min_ns) {
        (true, _) => CallMode::Totals,
        (false, Some(min_ns)) => CallMode::Slow(min_ns),
        (false, None) => CallMode::Events,
    };
    let mut filters = probe_filters::of(args, &chosen, mode, why)?;
    if live.is_some() {
        filters.forget_slow();
    }
    super::own_folder::prepare(&args.output)?;
    let (kernel, kernel_selection) = kernel::wanted(args)?;
    let counted =
        if mode == CallMode::Totals { probe_filters::counted(args, &filters) } else { CountRules::default() };
    let options = ProbeOptions { mode, exits, ring_bytes: RING_BYTES, kernel, kernel_selection, counted };
    let mut session = ProbeSession::start(args, chosen, options, became)?;
    if !args.quiet {
        session.print_plan(why);
    }
    let end = session.run(args, filters, live)?;
    let finished = session.finish(args, end);
    Ok(ExitCode::from(finished.map_or_else(|why| session.go_on_without(why), |()| Ok(end))?))
}
