//! Counts the instructions of the hottest paths, so that a slow-down is seen without a quiet machine.
//!
//! valgrind counts; the counts that `--update` stored are in [`STORED`]. They belong to one compiler and architecture:
//! with another, nothing is compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::golden;
use crate::process;
use crate::repo::Repo;
use crate::score::{self, Score, skip};

const STORED: &str = "tests/instructions.txt";
/// Time limit of one count; valgrind is some fifty times slower than the machine.
const LIMIT: Duration = Duration::from_secs(120);
/// Share by which a count may grow. Tables of random seeds and addresses move it by less than 1 %.
const TOLERANCE_PERCENT: u64 = 5;

/// A path and its command line, in the folder of the committed recordings.
const PATHS: [(&str, &[&str]); 11] = [
    // In all others, too: where all grow alike, this has the reason.
    ("start", &["--version"]),
    ("report-chains", &["report", "--stdio", "-i", "chains.data"]),
    ("report-callers", &["report", "--stdio", "--no-children", "-g", "caller", "-i", "events.data"]),
    ("report-switches", &["report", "--stdio", "-i", "switches.data"]),
    ("report-stats", &["report", "--stdio", "--stats", "-i", "events.data"]),
    ("script-events", &["script", "-i", "events.data"]),
    ("script-chains", &["script", "-i", "chains.data"]),
    ("flame", &["flame", "-i", "chains.data", "-o", "/dev/null"]),
    ("diff", &["diff", "events.data", "chains.data"]),
    ("why", &["why", "-i", "switches.data"]),
    ("annotate", &["annotate", "--stdio", "-i", "chains.data"]),
];

/// Counts and compares, or stores the counts.
pub fn run(repo: &Repo, args: &[String]) -> Result<Score> {
    if process::find("valgrind").is_none() {
        return Ok(skip("instructions", "no valgrind on this machine"));
    }
    let is_update = args.iter().any(|arg| arg == "--update");
    let build = build_of()?;
    let stored = read_stored(&repo.root.join(STORED))?;
    if !is_update && stored.get("build").map(String::as_str) != Some(build.as_str()) {
        return Ok(skip("instructions", &format!("the stored counts are of another build than {build}")));
    }
    let tally = golden::fast_tally(repo)?;
    let mut counts = vec![("build".to_owned(), build)];
    let mut score = Score::default();
    for (name, args) in PATHS {
        let count = count(repo, &tally, args).with_context(|| name.to_owned())?;
        if !is_update {
            score += compare(name, count, stored.get(name).and_then(|text| text.parse().ok()));
        }
        counts.push((name.to_owned(), count.to_string()));
    }
    if is_update {
        let text: String = counts.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        std::fs::write(repo.root.join(STORED), text)?;
        score += Score::PASS;
    }
    Ok(score)
}

/// The architecture and the compiler's version.
fn build_of() -> Result<String> {
    let run = process::capture(Command::new("rustc").arg("--version"), Duration::from_secs(30))?;
    let text = run.text();
    let version = text.split_whitespace().nth(1).context("rustc has a version")?;
    Ok(format!("{}-rustc-{version}", std::env::consts::ARCH))
}

/// Lines of a name and a value each; none if the file is missing.
fn read_stored(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let pair = |line: &str| line.split_once(' ').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(text.lines().filter_map(pair).collect())
}

/// Instructions of one run, on one thread and without caches of the user's.
fn count(repo: &Repo, tally: &Path, args: &[&str]) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(tally)
        .args(args)
        .current_dir(repo.root.join("tests/recordings"))
        .env("RAYON_NUM_THREADS", "1")
        .env("LC_ALL", "C.UTF-8")
        .env("XDG_CACHE_HOME", repo.target().join("instructions"))
        .env("PERF_BUILDID_DIR", repo.target().join("instructions"));
    let run = process::capture(&mut command, LIMIT)?;
    if !run.ok() {
        bail!("valgrind: {}\n{}", run.how(), run.tail(5));
    }
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    parse_count(&text).context("valgrind counts no instructions")
}

/// The number in `==123== I   refs:      8,756,301`, or of valgrind 3.21 and later, `I refs:`.
fn parse_count(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("refs:") && line.contains("== I"))?;
    let digits: String = line.rsplit(':').next()?.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn compare(name: &str, count: u64, stored: Option<u64>) -> Score {
    let Some(stored) = stored else {
        score::fault(&format!("instructions: {name} has no stored count; --update stores it"));
        return Score::FAIL;
    };
    let change = (count as f64 / stored as f64 - 1.0) * 100.0;
    println!("{name:<16} {count:>12} instructions, {change:+.1} %");
    if is_more(count, stored) {
        score::fault(&format!("instructions: {name} takes {count}, stored {stored} ({change:+.1} %)"));
        return Score::FAIL;
    }
    if is_more(stored, count) {
        println!("  less by more than {TOLERANCE_PERCENT} %: cargo xtask instructions --update keeps it so");
    }
    Score::PASS
}

fn is_more(count: u64, than: u64) -> bool {
    count * 100 > than * (100 + TOLERANCE_PERCENT)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn counts_are_read_as_both_valgrinds_print_them() {
        assert_eq!(parse_count("==1== x\n==1== I   refs:      8,756,301\n"), Some(8_756_301));
        assert_eq!(parse_count("==1== I refs:        12,301\n"), Some(12_301));
        assert_eq!(parse_count("==1== D refs: 5\n"), None);
    }

    #[test]
    fn only_more_than_the_tolerance_fails() {
        assert_eq!(compare("a", 105, Some(100)), Score::PASS);
        assert_eq!(compare("a", 106, Some(100)), Score::FAIL);
        assert_eq!(compare("a", 50, Some(100)), Score::PASS);
        assert_eq!(compare("a", 50, None), Score::FAIL);
    }
}
