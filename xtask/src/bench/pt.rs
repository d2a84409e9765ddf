//! Intel PT: the same trace decoded into a tree of calls by tally, and turned into text by perf.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{BUILD_LIMIT, Bench};
use crate::process;
use crate::usage::{self, Usage};

/// Time limit of perf for a twentieth of the trace; after it the output is "less than".
const PERF_LIMIT: Duration = Duration::from_secs(120);

/// A trace: the command, the maximum number of instructions, the repetitions of its longest loop.
struct Subject {
    name: &'static str,
    command: Vec<String>,
    most: &'static str,
    repeat: &'static str,
    /// For a run in qemu instead of the stepper: the number of instructions before the trace begins.
    emulate: Option<&'static str>,
}

/// Compares over a small program, one that mostly calls, and a compiler of about 30 MB.
pub fn pt(bench: &Bench) -> Result<()> {
    let stepper = stepper(bench)?;
    let source = bench.root.join("tests/programs/throw.cpp").to_string_lossy().into_owned();
    let ls = Subject {
        name: "small",
        command: vec!["/bin/ls".to_owned(), "/usr".to_owned()],
        most: "1000000",
        repeat: "500",
        emulate: None,
    };
    // A call every five instructions shows the cost of the call tree.
    let tails = Subject {
        name: "calls",
        command: vec![bench.program("tails")?, "200".to_owned()],
        most: "1000000",
        repeat: "1000",
        emulate: None,
    };
    let mut subjects = vec![ls, tails];
    let compiler = process::capture(&mut bench.command("g++", &["-print-prog-name=cc1plus"]), PERF_LIMIT);
    match compiler.map(|run| run.text().trim().to_owned()) {
        Ok(path) if Path::new(&path).is_file() && process::find("qemu-x86_64").is_some() => {
            // As its driver calls it; otherwise it does not find the headers of this architecture.
            let multiarch =
                process::capture(&mut bench.command("g++", &["-print-multiarch"]), PERF_LIMIT)?.text();
            let options = ["-quiet", "-D_GNU_SOURCE", "-imultiarch", multiarch.trim(), &source];
            let output = ["-o", "/dev/null"];
            subjects.push(Subject {
                name: "large",
                command: [&[path.as_str()][..], &options, &output]
                    .concat()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                most: "40000000",
                repeat: "6",
                // After this number of instructions it has its tables, and parses.
                emulate: Some("110000000"),
            });
        }
        _ => println!(
            "  skipped: the large program is g++'s cc1plus, run in qemu-x86_64: one of them is missing"
        ),
    }
    subjects.iter().try_for_each(|subject| compare(bench, &stepper, subject))
}

fn stepper(bench: &Bench) -> Result<PathBuf> {
    let mut build = bench
        .command("cargo", &["build", "--quiet", "--profile", "fast", "-p", "record", "--example", "pt_step"]);
    build.current_dir(&bench.root);
    if !process::passed_on(&mut build, BUILD_LIMIT)? {
        bail!("the stepper does not build");
    }
    let target = bench.dir.parent().context("the bench's folder is in target")?;
    Ok(target.join("fast/examples/pt_step"))
}

/// The trace and a twentieth of it, made once.
fn traces(bench: &Bench, stepper: &Path, subject: &Subject) -> Result<(PathBuf, PathBuf)> {
    let whole = bench.dir.join(format!("pt-{}.data", subject.name));
    let part = bench.dir.join(format!("pt-{}-part.data", subject.name));
    if !(whole.is_file() && part.is_file()) {
        let (to, part) = (whole.to_string_lossy(), part.to_string_lossy());
        let options = ["--most", subject.most, "--repeat", subject.repeat, "--part", &part, "-o", &to, "--"];
        let mut command = bench.command(stepper, &[]);
        command.args(subject.emulate.iter().flat_map(|skip| ["--emulate", skip])).args(options);
        let run = process::capture(command.args(&subject.command), BUILD_LIMIT)?;
        if !run.ok() {
            bail!("pt_step: {}\n{}", run.how(), run.tail(3));
        }
    }
    Ok((whole, part))
}

fn compare(bench: &Bench, stepper: &Path, subject: &Subject) -> Result<()> {
    let (whole, part) = traces(bench, stepper, subject)?;
    let path = whole.to_string_lossy().into_owned();
    let bytes = whole.metadata()?.len() as f64;
    let args = ["calls", "report", "-i", &path];
    let text = process::capture(&mut bench.command(&bench.tally, &args), PERF_LIMIT)?.text();
    let instructions = decoded(&text).context("tally decodes the trace")?;
    println!("  {}: {:.0} M instructions, {:.1} MB", subject.name, instructions / 1e6, bytes / 1e6);
    let one = best(bench, &args, "1")?;
    let all = best(bench, &args, "2")?;
    // By CPU time, which a busy machine extends less than wall time; both programs use one core.
    let rate = |usage: &Usage, of: f64| of / usage.cpu.as_secs_f64() / 1e6;
    println!(
        "    tally, one core: {:.1} MB/s, {:.0} M instructions/s (goals 30 and 200), {:.0} MiB with the file mapped",
        rate(&one, bytes),
        rate(&one, instructions),
        one.peak_bytes as f64 / f64::from(1 << 20)
    );
    println!(
        "    tally, two cores: {:.2}x one core by the clock (goal 1.8, if nothing else runs), {:.2}x its CPU time",
        one.wall.as_secs_f64() / all.wall.as_secs_f64(),
        all.cpu.as_secs_f64() / one.cpu.as_secs_f64()
    );
    let part_bytes = part.metadata()?.len() as f64;
    let part = part.to_string_lossy().into_owned();
    for itrace in ["--itrace=cr", "--itrace=b"] {
        let args = ["script", itrace, "--ns", "-F-event,-period,+addr,-comm,+flags,-dso", "-i", &part];
        let perf = usage::measure(&mut bench.command("perf", &args), None, PERF_LIMIT)?;
        let less = if perf.cut { "less than " } else { "" };
        let speed = rate(&perf, part_bytes);
        let ratio = rate(&one, bytes) / speed;
        println!(
            "    perf script {itrace}, on {:.2} MB of it: {less}{speed:.2} MB/s; tally on one core {ratio:.0}x",
            part_bytes / 1e6
        );
    }
    Ok(())
}

/// The run with the least CPU time of three on this number of cores.
fn best(bench: &Bench, args: &[&str], cores: &str) -> Result<Usage> {
    let mut best: Option<Usage> = None;
    for _ in 0..3 {
        let mut command = bench.command(&bench.tally, args);
        let run = usage::measure(command.env("RAYON_NUM_THREADS", cores), None, PERF_LIMIT)?;
        if best.is_none_or(|best| run.cpu < best.cpu) {
            best = Some(run);
        }
    }
    best.context("three runs")
}

/// The count in `decoded N instructions from …`.
fn decoded(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("decoded "))?;
    line.split(' ').next()?.replace(',', "").parse().ok()
}
