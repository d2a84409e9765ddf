//! The BPF objects: clang builds them, they are committed next to their sources, and this module compares them.
//!
//! `cargo build` needs no clang. `NAME.bpf.o.from` holds the hash of the sources that the committed object was
//! built from, and the compiler's version; the hash must match, and with the same compiler the bytes too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::repo::Repo;
use crate::score::{Score, skip};

const LIMIT: Duration = Duration::from_secs(120);

/// Rebuilds every object, or only compares.
pub fn run(repo: &Repo, check: bool) -> Result<Score> {
    let dir = repo.root.join("crates/record/bpf");
    let sources = sources(&dir);
    let programs: Vec<&PathBuf> =
        sources.iter().filter(|file| file.to_string_lossy().ends_with(".bpf.c")).collect();
    if programs.is_empty() {
        return Ok(skip("bpf", "no BPF program in crates/record/bpf"));
    }
    let mut score = Score::default();
    for program in programs {
        score += if check { compare(&dir, &sources, program)? } else { build(&dir, &sources, program)? };
    }
    Ok(score)
}

/// Sources in a folder and its folders, sorted: programs, and the parts they include.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.map(|entry| entry.path()).partition(|path| path.is_dir());
    let is_source = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "c" || ext == "h");
    let mut found: Vec<PathBuf> = files.into_iter().filter(is_source).collect();
    found.extend(folders.iter().flat_map(|folder| sources(folder)));
    found.sort();
    found
}

/// The committed object of a source.
fn object_of(program: &Path) -> PathBuf {
    program.with_extension("o")
}

fn stamp_of(program: &Path) -> PathBuf {
    program.with_extension("o.from")
}

fn stamp(dir: &Path, sources: &[PathBuf]) -> Result<String> {
    let names = sources.iter().filter_map(|file| file.strip_prefix(dir).ok());
    let sums = process::capture(Command::new("sha256sum").args(names).current_dir(dir), LIMIT)?;
    if !sums.ok() {
        bail!("sha256sum: {}", sums.tail(3));
    }
    Ok(sums.text())
}

/// The compiler: `clang`, or the version that built the committed objects.
fn clang() -> &'static str {
    if process::find("clang").is_some() { "clang" } else { "clang-14" }
}

fn clang_version() -> Option<String> {
    let run = process::capture(Command::new(clang()).arg("--version"), LIMIT).ok()?;
    Some(run.text().lines().next()?.trim().to_owned())
}

fn compile(dir: &Path, program: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new(clang());
    command.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-c"]);
    command.arg("-fdebug-prefix-map=".to_owned() + &dir.to_string_lossy() + "=.");
    command.arg(program.file_name().context("a program has a name")?).arg("-o").arg(to).current_dir(dir);
    let built = process::capture(&mut command, LIMIT)?;
    if !built.ok() {
        bail!("clang {}:\n{}", program.display(), built.tail(30));
    }
    let strip = process::capture(Command::new("llvm-strip").arg("-g").arg(to), LIMIT)?;
    if !strip.ok() {
        bail!("llvm-strip: {}", strip.tail(3));
    }
    Ok(())
}

fn build(dir: &Path, sources: &[PathBuf], program: &Path) -> Result<Score> {
    let version = clang_version().context("no clang: install it, or leave the committed object")?;
    compile(dir, program, &object_of(program))?;
    std::fs::write(stamp_of(program), format!("{}{version}\n", stamp(dir, sources)?))?;
    println!("built {}", object_of(program).display());
    Ok(Score::PASS)
}

fn compare(dir: &Path, sources: &[PathBuf], program: &Path) -> Result<Score> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let recorded = std::fs::read_to_string(stamp_of(program)).unwrap_or_default();
    let (sums, built_by) = recorded.trim_end().rsplit_once('\n').unwrap_or(("", ""));
    if sums.trim_end() != stamp(dir, sources)?.trim_end() {
        println!("{name}: its object was built from other sources; run `cargo xtask bpf`");
        return Ok(Score::FAIL);
    }
    let mut score = Score::PASS;
    if clang_version().as_deref() != Some(built_by) || process::find("llvm-strip").is_none() {
        score += skip(&format!("{name} byte for byte"), &format!("the committed one is by {built_by}"));
        return Ok(score);
    }
    let again = std::env::temp_dir().join(format!("tally-bpf-{}.o", std::process::id()));
    let built = compile(dir, program, &again);
    let same = built.is_ok() && std::fs::read(&again).ok() == std::fs::read(object_of(program)).ok();
    let _ = std::fs::remove_file(&again);
    built?;
    if !same {
        println!("{name}: the rebuilt object differs from the committed one; run `cargo xtask bpf`");
    }
    score += Score::of(same);
    Ok(score)
}
