//! Viewers that read tally's exports themselves: speedscope in a browser, the Firefox Profiler's own command, DuckDB.
//!
//! `cargo xtask setup` installs them. Each gives the stacks that it read, or `None` where it isn't on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Pair;
use super::read_stacks::ReadStacks;
use crate::process;
use crate::readers;
use crate::repo::Repo;
use crate::web::{browser, missing_tools};

const LIMIT: Duration = Duration::from_secs(120);
/// Threads of a profile that are asked one after the other.
const MOST_THREADS: &str = "24";
/// Status of the script where the Firefox Profiler isn't asked.
const NOT_ASKED: i32 = 3;

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

/// What speedscope writes after it has read `file`.
pub fn by_speedscope(pair: &Pair, file: &Path) -> Result<Option<ReadStacks>> {
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
    Ok(Some(ReadStacks::of_lines(&read.text())))
}

/// The call trees of the Firefox Profiler's own command; `None` also for profiles of many threads, and if it doesn't start
/// in time.
pub fn by_firefox(pair: &Pair, file: &Path) -> Result<Option<ReadStacks>> {
    let repo = Repo::here();
    let Some(command) = readers::node_program(&repo, "profiler-cli") else { return Ok(None) };
    let out = scratch(pair, file, "firefox.json.gz")?;
    pair.tally(&["export", "--to", "firefox", "-i", &file.to_string_lossy(), "-o", &out])?;
    // The command keeps its sessions there; other cases have theirs at the same time.
    let home = Path::new(&out).parent().unwrap_or(&pair.dir).to_owned();
    let mut node = Command::new("node");
    node.arg("test/firefox.mjs").arg(command).arg(&out).arg(MOST_THREADS).current_dir(repo.root.join("web"));
    node.env("XDG_RUNTIME_DIR", &home).env("HOME", &home).env("PATH", readers::path_with_node(&repo));
    let read = process::capture(&mut node, LIMIT)?;
    if read.status.code() == Some(NOT_ASKED) {
        return Ok(None);
    }
    if !read.ok() {
        bail!("profiler-cli: {}", String::from_utf8_lossy(&read.stderr));
    }
    Ok(Some(ReadStacks::of_lines(&read.text())))
}

/// The rows in DuckDB.
pub fn by_duckdb(pair: &Pair, file: &Path) -> Result<Option<ReadStacks>> {
    let Some(python) = python() else { return Ok(None) };
    let run = |code: &str, args: &[&str]| pair.run(&python, &[&["-c", code], args].concat());
    if !run("import duckdb", &[])?.ok() {
        return Ok(None);
    }
    let out = scratch(pair, file, "parquet")?;
    pair.tally(&["export", "--to", "parquet", "-i", &file.to_string_lossy(), "-o", &out])?;
    let code = "import duckdb, sys\n\
                for value, kind, stack in duckdb.execute('select sum(value)::hugeint, kind, stack from read_parquet(?) group by kind, stack', [sys.argv[1]]).fetchall():\n\
                \x20   print(value, kind, stack.replace(';', ':').replace('\\n', ';'), sep='\\t')";
    let read = run(code, &[&out])?;
    if !read.ok() {
        bail!("duckdb: {}", String::from_utf8_lossy(&read.stderr));
    }
    Ok(Some(ReadStacks::of_lines(&read.text())))
}
