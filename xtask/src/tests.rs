//! Runs the workspace's tests binary by binary, so that a hang ends, skips are counted, and a few failures on a noisy
//! machine get a second try alone.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::cargo::cargo;
use crate::process::{self, Finished};
use crate::repo::Repo;
use crate::score::{self, Score};

const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
const BINARY_LIMIT: Duration = Duration::from_secs(15 * 60);
const ALONE_LIMIT: Duration = Duration::from_secs(3 * 60);
/// Maximum number of failures to retry.
const FORGIVEN: usize = 3;

/// One test program.
struct Binary {
    name: String,
    exe: PathBuf,
    /// The package's folder: where cargo would run it.
    dir: PathBuf,
}

/// A failed test and its program.
struct Failure<'a> {
    binary: &'a Binary,
    test: String,
}

/// Builds and runs every test whose name contains `filter`; ignored ones only `with_ignored`.
pub fn run(repo: &Repo, filter: Option<&str>, with_ignored: bool) -> Result<Score> {
    let binaries = build(repo)?;
    let mut score = Score::default();
    let mut failures = Vec::new();
    for binary in &binaries {
        let run = run_binary(repo, binary, filter, with_ignored)?;
        let (part, failed) = read_results(&run);
        println!("{:<24} {part}  ({:.1} s)", binary.name, run.wall.as_secs_f64());
        score += part;
        if !run.ok() && failed.is_empty() {
            score::fault(&format!("{}: {}\n{}", binary.name, run.how(), run.tail(40)));
            score += Score::FAIL;
        }
        print_failures(&run, &failed);
        failures.extend(failed.into_iter().map(|test| Failure { binary, test }));
    }
    let recovered = try_again(repo, &failures, score.failed);
    score.failed -= recovered;
    score.passed += recovered;
    if filter.is_none() {
        score += doctests(repo)?;
    }
    Ok(score)
}

fn build(repo: &Repo) -> Result<Vec<Binary>> {
    let args = ["test", "--quiet", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let built = process::capture(&mut cargo(repo, &args), BUILD_LIMIT)?;
    if !built.ok() {
        print!("{}", String::from_utf8_lossy(&built.stderr));
        bail!("the tests do not build");
    }
    let mut binaries: Vec<Binary> = built
        .text()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["profile"]["test"] == true)
        .filter_map(|message| {
            let exe = PathBuf::from(message["executable"].as_str()?);
            let dir = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
            let package = dir.file_name()?.to_string_lossy().into_owned();
            let target = message["target"]["name"].as_str()?;
            let name = if target == package { package } else { format!("{package} {target}") };
            Some(Binary { name, exe, dir })
        })
        .collect();
    binaries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(binaries)
}

fn command(repo: &Repo, binary: &Binary) -> Command {
    let mut command = Command::new(&binary.exe);
    command.current_dir(&binary.dir).env("CARGO_MANIFEST_DIR", &binary.dir).env("RUST_BACKTRACE", "1");
    // Tests compare text as it is where the terminal knows UTF-8.
    command.env("LC_ALL", "C.UTF-8");
    if let Some(fixtures) = repo.fixtures() {
        command.env("TALLY_FIXTURES", fixtures);
    }
    command
}

fn run_binary(repo: &Repo, binary: &Binary, filter: Option<&str>, with_ignored: bool) -> Result<Finished> {
    let mut command = command(repo, binary);
    command.arg("--show-output").args(with_ignored.then_some("--include-ignored")).args(filter);
    process::capture(&mut command, BINARY_LIMIT)
}

/// The score of a run and the names of the failed tests.
///
/// A test that printed a line `skipped…` counts as skipped, not as passed.
fn read_results(run: &Finished) -> (Score, Vec<String>) {
    let mut score = Score::default();
    let mut failed = Vec::new();
    let mut said_skip = false;
    for line in run.text().lines() {
        let line = line.trim_start();
        if line.starts_with("---- ") {
            said_skip = false;
        } else if line.starts_with("skipped") && !said_skip {
            println!("  {line}");
            said_skip = true;
            score.skipped += 1;
            score.passed = score.passed.saturating_sub(1);
        } else if let Some(test) = line.strip_prefix("test ") {
            if test.ends_with("... ok") || test.contains("... ok <") {
                score.passed += 1;
            } else if let Some(name) = test.strip_suffix(" ... FAILED") {
                score.failed += 1;
                failed.push(name.trim_end_matches(" - should panic").to_owned());
            } else if test.contains("... ignored") {
                score.skipped += 1;
            }
        }
    }
    (score, failed)
}

/// Prints libtest's captured output of the failed tests.
fn print_failures(run: &Finished, failed: &[String]) {
    let text = run.text();
    for test in failed {
        let head = format!("---- {test} stdout ----");
        let Some(start) = text.rfind(&head) else { continue };
        let body = &text[start..];
        let end = body[1..].find("\n---- ").or_else(|| body.find("\nfailures:\n")).unwrap_or(body.len() - 1);
        score::fault(&body[..=end].lines().take(60).collect::<Vec<_>>().join("\n"));
    }
}

/// Runs a few failures again, each alone; returns the number that passed.
fn try_again(repo: &Repo, failures: &[Failure<'_>], failed: u32) -> u32 {
    let mut recovered = 0;
    if failures.is_empty() || failures.len() > FORGIVEN || failed as usize != failures.len() {
        return 0;
    }
    for failure in failures {
        println!("second try, alone: {} {}", failure.binary.name, failure.test);
        let mut command = command(repo, failure.binary);
        command.args(["--include-ignored", "--exact", &failure.test]);
        match process::capture(&mut command, ALONE_LIMIT) {
            Ok(run) if run.ok() => {
                println!("passed at the second try: {} (noise, or an unreliable test)", failure.test);
                recovered += 1;
            }
            _ => println!("failed again: {}", failure.test),
        }
    }
    recovered
}

fn doctests(repo: &Repo) -> Result<Score> {
    let run = process::capture(&mut cargo(repo, &["test", "--quiet", "--workspace", "--doc"]), BUILD_LIMIT)?;
    if !run.ok() {
        println!("{}", run.tail(60));
    }
    Ok(Score::of(run.ok()))
}
