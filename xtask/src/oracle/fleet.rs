//! `fleet`: engines of SQL answer the questions of docs/fleet with the numbers of `tally fleet`, to the nanosecond.
//!
//! Machines are simulated; their rows are written as an agent writes them. `TALLY_PYTHON` names a Python that has the
//! engines: `pip install duckdb chdb pyspark pyarrow`. The fourth is Debian's clickhouse-server, asked over HTTP.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Pair;
use crate::process;
use crate::repo::Repo;
use crate::score::{self, Score, skip};

/// Asks one engine; with `time` at the end it is timed.
pub const SCRIPT: &str = include_str!("fleet/engines.py");
const ENGINES: &[&str] = &["duckdb", "chdb", "clickhouse-server", "spark"];
/// Programs that the simulated machines run, one after the other.
const PROGRAMS: &[&str] = &["convoy", "pool", "requests"];
/// Name that the last one gets: its marks separate the parts of folded stacks.
const ODD_NAME: &str = "re que;sts";
const HOSTS: usize = 7;
const ROUNDS: usize = 3;

/// Spark alone takes a minute to begin.
const LIMIT: Duration = Duration::from_secs(400);

/// Asks each engine that is on this machine.
pub fn compare(repo: &Repo, pair: &Pair) -> Result<Score> {
    let python = std::env::var_os("TALLY_PYTHON").map(PathBuf::from).or_else(|| process::find("python3"));
    let Some(python) = python else { return Ok(skip("fleet", "no python3 on this machine")) };
    let folder = pair.dir.join("fleet");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    if !write_fleet(pair, &folder)? {
        return Ok(skip("fleet", "time off the CPU can't be recorded here"));
    }
    let script = pair.dir.join("engines.py");
    fs::write(&script, SCRIPT)?;
    let mut score = Score::default();
    for engine in ENGINES {
        let mut command = Command::new(&python);
        command.arg(&script).arg(engine).arg(&pair.tally).arg(&folder).arg(repo.root.join("docs/fleet"));
        score += of_lines(engine, &process::capture(&mut command, LIMIT)?);
    }
    println!("fleet: {score}");
    Ok(score)
}

/// False if nothing can be recorded.
fn write_fleet(pair: &Pair, folder: &Path) -> Result<bool> {
    let mut files = Vec::new();
    for name in PROGRAMS {
        let file = pair.dir.join(format!("fleet-{name}.data")).to_string_lossy().into_owned();
        let mut program = pair.programs.join(name);
        if Some(name) == PROGRAMS.last() {
            let odd = pair.dir.join(ODD_NAME);
            fs::copy(&program, &odd)?;
            program = odd;
        }
        let program = program.to_string_lossy().into_owned();
        let record = ["record", "-q", "-F", "499", "--off-cpu", "-o", &file, "--", &program];
        if !pair.tally(&record)?.ok() {
            return Ok(false);
        }
        files.push(file);
    }
    let folder = folder.to_string_lossy().into_owned();
    for host in 0..HOSTS {
        for round in 0..ROUNDS {
            // Blanks and slashes are in names, too.
            let name = format!("web {host}/a");
            let at = format!("2026-11-{:02}T03:{round:02}", 26 + host % 2);
            let file = &files[(host + round) % files.len()];
            let added =
                pair.tally(&["fleet", "add", "-i", file, "--to", &folder, "--host", &name, "--at", &at])?;
            if !added.ok() {
                bail!("tally fleet add: {}", String::from_utf8_lossy(&added.stderr));
            }
        }
    }
    Ok(true)
}

/// The lines that the script printed for one engine.
fn of_lines(engine: &str, run: &process::Finished) -> Score {
    let mut score = Score::default();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    for line in text.lines() {
        score += match line.split(' ').next() {
            Some("ok") => Score::PASS,
            Some("skipped") => skip(&format!("fleet {engine}"), line),
            Some("FAILED") => {
                score::fault(&format!("fleet {line}"));
                Score::FAIL
            }
            // Engines print notes of their own.
            _ => continue,
        };
    }
    if score.passed + score.failed + score.skipped == 0 {
        let errors = String::from_utf8_lossy(&run.stderr).into_owned();
        score::fault(&format!("fleet {engine}: no answer: {}", errors.lines().last().unwrap_or_default()));
        return Score::FAIL;
    }
    score
}
