//! Viewers that read tally's exports themselves: speedscope in a browser, the Firefox Profiler's own command, DuckDB.
//!
//! `cargo xtask setup` installs speedscope and DuckDB; the Firefox Profiler's command needs Node 24: `npm install -g
//! @firefox-devtools/profiler-cli`. Each gives the sums of the events, smallest first, or `None` where it isn't on this
//! machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Pair;
use crate::process;
use crate::readers;
use crate::repo::Repo;
use crate::web::{browser, missing_tools};

const LIMIT: Duration = Duration::from_secs(120);
/// Attempts to start the Firefox Profiler's server.
const TRIES: usize = 4;
/// Threads of a profile that are asked one after the other.
const MOST_THREADS: usize = 24;

/// The Python with packages for these checks.
pub fn python() -> Option<PathBuf> {
    std::env::var_os("TALLY_PYTHON").map(PathBuf::from).or_else(|| process::find("python3"))
}

/// A file for what is exported of `file`, in a folder of its own.
fn scratch(pair: &Pair, file: &Path, ending: &str) -> Result<String> {
    let name = file.file_name().unwrap_or_default();
    let folder = pair.dir.join("viewers").join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(ending).to_string_lossy().into_owned())
}

/// Sums of kinds but the wall clock, without zeros, smallest first.
fn of_events(sums: BTreeMap<String, u64>) -> Vec<u64> {
    let events =
        sums.into_iter().filter(|(kind, sum)| *sum > 0 && !["wall", "off_cpu"].contains(&kind.as_str()));
    let mut sums: Vec<u64> = events.map(|(_, sum)| sum).collect();
    sums.sort_unstable();
    sums
}

/// Sums of lines `SUM KIND`.
fn of_lines(text: &str) -> BTreeMap<String, u64> {
    let line =
        |line: &str| line.split_once(' ').and_then(|(sum, kind)| Some((kind.to_owned(), sum.parse().ok()?)));
    text.lines().filter_map(line).collect()
}

/// What speedscope writes after it has read `file`.
pub fn by_speedscope(pair: &Pair, file: &Path) -> Result<Option<Vec<u64>>> {
    let repo = Repo::here();
    let (Some(browser), Some(command)) = (browser(), readers::node_program(&repo, "speedscope")) else {
        return Ok(None);
    };
    if missing_tools(&repo.root).is_some() {
        return Ok(None);
    }
    // A link leads to the package's bin/cli.
    let package = command.canonicalize().ok().and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    let index = package.context("speedscope is no package of npm")?.join("dist/release/index.html");
    let out = scratch(pair, file, "speedscope.json")?;
    pair.tally(&["export", "--to", "speedscope", "-i", &file.to_string_lossy(), "-o", &out])?;
    let mut node = Command::new("node");
    node.arg("test/speedscope.mjs").arg(browser).arg(index).arg(&out).current_dir(repo.root.join("web"));
    let read = process::capture(&mut node, LIMIT)?;
    if !read.ok() {
        bail!("speedscope: {}", String::from_utf8_lossy(&read.stderr));
    }
    Ok(Some(of_events(of_lines(&read.text()))))
}

/// Sums of functions in the Firefox Profiler's own command; `None` also for profiles of many threads, and if it doesn't
/// start in time.
pub fn by_firefox(pair: &Pair, file: &Path) -> Result<Option<Vec<u64>>> {
    let Some(command) = process::find("profiler-cli") else { return Ok(None) };
    let out = scratch(pair, file, "firefox.json.gz")?;
    // The command keeps its sessions there; other cases have theirs at the same time.
    let home = Path::new(&out).parent().unwrap_or(&pair.dir).to_owned();
    pair.tally(&["export", "--to", "firefox", "-i", &file.to_string_lossy(), "-o", &out])?;
    let ask = |args: &[&str]| -> Result<Value> {
        let mut run = Command::new(&command);
        run.args(args).env("XDG_RUNTIME_DIR", &home).env("HOME", &home);
        let ended = process::capture(&mut run, LIMIT)?;
        if !ended.ok() {
            bail!("profiler-cli {args:?}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        Ok(serde_json::from_slice(&ended.stdout).unwrap_or_default())
    };
    // Its server has half a second to begin, which is too little on a busy machine: then it isn't asked.
    if !(0..TRIES).any(|_| ask(&["load", &out]).is_ok()) {
        ask(&["stop", "--all"])?;
        return Ok(None);
    }
    let sums = sums_of_threads(&ask);
    ask(&["stop", "--all"])?;
    Ok(sums?.map(of_events))
}

fn sums_of_threads(ask: &dyn Fn(&[&str]) -> Result<Value>) -> Result<Option<BTreeMap<String, u64>>> {
    let list = ask(&["thread", "list", "--json"])?;
    let threads = list["threads"].as_array().context("profiler-cli lists no threads")?;
    if threads.len() > MOST_THREADS {
        return Ok(None);
    }
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for thread in threads {
        let [handle, name] =
            [&thread["threadHandle"], &thread["name"]].map(|text| text.as_str().unwrap_or_default());
        let kind = name.rsplit_once(" (").map_or(name, |(_, kind)| kind.trim_end_matches(')'));
        let words = ["thread", "functions", "--thread", handle, "--include-idle", "--limit", "0", "--json"];
        let found = ask(&words)?;
        // Times are in ms.
        let factor = if found["weightType"] == "tracing-ms" { 1e6 } else { 1.0 };
        let own =
            found["functions"].as_array().into_iter().flatten().filter_map(|row| row["selfSamples"].as_f64());
        *sums.entry(kind.to_owned()).or_default() += own.sum::<f64>() * factor;
    }
    Ok(Some(sums.into_iter().map(|(kind, sum)| (kind, sum.round() as u64)).collect()))
}

/// Sums of the rows in DuckDB.
pub fn by_duckdb(pair: &Pair, file: &Path) -> Result<Option<Vec<u64>>> {
    let Some(python) = python() else { return Ok(None) };
    let run = |code: &str, args: &[&str]| pair.run(&python, &[&["-c", code], args].concat());
    if !run("import duckdb", &[])?.ok() {
        return Ok(None);
    }
    let out = scratch(pair, file, "parquet")?;
    pair.tally(&["export", "--to", "parquet", "-i", &file.to_string_lossy(), "-o", &out])?;
    let code = "import duckdb, sys\n\
                for row in duckdb.execute('select sum(value)::hugeint, kind from read_parquet(?) group by kind', [sys.argv[1]]).fetchall():\n\
                \x20   print(*row)";
    let read = run(code, &[&out])?;
    if !read.ok() {
        bail!("duckdb: {}", String::from_utf8_lossy(&read.stderr));
    }
    Ok(Some(of_events(of_lines(&read.text()))))
}
