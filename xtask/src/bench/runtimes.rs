//! Python programs under tally, py-spy and `perf record` of `python -X perf`: what each costs the program and itself, and
//! how far its shares are from those that the program has.
//!
//! The interpreter is `python3`, or the one that `TALLY_BENCH_PYTHON` names. Tools that are missing are left out.

use std::path::Path;

use anyhow::{Context, Result};

use super::{Bench, LIMIT};
use crate::process;
use crate::usage;

/// Work in equal pieces: 50 % in `alpha`, 30 % in `beta`, 20 % in `gamma`, below 20 calls of `down`. Writes how long it
/// took into a file, so that starting the interpreter and the profiler doesn't count.
const PROGRAM: &str = "\
import sys, time
def piece():
    x = 0
    for i in range(4000):
        x += i * i
    return x
def alpha():
    for _ in range(5): piece()
def beta():
    for _ in range(3): piece()
def gamma():
    for _ in range(2): piece()
def down(depth):
    if depth:
        return down(depth - 1)
    alpha()
    beta()
    gamma()
begin = time.perf_counter(), time.process_time()
for _ in range(int(sys.argv[2])):
    down(20)
with open(sys.argv[1], 'w') as out:
    print(time.perf_counter() - begin[0], time.process_time() - begin[1], file=out)
";

/// Functions with their shares, in percent.
const SHARES: [(&str, f64); 3] = [("alpha", 50.0), ("beta", 30.0), ("gamma", 20.0)];
/// Calls of `down`: a second or two.
const CALLS: &str = "400";
const ROUNDS: usize = 5;
const TIME_FILE: &str = "python-time.txt";
const SCRIPT: &str = "python-split.py";

/// A way to profile, or none.
struct Way {
    name: &'static str,
    /// The command before the interpreter; empty: the program alone.
    recorder: Vec<String>,
    /// Options of the interpreter.
    options: &'static [&'static str],
    /// A command that prints the stacks; empty if the recorder has written them into a file.
    stacks: Vec<String>,
    /// The program's least wall and CPU time, s.
    wall_s: f64,
    cpu_s: f64,
    /// CPU time other than the program's, s, of the round with least; the interpreter's start is part of it.
    own_s: f64,
    peak_bytes: u64,
}

/// Python under each profiler, in turn.
pub fn runtimes(bench: &Bench) -> Result<()> {
    std::fs::write(bench.dir.join(SCRIPT), PROGRAM)?;
    let python = std::env::var("TALLY_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    println!("  {}", process::capture(&mut bench.command(&python, &["--version"]), LIMIT)?.text().trim());
    let mut ways = ways(bench, &python)?;
    for _ in 0..ROUNDS {
        for way in &mut ways {
            measure(bench, way, &python)?;
        }
    }
    let (alone, recorded) = ways.split_first().context("the program alone")?;
    println!("  alone: {:.3} s, {:.3} s CPU", alone.wall_s, alone.cpu_s);
    for way in recorded {
        tell(bench, way, alone)?;
    }
    Ok(())
}

fn ways(bench: &Bench, python: &str) -> Result<Vec<Way>> {
    let tally = bench.tally.to_string_lossy().into_owned();
    let way = |name, recorder: &[&str], options, stacks: &[&str]| Way {
        name,
        recorder: recorder.iter().map(|&arg| arg.to_owned()).collect(),
        options,
        stacks: stacks.iter().map(|&arg| arg.to_owned()).collect(),
        wall_s: f64::MAX,
        cpu_s: f64::MAX,
        own_s: f64::MAX,
        peak_bytes: 0,
    };
    let script = ["script", "-F", "ip,sym", "-i"];
    let tally_script = |file| [&[tally.as_str()], &script[..], &[file]].concat();
    let mut ways = vec![
        way("alone", &[], &[], &[]),
        way(
            "tally record, 99 Hz",
            &[&tally, "record", "-q", "-F", "99", "-o", "python-99.data", "--"],
            &[],
            &tally_script("python-99.data"),
        ),
        way(
            "tally run, 499 Hz and waits",
            &[&tally, "run", "-o", "python-run.data", "--"],
            &[],
            &tally_script("python-run.data"),
        ),
    ];
    if process::find("py-spy").is_some() {
        let record = ["py-spy", "record", "-r", "99", "-f", "raw", "-o", "python-spy.txt", "--"];
        ways.push(way("py-spy, 99 Hz", &record, &[], &[]));
    } else {
        println!("  py-spy is not on this machine: left out");
    }
    let trampolines = process::capture(&mut bench.command(python, &["-X", "perf", "-c", ""]), LIMIT)?;
    let version = process::capture(
        &mut bench.command(python, &["-c", "import sys; print(sys.version_info[1])"]),
        LIMIT,
    )?;
    if trampolines.ok() && version.text().trim().parse::<u32>().is_ok_and(|minor| minor >= 12) {
        let record =
            ["perf", "record", "-q", "-F", "99", "-g", "-e", "cpu-clock", "-o", "python-perf.data", "--"];
        ways.push(way(
            "perf, python -X perf, 99 Hz",
            &record,
            &["-X", "perf"],
            &[&["perf"], &script[..], &["python-perf.data"]].concat(),
        ));
    } else {
        println!("  this Python has no -X perf (3.12 and later): perf left out");
    }
    Ok(ways)
}

fn measure(bench: &Bench, way: &mut Way, python: &str) -> Result<()> {
    let program = [&[python], way.options, &[SCRIPT, TIME_FILE, CALLS]].concat();
    let words: Vec<&str> = way.recorder.iter().map(String::as_str).chain(program).collect();
    let cost = usage::measure(&mut bench.command(words[0], &words[1..]), None, LIMIT).context(way.name)?;
    let text = std::fs::read_to_string(bench.dir.join(TIME_FILE))?;
    let mut times = text.split_whitespace().map(str::parse::<f64>);
    let mut time = || times.next().context("two times")?.context("a time");
    let (wall_s, cpu_s) = (time()?, time()?);
    way.wall_s = way.wall_s.min(wall_s);
    way.cpu_s = way.cpu_s.min(cpu_s);
    way.own_s = way.own_s.min(cost.cpu.as_secs_f64() - cpu_s);
    way.peak_bytes = way.peak_bytes.max(cost.peak_bytes);
    Ok(())
}

fn tell(bench: &Bench, way: &Way, alone: &Way) -> Result<()> {
    let more = |with: f64, without: f64| (with / without - 1.0) * 100.0;
    let (wall, cpu) = (more(way.wall_s, alone.wall_s), more(way.cpu_s, alone.cpu_s));
    let counts = counts(bench, way)?;
    let all: u64 = counts.iter().sum();
    let shares = counts.iter().map(|&count| count as f64 * 100.0 / all.max(1) as f64);
    let off = shares.clone().zip(SHARES).map(|(share, (_, known))| (share - known).abs()).fold(0.0, f64::max);
    let shown: Vec<String> = shares.map(|share| format!("{share:.1}")).collect();
    println!(
        "  {}: program {wall:+.1} % wall, {cpu:+.1} % CPU; itself {:.2} s CPU, {:.0} MiB",
        way.name,
        way.own_s - alone.own_s,
        way.peak_bytes as f64 / f64::from(1 << 20)
    );
    match all {
        0 => println!("    no sample has one of the functions (stacks end in the interpreter)"),
        _ => println!("    {all} samples: {} % (off by {off:.1})", shown.join(" / ")),
    }
    Ok(())
}

/// Samples with each of the functions.
fn counts(bench: &Bench, way: &Way) -> Result<Vec<u64>> {
    let Some((program, args)) = way.stacks.split_first() else {
        let text = std::fs::read_to_string(bench.dir.join("python-spy.txt"))?;
        return Ok(SHARES.iter().map(|(name, _)| folded(&text, name)).collect());
    };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let run = process::capture(&mut bench.command(Path::new(program), &args), LIMIT)?;
    let text = run.text();
    let with = |name: &str| {
        let names = [format!(" {name} ("), format!("py::{name}:")];
        text.split("\n\n").filter(|stack| names.iter().any(|name| stack.contains(name))).count() as u64
    };
    Ok(SHARES.iter().map(|(name, _)| with(name)).collect())
}

/// Samples of folded stacks with a function: `main (a.py:1);alpha (a.py:7) 12`.
fn folded(text: &str, name: &str) -> u64 {
    let has = |stack: &str| {
        stack.split(';').any(|frame| frame.strip_prefix(name).is_some_and(|rest| rest.starts_with(" (")))
    };
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    lines.filter(|(stack, _)| has(stack)).filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn folded_stacks_count_for_whole_names_only() {
        let text =
            "<module> (a.py:1);alpha (a.py:7);piece (a.py:3) 12\n<module> (a.py:1);alphabet (a.py:9) 5\n";
        assert_eq!((folded(text, "alpha"), folded(text, "beta")), (12, 0));
    }
}
