//! Commands that are scripts: what is recorded is the program that they become.
//!
//! `python3` of a version switcher is a shell script that runs others before it becomes Python. So the command is
//! watched from exec to exec, and recorded from the first on in which a function is selected.

use anyhow::{Context, bail};
use dso::FileRule;
use record::calls::Exits;
use record::stop_signals::{RunningCommand, SignalRole, StopSignals};
use record::sys::Child;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::probe_selection::selection;
use super::record_spec::RecordSpec;
use calls::probing::ProbePlan;
use calls::probing::searched_files::searched_files;

/// Passed over unless -P means a function of theirs.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "zsh", "busybox", "env"];

/// The functions to probe, and which of their ends.
pub struct ChosenProbes {
    /// The functions.
    pub plan: ProbePlan,
    /// How their ends are seen.
    pub exits: Exits,
}

/// A command that is before its first instruction.
pub struct FollowedScript {
    /// To be asked for signals: made before the fork, which undoes their mask.
    pub signals: StopSignals,
    /// The command.
    pub child: Child,
}

/// Whether the file begins with `#!`.
#[must_use]
pub fn is_one(program: &Path) -> bool {
    let mut start = [0; 2];
    let opened = FileRule::up_to(u64::MAX).open(program);
    opened.is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == *b"#!"
}

/// Starts the command and waits until it is a program with a function that is selected.
///
/// # Errors
/// If it ends before that, with the programs that it was.
pub fn follow(args: &RecordSpec) -> anyhow::Result<(FollowedScript, PathBuf, ChosenProbes)> {
    let shown = args.command[0].display();
    const PAUSE: Duration = Duration::from_millis(20);
    let mut signals = StopSignals::new(&[]).context("can't wait for signals")?;
    let mut child = Child::fork(&args.command, signals.reader()).context("can't fork")?;
    let (mut found, mut were, mut why) = (None, Vec::new(), None);
    let mut becomes = |pid: u32| {
        let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return false };
        match chosen(args, &program) {
            Ok(chosen) => found = Some((program.clone(), chosen)),
            Err(error) => why = Some(error),
        }
        were.push(program.display().to_string());
        found.is_some()
    };
    let mut meanwhile = |pid: u32| {
        signals.wait(PAUSE)?;
        signals.take(Some(RunningCommand { pid, role: SignalRole::Recorded })).map(drop)
    };
    let ended = child.exec_until(&mut becomes, &mut meanwhile);
    ended.with_context(|| format!("can't follow {shown}"))?;
    if let Some((program, chosen)) = found {
        return Ok((FollowedScript { signals, child }, program, chosen));
    }
    let why = why.map_or_else(String::new, |error| format!(": {error:#}"));
    bail!(
        "{shown} is a script; it ran as {} to its end and nothing was recorded{why}. What it starts as a process of its \
         own is recorded under its own name",
        were.join(", then ")
    )
}

/// The selected functions of what the script is now.
fn chosen(args: &RecordSpec, program: &Path) -> anyhow::Result<ChosenProbes> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if args.patch.is_empty() && SHELLS.contains(&&*name) {
        bail!("{name} is passed over without -P");
    }
    let selection = selection(args, Some(program))?;
    let chosen = ProbePlan::from(&searched_files(&args.probes.pid, Some(program), &selection)?, &selection)?;
    // The program comes first among the files. A library's functions are selected in what the script is to become.
    if SHELLS.contains(&&*name) && !chosen.functions.iter().any(|function| function.object == 0) {
        bail!("{name} has no function that matches");
    }
    Ok(ChosenProbes { plan: chosen, exits: selection.exits })
}
