//! Runs the workspace's tests by tiers, binary by binary, so that a hang ends and skips are counted.
//!
//! A test without `#[ignore]` is of the default tier: it gives the same result on every machine. The reason of an ignored
//! test begins with its tier: `live: …` records on this machine, `machine: …` changes it, `heavy: …` takes long.
//! Only live tests, which other programs may disturb, get a second try alone.

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

/// Which tests to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Those that plain `cargo test` runs.
    Default,
    /// Those that record on this machine.
    Live,
    /// Those that take CPUs offline, make cgroups or start thousands of threads.
    Machine,
    /// Those that take long.
    Heavy,
}

impl Tier {
    const NAMES: [(&'static str, Self); 4] = [
        ("default", Self::Default),
        ("live", Self::Live),
        ("machine", Self::Machine),
        ("heavy", Self::Heavy),
    ];

    /// Tiers that every change must pass.
    pub const GATE: &'static [Self] = &[Self::Default, Self::Live];
    /// All tiers.
    pub const ALL: &'static [Self] = &[Self::Default, Self::Live, Self::Machine, Self::Heavy];

    /// The tier that the reason of an ignored test names.
    fn of_reason(reason: &str) -> Option<Self> {
        let (word, _) = reason.split_once(':')?;
        Self::NAMES.iter().find(|(name, _)| *name == word).map(|(_, tier)| *tier)
    }
}

/// `cargo xtask test [default|live|machine|heavy] [FILTER]`; without a tier default and live.
pub fn run_args(repo: &Repo, args: &[String]) -> Result<Score> {
    let named = args.first().and_then(|word| Tier::NAMES.iter().find(|(name, _)| name == word));
    match (named, args) {
        (Some((_, tier)), [_, rest @ ..]) if rest.len() < 2 => {
            run(repo, rest.first().map(String::as_str), &[*tier])
        }
        (None, [] | [_]) => run(repo, args.first().map(String::as_str), Tier::GATE),
        _ => bail!("cargo xtask test [default|live|machine|heavy] [FILTER]"),
    }
}

/// Builds the tests, and runs those of the tiers whose names contain `filter`.
pub fn run(repo: &Repo, filter: Option<&str>, tiers: &[Tier]) -> Result<Score> {
    let binaries = build(repo)?;
    let mut score = Score::default();
    let mut ignored = Vec::new();
    for binary in &binaries {
        let names = ignored_tests(repo, binary, filter)?;
        if tiers.contains(&Tier::Default) {
            let (part, _) = run_binary(repo, binary, filter.into_iter().collect())?;
            score += part;
        }
        let skipped = names.iter().filter(|test| !tiers.contains(&test.tier)).count();
        score.skipped += u32::try_from(skipped).unwrap_or(u32::MAX);
        ignored
            .extend(names.into_iter().filter(|test| tiers.contains(&test.tier)).map(|test| (binary, test)));
    }
    if filter.is_none() && tiers.contains(&Tier::Default) {
        score += doctests(repo)?;
    }
    for tier in tiers.iter().filter(|tier| **tier != Tier::Default) {
        let of_tier: Vec<_> = ignored.iter().filter(|(_, test)| test.tier == *tier).collect();
        score += run_ignored(repo, *tier, &binaries, &of_tier)?;
    }
    Ok(score)
}

/// An ignored test.
struct Ignored {
    name: String,
    tier: Tier,
}

/// The ignored tests of a program, by what it prints about them. A test whose reason names no tier is an error.
fn ignored_tests(repo: &Repo, binary: &Binary, filter: Option<&str>) -> Result<Vec<Ignored>> {
    let list = |args: &[&str]| {
        let mut command = command(repo, binary);
        process::capture(command.args(args).args(filter), ALONE_LIMIT)
    };
    let names = list(&["--list", "--ignored", "--format", "terse"])?.text();
    let names: Vec<&str> = names.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // Only a run prints the reasons; this one leaves out all other tests.
    let mut command = command(repo, binary);
    let run = process::capture(command.arg("--exact").args(&names), ALONE_LIMIT)?;
    let found: Vec<Ignored> = run.text().lines().filter_map(ignored_test).collect();
    if found.len() != names.len() {
        bail!("{}: an ignored test has no reason that begins with its tier", binary.name);
    }
    Ok(found)
}

/// `test NAME ... ignored, TIER: WHY`.
fn ignored_test(line: &str) -> Option<Ignored> {
    let (name, reason) = line.strip_prefix("test ")?.split_once(" ... ignored, ")?;
    Some(Ignored { name: name.trim_end().to_owned(), tier: Tier::of_reason(reason)? })
}

/// Runs ignored tests of one tier. A few failed live tests get a second try, each alone.
fn run_ignored(repo: &Repo, tier: Tier, binaries: &[Binary], tests: &[&(&Binary, Ignored)]) -> Result<Score> {
    println!("tier {tier:?}: {} tests", tests.len());
    let mut score = Score::default();
    let mut failures = Vec::new();
    for binary in binaries {
        let of_binary = tests.iter().filter(|(other, _)| std::ptr::eq(*other, binary));
        let names: Vec<&str> = of_binary.map(|(_, test)| test.name.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        let (part, failed) = run_binary(repo, binary, [&["--ignored", "--exact"][..], &names].concat())?;
        score += part;
        failures.extend(failed.into_iter().map(|test| Failure { binary, test }));
    }
    let recovered = if tier == Tier::Live { try_again(repo, &failures, score.failed) } else { 0 };
    score.failed -= recovered;
    score.passed += recovered;
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
            // The program's manifest is the workspace's.
            let package = if dir == repo.root { "cli".into() } else { dir.file_name()?.to_string_lossy() };
            let package = package.into_owned();
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

/// Runs a test program; returns its score and the names of the failed tests.
fn run_binary(repo: &Repo, binary: &Binary, args: Vec<&str>) -> Result<(Score, Vec<String>)> {
    let mut command = command(repo, binary);
    let run = process::capture(command.arg("--show-output").args(args), BINARY_LIMIT)?;
    let (mut score, failed) = read_results(&run);
    println!("{:<24} {score}  ({:.1} s)", binary.name, run.wall.as_secs_f64());
    if !run.ok() && failed.is_empty() {
        score::fault(&format!("{}: {}\n{}", binary.name, run.how(), run.tail(40)));
        score += Score::FAIL;
    }
    print_failures(&run, &failed);
    Ok((score, failed))
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
    let run = process::capture(
        &mut cargo(repo, &["test", "--quiet", "--workspace", "--doc", "--no-fail-fast"]),
        BUILD_LIMIT,
    )?;
    if !run.ok() {
        println!("{}", run.tail(60));
    }
    Ok(Score::of(run.ok()))
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn the_tier_of_an_ignored_test_is_in_its_reason() {
        let tier = |line: &str| ignored_test(line).map(|test| (test.name, test.tier));
        assert_eq!(tier("test a::b ... ignored, live: records"), Some(("a::b".to_owned(), Tier::Live)));
        assert_eq!(tier("test c ... ignored, machine: a CPU"), Some(("c".to_owned(), Tier::Machine)));
        assert_eq!(tier("test c ... ignored, some day"), None);
        assert_eq!(tier("test c ... ok"), None);
    }
}
