//! Cost of a traced call, compared with uftrace: time of entry and exit, bytes, calls lost.
//!
//! Two times are measured: the traced thread alone, as the program prints it (the best of its rounds), and the CPU time
//! of a whole run with all its processes, for both tools without options.

use anyhow::{Context, Result, bail};
use std::path::Path;

use super::{Bench, LIMIT};
use crate::{process, usage};

const WAYS: &[&str] = &["pg", "fentry", "patchable", "instrument"];
const CALLS: u64 = 1_000_000;
/// Calls of a whole run, enough that start and end are negligible.
const WHOLE_CALLS: u64 = 4_000_000;
/// Rounds of the program.
const ROUNDS: u64 = 5;

/// Nanoseconds per call as the program prints them.
fn cost(bench: &Bench, program: &Path, args: &[&str]) -> Result<f64> {
    let run = process::capture(&mut bench.command(program, args), LIMIT)?;
    let text = run.text();
    let word = text.lines().find_map(|line| line.strip_suffix(" ns per call"));
    word.and_then(|word| word.trim().parse().ok())
        .with_context(|| format!("{}: {}", args.join(" "), run.tail(3)))
}

/// The least of three.
fn best(bench: &Bench, program: &Path, args: &[&str]) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        least = least.min(cost(bench, program, args)?);
    }
    Ok(least)
}

/// Processor time of a whole run, all its processes, in ns a call; the least of three.
fn whole(bench: &Bench, program: &Path, args: &[&str], output: Option<&str>) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        if let Some(output) = output.map(|name| bench.dir.join(name)).filter(|dir| dir.exists()) {
            // Making room for the recording is not part of its cost.
            std::fs::remove_dir_all(output)?;
        }
        let used = usage::measure(&mut bench.command(program, args), None, LIMIT)?;
        least = least.min(used.cpu.as_secs_f64() * 1e9 / (WHOLE_CALLS * ROUNDS) as f64);
    }
    Ok(least)
}

/// A whole run of each tool with its default options.
fn whole_runs(bench: &Bench, way: &str, uftrace: Option<&Path>) -> Result<()> {
    let program = bench.program(&format!("call-cost-{way}"))?;
    let count = WHOLE_CALLS.to_string();
    let plain = whole(bench, Path::new(&program), &[&count], None)?;
    let ours = ["calls", "record", "-q", "-o", "cost.calls", &program, &count];
    let tally = whole(bench, &bench.tally, &ours, Some("cost.calls"))? - plain;
    print!("  {way}, whole run, all processes: tally {tally:.1} ns of CPU a call");
    if let Some(uftrace) = uftrace {
        match whole(bench, uftrace, &["record", "-d", "cost.uftrace", &program, &count], Some("cost.uftrace"))
        {
            Ok(theirs) => print!("; uftrace {:.1} ns: {:.1}x", theirs - plain, (theirs - plain) / tally),
            Err(_) => print!("; uftrace can't"),
        }
    }
    println!();
    Ok(())
}

/// Bytes of the files with this ending below a folder.
fn bytes(dir: &Path, ending: &str) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|found| found == ending) {
            sum += entry.metadata()?.len();
        }
    }
    Ok(sum)
}

/// Every way of instrumenting, tally and uftrace in turn; then no function selected; then two threads at once.
pub fn calls(bench: &Bench) -> Result<()> {
    let count = CALLS.to_string();
    let plain = best(bench, Path::new(&bench.program("call-cost")?), &[&count])?;
    println!("  the call itself: {plain:.2} ns");
    let uftrace = process::find("uftrace");
    for way in WAYS {
        let program = bench.program(&format!("call-cost-{way}"))?;
        let ours = ["calls", "record", "-q", "-o", "cost.calls", &program, &count];
        let tally = best(bench, &bench.tally, &ours)? - plain;
        let each = bytes(&bench.dir.join("cost.calls"), "calls")? as f64 / (CALLS * ROUNDS) as f64;
        print!("  {way}: tally {tally:.1} ns, {each:.1} bytes a call (goal 30 ns, 16 bytes)");
        if let Some(uftrace) = &uftrace {
            let theirs = ["record", "--no-libcall", "-d", "cost.uftrace", &program, &count];
            match best(bench, uftrace, &theirs) {
                Ok(other) => {
                    let other = other - plain;
                    let each =
                        bytes(&bench.dir.join("cost.uftrace"), "dat")? as f64 / (CALLS * ROUNDS) as f64;
                    print!("; uftrace {other:.1} ns, {each:.1} bytes: {:.1}x", other / tally);
                }
                Err(_) => print!("; uftrace can't"),
            }
        }
        println!();
        whole_runs(bench, way, uftrace.as_deref())?;
    }
    uprobes(bench, plain)?;
    nothing_chosen(bench)?;
    two_threads(bench)
}

/// Calls of a program that is not instrumented; fewer, because each is a trap.
const PROBED_CALLS: u64 = 20_000;

/// Entry and exit by uprobes: every call, and sums only; compared with perf's count of the entry alone.
fn uprobes(bench: &Bench, plain: f64) -> Result<()> {
    let program = bench.program("call-cost")?;
    let count = PROBED_CALLS.to_string();
    let ours = ["calls", "record", "-q", "--uprobes", "--max-rate", "0", "-P", "leaf", "-o", "cost.calls"];
    for (name, more) in
        [("every call", &[][..]), ("return probes", &["--return-probes"]), ("sums", &["--counts"])]
    {
        let args = [&ours, more, &["--", &program, &count]].concat();
        match best(bench, &bench.tally, &args) {
            Ok(tally) => println!("  uprobes, {name}: tally {:.0} ns a call", tally - plain),
            Err(why) => println!("  uprobes, {name}: not possible here: {why:#}"),
        }
    }
    let Some(perf) = process::find("perf") else { return Ok(()) };
    let probe = |args: &[&str]| process::capture(&mut bench.command(&perf, args), LIMIT);
    let added = probe(&["probe", "-q", "-x", &program, "tally_bench=leaf"])?;
    if added.ok() {
        let args = ["stat", "-e", "probe_call:tally_bench", &program, &count];
        let group = probe(&["probe", "-q", "--list"])?.text();
        let event = group
            .lines()
            .find_map(|line| line.split_whitespace().next().filter(|e| e.ends_with(":tally_bench")));
        let args = args.map(|arg| if arg.ends_with(":tally_bench") { event.unwrap_or(arg) } else { arg });
        match best(bench, &perf, &args) {
            Ok(entry) => println!("  uprobes, perf stat, entries only: {:.0} ns a call", entry - plain),
            Err(why) => println!("  uprobes, perf stat: {why:#}"),
        }
        probe(&["probe", "-q", "-d", "*:tally_bench"])?;
    }
    Ok(())
}

/// A program with only one recorded function, which is called once, compared with an untraced run.
fn nothing_chosen(bench: &Bench) -> Result<()> {
    let count = (CALLS * 100).to_string();
    for way in ["pg", "fentry", "patchable"] {
        let program = bench.program(&format!("call-cost-{way}"))?;
        let args = ["calls", "record", "-q", "-P", "cold", "-o", "cost.calls", &program, &count];
        // The program alone: its patchable form without a recorder.
        let untraced = best(bench, Path::new(&bench.program("call-cost-patchable")?), &[&count])?;
        let traced = best(bench, &bench.tally, &args)?;
        println!("  {way}, nothing selected: {traced:.3} ns a call, untraced with nops {untraced:.3} ns");
    }
    Ok(())
}

/// Two threads that call as fast as they can: calls per second, and lost calls.
fn two_threads(bench: &Bench) -> Result<()> {
    let program = bench.program("call-cost-patchable")?;
    let count = CALLS.to_string();
    let args = ["calls", "record", "-q", "-o", "cost.calls", &program, &count, "2"];
    let each = cost(bench, &bench.tally, &args)?;
    let info =
        process::capture(&mut bench.command(&bench.tally, &["calls", "info", "-i", "cost.calls"]), LIMIT)?;
    let text = info.text();
    let number = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().replace(',', "").parse().ok()
    };
    let (calls, lost) =
        (number("calls").context("info: no calls")?, number("lost").context("info: no lost")?);
    println!("  two threads: {:.1} M calls a second each; {calls} recorded, {lost} lost", 1e3 / each);
    if calls + lost < CALLS * ROUNDS * 2 {
        bail!("{} calls are neither recorded nor reported as lost", CALLS * ROUNDS * 2 - calls - lost);
    }
    Ok(())
}
