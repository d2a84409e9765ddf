//! The checks that cargo itself makes.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process;
use crate::repo::Repo;
use crate::score::{Score, skip};

/// Time limit of a compiler check, cold on two cores.
const LIMIT: Duration = Duration::from_secs(40 * 60);
const ARM: &str = "aarch64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";
/// 32-bit ARM.
const ARM32: &str = "armv7-unknown-linux-gnueabihf";

/// A cargo command in the repository.
pub fn cargo(repo: &Repo, args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(&repo.root).env("CARGO_TERM_COLOR", "never");
    command
}

/// Layout of the source.
pub fn fmt(repo: &Repo) -> Result<Score> {
    Ok(Score::of(process::passed_on(&mut cargo(repo, &["fmt", "--all", "--check"]), LIMIT)?))
}

/// Lints of all targets, warnings denied.
pub fn clippy(repo: &Repo) -> Result<Score> {
    let args = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let mut score = Score::of(process::passed_on(&mut cargo(repo, &args), LIMIT)?);
    for cfg in PRELOADED {
        score += Score::of(process::passed_on(&mut cargo(repo, &clippy_of_tracer(&[], cfg)), LIMIT)?);
    }
    Ok(score)
}

/// The two libraries that are preloaded.
const PRELOADED: [&str; 2] = ["tally_preload", "tally_timers"];

/// Lints of a preloaded library. Only the cli's build script compiles it, by calling rustc itself.
fn clippy_of_tracer<'a>(target: &[&'a str], cfg: &'a str) -> Vec<&'a str> {
    let mut args = vec!["clippy", "--quiet", "--package", "tracer", "--lib"];
    args.extend(target);
    args.extend(["--", "--cfg", cfg, "-D", "warnings"]);
    args
}

/// Unit tests of the tracer under Miri, which finds undefined behaviour; on nightly. No other crate's unsafe code can run
/// there: it consists of system calls and mappings of files.
pub fn miri(repo: &Repo) -> Result<Score> {
    let has_miri = || -> Result<bool> {
        let mut version = Command::new("rustup");
        version.args(["run", "nightly", "cargo", "miri", "--version"]);
        Ok(process::find("rustup").is_some() && process::capture(&mut version, Duration::from_secs(30))?.ok())
    };
    if !has_miri()? {
        return Ok(skip("miri", "rustup component add --toolchain nightly miri rust-src installs it"));
    }
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri", "test", "--quiet", "--package", "tracer", "--lib"]);
    command.current_dir(&repo.root).env("CARGO_TARGET_DIR", repo.target().join("miri"));
    // A thread's mappings are the process's; addresses on stacks are numbers.
    command.env("MIRIFLAGS", "-Zmiri-ignore-leaks -Zmiri-permissive-provenance");
    command.env_remove("RUSTC").env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    Ok(Score::of(process::passed_on(&mut command, LIMIT)?))
}

/// Documentation of the workspace, broken links denied.
pub fn doc(repo: &Repo) -> Result<Score> {
    let mut command =
        cargo(repo, &["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    Ok(Score::of(process::passed_on(&mut command, LIMIT)?))
}

/// Writes the manual pages and the completions of the shells to `target/man`.
pub fn man(repo: &Repo) -> Result<Score> {
    let mut command = cargo(repo, &["run", "--quiet", "--package", "tally", "--example", "manual", "--"]);
    Ok(Score::of(process::passed_on(command.arg(repo.target().join("man")), LIMIT)?))
}

/// True if the compiler has a standard library for this target.
pub fn has_library(target: &str) -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let found = process::capture(
        Command::new(rustc).args(["--print", "target-libdir", "--target", target]),
        Duration::from_secs(30),
    )?;
    Ok(std::path::Path::new(found.text().trim()).is_dir())
}

/// Checks that the workspace compiles for 64-bit ARM, and the crate with the system calls for another C library.
pub fn cross(repo: &Repo) -> Result<Score> {
    if !has_library(ARM)? {
        return Ok(skip("cargo check for aarch64", "this compiler has no standard library for it"));
    }
    let mut command = cargo(repo, &["check", "--quiet", "--workspace", "--target", ARM]);
    let headers = std::path::Path::new("/usr/aarch64-linux-gnu/include/stdio.h");
    if process::find("aarch64-linux-gnu-gcc").is_none() || !headers.exists() {
        return Ok(skip(
            "cargo check for aarch64",
            "zstd is C: install gcc-aarch64-linux-gnu and libc6-dev-arm64-cross",
        ));
    }
    command.env("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc");
    let run = process::capture(&mut command, LIMIT)?;
    if !run.ok() {
        println!("{}", run.tail(60));
    }
    let mut score = Score::of(run.ok());
    score += record_for(repo, MUSL, ("musl-gcc", "musl-tools"))?;
    score += record_for(repo, ARM32, ("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"))?;
    for cfg in PRELOADED {
        let args = clippy_of_tracer(&["--target", ARM], cfg);
        score += Score::of(process::passed_on(&mut cargo(repo, &args), LIMIT)?);
    }
    Ok(score)
}

/// C libraries and processors differ in the types of the system calls, which are all in one crate. Its C code needs the
/// compiler, of this package.
fn record_for(repo: &Repo, target: &str, (compiler, package): (&str, &str)) -> Result<Score> {
    if !has_library(target)? || process::find(compiler).is_none() {
        return Ok(skip(
            &format!("cargo check for {target}"),
            &format!("rustup target add {target}; apt: {package}"),
        ));
    }
    let mut check = cargo(repo, &["check", "--quiet", "--package", "record", "--target", target]);
    check.env(format!("CC_{}", target.replace('-', "_")), compiler);
    Ok(Score::of(process::passed_on(&mut check, LIMIT)?))
}
