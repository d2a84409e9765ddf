//! Installs the tools for the oracles on a bare machine, with its own package manager, if that is allowed, and readers
//! of exports with npm's and Python's.
//!
//! `cargo build` and `cargo test` need none of them: a missing tool only skips the checks that need it.

use std::process::Command;
use std::time::Duration;

use crate::apt::Apt;
use crate::cargo;
use crate::process;
use crate::readers;
use crate::repo::Repo;
use crate::score::{Score, skip};

/// A program (or file) and the Debian package that contains it.
const TOOLS: &[(&str, &str)] = &[
    ("perf", "linux-perf"),
    ("readelf", "binutils"),
    ("g++", "g++"),
    ("gdb", "gdb"),
    ("tmux", "tmux"),
    ("chromium", "chromium"),
    ("npm", "npm"),
    ("pip3", "python3-pip"),
    ("clang", "clang"),
    ("llvm-strip", "llvm"),
    ("bpftool", "bpftool"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
    ("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"),
    ("musl-gcc", "musl-tools"),
    ("qemu-aarch64", "qemu-user"),
    ("/usr/aarch64-linux-gnu/include/stdio.h", "libc6-dev-arm64-cross"),
    ("/usr/arm-linux-gnueabihf/include/stdio.h", "libc6-dev-armhf-cross"),
];
/// Detached debug information of libc, for the file and line of its frames.
const LIBC_DEBUG: (&str, &str) = ("/usr/lib/debug/.build-id", "libc6-dbg");
/// clang's run-time libraries, which programs with XRay's sleds are linked to.
const CLANG_LIBRARIES: &str = "libclang-rt-dev";
/// Standard libraries for the check of another machine, and for packages.
const TARGETS: [&str; 4] = [
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "armv7-unknown-linux-gnueabihf",
];

/// Installs missing tools; each tool that can't be installed counts as one skip.
pub fn run(repo: &Repo) -> Score {
    let mut score = packages();
    TARGETS.into_iter().for_each(|target| score += standard_library(target));
    score += readers::install(repo);
    score
}

fn missing() -> Vec<&'static str> {
    let mut packages: Vec<_> =
        TOOLS.iter().filter(|(tool, _)| !have(tool)).map(|(_, package)| *package).collect();
    if !std::path::Path::new(LIBC_DEBUG.0).is_dir() {
        packages.push(LIBC_DEBUG.1);
    }
    if !has_clang_libraries() {
        packages.push(CLANG_LIBRARIES);
    }
    packages
}

fn has_clang_libraries() -> bool {
    let mut clang = Command::new("clang");
    clang.args(["--rtlib=compiler-rt", "--print-libgcc-file-name"]);
    let run = process::capture(&mut clang, Duration::from_secs(10));
    run.is_ok_and(|run| run.ok() && std::path::Path::new(run.text().trim()).is_file())
}

/// Debian keeps some tools out of an ordinary user's PATH.
fn have(tool: &str) -> bool {
    std::path::Path::new(tool).is_absolute() && std::path::Path::new(tool).exists()
        || process::find(tool).is_some()
        || ["/usr/sbin", "/sbin"].iter().any(|dir| std::path::Path::new(dir).join(tool).is_file())
}

fn packages() -> Score {
    let mut score = Score::PASS;
    let wanted = missing();
    if wanted.is_empty() {
        println!("all tools are installed");
        return score;
    }
    println!("missing: {}", wanted.join(" "));
    if let Err(why) = may_install() {
        for package in wanted {
            score += skip(package, why);
        }
        return score;
    }
    let apt = Apt::start();
    apt.update();
    if !apt.install(&wanted) {
        // One by one, so that an unavailable package does not block the others.
        for package in missing() {
            apt.install(&[package]);
        }
    }
    for package in missing() {
        score += skip(package, "apt could not install it; its output is above");
    }
    score
}

fn may_install() -> Result<(), &'static str> {
    if !process::is_root() {
        return Err("not root, so nothing is installed");
    }
    process::find("apt-get").map(|_| ()).ok_or("no apt-get on this machine")
}

/// The standard library for `target`.
fn standard_library(target: &str) -> Score {
    if cargo::has_library(target).unwrap_or(false) {
        return Score::PASS;
    }
    let name = format!("the standard library for {target}");
    if process::find("rustup").is_none() {
        return skip(&name, "no rustup");
    }
    let run =
        process::capture(Command::new("rustup").args(["target", "add", target]), Duration::from_secs(60));
    match run {
        Ok(run) if run.ok() => Score::PASS,
        Ok(run) => skip(&name, &format!("rustup target add: {}", run.how())),
        Err(error) => skip(&name, &format!("{error:#}")),
    }
}
