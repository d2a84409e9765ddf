//! A day of 200 machines, 50 million rows: what they take on disk, and how fast `tally fleet` and other engines answer.
//!
//! The rows are those of recordings of this machine, written by the agent's own writer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{BUILD_LIMIT, Bench};
use crate::oracle::ENGINES_SCRIPT;
use crate::score::skip;
use crate::{leftovers, process, soak, usage};

const HOSTS: &str = "200";
/// `TALLY_BENCH_ROWS` sets another number.
const ROWS: &str = "50000000";
/// Length of each recording, s.
const RECORDED: [&str; 3] = ["2", "3", "5"];
/// Engines that read these files, or take them in.
const ENGINES: [&str; 4] = ["duckdb", "chdb", "clickhouse-server", "spark"];
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The bench.
pub fn fleet(bench: &Bench) -> Result<()> {
    if !process::is_root() {
        let _ = skip("bench fleet", "only root may record the whole machine");
        return Ok(());
    }
    let folder = bench.dir.join("fleet");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let measured = measure(bench, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

fn measure(bench: &Bench, folder: &Path) -> Result<()> {
    write(bench, folder, &record(bench, folder)?)?;
    for question in ["top", "hosts", "locks"] {
        let from = folder.to_string_lossy();
        let used = bench.best(2, &bench.tally, &["fleet", question, "--from", &from])?;
        let (wall, cpu) = (used.wall.as_secs_f64(), used.cpu.as_secs_f64());
        println!(
            "  tally fleet {question}: {wall:.2} s, {cpu:.2} s of CPU time, {} MB",
            used.peak_bytes >> 20
        );
    }
    let python = std::env::var_os("TALLY_PYTHON").map(PathBuf::from).or_else(|| process::find("python3"));
    let Some(python) = python else {
        let _ = skip("bench fleet", "the engines need python3");
        return Ok(());
    };
    let script = bench.dir.join("engines.py");
    std::fs::write(&script, ENGINES_SCRIPT)?;
    ENGINES.iter().try_for_each(|engine| ask(bench, folder, [&python, &script], engine))
}

/// Recordings of this machine while short programs run on it.
fn record(bench: &Bench, folder: &Path) -> Result<Vec<String>> {
    let loads = soak::start_loads();
    let mut files = Vec::new();
    for seconds in RECORDED {
        let file = folder.join(format!("{seconds}.data")).to_string_lossy().into_owned();
        let args = ["record", "-a", "-q", "-N", "-e", "cpu-clock", "-F", "49", "--off-cpu", "-o", &file];
        let mut command = bench.command(&bench.tally, &args);
        usage::measure(command.args(["--", "sleep", seconds]), None, LIMIT)?;
        files.push(file);
    }
    soak::end_loads(loads?);
    leftovers::end_all();
    Ok(files)
}

fn write(bench: &Bench, folder: &Path, recordings: &[String]) -> Result<()> {
    let example = ["build", "--quiet", "--profile", "fast", "-p", "exchange", "--example", "simulated_fleet"];
    let mut build = bench.command("cargo", &example);
    if !process::passed_on(build.current_dir(&bench.root), BUILD_LIMIT)? {
        bail!("the writer does not build");
    }
    let target = bench.dir.parent().context("the bench's folder is in target")?;
    let mut command = bench.command(target.join("fast/examples/simulated_fleet"), &[]);
    let most = std::env::var("TALLY_BENCH_ROWS").unwrap_or_else(|_| ROWS.to_owned());
    let began = Instant::now();
    let run = process::capture(command.arg(folder).arg(HOSTS).arg(most).args(recordings), LIMIT)?;
    let text = run.text();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [rounds, rows, bytes] = *numbers.as_slice() else { bail!("simulated_fleet: {}", run.tail(3)) };
    let seconds = began.elapsed().as_secs_f64();
    println!("  {rows:.0} rows in {rounds:.0} rounds of {HOSTS} hosts, {:.1} bytes a row", bytes / rows);
    println!("  written: {:.2} million rows a second", rows / seconds / 1e6);
    Ok(())
}

/// Prints how long an engine takes for each question, and whether its answers are tally's.
fn ask(bench: &Bench, folder: &Path, [python, script]: [&PathBuf; 2], engine: &str) -> Result<()> {
    let mut command = bench.command(python, &[]);
    command.arg(script).arg(engine).arg(&bench.tally).arg(folder).arg(bench.root.join("docs/fleet"));
    let run = process::capture(command.arg("time"), LIMIT)?;
    let text = run.text();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| ["ok ", "skipped ", "FAILED "].iter().any(|word| line.starts_with(word)))
        .collect();
    lines.iter().for_each(|line| println!("  {line}"));
    if lines.is_empty() || lines.iter().any(|line| line.starts_with("FAILED")) {
        bail!("{engine}: {}", run.tail(2));
    }
    Ok(())
}
