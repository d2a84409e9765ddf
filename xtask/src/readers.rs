//! Other programs that read tally's exports, for the oracle: packages of npm and PyPI in `target/readers`, so that
//! nothing of the machine changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::repo::Repo;
use crate::score::{Score, skip};

const LIMIT: Duration = Duration::from_secs(300);
const SPEEDSCOPE: &str = "speedscope@1.25.0";
/// The Firefox Profiler's command, and the Node that it needs.
const FIREFOX: [&str; 2] = ["@firefox-devtools/profiler-cli", "node@24"];
/// Readers of Parquet, and OpenTelemetry's own protocol buffers.
const PYTHON: [&str; 2] = ["duckdb", "opentelemetry-proto"];

/// Installs what is missing; each reader that can't be installed counts as one skip.
pub fn install(repo: &Repo) -> Score {
    let folder = folder(repo);
    let mut score = Score::PASS;
    let speedscope = node_program(repo, "speedscope");
    if speedscope.is_none() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).arg(SPEEDSCOPE);
        score += installed("npm", npm, &folder, SPEEDSCOPE);
    }
    if node_program(repo, "profiler-cli").is_none() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).args(FIREFOX);
        score += installed("npm", npm, &folder, FIREFOX[0]);
    }
    let packages = python_packages(repo);
    if !packages.join(PYTHON[0]).is_dir() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&packages).args(PYTHON);
        score += installed("python3", pip, &folder, &PYTHON.join(", "));
    }
    score
}

fn installed(program: &str, mut command: Command, folder: &Path, what: &str) -> Score {
    if process::find(program).is_none() {
        return skip(what, &format!("no {program} on this machine"));
    }
    if let Err(error) = std::fs::create_dir_all(folder) {
        return skip(what, &format!("{}: {error}", folder.display()));
    }
    match process::capture(&mut command, LIMIT) {
        Ok(run) if run.ok() => Score::PASS,
        Ok(run) => skip(what, &format!("{program}: {}", run.tail(2))),
        Err(error) => skip(what, &format!("{program}: {error:#}")),
    }
}

fn folder(repo: &Repo) -> PathBuf {
    repo.target().join("readers")
}

/// A program of npm: ours, or the machine's.
pub fn node_program(repo: &Repo, name: &str) -> Option<PathBuf> {
    let own = folder(repo).join("node_modules/.bin").join(name);
    if own.exists() { Some(own) } else { process::find(name) }
}

/// `PATH` with the newest Node first.
pub fn path_with_node(repo: &Repo) -> std::ffi::OsString {
    let mut path = folder(repo).join("node_modules/.bin").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// The folder of Python's packages, for `PYTHONPATH`.
pub fn python_packages(repo: &Repo) -> PathBuf {
    folder(repo).join("python")
}
