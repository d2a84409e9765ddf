//! Over the same file: report, script, annotate.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{BUILD_LIMIT, Bench, LIMIT};
use crate::process;

/// More than 1 GB of snapshots of deep, distinct stacks on every core.
pub fn big(bench: &Bench) -> Result<PathBuf> {
    let file = bench.dir.join("big.data");
    if file.metadata().is_ok_and(|meta| meta.len() > 1_000_000_000) {
        return Ok(file);
    }
    let forest = bench.program("forest")?;
    let path = file.to_string_lossy().into_owned();
    let options =
        ["record", "-q", "-N", "-m", "16M", "-F", "max", "-e", "cpu-clock", "--call-graph", "dwarf,8192"];
    let mut args = options.to_vec();
    args.extend(["-o", &path, "--", &forest, "60", "32"]);
    let run = process::capture(&mut bench.command("perf", &args), LIMIT)?;
    let bytes = file.metadata().map_or(0, |meta| meta.len());
    if !run.ok() || bytes < 1_000_000_000 {
        bail!("perf record: {}, {bytes} bytes\n{}", run.how(), run.tail(3));
    }
    Ok(file)
}

/// `report --stdio` over the big file.
pub fn report(bench: &Bench) -> Result<()> {
    let file = big(bench)?;
    let path = file.to_string_lossy().into_owned();
    println!("  {:.2} GB", file.metadata()?.len() as f64 / 1e9);
    for (what, options) in [("report", &[][..]), ("report --no-inline", &["--no-inline"])] {
        let mut args = vec!["report", "--stdio", "-i", &path];
        args.extend(options);
        bench.compare(what, &args, 3)?;
    }
    Ok(())
}

/// More than 500 MB of snapshots of a C++ compiler's stacks: 25 frames, a binary of 30 MB, few of them alike.
fn compile(bench: &Bench) -> Result<PathBuf> {
    let file = bench.dir.join("compile.data");
    if file.metadata().is_ok_and(|meta| meta.len() > 500_000_000) {
        return Ok(file);
    }
    let path = file.to_string_lossy().into_owned();
    let source = bench.root.join("tests/programs/throw.cpp").to_string_lossy().into_owned();
    let options = ["record", "-q", "-N", "-m", "16M", "-F", "24999", "-e", "cpu-clock", "--call-graph"];
    let mut args = options.to_vec();
    let again = "for i in 1 2 3; do g++ -O2 -std=c++20 -c -o /dev/null \"$0\"; done";
    args.extend(["dwarf,8192", "-o", &path, "--", "sh", "-c", again, &source]);
    let run = process::capture(&mut bench.command("perf", &args), LIMIT)?;
    let bytes = file.metadata().map_or(0, |meta| meta.len());
    if !run.ok() || bytes < 500_000_000 {
        bail!("perf record: {}, {bytes} bytes\n{}", run.how(), run.tail(3));
    }
    Ok(file)
}

/// `report` and `script` of a compiler; with `--no-inline`, for addr2line alone would take perf 6.1 minutes.
pub fn compiler(bench: &Bench) -> Result<()> {
    let path = compile(bench)?.to_string_lossy().into_owned();
    let report = ["report", "--stdio", "--no-children", "--no-inline", "-i", &path];
    bench.compare("report of a compiler", &report, 3)?;
    bench.compare("script of a compiler", &["script", "--no-inline", "-i", &path], 3)
}

/// `script` over the big file.
pub fn script(bench: &Bench) -> Result<()> {
    let file = big(bench)?;
    let path = file.to_string_lossy().into_owned();
    bench.compare("script", &["script", "-i", &path], 2)
}

/// A Rust program with full debug information: tally itself, over the big file, profiled by perf.
fn full_debug(bench: &Bench) -> Result<String> {
    let path = bench.dir.join("inline.data").to_string_lossy().into_owned();
    if !PathBuf::from(&path).is_file() {
        let subject = full_debug_tally(bench)?.to_string_lossy().into_owned();
        let input = big(bench)?.to_string_lossy().into_owned();
        let options = ["record", "-q", "-N", "-F", "999", "-e", "cpu-clock", "--call-graph", "dwarf,16384"];
        let mut args = options.to_vec();
        args.extend(["-o", &path, "--", &subject, "report", "--stdio", "-i", &input]);
        let run = process::capture(&mut bench.command("perf", &args), LIMIT)?;
        if !run.ok() {
            bail!("perf record: {}\n{}", run.how(), run.tail(3));
        }
    }
    Ok(path)
}

/// `report --inline` of that.
pub fn inline(bench: &Bench) -> Result<()> {
    let path = full_debug(bench)?;
    let args = ["report", "--stdio", "--inline", "-i", &path];
    bench.compare("report --inline, Rust with full debug information", &args, 3)
}

fn full_debug_tally(bench: &Bench) -> Result<PathBuf> {
    let target = bench.dir.join("build");
    let mut command = std::process::Command::new("cargo");
    command
        .args(["build", "--quiet", "--profile", "fast", "-p", "tally", "--bin", "tally"])
        .args(["--config", "profile.fast.debug='full'", "--target-dir"])
        .arg(&target)
        .current_dir(&bench.root);
    if !process::passed_on(&mut command, BUILD_LIMIT)? {
        bail!("tally with full debug information does not build");
    }
    Ok(target.join("fast/tally"))
}

/// `annotate` of one function: of a small program, and the hottest of a big one.
pub fn annotate(bench: &Bench) -> Result<()> {
    let small = big(bench)?.to_string_lossy().into_owned();
    one_function(bench, "a small program", &small, "step<31>")?;
    let large = full_debug(bench)?;
    let args = ["report", "--stdio", "--no-children", "-g", "none", "-s", "sym", "-d", "tally", "-i", &large];
    let text = process::capture(&mut bench.command("perf", &args), LIMIT)?.text();
    let hottest = text.lines().find_map(|line| Some(line.split_once("[.] ")?.1.trim().to_owned()));
    one_function(bench, "a big program", &large, &hottest.context("no row of tally itself")?)
}

fn one_function(bench: &Bench, what: &str, path: &str, symbol: &str) -> Result<()> {
    let args = ["annotate", "--stdio", "-i", path, "-s", symbol];
    bench.compare(&format!("annotate {symbol}, {what}"), &args, 2)
}
