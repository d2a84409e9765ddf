//! Fuzzing: a few seconds of every target in the gate, and long runs that grow the corpus.

mod campaign;
mod driver;
mod findings;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use driver::{Driver, Outcome, Slice};

use crate::parallel;
use crate::repo::Repo;
use crate::score::{self, Score, skip};

/// Runs `[SECONDS]` or `--hours N [TARGET...]`.
pub fn run_args(repo: &Repo, args: &[String]) -> Result<Score> {
    match args {
        [] => run(repo, 3),
        [flag, hours, targets @ ..] if flag == "--hours" => {
            let hours: f64 = hours.parse().with_context(|| format!("not a number of hours: {hours}"))?;
            let duration = Duration::try_from_secs_f64(hours * 3600.0).context("not a time to run for")?;
            campaign::run(repo, duration, targets)
        }
        [seconds] => run(repo, seconds.parse().with_context(|| format!("no number of seconds: {seconds}"))?),
        _ => bail!("cargo xtask fuzz [SECONDS] | --hours N [TARGET...]"),
    }
}

/// Runs every target for `seconds`, one process on each CPU.
pub fn run(repo: &Repo, seconds: u64) -> Result<Score> {
    let driver = Driver::build(repo)?;
    let targets = driver.targets()?;
    if targets.is_empty() {
        return Ok(skip("fuzz", "no target"));
    }
    let outcomes = parallel::map_by_worker(&targets, |worker, target| -> Result<Score> {
        let keep = repo.target().join(format!("fuzz/{worker}"));
        let outcome = driver.run(&Slice { target, seconds, keep: &keep, seed: 1 })?;
        print_outcome(target, &outcome, &keep);
        Ok(Score::of(outcome.fault.is_none() && outcome.inputs > 0))
    });
    let mut score = Score::default();
    for outcome in outcomes {
        score += outcome?;
    }
    Ok(score)
}

fn print_outcome(target: &str, outcome: &Outcome, keep: &Path) {
    let Outcome { inputs, seeds, fault, .. } = outcome;
    println!(
        "{target:<32} {inputs:>8} inputs from {seeds} seeds{}",
        if *inputs == 0 { ": FAILED" } else { "" }
    );
    if let Some(why) = fault {
        let lines: Vec<&str> = why.lines().take(40).collect();
        score::fault(&format!("{target}: {}", lines.join("\n")));
        let input = keep.join(format!("{target}.input"));
        println!("{target}: run it again: target/debug/fuzz-smoke {target} --input {}", input.display());
    }
}
