//! Builds the program that is shipped: static, small, with no path of this machine in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::{Release, tool};
use crate::process;
use crate::repo::Repo;

/// One whole-program optimized build on two cores.
const LIMIT: Duration = Duration::from_secs(3600);
/// A position-independent program has a relocation for each pointer in its tables: 24 bytes, packed about 1.
const PACKED_POINTERS: &str = "pack-relative-relocs";
/// Functions with the same code are one: only the compiler's own linker can do that.
const EQUAL_CODE_ONCE: &str = "--icf=all";
/// The script in the source folder leaves out the tables for unwinding, their index goes with them.
const NO_UNWIND_INDEX: &str = "--no-eh-frame-hdr";
const NO_UNWIND_TABLES: &str = "xtask/src/package/no_unwind_tables.ld";
/// zstd's slowest ways to compress, for levels above 12; these then compress as level 12 does.
const NO_SLOW_ZSTD: &str = "-DZSTD_EXCLUDE_BTLAZY2_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_BTOPT_BLOCK_COMPRESSOR \
    -DZSTD_EXCLUDE_BTULTRA_BLOCK_COMPRESSOR";
/// mimalloc's memory goes with the process, and not piece by piece before its end.
const NO_LAST_COLLECTION: &str = " -DMI_SKIP_COLLECT_ON_EXIT=1";
/// glibc's headers, which are the only ones for another machine here, without what only glibc has.
const NO_GLIBC_CALLS: &str = " -U_FORTIFY_SOURCE -mno-outline-atomics";

/// The program with its symbols, below `target_dir`.
pub fn program(repo: &Repo, release: &Release, target_dir: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "tally", "--bin", "tally", "--profile", "dist"]);
    cargo.args(["--target", &release.target, "--target-dir"]).arg(target_dir).current_dir(&repo.root);
    let mut flags = link(repo, release);
    flags.extend(without_paths(repo, target_dir));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    let defines = format!("{NO_SLOW_ZSTD}{NO_LAST_COLLECTION}");
    cargo.env("CFLAGS", &defines);
    if release.is_foreign() {
        let target = release.target.replace('-', "_");
        cargo.env(format!("CC_{target}"), release.tool("gcc"));
        cargo.env(format!("CFLAGS_{target}"), format!("{defines}{NO_GLIBC_CALLS}"));
    }
    cargo.env("TALLY_BUILD", release.build()).env("SOURCE_DATE_EPOCH", &release.epoch);
    if !process::passed_on(&mut cargo, LIMIT)? {
        bail!("the program does not build for {}", release.target);
    }
    Ok(target_dir.join(&release.target).join("dist/tally"))
}

/// musl's library comes with Rust's, and the compiler's own linker needs nothing else. glibc's library is found by gcc,
/// which uses that linker on x86-64.
fn link(repo: &Repo, release: &Release) -> Vec<String> {
    let script = format!("-T{}", repo.root.join(NO_UNWIND_TABLES).display());
    let smaller = [EQUAL_CODE_ONCE, NO_UNWIND_INDEX, &script];
    let mut flags = vec!["target-feature=+crt-static".to_owned()];
    if release.is_musl() {
        flags.extend(["linker=rust-lld".to_owned(), "linker-flavor=ld.lld".to_owned()]);
        flags.push(format!("link-arg=-z{PACKED_POINTERS}"));
        flags.extend(smaller.map(|option| format!("link-arg={option}")));
    } else {
        flags.push(format!("link-arg=-Wl,-z,{PACKED_POINTERS}"));
        let has_own_linker = release.machine == "x86_64";
        flags.extend(
            smaller.map(|option| format!("link-arg=-Wl,{option}")).into_iter().filter(|_| has_own_linker),
        );
    }
    flags.into_iter().flat_map(|option| ["-C".to_owned(), option]).collect()
}

/// The folders of sources and results by short names.
fn without_paths(repo: &Repo, target_dir: &Path) -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.map(|home| (home.join("registry/src"), "crates"));
    let folders = [(repo.root.clone(), "."), (target_dir.to_owned(), "target")];
    let folders = folders.into_iter().chain(home);
    folders.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display())).collect()
}

/// The program without symbols in `to`, and the symbols in a file of their own.
pub fn shrink(built: &Path, to: &Path, release: &Release) -> Result<PathBuf> {
    let program = to.join("tally");
    let symbols = to.join(release.name() + ".debug");
    let mut keep = Command::new(release.tool("objcopy"));
    keep.args(["--only-keep-debug", "--compress-debug-sections"]).arg(built).arg(&symbols);
    tool(&mut keep)?;
    let mut strip = Command::new(release.tool("objcopy"));
    strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", symbols.display()));
    tool(strip.arg(built).arg(&program))?;
    Ok(program)
}
