//! `tally check`: fails if a program costs more than before.

use crate::check::measuring::{NotMeasured, Stopwatch};
use crate::check::sampling::{RecordedSide, sample, source_path, this_machine};
use crate::cmd::diff::{percentage, sides};
use crate::stat::compare::split_command;
use crate::stat::outcome::joined;
use crate::terminal::out;
use anyhow::{Context, bail};
use display::number::count_of;
use display::term;
use dso::FileRule;
use exchange::check::baseline::{Baseline, MAX_BYTES};
use exchange::check::reports::{self, ReportWriter};
use exchange::check::screen::{self, CheckScreen};
use profile::view::check::{
    CheckOutcome, CheckPlan, CheckResult, CheckedSide, CostMeasure, RunOrder, SampledRuns,
};
use profile::view::diff::is_time;
use record::output_file::write_export;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit status if the cost grew by more than the limit.
const GREW: u8 = 1;
/// Exit status of usage errors, and if nothing could be decided.
const NOT_DECIDED: u8 = 2;

/// Check in CI that a program didn't become slower
///
/// Runs COMMAND -r times and compares its cost with a stored baseline, another command, or recordings. The cost is the
/// number of instructions in user mode where the machine counts them, else CPU time. The check fails if the cost grew
/// by more than --limit and noise doesn't explain it (95 % interval). Some more runs are sampled, to name the functions
/// that cost more.
///
/// Exit status: 0 within the limit, 1 above it, 2 if it isn't decided: usage errors, a command that fails, single
/// recordings.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally check --save base.json -- ./app          store a baseline
  tally check --baseline base.json -- ./app      compare with it, limit 5 %
  tally check --against ./app-old -- ./app       two commands alternately: least noise
  tally check a1.data,a2.data : b1.data,b2.data  recordings, two or more a side
  tally check --baseline base.json --junit out.xml --markdown out.md -- ./app")]
pub struct Args {
    /// Recordings instead of commands: BEFORE NOW, or two lists A1,A2 : B1,B2
    #[arg(value_name = "FILE", conflicts_with_all = ["baseline", "against", "save", "command", "repeat"])]
    files: Vec<String>,
    /// Runs that are measured, after one that isn't; twice as many where they vary too much
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    repeat: u32,
    /// Write the runs to this file, as a baseline for later checks
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Compare with the runs in this file; --against is safer where the machine's speed varies
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    baseline: Option<PathBuf>,
    /// Compare with this command: both run alternately
    #[arg(long, value_name = "COMMAND")]
    against: Option<String>,
    /// Allowed growth
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_limit)]
    limit: f64,
    /// The cost that decides [default: instructions where they are counted, else cpu]
    #[arg(long, value_enum, value_name = "COST")]
    measure: Option<DecidingCost>,
    /// Write the result as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the functions to blame as SARIF
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write the result as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Don't sample: no functions are named
    #[arg(long)]
    no_functions: bool,
    /// The command and its arguments, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Which cost decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DecidingCost {
    /// Instructions in user mode
    Instructions,
    /// CPU time, user and kernel
    Cpu,
    /// Time from start to end
    Wall,
}

/// Runs the command.
///
/// # Errors
/// None: errors are printed, because their exit status is 2.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let code = checked(&args).unwrap_or_else(|error| {
        out::complain(&crate::in_one_line(&error));
        ExitCode::from(NOT_DECIDED)
    });
    Ok(code)
}

fn checked(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.files.is_empty() {
        let outcome = of_recordings(args)?;
        out::text(&screen::draw(
            &outcome,
            CheckScreen { width: term::width(), colour: term::colours_stdout() },
        ))?;
        return finish(args, &outcome);
    }
    if args.command.is_empty() {
        bail!("nothing to check: give a command after --, or recordings (tally check --help)");
    }
    if args.baseline.is_none() && args.against.is_none() && args.save.is_none() {
        bail!("nothing to compare with: first tally check --save FILE, then tally check --baseline FILE");
    }
    let stored = args.baseline.as_deref().map(read_baseline).transpose()?;
    let order = if args.against.is_some() { RunOrder::Alternating } else { RunOrder::Separate };
    let plan = plan(args, order, None);
    let (old, new) = match measured(args, stored.as_ref(), &plan) {
        Ok(sides) => sides,
        Err(NotMeasured::Interrupted) => return Ok(ExitCode::from(130)),
        Err(NotMeasured::Failed(error)) => return Err(error),
    };
    if let Some(path) = &args.save {
        save(&new, path, &args.command)?;
    }
    let old = old.or_else(|| stored.map(|stored| stored_side(stored, args.baseline.as_deref())));
    let Some(old) = old else { return Ok(ExitCode::SUCCESS) };
    let outcome = compare(old, new, &plan)?;
    let colour = term::colours_stderr();
    out::screen(&screen::draw(&outcome, CheckScreen { width: term::width(), colour }), colour)?;
    finish(args, &outcome)
}

/// Measures the command, and the one to compare with.
fn measured(
    args: &Args,
    stored: Option<&Baseline>,
    plan: &CheckPlan,
) -> Result<(Option<CheckedSide>, CheckedSide), NotMeasured> {
    let against = args.against.as_deref().map(split_command);
    let commands: Vec<&[OsString]> =
        against.as_deref().into_iter().chain([args.command.as_slice()]).collect();
    let mut stopwatch = Stopwatch::new().map_err(NotMeasured::Failed)?;
    let mut costs = stopwatch.measure(&commands, args.repeat)?;
    let before = stored.map(|stored| &stored.runs).or_else(|| costs.first().filter(|_| commands.len() > 1));
    if let (Some(before), Some(now)) = (before, costs.last())
        && plan.is_undecided(before, now)
    {
        out::note(&format!("tally check: the runs vary too much to decide: measuring {} more", args.repeat));
        let more = stopwatch.measure(&commands, args.repeat)?;
        costs.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
    }
    // Recording waits for signals itself.
    drop(stopwatch);
    let sampled = |command: &[OsString]| (!args.no_functions).then(|| sampled_or_note(command)).flatten();
    let side = |command: &[OsString], runs| CheckedSide {
        name: joined(command),
        runs,
        sampled: sampled(command),
        machine: this_machine(),
    };
    let new = side(&args.command, costs.pop().unwrap_or_default());
    let old = against.as_deref().map(|command| side(command, costs.pop().unwrap_or_default()));
    Ok((old, new))
}

fn sampled_or_note(command: &[OsString]) -> Option<SampledRuns> {
    match sample(command) {
        Ok(sampled) => Some(sampled),
        Err(error) => {
            out::note(&format!("tally check: functions are not compared: {}", crate::in_one_line(&error)));
            None
        }
    }
}

fn save(side: &CheckedSide, path: &Path, command: &[OsString]) -> anyhow::Result<()> {
    let baseline = Baseline {
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        machine: side.machine.clone(),
        runs: side.runs.clone(),
        sampled: side.sampled.clone(),
    };
    write_export(path, baseline.to_text()).with_context(|| format!("can't write {}", path.display()))?;
    let runs = count_of(side.runs.len() as u64, "run", "runs");
    out::note(&format!("tally check: {runs} of {} saved in {}", side.name, path.display()));
    Ok(())
}

fn stored_side(stored: Baseline, path: Option<&Path>) -> CheckedSide {
    let file = path.map_or_else(String::new, |path| format!(" ({})", path.display()));
    CheckedSide {
        name: format!("{}{file}", stored.command.join(" ")),
        runs: stored.runs,
        sampled: stored.sampled,
        machine: stored.machine,
    }
}

fn of_recordings(args: &Args) -> anyhow::Result<CheckOutcome> {
    let (before, after) = sides(&args.files)?;
    let all: Vec<&PathBuf> = before.iter().chain(&after).collect();
    if let Some((_, twice)) = all.iter().enumerate().find(|(at, file)| all[..*at].contains(file)) {
        bail!("{} is given twice: each run needs its own recording", twice.display());
    }
    let name =
        |files: &[PathBuf]| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" ");
    let names = [name(&before), name(&after)];
    let [before, after] = [RecordedSide::load(&before)?, RecordedSide::load(&after)?];
    let [old_event, event] = [&before.sampled.event, &after.sampled.event];
    anyhow::ensure!(old_event == event, "the recordings are of {old_event} and {event}");
    if !before.is_whole || !after.is_whole {
        bail!("not decided: a recording is not whole");
    }
    let event = (!is_time(event)).then(|| event.clone());
    let [old_name, new_name] = names;
    let side = |name: String, side: RecordedSide| CheckedSide {
        name,
        runs: side.runs,
        sampled: Some(side.sampled),
        machine: side.machine,
    };
    compare(side(old_name, before), side(new_name, after), &plan(args, RunOrder::Separate, event))
}

fn plan(args: &Args, order: RunOrder, event: Option<String>) -> CheckPlan {
    let measure = args.measure.map(|cost| match cost {
        DecidingCost::Instructions => CostMeasure::Instructions,
        DecidingCost::Cpu => CostMeasure::Cpu,
        DecidingCost::Wall => CostMeasure::Wall,
    });
    CheckPlan { measure, limit: args.limit, order, event }
}

fn compare(old: CheckedSide, new: CheckedSide, plan: &CheckPlan) -> anyhow::Result<CheckOutcome> {
    let lacks = |_| anyhow::anyhow!("instructions were not counted in all runs: leave out --measure");
    CheckOutcome::of(old, new, plan).map_err(lacks)
}

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    let bytes = FileRule::up_to(MAX_BYTES)
        .read(path)
        .with_context(|| format!("can't read the baseline {}", path.display()))?;
    Baseline::parse(&bytes).with_context(|| format!("{} is not a baseline", path.display()))
}

/// Writes the reports; the exit status.
fn finish(args: &Args, outcome: &CheckOutcome) -> anyhow::Result<ExitCode> {
    let reports: [(&Option<PathBuf>, ReportWriter); 3] =
        [(&args.junit, reports::junit), (&args.sarif, reports::sarif), (&args.markdown, reports::markdown)];
    for (path, report) in reports {
        if let Some(path) = path {
            write_export(path, report(outcome, &source_path))
                .with_context(|| format!("can't write {}", path.display()))?;
        }
    }
    Ok(match outcome.result {
        Some(CheckResult::Grew) => ExitCode::from(GREW),
        Some(CheckResult::WithinLimit | CheckResult::TooNoisy) => ExitCode::SUCCESS,
        None => ExitCode::from(NOT_DECIDED),
    })
}

/// `5%` or `5` as 0.05.
fn parse_limit(text: &str) -> Result<f64, String> {
    percentage(text).map(|percent| percent / 100.0).ok_or_else(|| format!("'{text}' is not a percentage"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_percentages() {
        assert_eq!(parse_limit("5%"), Ok(0.05));
        assert_eq!(parse_limit("2.5 %"), Ok(0.025));
        assert!(parse_limit("-1").is_err() && parse_limit("much").is_err() && parse_limit("inf").is_err());
    }
}
