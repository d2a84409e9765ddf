//! Builds the tracer that is preloaded into traced programs, so that the one `tally` file carries it.
//!
//! It is the same source as the `tracer` crate, compiled as a shared object without the standard library.
//! Cargo can't yet make one crate's shared object another's input, so rustc is called here.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() {
    let sources = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("crates/tracer/src");
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed=crates/cli/build.rs");
    build(&sources, "tally_calls", "tally_preload");
    build(&sources, "tally_timers", "tally_timers");
    name_commit();
}

/// An optimized build from a checkout knows its commit; `cargo xtask package` names more itself. Other builds don't ask,
/// so that a commit alone links nothing again.
fn name_commit() {
    println!("cargo::rerun-if-env-changed=TALLY_BUILD");
    if std::env::var_os("TALLY_BUILD").is_some() || variable("PROFILE") != "release" {
        return;
    }
    let (Some(log), Some(commit)) =
        (git(&["rev-parse", "--git-path", "logs/HEAD"]), git(&["rev-parse", "--short=12", "HEAD"]))
    else {
        return;
    };
    println!("cargo::rerun-if-changed={log}");
    println!("cargo::rustc-env=TALLY_BUILD={} ({commit})", variable("CARGO_PKG_VERSION"));
}

/// One line that git prints about this checkout; `None` outside of one.
fn git(args: &[&str]) -> Option<String> {
    let folder = variable("CARGO_MANIFEST_DIR");
    let run = Command::new("git").args(args).current_dir(&folder).output().ok()?;
    // A copy of the sources inside another project's checkout has no commit of its own.
    let is_ours = PathBuf::from(&folder).join(".git").exists();
    let text = String::from_utf8(run.stdout).ok()?.trim().to_owned();
    (run.status.success() && is_ours && !text.is_empty()).then_some(text)
}

/// One of the two shared objects.
fn build(sources: &Path, name: &str, cfg: &str) {
    let out = PathBuf::from(variable("OUT_DIR")).join(format!("lib{name}.so"));
    let machine = variable("CARGO_CFG_TARGET_ARCH");
    if !["x86_64", "aarch64"].contains(&machine.as_str()) || variable("CARGO_CFG_TARGET_OS") != "linux" {
        // The hooks are written for these; elsewhere the program reports that when asked to record calls.
        return write(&format!("lib{name}.so"), &[]);
    }
    let mut rustc = Command::new(variable("RUSTC"));
    link(&mut rustc);
    let status = rustc
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", name])
        .args(["--cfg", cfg, "--target", &variable("TARGET")])
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols", "-C", "codegen-units=1"])
        .args(["-C", "force-unwind-tables=yes", "-A", "missing_docs"])
        // No path of this machine in messages: two builds have the same bytes.
        .arg(format!("--remap-path-prefix={}=tracer", sources.display()))
        // There the hooks ask where a frame begins.
        .args(if machine == "aarch64" { &["-C", "force-frame-pointers=yes"][..] } else { &[] })
        .arg("-o")
        .arg(&out)
        .arg(sources.join("lib.rs"))
        .status()
        .expect("rustc can be started");
    assert!(status.success(), "the tracer of crates/tracer does not compile");
    deflate(&std::fs::read(out).expect("just built"), &format!("lib{name}.so"));
}

/// Compresses what the program carries and seldom needs.
fn deflate(content: &[u8], name: &str) {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    packed.write_all(content).expect("memory");
    write(name, &packed.finish().expect("memory"));
}

fn write(name: &str, packed: &[u8]) {
    let out = PathBuf::from(variable("OUT_DIR")).join(format!("{name}.deflate"));
    std::fs::write(out, packed).expect("the build folder can be written");
}

/// How a shared object is linked that needs no library: musl's programs and glibc's take the same.
fn link(rustc: &mut Command) {
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        // Static is what this target makes unless asked; and no file of musl's goes in.
        rustc.args(["-C", "target-feature=-crt-static", "-C", "link-self-contained=no"]);
        rustc.args(["-C", "linker=rust-lld", "-C", "linker-flavor=ld.lld"]);
    } else if let Some(linker) = linker() {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
}

/// The linker that cargo is configured with or, for another machine than this, the one usually named so.
fn linker() -> Option<String> {
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let usual = || format!("{}-gcc", target.replace("-unknown", ""));
    std::env::var("RUSTC_LINKER").ok().or_else(|| (host != target).then(usual))
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
