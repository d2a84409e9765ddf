//! Runs the golden cases: each folder of `tests/golden` is a command and its expected output.
//!
//! `cmd` is a shell script, run in the case's folder with this build of `tally` first in PATH. `stdout` must match to
//! the byte; `stderr` and `exit` too where the case has them. Without `exit` the command must end with 0.
//! Full-screen views are walked by `tests/golden/tmux-walk.sh`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cargo::cargo;
use crate::parallel;
use crate::process::{self, Finished};
use crate::repo::Repo;
use crate::score::{self, Score, skip};

const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Time limit of a case. On busy machines full-screen views wait up to a minute for each screen.
const CASE_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Maximum number of failures to retry: screens and live recordings fail on a busy machine.
const FORGIVEN: usize = 2;
/// A case that takes longer is reported.
const SLOW: Duration = Duration::from_secs(15);

/// Checks every case, or rewrites the expected output (`--update`). Names select the cases that contain one of them.
pub fn run(repo: &Repo, args: &[String]) -> Result<Score> {
    let update = args.iter().any(|arg| arg == "--update");
    let (flags, names): (Vec<&str>, Vec<&str>) =
        args.iter().map(String::as_str).partition(|arg| arg.starts_with("--"));
    if let Some(flag) = flags.iter().find(|&&flag| flag != "--update") {
        bail!("unknown flag {flag}: cargo xtask golden [--update] [CASE ...]");
    }
    let cases = selected(cases(&repo.root.join("tests/golden")), &names)?;
    if cases.is_empty() {
        return Ok(skip("golden", "no case"));
    }
    let tally = tally(repo)?;
    if crate::fixtures::run(repo)?.failed > 0 {
        bail!("the test programs do not build");
    }
    let mut score = Score::default();
    let mut failed = Vec::new();
    for (case, part) in cases.iter().zip(parallel::map(&cases, |case| check(repo, &tally, case, update))) {
        let part = part?;
        failed.extend((part.failed > 0).then_some(case));
        score += part;
    }
    if failed.len() <= FORGIVEN {
        for case in failed {
            println!("second try: {}", name_of(case));
            let again = check(repo, &tally, case, update)?;
            score.failed -= again.passed;
            score.passed += again.passed;
        }
    }
    println!("{} cases: {score}", cases.len());
    Ok(score)
}

/// Builds this repository's `tally` as `cargo build` does. Returns its path.
pub fn tally(repo: &Repo) -> Result<PathBuf> {
    build_tally(repo, "dev")
}

/// The same, built for speed. Returns its path.
pub fn fast_tally(repo: &Repo) -> Result<PathBuf> {
    build_tally(repo, "fast")
}

fn build_tally(repo: &Repo, profile: &str) -> Result<PathBuf> {
    let args = ["build", "--quiet", "-p", "tally", "--bin", "tally", "--profile", profile];
    if !process::passed_on(&mut cargo(repo, &args), BUILD_LIMIT)? {
        bail!("tally does not build");
    }
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(repo.target().join(folder).join("tally"))
}

/// The cases that contain one of `names`, all without names.
///
/// # Errors
/// If a name selects no case.
fn selected(cases: Vec<PathBuf>, names: &[&str]) -> Result<Vec<PathBuf>> {
    if let Some(name) = names.iter().find(|name| !cases.iter().any(|case| name_of(case).contains(**name))) {
        bail!("no golden case has {name} in its name");
    }
    let is_selected =
        |case: &PathBuf| names.is_empty() || names.iter().any(|name| name_of(case).contains(name));
    Ok(cases.into_iter().filter(is_selected).collect())
}

fn cases(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut cases: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join("cmd").is_file()).collect();
    cases.sort();
    cases
}

fn name_of(case: &Path) -> String {
    case.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn check(repo: &Repo, tally: &Path, case: &Path, update: bool) -> Result<Score> {
    let name = name_of(case);
    let line = std::fs::read_to_string(case.join("cmd"))?;
    let fixtures = repo.fixtures();
    if line.contains("TALLY_FIXTURES") && fixtures.is_none() {
        return Ok(skip(&name, "the folder of recorded files is not there"));
    }
    let programs = crate::fixtures::dir(repo);
    if line.contains("TALLY_PROGRAMS") && !programs.is_dir() {
        return Ok(skip(&name, "the test programs are not built (`cargo xtask fixtures`)"));
    }
    if line.contains("tmux") && process::find("tmux").is_none() {
        return Ok(skip(&name, "no tmux on this machine"));
    }
    let cache = repo.target().join("golden-cache");
    let mut command = Command::new("sh");
    command
        .args(["-c", line.trim_end()])
        .current_dir(case)
        .env("PATH", path_with(tally))
        .env("TALLY_FIXTURES", fixtures.unwrap_or_default())
        // Settings of whoever runs the cases change no output.
        .env("PERF_CONFIG", "/dev/null")
        .env("TALLY_PROGRAMS", programs)
        .env("XDG_CACHE_HOME", cache)
        .envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("TERM", "dumb"), ("COLUMNS", "80"), ("LINES", "24")])
        .env_remove("NO_COLOR")
        .env_remove("RUST_BACKTRACE")
        .env_remove("DEBUGINFOD_URLS");
    let run = process::capture(&mut command, CASE_LIMIT)?;
    if run.wall > SLOW {
        println!("{name}: took {:.0} s", run.wall.as_secs_f64());
    }
    if update {
        return write(case, &run).map(|()| Score::PASS);
    }
    let faults = faults(case, &run);
    for fault in &faults {
        score::fault(&format!("{name}: {fault}"));
    }
    if !faults.is_empty() {
        println!("{name}: to accept the new output: cargo xtask golden --update {name}");
    }
    Ok(Score::of(faults.is_empty()))
}

fn path_with(tally: &Path) -> std::ffi::OsString {
    let mut dirs = vec![tally.parent().unwrap_or(Path::new("")).to_owned()];
    dirs.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    std::env::join_paths(dirs).unwrap_or_default()
}

fn exit_of(run: &Finished) -> String {
    format!("{}\n", run.status.code().unwrap_or(-1))
}

fn write(case: &Path, run: &Finished) -> Result<()> {
    std::fs::write(case.join("stdout"), &run.stdout)?;
    if case.join("stderr").is_file() {
        std::fs::write(case.join("stderr"), &run.stderr)?;
    }
    if case.join("exit").is_file() || !run.status.success() {
        std::fs::write(case.join("exit"), exit_of(run))?;
    }
    println!("wrote {}", case.display());
    Ok(())
}

fn faults(case: &Path, run: &Finished) -> Vec<String> {
    let mut faults = Vec::new();
    if run.timed_out {
        faults.push("ran out of time".to_owned());
    }
    let exit = std::fs::read_to_string(case.join("exit")).unwrap_or_else(|_| "0\n".to_owned());
    if exit.trim() != exit_of(run).trim() {
        faults.push(format!("exit code {} instead of {}\n{}", exit_of(run).trim(), exit.trim(), run.tail(5)));
    }
    match std::fs::read(case.join("stdout")) {
        Ok(expected) => faults.extend(difference("stdout", &expected, &run.stdout)),
        Err(_) => faults.push("has no file `stdout`".to_owned()),
    }
    if let Ok(expected) = std::fs::read(case.join("stderr")) {
        faults.extend(difference("stderr", &expected, &run.stderr));
    }
    faults
}

/// The first lines that differ, with their number.
fn difference(what: &str, expected: &[u8], got: &[u8]) -> Option<String> {
    if expected == got {
        return None;
    }
    let (expected, got) = (String::from_utf8_lossy(expected), String::from_utf8_lossy(got));
    let (mut left, mut right) = (expected.lines(), got.lines());
    for number in 1.. {
        match (left.next(), right.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => {
                let (a, b) = (a.unwrap_or("(end)"), b.unwrap_or("(end)"));
                return Some(format!("{what} differs in line {number}\n  expected {a}\n  got      {b}"));
            }
        }
    }
    Some(format!("{what} differs in line ends"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_names_select_the_cases_of_each_and_an_unknown_name_is_refused() {
        let cases = || ["calls", "report-callers", "stat"].map(PathBuf::from).to_vec();
        let named = |names: &[&str]| selected(cases(), names).map(|found| found.len());
        assert_eq!(named(&["stat", "report"]).expect("both exist"), 2);
        assert_eq!(named(&["call"]).expect("two contain it"), 2);
        assert_eq!(named(&[]).expect("all"), 3);
        assert!(named(&["stat", "sta-t"]).is_err());
    }
}
