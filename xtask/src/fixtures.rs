//! Builds the programs of `tests/programs` into `target/fixtures`.
//!
//! The head of a source defines its builds: `// build NAME: FLAGS`, one line per program. The ending selects the
//! compiler: gcc, g++, rustc, go.

mod recordings;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use crate::process;
use crate::repo::Repo;
use crate::score::{Score, skip};

const LIMIT: Duration = Duration::from_secs(300);

/// One program to build.
struct Program {
    name: String,
    flags: Vec<String>,
    source: PathBuf,
}

/// Folder of the built programs.
pub fn dir(repo: &Repo) -> PathBuf {
    repo.target().join("fixtures")
}

/// `cargo xtask fixtures [--record]`: builds the programs; with `--record` makes the recordings of the repository again.
pub fn run_args(repo: &Repo, args: &[String]) -> Result<Score> {
    match args {
        [] => run(repo),
        [flag] if flag == "--record" => recordings::record(repo, &crate::golden::tally(repo)?),
        _ => anyhow::bail!("cargo xtask fixtures [--record]"),
    }
}

/// Builds programs that are missing or older than their source.
pub fn run(repo: &Repo) -> Result<Score> {
    let out = dir(repo);
    std::fs::create_dir_all(&out)?;
    let mut score = Score::default();
    for program in programs(&repo.root.join("tests/programs"))? {
        score += build(&program, &out)?;
    }
    Ok(score)
}

fn programs(dir: &Path) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let source = entry.path();
        let Ok(text) = std::fs::read_to_string(&source) else { continue };
        let heads = text.lines().take(40).filter_map(|line| line.strip_prefix("// build "));
        for (name, flags) in heads.filter_map(|head| head.split_once(':')) {
            let flags = flags.split_whitespace().map(str::to_owned).collect();
            found.push(Program { name: name.trim().to_owned(), flags, source: source.clone() });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn build(program: &Program, out: &Path) -> Result<Score> {
    let to = out.join(&program.name);
    if newer(&to, &program.source) {
        return Ok(Score::PASS);
    }
    let extension = program.source.extension().unwrap_or_default().to_string_lossy().into_owned();
    let (compiler, before): (&str, &[&str]) = match extension.as_str() {
        "c" => ("gcc", &[]),
        "cpp" => ("g++", &[]),
        "rs" => ("rustc", &["--edition=2024"]),
        "go" => ("go", &["build"]),
        _ => return Ok(skip(&program.name, "no compiler is known for its ending")),
    };
    if process::find(compiler).is_none() {
        return Ok(skip(&program.name, &format!("no {compiler}")));
    }
    let mut command = Command::new(compiler);
    command.args(before).arg("-o").arg(&to);
    // Go wants its file last, C wants its libraries there.
    if extension == "go" {
        command.args(&program.flags).arg(&program.source);
        command.env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off").env("GOTOOLCHAIN", "local");
    } else {
        command.arg(&program.source).args(&program.flags);
    }
    let run = process::capture(&mut command, LIMIT).with_context(|| program.name.clone())?;
    if !run.ok() {
        println!("{}: {compiler}: {}\n{}", program.name, run.how(), run.tail(20));
    }
    Ok(Score::of(run.ok()))
}

/// Builds one C program with `compiler`, that of another machine perhaps; its path in `out`.
pub fn build_by(compiler: &str, repo: &Repo, name: &str, out: &Path) -> Result<PathBuf> {
    let all = programs(&repo.root.join("tests/programs"))?;
    let program = all.into_iter().find(|program| program.name == name).with_context(|| name.to_owned())?;
    let to = out.join(name);
    let mut command = Command::new(compiler);
    let run = process::capture(command.arg("-o").arg(&to).arg(&program.source).args(&program.flags), LIMIT)?;
    if !run.ok() {
        anyhow::bail!("{name}: {compiler}: {}", run.tail(5));
    }
    Ok(to)
}

fn newer(built: &Path, source: &Path) -> bool {
    let time = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    matches!((time(built), time(source)), (Some(built), Some(source)) if built > source)
}
