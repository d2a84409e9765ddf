//! Packages that people install: a static program, a tarball and a Debian package, with manual pages and completions.
//!
//! Two builds of one commit have the same bytes: paths of this machine are left out, and times are the commit's.

mod build;
mod empty_root;
mod install;
mod release;
mod smoke;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::process;
use crate::repo::Repo;
use crate::score::{self, Score, skip};
use release::Release;

const TOOL_LIMIT: Duration = Duration::from_secs(300);
/// Largest size of the program without its symbols.
const LARGEST_BYTES: u64 = 12_000_000;
const MACHINES: [&str; 2] = ["x86_64", "aarch64"];

/// Builds the packages into `target/package`, or `target/package-aarch64` with `--machine=aarch64`; with `--twice` builds a
/// second time elsewhere, and compares. With `--program=FILE` packs that one, built before.
pub fn run(repo: &Repo, args: &[String]) -> Result<Score> {
    let value = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
    let known = |arg: &String| {
        arg == "--twice" || ["--machine=", "--program="].iter().any(|name| arg.starts_with(name))
    };
    let machine = value("--machine").unwrap_or(std::env::consts::ARCH);
    if !args.iter().all(known) || !MACHINES.contains(&machine) {
        bail!("cargo xtask package [--machine={}] [--twice] [--program=FILE]", MACHINES.join("|"));
    }
    let release = Release::new(repo, machine)?;
    if let Some(lacking) =
        ["gcc", "objcopy"].map(|name| release.tool(name)).iter().find(|name| process::find(name).is_none())
    {
        return Ok(skip(&format!("packages for {machine}"), &format!("no {lacking}")));
    }
    let built = match value("--program") {
        Some(file) => PathBuf::from(file),
        None => build::program(repo, &release, &repo.target())?,
    };
    let to = repo.target().join(if release.is_foreign() {
        format!("package-{machine}")
    } else {
        "package".to_owned()
    });
    let _ = std::fs::remove_dir_all(&to);
    std::fs::create_dir_all(&to)?;
    let program = build::shrink(&built, &to, &release)?;
    let mut score = has_right_size(&program)?;
    let version = if value("--program").is_some() { release.version.clone() } else { release.build() };
    score += smoke::runs_in_an_empty_folder(repo, &program, (&release, &version))?;
    score += stage::packages(repo, &program, &to, &release)?;
    score += install::work(&to, &release, &version)?;
    if args.iter().any(|arg| arg == "--twice") {
        score += is_the_same_again(repo, &release, &program)?;
    }
    Ok(score)
}

fn has_right_size(program: &Path) -> Result<Score> {
    let bytes = std::fs::metadata(program)?.len();
    println!("{}: {:.1} MB", program.display(), bytes as f64 / 1e6);
    if bytes > LARGEST_BYTES {
        score::fault(&format!("the program has {bytes} bytes, {LARGEST_BYTES} are wanted at most"));
    }
    Ok(Score::of(bytes <= LARGEST_BYTES))
}

/// Builds once more in another folder: the bytes must be the same.
fn is_the_same_again(repo: &Repo, release: &Release, program: &Path) -> Result<Score> {
    let again = repo.target().join("package-again");
    let built = build::program(repo, release, &again)?;
    let folder = again.join("package");
    std::fs::create_dir_all(&folder)?;
    let second = build::shrink(&built, &folder, release)?;
    let same = std::fs::read(program)? == std::fs::read(second)?;
    if !same {
        score::fault(
            "two builds of one commit differ: compare target/package/tally with target/package-again",
        );
    }
    Ok(Score::of(same))
}

fn tool(command: &mut Command) -> Result<()> {
    let run = process::capture(command, TOOL_LIMIT)?;
    if !run.ok() {
        bail!("{command:?}: {}", run.tail(5));
    }
    Ok(())
}
