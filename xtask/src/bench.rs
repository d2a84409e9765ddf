//! Compares perf and tally in one run, and prints ratios.
//!
//! Heavy: it records a file of more than 1 GB into `target/bench` (kept for the next run) and builds `tally` once more
//! with full debug information as the binary with many inlined calls.

mod agent;
mod calls;
mod files;
mod fleet;
mod live;
mod off_cpu;
mod page;
mod perfs;
mod pt;
mod runtimes;
mod tui;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::fixtures;
use crate::process;
use crate::repo::Repo;
use crate::score::{Score, skip};
use crate::usage::{self, Usage};
use perfs::Perf;

const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Time limit of perf; after it the output is "more than".
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Inputs of a bench.
pub struct Bench {
    /// A release build of tally.
    pub tally: PathBuf,
    /// Folder of the recordings.
    pub dir: PathBuf,
    /// Folder of the built test programs.
    pub programs: PathBuf,
    /// The repository's root.
    pub root: PathBuf,
    /// The machine's perf, then a newer one if there is one.
    pub perfs: Vec<Perf>,
}

/// One bench: its name and function.
type Entry = (&'static str, fn(&Bench) -> Result<()>);

const ENTRIES: &[Entry] = &[
    ("start", start),
    ("bytes", live::bytes),
    ("slowdown", live::slowdown),
    ("complete", live::complete),
    ("off-cpu", off_cpu::off_cpu),
    ("report", files::report),
    ("script", files::script),
    ("compiler", files::compiler),
    ("tui", tui::tui),
    ("page", page::page),
    ("inline", files::inline),
    ("annotate", files::annotate),
    ("stat", live::stat),
    ("pt", pt::pt),
    ("runtimes", runtimes::runtimes),
    ("calls", calls::calls),
    ("agent", agent::agent),
    ("fleet", fleet::fleet),
];

/// Runs every comparison, or those whose name contains `filter`. `--setup` makes the newest perf, for all later runs.
pub fn run(repo: &Repo, filter: Option<&str>) -> Result<Score> {
    if filter == Some("--setup") {
        return perfs::setup(repo).map(|()| Score::PASS);
    }
    if process::find("perf").is_none() && filter != Some("page") {
        return Ok(skip("bench", "no perf on this machine"));
    }
    let tally = subject(repo)?;
    fixtures::run(repo)?;
    let dir = repo.target().join("bench");
    std::fs::create_dir_all(&dir)?;
    let bench =
        Bench { tally, dir, programs: fixtures::dir(repo), root: repo.root.clone(), perfs: perfs::all(repo) };
    println!("{}", bench.perfs.iter().map(|perf| perf.name.as_str()).collect::<Vec<_>>().join(", "));
    let mut score = Score::default();
    // A whole name selects that bench alone: "pt" does not select "script".
    let whole = ENTRIES.iter().any(|(name, _)| Some(*name) == filter);
    let chosen = |name: &str| filter.is_none_or(|f| if whole { name == f } else { name.contains(f) });
    for (name, entry) in ENTRIES.iter().filter(|(name, _)| chosen(name)) {
        println!("\n{name}");
        match entry(&bench) {
            Ok(()) => score += Score::PASS,
            Err(error) => {
                println!("  {error:#}");
                score += Score::FAIL;
            }
        }
    }
    Ok(score)
}

/// The release build, or the program that `TALLY_BENCH_SUBJECT` names.
fn subject(repo: &Repo) -> Result<PathBuf> {
    if let Some(other) = std::env::var_os("TALLY_BENCH_SUBJECT") {
        return Ok(PathBuf::from(other));
    }
    let args = ["build", "--quiet", "--release", "-p", "tally", "--bin", "tally"];
    if !process::passed_on(&mut cargo(repo, &args), BUILD_LIMIT)? {
        bail!("tally does not build");
    }
    Ok(repo.target().join("release/tally"))
}

impl Bench {
    /// A command in the bench's folder, without the user's caches.
    pub fn command(&self, program: impl AsRef<Path>, args: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .args(args)
            .current_dir(&self.dir)
            .env("LC_ALL", "C.UTF-8")
            .env("PERF_BUILDID_DIR", self.dir.join("buildid"))
            .env("XDG_CACHE_HOME", self.dir.join("cache"))
            .env_remove("DEBUGINFOD_URLS");
        command
    }

    /// The best of `times` runs.
    pub fn best(&self, times: u32, program: impl AsRef<Path>, args: &[&str]) -> Result<Usage> {
        let mut best: Option<Usage> = None;
        for _ in 0..times {
            let run = usage::measure(&mut self.command(program.as_ref(), args), None, LIMIT)
                .with_context(|| args.join(" "))?;
            if best.is_none_or(|best| run.wall < best.wall) {
                best = Some(run);
            }
            if run.cut {
                break;
            }
        }
        best.context("at least one run")
    }

    /// Runs tally, then every perf, with the same arguments over a file, and prints their costs and ratios.
    pub fn compare(&self, what: &str, args: &[&str], times: u32) -> Result<()> {
        let tally = self.best(times, &self.tally, args)?;
        for perf in &self.perfs {
            tell(&format!("{what}, {}", perf.name), self.best(1, &perf.program, args)?, tally);
        }
        Ok(())
    }

    /// A test program's path as text.
    pub fn program(&self, name: &str) -> Result<String> {
        let path = self.programs.join(name);
        if !path.is_file() {
            bail!("{name} is not built");
        }
        Ok(path.to_string_lossy().into_owned())
    }
}

/// Prints both costs and their ratios.
pub fn tell(what: &str, perf: Usage, tally: Usage) {
    let more = if perf.cut { ">" } else { "" };
    let ratio = perf.wall.as_secs_f64() / tally.wall.as_secs_f64();
    let memory = tally.peak_bytes as f64 / perf.peak_bytes as f64;
    println!("  {what}: perf {more}{}, tally {}", cost(perf), cost(tally));
    println!("    {more}{ratio:.1}x faster, {memory:.3} of the memory");
}

fn cost(run: Usage) -> String {
    let mib = run.peak_bytes as f64 / f64::from(1 << 20);
    format!("{:.3} s ({:.3} s CPU, {mib:.0} MiB)", run.wall.as_secs_f64(), run.cpu.as_secs_f64())
}

fn start(bench: &Bench) -> Result<()> {
    let perf = bench.best(20, "perf", &["--version"])?;
    let tally = bench.best(20, &bench.tally, &["--version"])?;
    println!("  --version: {:.2} ms (goal 2 ms)", tally.wall.as_secs_f64() * 1e3);
    tell("--version", perf, tally);
    for (what, args, goal_ms) in [
        ("record -- true", &["record", "-o", "start.data", "--", "true"][..], 15),
        ("run -- true", &["run", "-o", "start.data", "--", "true"][..], 100),
    ] {
        let tally = bench.best(10, &bench.tally, args)?;
        println!("  {what}: {:.1} ms (goal {goal_ms} ms)", tally.wall.as_secs_f64() * 1e3);
    }
    Ok(())
}
