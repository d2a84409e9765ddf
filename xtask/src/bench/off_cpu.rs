//! Off-CPU time compared with other tools: the overhead of each, and its result for a program that knows its times.
//!
//! Tools that are missing or can't run on this machine are listed with their own first line of output.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Bench, LIMIT};
use crate::process;

/// Switches of the ping-pong: two per operation.
const SWITCHES: f64 = 400_000.0;
const PIPE: [&str; 8] = ["taskset", "-c", "1", "perf", "bench", "sched", "pipe", "-l"];
const OPERATIONS: &str = "200000";
const ROUNDS: usize = 5;
/// libbpf-tools' BPF program for the same task, also on sched_switch.
const PEER: &str = "offcputime";
/// Time until the peer has attached.
const ATTACHED: Duration = Duration::from_millis(1500);

/// Both comparisons.
pub fn off_cpu(bench: &Bench) -> Result<()> {
    let peer = peer(bench);
    ping_pong(bench, peer)?;
    for rivals in [0, 4] {
        known_split(bench, peer, rivals)?;
    }
    Ok(())
}

/// True if offcputime runs on this machine. Prints the reason if not.
fn peer(bench: &Bench) -> bool {
    if process::find(PEER).is_none() {
        println!("  {PEER} (libbpf-tools) is not on this machine: left out");
        return false;
    }
    match process::capture(&mut bench.command(PEER, &["-k", "1"]), LIMIT) {
        Ok(run) if run.ok() => true,
        Ok(run) => {
            let said = String::from_utf8_lossy(&run.stderr).lines().next().unwrap_or_default().to_owned();
            println!("  {PEER} does not run here ({said}): left out");
            false
        }
        Err(error) => {
            println!("  {PEER}: {error:#}: left out");
            false
        }
    }
}

/// A process that is ended with the block.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Pipe ping-pong pinned to one CPU, alone and while recorded, five rounds in turn.
fn ping_pong(bench: &Bench, peer: bool) -> Result<()> {
    let pipe: Vec<&str> = PIPE.into_iter().chain([OPERATIONS]).collect();
    let tally = bench.tally.as_path();
    let recorders: [(&str, &Path, &str, &[&str]); 5] = [
        (
            "perf record -e sched:sched_switch -g",
            "perf".as_ref(),
            "off-perf.data",
            &["record", "-q", "-e", "sched:sched_switch", "-g"],
        ),
        ("perf sched record", "perf".as_ref(), "off-sched.data", &["sched", "record", "-q"]),
        ("tally record --off-cpu", tally, "off-tally.data", &["record", "-q", "--off-cpu"]),
        // Takes no CPU samples, so it shows the overhead of off-CPU time alone.
        ("without CPU samples", tally, "off-only.data", &["record", "-q", "--off-cpu", "-e", "dummy"]),
        ("tally run", tally, "off-run.data", &["run"]),
    ];
    let (mut alone, mut beside, mut took) = (Vec::new(), Vec::new(), vec![Vec::new(); recorders.len()]);
    for _ in 0..ROUNDS {
        alone.push(us_per_operation(bench, pipe[0].as_ref(), &pipe[1..])?);
        for (took, (_, program, file, options)) in took.iter_mut().zip(recorders) {
            let args: Vec<&str> = options.iter().chain(&["-o", file, "--"]).chain(&pipe).copied().collect();
            took.push(us_per_operation(bench, program, &args)?);
        }
        if peer {
            let _running = Running::start(&mut bench.command(PEER, &["600"]))?;
            std::thread::sleep(ATTACHED);
            beside.push(us_per_operation(bench, pipe[0].as_ref(), &pipe[1..])?);
        }
    }
    println!("  alone {:.2} us an operation of two switches; goals 1.15x, 1 byte a switch", least(&alone));
    for (took, (name, _, file, _)) in took.iter().zip(recorders) {
        let bytes = std::fs::metadata(bench.dir.join(file))?.len() as f64 / SWITCHES;
        println!("  {name}: {}, {bytes:.2} bytes a switch", ratios(took, &alone));
    }
    if peer {
        println!("  {PEER}: {}, no file", ratios(&beside, &alone));
    }
    Ok(())
}

fn least(took: &[f64]) -> f64 {
    took.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Ratio of the best times, and the median of each round's ratio to the same round alone.
fn ratios(took: &[f64], alone: &[f64]) -> String {
    let mut by_round: Vec<f64> = took.iter().zip(alone).map(|(took, alone)| took / alone).collect();
    by_round.sort_by(f64::total_cmp);
    let median = by_round[by_round.len() / 2];
    format!("{:.2} us ({:.2}x, median round {median:.2}x)", least(took), least(took) / least(alone))
}

fn us_per_operation(bench: &Bench, program: &Path, args: &[&str]) -> Result<f64> {
    let run = process::capture(&mut bench.command(program, args), LIMIT)?;
    let text = run.text();
    let line = text.lines().find(|line| line.contains("usecs/op"));
    let line = line.with_context(|| format!("perf bench prints no time: {}", run.tail(3)))?;
    line.split_whitespace().next().and_then(|number| number.parse().ok()).context("a number of us")
}

/// Time that `split` was busy, napped and waited for a lock, in ms.
type Parts = [f64; 3];

const PARTS: [&str; 3] = ["busy", "nap", "lock"];

/// Each tool's times for the program that knows how it spent its time.
fn known_split(bench: &Bench, peer: bool, rivals: usize) -> Result<()> {
    let split = bench.program("split")?;
    let hogs: Result<Vec<Running>> = (0..rivals)
        .map(|_| Running::start(&mut bench.command("sh", &["-c", "while :; do :; done"])))
        .collect();
    let _hogs = hogs?;
    println!("  a program that knows its times, with {rivals} rivals; deviation of each tool");
    let args = ["record", "-q", "--off-cpu", "-o", "split.data", "--", &split, "3"];
    let run = process::capture(&mut bench.command(&bench.tally, &args), LIMIT)?;
    let known = of_itself(&run.text()).with_context(|| run.tail(3))?;
    let folded = ["flame", "--folded", "--wall", "--idle", "-i", "split.data"];
    let flame = process::capture(&mut bench.command(&bench.tally, &folded), LIMIT)?.text();
    let found = ["busy", "nap", "wait_for_lock"].map(|function| Some(within(&flame, function)));
    println!("    tally, by its own functions: {}", shares(found, known));
    if peer {
        let (found, known, rest, named) = by_peer(bench, &split)?;
        let named = if named { "some" } else { "none" };
        println!(
            "    {PEER}, by the kernel's functions: {}; its own functions named: {named}; {rest:.1} ms neither",
            shares(found, known)
        );
    }
    Ok(())
}

fn shares(found: [Option<f64>; 3], known: Parts) -> String {
    let each = |i: usize| match found[i] {
        Some(ms) => format!("{} {:+.2} %", PARTS[i], (ms / known[i] - 1.0) * 100.0),
        None => format!("{} unknown", PARTS[i]),
    };
    (0..3).map(each).collect::<Vec<_>>().join(", ")
}

/// `busy_ns N nap_ns N wait_ns N cpu_ns N`
fn of_itself(text: &str) -> Option<Parts> {
    let words: Vec<&str> =
        text.lines().find(|line| line.starts_with("busy_ns"))?.split_whitespace().collect();
    let ms = |at: usize| words.get(at)?.parse::<f64>().ok().map(|ns| ns / 1e6);
    Some([ms(1)?, ms(3)?, ms(5)?])
}

/// ms of the folded stacks (in ns) that contain `function`.
fn within(folded: &str, function: &str) -> f64 {
    let stacks = folded.lines().filter_map(|line| line.rsplit_once(' '));
    let of = stacks.filter(|(stack, _)| stack.split(';').any(|frame| frame == function));
    of.filter_map(|(_, ns)| ns.parse::<f64>().ok()).sum::<f64>() / 1e6
}

/// offcputime's result for the program's main thread: naps and locks by the kernel's functions, the rest in ms, and
/// whether it names any function of the program.
fn by_peer(bench: &Bench, split: &str) -> Result<([Option<f64>; 3], Parts, f64, bool)> {
    let line = format!("sleep {}; exec {split} 3", ATTACHED.as_secs_f64());
    let mut target =
        bench.command("sh", &["-c", &line]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let pid = target.id().to_string();
    // It ends by itself even without a signal.
    let mut tracer = bench.command(PEER, &["-p", &pid, "120"]);
    let tracer = tracer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut said = String::new();
    BufReader::new(target.stdout.take().context("a pipe")?).read_line(&mut said)?;
    target.wait()?;
    // It prints its results at Ctrl-C.
    Command::new("kill").args(["-INT", &tracer.id().to_string()]).status()?;
    let report = String::from_utf8_lossy(&tracer.wait_with_output()?.stdout).into_owned();
    let known = of_itself(&said).context("split prints no times")?;
    let sums = of_report(&report, &pid);
    let of = |name| sums.get(name).copied().unwrap_or(0.0);
    let named = report.lines().any(|line| ["nap", "wait_for_lock", "busy"].contains(&line.trim()));
    Ok(([None, Some(of("nap")), Some(of("lock"))], known, of("rest"), named))
}

/// ms by part of a thread: each stack is followed by `- COMM (TID)` and its us.
fn of_report(report: &str, tid: &str) -> BTreeMap<&'static str, f64> {
    let mut sums = BTreeMap::new();
    let (mut part, mut is_its) = ("rest", false);
    for line in report.lines().map(str::trim) {
        if line.is_empty() {
            (part, is_its) = ("rest", false);
        } else if line.starts_with("- ") {
            is_its = line.ends_with(&format!("split ({tid})"));
        } else if line.contains("nanosleep") {
            part = "nap";
        } else if line.contains("futex") {
            part = "lock";
        } else if let Some(us) = line.parse::<f64>().ok().filter(|_| is_its) {
            *sums.entry(part).or_insert(0.0) += us / 1e3;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offcputimes_report_is_summed_up_by_part() {
        let text = "    schedule\n    futex_do_wait\n    -                split (7)\n        1500\n\n    \
                    schedule\n    do_nanosleep\n    -                split (8)\n        10\n\n    \
                    schedule\n    do_nanosleep\n    -                split (7)\n        2000\n\n    \
                    schedule\n    -                split (7)\n        50\n";
        let sums = of_report(text, "7");
        assert_eq!(sums, BTreeMap::from([("lock", 1.5), ("nap", 2.0), ("rest", 0.05)]));
        let known = of_itself("x\nbusy_ns 1000000 nap_ns 2000000 wait_ns 3000000 cpu_ns 9\n");
        assert_eq!(known, Some([1.0, 2.0, 3.0]));
        assert!((within("a;nap;b 5000000\na;napping 1\n", "nap") - 5.0).abs() < 1e-9);
    }
}
