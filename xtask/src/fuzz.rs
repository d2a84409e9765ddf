//! A few seconds of every fuzz target on this compiler, one process each, bounded in memory and time.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cargo::cargo;
use crate::process;
use crate::repo::Repo;
use crate::score::{Score, skip};

const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Address space of a target: a length field that is believed shows here.
const MEMORY_KIB: u64 = 3 << 20;

/// Runs every target for `seconds`.
pub fn run(repo: &Repo, seconds: u64) -> Result<Score> {
    let build = ["build", "--quiet", "-p", "fuzz", "--bin", "fuzz-smoke"];
    if !process::passed_on(&mut cargo(repo, &build), BUILD_LIMIT)? {
        bail!("the fuzz targets do not build");
    }
    let smoke = repo.target().join("debug/fuzz-smoke");
    let listed = process::capture(Command::new(&smoke).arg("--list"), Duration::from_secs(10))?;
    let names = listed.text();
    if names.trim().is_empty() {
        return Ok(skip("fuzz", "no target"));
    }
    let mut score = Score::default();
    for name in names.lines() {
        score += one(repo, &smoke, name, seconds)?;
    }
    Ok(score)
}

fn one(repo: &Repo, smoke: &std::path::Path, name: &str, seconds: u64) -> Result<Score> {
    let kept = repo.target().join("fuzz");
    std::fs::create_dir_all(&kept)?;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB}; ulimit -c 0; exec \"$0\" \"$@\"")]);
    command.arg(smoke).args([name, &seconds.to_string()]).arg(&kept);
    command.args(repo.fixtures()).current_dir(&repo.root);
    let run = process::capture(&mut command, Duration::from_secs(seconds + 60))?;
    let last = run.text().lines().last().unwrap_or_default().to_owned();
    println!("{name:<28} {last}");
    if !run.ok() {
        println!("{name}: {}\n{}", run.how(), run.tail(20));
        println!(
            "{name}: the input is in target/fuzz; run again: target/debug/fuzz-smoke {name} --input FILE"
        );
    }
    Ok(Score::of(run.ok()))
}
