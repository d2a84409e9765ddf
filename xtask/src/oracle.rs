//! Compares perf and tally over the same files: numbers must be equal, and every difference must have a name.
//!
//! Both are started as a user would start them, and their texts are compared: first for files recorded on other
//! machines, then for fresh recordings of the test programs. `TALLY_ORACLE_SUBJECT` names another program than this
//! build. `perf` itself tests the comparison with two equal answers.

mod advice;
mod annotate;
mod blame;
mod chains;
mod collapse;
mod export;
mod fleet;
mod off_cpu;
mod pt;
mod pt_text;
mod read_stacks;
mod recordings;
mod report;
mod sched;
mod script;
mod stat;
mod stat_forms;
mod viewers;
mod views;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::process::{self, Finished};
use crate::repo::Repo;
use crate::score::{self, Score, skip};
use crate::{fixtures, golden, parallel, readers};

pub use fleet::SCRIPT as ENGINES_SCRIPT;

const LIMIT: Duration = Duration::from_secs(120);

/// How much of the longest comparisons is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Prerequisite of a change: the parts that begin by then.
    Gate(Instant),
    /// All.
    Whole,
}

impl Effort {
    const fn is_whole(self) -> bool {
        matches!(self, Self::Whole)
    }

    fn has_time(self) -> bool {
        match self {
            Self::Gate(until) => Instant::now() < until,
            Self::Whole => true,
        }
    }
}

/// The two programs that answer the same question.
pub struct Pair {
    tally: PathBuf,
    effort: Effort,
    /// Folder of recordings and caches.
    dir: PathBuf,
    /// Folder of the built test programs.
    programs: PathBuf,
}

impl Pair {
    fn run(&self, program: &Path, args: &[&str]) -> Result<Finished> {
        let mut command = Command::new(program);
        command
            .args(args)
            .envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("TERM", "dumb"), ("COLUMNS", "200")])
            .env("XDG_CACHE_HOME", self.dir.join("cache"))
            .env("PERF_BUILDID_DIR", self.dir.join("buildid"))
            .env("PYTHONPATH", readers::python_packages(&Repo::here()))
            .env_remove("DEBUGINFOD_URLS")
            .current_dir(&self.dir);
        process::capture(&mut command, LIMIT)
    }

    /// Runs perf.
    pub fn perf(&self, args: &[&str]) -> Result<Finished> {
        self.run(Path::new("perf"), args)
    }

    /// Runs tally.
    pub fn tally(&self, args: &[&str]) -> Result<Finished> {
        self.run(&self.tally, args)
    }

    /// Whether it is tally that is compared, not perf with itself.
    fn is_tally(&self) -> bool {
        self.tally != Path::new("perf")
    }

    /// Whether tally knows the command.
    fn knows(&self, command: &str) -> bool {
        self.tally == Path::new("perf") || self.tally(&[command, "--help"]).is_ok_and(|run| run.ok())
    }
}

/// A file to compare both over.
pub struct Case {
    /// Name in messages.
    pub name: String,
    /// Path of the file.
    pub file: PathBuf,
    /// Whether its user stacks are snapshots that each program unwinds itself.
    pub snapshots: bool,
    /// Whether another machine recorded it. perf then names its vdso by the running one, tally does not.
    pub foreign: bool,
}

/// One comparison over every file: the command it needs, and its function for one file.
type Comparison = (&'static str, fn(&Pair, &Case) -> Result<Score>);

const COMPARISONS: &[Comparison] = &[
    ("report", report::compare),
    ("script", script::compare),
    ("annotate", annotate::compare),
    ("export", export::compare),
];

/// The parts that compare recordings made for them.
const OF_RECORDINGS: &[&str] = &["report", "script", "annotate", "export", "collapse", "views"];
/// All parts. Any other filter is a part of a recording's name.
const PARTS: &[&str] = &[
    "report", "script", "annotate", "export", "collapse", "views", "advice", "pt", "stat", "sched",
    "off-cpu", "blame", "fleet",
];

/// The score of one part.
struct PartScore {
    name: &'static str,
    score: Score,
    /// Names of the cases that failed, with their scores. Empty for a part that has no cases of its own.
    failed: Vec<(String, Score)>,
}

impl PartScore {
    fn new(name: &'static str, score: Score) -> Self {
        Self { name, score, failed: Vec::new() }
    }
}

/// Compares over every recorded file and fresh recording, or over those whose name (or comparison) contains `filter`.
/// Builds the programs to record first.
pub fn run(repo: &Repo, filter: Option<&str>, effort: Effort) -> Result<Score> {
    let parts = run_parts(repo, filter, effort)?;
    Ok(sum(&parts))
}

/// Compares everything. If up to `forgiven` comparisons fail, their parts are compared once more, with new recordings:
/// a recording may have caught a moment that one of the programs cannot name. Late, only single recordings are.
pub fn run_with_second_try(repo: &Repo, effort: Effort, forgiven: u32) -> Result<Score> {
    let mut parts = run_parts(repo, None, effort)?;
    let first = sum(&parts);
    if first.failed > forgiven {
        return Ok(first);
    }
    for part in parts.iter_mut().filter(|part| part.score.failed > 0) {
        println!("oracle: second try of {}, after {}", part.name, part.score);
        if !part.failed.is_empty() {
            try_cases_again(repo, part, effort)?;
        } else if effort.has_time() {
            part.score = run(repo, Some(part.name), effort)?;
        }
    }
    Ok(sum(&parts))
}

/// Compares only the failed cases of a part, recorded again where they were recorded here.
fn try_cases_again(repo: &Repo, part: &mut PartScore, effort: Effort) -> Result<()> {
    let pair = pair(repo, effort)?;
    let Some(comparison) = COMPARISONS.iter().find(|(name, _)| *name == part.name) else { return Ok(()) };
    for (name, score) in std::mem::take(&mut part.failed) {
        let mut cases = recorded(repo);
        recordings::make(&pair, &mut cases, Some(&name))?;
        cases.retain(|case| case.name == name);
        // Subjects that can't be recorded again have failed.
        if !cases.is_empty() {
            part.score -= score;
            part.score += compare_all(&pair, *comparison, &cases).score;
        }
    }
    Ok(())
}

fn sum(parts: &[PartScore]) -> Score {
    let mut score = Score::default();
    parts.iter().for_each(|part| score += part.score);
    score
}

fn run_parts(repo: &Repo, filter: Option<&str>, effort: Effort) -> Result<Vec<PartScore>> {
    if process::find("perf").is_none() {
        return Ok(vec![PartScore::new("oracle", skip("oracle", "no perf on this machine"))]);
    }
    let built = fixtures::run(repo)?;
    if built.failed > 0 {
        bail!("{} of the programs to record do not build", built.failed);
    }
    let parts = compare(repo, filter, effort)?;
    let score = sum(&parts);
    if score.passed + score.failed == 0 {
        bail!("not one comparison was made{}", filter.map_or(String::new(), |name| format!(" for '{name}'")));
    }
    Ok(parts)
}

fn compare(repo: &Repo, filter: Option<&str>, effort: Effort) -> Result<Vec<PartScore>> {
    let pair = pair(repo, effort)?;
    let is_chosen = |part: &str| filter.is_none_or(|filter| filter == part);
    let name = filter.filter(|filter| !PARTS.contains(filter));
    let mut cases = recorded(repo);
    let mut parts = Vec::new();
    if cases.is_empty() {
        let score = skip("oracle over recorded files", "their folder is not there");
        parts.push(PartScore::new("recorded files", score));
    }
    if name.is_some() || OF_RECORDINGS.iter().any(|part| is_chosen(part)) {
        parts.push(PartScore::new("recordings", recordings::make(&pair, &mut cases, name)?));
        cases.retain(|case| name.is_none_or(|name| case.name.contains(name)));
    }
    for comparison in COMPARISONS.iter().filter(|(command, _)| name.is_some() || is_chosen(command)) {
        parts.push(if effort.has_time() {
            compare_all(&pair, *comparison, &cases)
        } else {
            late(comparison.0)
        });
    }
    for part in PARTS.iter().filter(|part| is_chosen(part)) {
        if !COMPARISONS.iter().any(|(name, _)| name == part) && !effort.has_time() {
            parts.push(late(part));
            continue;
        }
        let begin = Instant::now();
        let score = match *part {
            "collapse" => collapse::compare(&pair, &cases)?,
            "export" if pair.is_tally() => export::compare_waits(&pair)?,
            "pt" if pair.knows("calls") => pt::compare(repo, &pair)?,
            "stat" if pair.knows("stat") => stat_of(&pair)?,
            "sched" => sched::compare(&pair)?,
            "views" if pair.is_tally() => views::compare(repo, &pair, &cases)?,
            "advice" if pair.is_tally() => advice::compare(&pair)?,
            "off-cpu" if pair.is_tally() => off_cpu::compare(&pair)?,
            "blame" if pair.is_tally() => blame::compare(&pair)?,
            "fleet" if pair.is_tally() => fleet::compare(repo, &pair)?,
            _ => continue,
        };
        println!("{part}: {score} ({:.0} s)", begin.elapsed().as_secs_f64());
        parts.push(PartScore::new(part, score));
    }
    Ok(parts)
}

/// The score of a part that is left out.
fn late(part: &'static str) -> PartScore {
    PartScore::new(part, skip(&format!("oracle {part}"), "this machine took too long with the steps before"))
}

/// One comparison over all files, on all CPUs: each reads files only.
fn compare_all(pair: &Pair, (command, compare): Comparison, cases: &[Case]) -> PartScore {
    if !pair.knows(command) {
        return PartScore::new(command, skip(&format!("oracle {command}"), "tally has no such command yet"));
    }
    let begin = Instant::now();
    let scores = parallel::map(cases, |case| {
        compare(pair, case).unwrap_or_else(|error| {
            score::fault(&format!("{command} {}: {error:#}", case.name));
            Score::FAIL
        })
    });
    let mut part = PartScore::new(command, Score::default());
    for (case, score) in cases.iter().zip(scores) {
        part.score += score;
        if score.failed > 0 {
            part.failed.push((case.name.clone(), score));
        }
    }
    println!("{command}: {} ({:.0} s)", part.score, begin.elapsed().as_secs_f64());
    part
}

fn stat_of(pair: &Pair) -> Result<Score> {
    let mut score = stat::compare(pair)?;
    score += stat_forms::compare(pair)?;
    Ok(score)
}

fn pair(repo: &Repo, effort: Effort) -> Result<Pair> {
    let tally = match std::env::var_os("TALLY_ORACLE_SUBJECT") {
        Some(other) => PathBuf::from(other),
        None => golden::tally(repo)?,
    };
    let dir = repo.target().join("oracle");
    std::fs::create_dir_all(&dir)?;
    Ok(Pair { tally, effort, dir, programs: fixtures::dir(repo) })
}

fn recorded(repo: &Repo) -> Vec<Case> {
    let Some(folder) = repo.fixtures() else { return Vec::new() };
    let entries = std::fs::read_dir(folder.join("perfdata")).into_iter().flatten().flatten();
    let mut cases: Vec<Case> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_none_or(|ext| ext != "json" && ext != "txt"))
        .map(|file| Case {
            name: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            file,
            snapshots: false,
            foreign: true,
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

/// The lines that only one side has, with repetition; `-` perf's, `+` tally's, at most `most`.
pub fn differences(perf: &[String], tally: &[String], most: usize) -> (usize, Vec<String>) {
    let mut balance: std::collections::BTreeMap<&str, i64> = std::collections::BTreeMap::new();
    perf.iter().for_each(|line| *balance.entry(line).or_default() -= 1);
    tally.iter().for_each(|line| *balance.entry(line).or_default() += 1);
    let count = balance.values().map(|n| n.unsigned_abs() as usize).sum();
    let order = |sign: i64, lines: &[String]| {
        let mut seen = std::collections::BTreeSet::new();
        let mut shown = Vec::new();
        for line in lines {
            if balance.get(line.as_str()).is_some_and(|n| n.signum() == sign) && seen.insert(line.clone()) {
                shown.push(format!("    {} {line}", if sign < 0 { '-' } else { '+' }));
            }
        }
        shown.truncate(most);
        shown
    };
    let mut shown = order(-1, perf);
    shown.extend(order(1, tally));
    (count, shown)
}

/// Reports a failed comparison, with the first lines that differ.
pub fn differ(what: &str, case: &Case, perf: &[String], tally: &[String]) -> Score {
    let (count, shown) = differences(perf, tally, 6);
    if count == 0 {
        return Score::PASS;
    }
    let sizes = format!("{} of perf, {} of tally", perf.len(), tally.len());
    score::fault(&format!("{what} {}: {count} lines differ ({sizes})", case.name));
    shown.iter().for_each(|line| println!("{line}"));
    Score::FAIL
}
