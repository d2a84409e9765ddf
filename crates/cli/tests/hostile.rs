//! Inputs that were made to harm their reader, under a memory limit and a time limit.

#[path = "hostile/damage.rs"]
mod damage;
#[path = "hostile/debug_info.rs"]
mod debug_info;
#[path = "hostile/expansion.rs"]
mod expansion;
#[path = "hostile/files.rs"]
mod files;
#[path = "hostile/names.rs"]
mod names;
#[path = "hostile/numbers.rs"]
mod numbers;
#[path = "hostile/unwinding.rs"]
mod unwinding;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Addresses that the program may ask for: it maps its inputs, and every thread has a stack of some megabytes.
const MEMORY_KB: u32 = 3 << 20;

/// A file of `tests/hostile`.
fn hostile(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile").join(name)
}

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tmp/hostile").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("target is writable");
    dir
}

/// Assembles `source`; `None` (and reported) where that can't be.
fn assembled(source: &Path, program: &Path) -> Option<()> {
    let gcc = Command::new("gcc").arg("-no-pie").arg(source).arg("-o").arg(program).output();
    if cfg!(not(target_arch = "x86_64")) || !gcc.is_ok_and(|output| output.status.success()) {
        println!("skipped: {} can't be built here", source.display());
        return None;
    }
    Some(())
}

/// Runs `tally ARGS`, with no more memory than `memory_kb` and no longer than a minute.
fn tally(memory_kb: u32, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -v "$1" && shift && exec timeout -s KILL 60 "$@""#, "sh"]);
    command.arg(memory_kb.to_string()).arg(env!("CARGO_BIN_EXE_tally")).args(args);
    command.env("TERM", "dumb").env_remove("NO_COLOR").output().expect("sh starts")
}

/// Standard output and standard error of a run that neither crashed nor was ended by a limit.
fn outlived(args: &[&str]) -> (String, String) {
    outlived_within(MEMORY_KB, args)
}

fn outlived_within(memory_kb: u32, args: &[&str]) -> (String, String) {
    let output = tally(memory_kb, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0..=2)), "tally {args:?}: {}\n{err}", output.status);
    assert!(!err.contains("panicked"), "tally {args:?}\n{err}");
    (out, err)
}
