//! Recording a running program: overhead, bytes on disk, share of complete stacks.

use anyhow::{Context, Result, bail};

use super::{Bench, LIMIT, tell};
use crate::process;

/// Samples of a file as perf counts them.
fn samples(bench: &Bench, file: &str) -> Result<u64> {
    let run = process::capture(&mut bench.command("perf", &["report", "--stats", "-i", file]), LIMIT)?;
    let text = run.text();
    let line = text.lines().find(|line| line.contains("SAMPLE events:")).context("perf counts no samples")?;
    let number = line.split(':').nth(1).and_then(|rest| rest.split_whitespace().next());
    number.and_then(|word| word.parse().ok()).context("a number of samples")
}

fn bytes_per_sample(bench: &Bench, program: &std::path::Path, options: &[&str], file: &str) -> Result<f64> {
    let rand = bench.program("rand")?;
    let mut args = vec!["record", "-F", "997", "-e", "cpu-clock", "-o", file];
    args.extend(options);
    args.extend(["--", &rand, "4", "800"]);
    let run = process::capture(&mut bench.command(program, &args), LIMIT)?;
    if !run.ok() {
        bail!("{}: {}\n{}", args.join(" "), run.how(), run.tail(3));
    }
    let bytes = std::fs::metadata(bench.dir.join(file))?.len();
    let count = samples(bench, file)?;
    println!("  {file}: {bytes} bytes, {count} samples");
    Ok(bytes as f64 / count.max(1) as f64)
}

/// Bytes on disk per sample, against snapshots.
pub fn bytes(bench: &Bench) -> Result<()> {
    let perf = bytes_per_sample(bench, "perf".as_ref(), &["-N", "--call-graph", "dwarf"], "bytes-perf.data")?;
    let fp = bytes_per_sample(bench, "perf".as_ref(), &["-N", "--call-graph", "fp"], "bytes-fp.data")?;
    let tally = bytes_per_sample(bench, &bench.tally, &["--call-graph", "live"], "bytes-tally.data")?;
    println!(
        "  bytes a sample: perf dwarf {perf:.0}, perf fp {fp:.0}, tally live {tally:.0}: 1/{:.0} of dwarf (goal 1/50)",
        perf / tally
    );
    Ok(())
}

/// The target's own time alone, under `perf record -g`, under `tally record`; each the best of five, in turn.
pub fn slowdown(bench: &Bench) -> Result<()> {
    let knapsack = bench.program("knapsack-new")?;
    // One busy process per core, so that the recorder has no core for itself.
    let both = format!("{knapsack} 3000 >/dev/null & {knapsack} 3000 >/dev/null; wait");
    let perf_g = [
        "record",
        "-q",
        "-N",
        "-F",
        "997",
        "-e",
        "cpu-clock",
        "-g",
        "-o",
        "slow-perf.data",
        "--",
        "sh",
        "-c",
    ];
    let tally_live =
        ["record", "-q", "-F", "997", "-e", "cpu-clock", "-g", "-o", "slow-tally.data", "--", "sh", "-c"];
    let mut best = [f64::MAX; 3];
    for _ in 0..5 {
        let runs: [(&std::path::Path, &[&str]); 3] =
            [("sh".as_ref(), &["-c"]), ("perf".as_ref(), &perf_g), (&bench.tally, &tally_live)];
        for (index, (program, options)) in runs.into_iter().enumerate() {
            let mut args = options.to_vec();
            args.push(&both);
            best[index] = best[index].min(bench.best(1, program, &args)?.wall.as_secs_f64());
        }
    }
    let [alone, perf, tally] = best;
    println!(
        "  alone {alone:.3} s, perf record -g {perf:.3} s ({:+.1} %), tally record {tally:.3} s ({:+.1} %)",
        (perf / alone - 1.0) * 100.0,
        (tally / alone - 1.0) * 100.0
    );
    Ok(())
}

/// tally's own numbers on the stacks of programs whose libraries have no frame pointers.
pub fn complete(bench: &Bench) -> Result<()> {
    let (rand, list) = (bench.program("rand")?, bench.program("list")?);
    let throw = bench.root.join("tests/programs/throw.cpp").to_string_lossy().into_owned();
    let programs: [(&str, Vec<&str>); 3] = [
        ("rand", vec![&rand, "4", "800"]),
        ("list", vec![&list, "4", "60000"]),
        ("a C++ compile", vec!["g++", "-O2", "-std=c++20", "-c", "-o", "/dev/null", &throw]),
    ];
    for (name, program) in programs {
        let mut args = vec!["run", "-F", "997", "-o", "complete.data", "--"];
        args.extend(program);
        let run = process::capture(&mut bench.command(&bench.tally, &args), LIMIT)?;
        let text = format!("{}{}", run.text(), String::from_utf8_lossy(&run.stderr));
        let lines = text.lines().filter(|line| line.contains("stacks") || line.contains("lost"));
        println!("  {name}: {}", lines.map(str::trim).collect::<Vec<_>>().join("; "));
        if !run.ok() {
            bail!("tally run: {}\n{}", run.how(), run.tail(5));
        }
    }
    Ok(())
}

/// Overhead of counting: `stat` of a program that does nothing.
pub fn stat(bench: &Bench) -> Result<()> {
    let perf = bench.best(20, "perf", &["stat", "--", "true"])?;
    let tally = bench.best(20, &bench.tally, &["stat", "--", "true"])?;
    tell("stat true", perf, tally);
    Ok(())
}
