//! Intel PT without the hardware: programs are stepped instruction by instruction, encoded in every way a processor
//! might, and decoded by tally and by perf. Both lists of calls and returns must equal the true one, and the counts per
//! function must equal the programs' own counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::pt_text::{same_lines, same_packets, same_samples};
use super::{Effort, Pair};
use crate::cargo::cargo;
use crate::repo::Repo;
use crate::score::{Score, skip};
use crate::{parallel, process};

const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
const STEP_LIMIT: Duration = Duration::from_secs(600);
/// Maximum number of instructions; of longer programs only the start is compared.
const fn most_steps(effort: Effort) -> &'static str {
    match effort {
        Effort::Gate(_) => "70000",
        Effort::Whole => "400000",
    }
}
/// Encodings of each run, by the stepper's names.
const WAYS: [&str; 7] = ["cycles", "uncompressed", "crystal", "tsc", "two-cpus", "per-thread", "overflows"];

/// The same run as the recorder writes it from a fake kernel's rings: name, and the part of the truth it must contain.
const RECORDED: [(&str, Part); 6] = [
    ("recorded-whole-cpus", Part::All),
    ("recorded-whole-threads", Part::All),
    ("recorded-snapshot-cpus", Part::End),
    ("recorded-snapshot-threads", Part::End),
    ("recorded-late-cpus", Part::Some),
    ("recorded-late-threads", Part::Some),
];

/// The part of the run that a recording contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All.
    All,
    /// End.
    End,
    /// Some of it, in order.
    Some,
}

/// A program, its arguments, and whether it counts its own calls.
struct Subject {
    program: &'static str,
    args: &'static [&'static str],
    counts: bool,
}

const fn counting(program: &'static str, args: &'static [&'static str]) -> Subject {
    Subject { program, args, counts: true }
}

const fn other(program: &'static str, args: &'static [&'static str]) -> Subject {
    Subject { program, args, counts: false }
}

/// Recursion, longjmp, callbacks, signals, four threads; tail calls; coroutines; a lock table with few and with many
/// threads; exceptions; dlopen and dlclose; exec; processes; page faults; mappings; deep stacks; and others' programs.
const SUBJECTS: &[Subject] = &[
    counting("calls", &[]),
    counting("tails", &["20"]),
    counting("lock_table", &["4", "5"]),
    other("throw", &["1"]),
    other("exec", &["2"]),
    other("mmaps", &["4", "3"]),
    other("/usr/bin/python3", &["-I", "-S", "-E", "-c", "pass"]),
    counting("coroutines", &["20"]),
    counting("lock_table", &["32", "2"]),
    other("dlopen", &["2"]),
    other("forks", &["2"]),
    other("faults", &["1"]),
    other("deep", &[]),
    other("/bin/true", &[]),
    other("/bin/ls", &["/usr"]),
];

/// Number of subjects that every change is compared over; the heavier checks compare over all.
const FIRST_SUBJECTS: usize = 7;

/// Calls and returns by thread, in order: kind, from, to.
type Lists = BTreeMap<u32, Vec<(String, u64, u64)>>;

/// Compares every subject in every way.
pub fn compare(repo: &Repo, pair: &Pair) -> Result<Score> {
    let args = ["build", "--quiet", "-p", "record", "--example", "pt_step"];
    if !process::passed_on(&mut cargo(repo, &args), BUILD_LIMIT)? {
        bail!("the stepper does not build");
    }
    let stepper = repo.target().join("debug/examples/pt_step");
    let most_steps = most_steps(pair.effort);
    let subjects = match pair.effort {
        Effort::Gate(_) => &SUBJECTS[..FIRST_SUBJECTS],
        Effort::Whole => SUBJECTS,
    };
    let scores = parallel::map_by_worker(subjects, |cpu, subject| {
        one(pair, Stepper { program: &stepper, cpu, most_steps }, subject)
    });
    let mut score = Score::default();
    for part in scores {
        score += part?;
    }
    if pair.effort.is_whole() {
        score += lock_table(pair)?;
    }
    Ok(score)
}

/// The stepper, and the CPU it has to itself.
#[derive(Clone, Copy)]
struct Stepper<'p> {
    program: &'p Path,
    cpu: usize,
    most_steps: &'static str,
}

/// Steps one subject and compares it in every way.
fn one(pair: &Pair, stepper: Stepper<'_>, subject: &Subject) -> Result<Score> {
    let start = Instant::now();
    let name = format!("{} {}", subject.program, subject.args.join(" "));
    let Some(path) = find(pair, subject.program) else {
        return Ok(skip(&format!("oracle pt {name}"), "it is not there"));
    };
    let folder = pair.dir.join("pt").join(name.trim().replace(['/', ' '], "_"));
    let score = match step(stepper, subject, &path, &folder) {
        Err(why) => skip(&format!("oracle pt {name}"), &format!("{why:#}")),
        Ok(printed) => every_way(pair, subject, &folder, &printed).with_context(|| name.clone())?,
    };
    println!("pt {name}: {score} ({:.0} s)", start.elapsed().as_secs_f64());
    Ok(score)
}

/// Checks the lock table's purpose: with more threads the walk of the chain stays short but is called far more often
/// for each lock taken, and most time is spent waiting on the condition variable.
fn lock_table(pair: &Pair) -> Result<Score> {
    let row = |run: &str, name: &str| -> Result<Option<Vec<f64>>> {
        let data = pair.dir.join("pt").join(run).join("two-cpus.data");
        let table = pair.tally(&["calls", "report", "-i", &data.to_string_lossy()])?.text();
        Ok(table.lines().find(|line| line.split_whitespace().last() == Some(name)).map(numbers))
    };
    let (few, many) = ("lock_table_4_5", "lock_table_32_2");
    let (Some(few_walks), Some(many_walks)) = (row(few, "chain_walk")?, row(many, "chain_walk")?) else {
        return Ok(skip("oracle pt lock table", "it was not stepped"));
    };
    let (Some(waits), Some(all)) = (row(many, "lock_wait")?, row(many, "worker")?) else {
        return Ok(Score::FAIL);
    };
    const TOTAL: usize = 0;
    const CALLS: usize = 4;
    const P50: usize = 7;
    let (before, after) = (few_walks[CALLS] / 20.0, many_walks[CALLS] / 64.0);
    println!("pt lock table: {before:.1} walks for a lock with 4 threads, {after:.1} with 32");
    println!("    of the threads' time, {:.0} % in lock_wait", waits[TOTAL] / all[TOTAL] * 100.0);
    Ok(Score::of(after > 2.0 * before && many_walks[P50] < 1e3 && waits[TOTAL] > 0.5 * all[TOTAL]))
}

/// The columns of a line of the table: times in ns, the count as it is.
fn numbers(line: &str) -> Vec<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let factor = |unit: Option<&&str>| match unit.copied() {
        Some("µs") => 1e3,
        Some("ms") => 1e6,
        Some("s") => 1e9,
        _ => 1.0,
    };
    let number = |(at, word): (usize, &&str)| {
        let number: f64 = word.replace(',', "").parse().ok()?;
        Some(number * factor(words.get(at + 1)))
    };
    words.iter().enumerate().filter_map(number).collect()
}

fn find(pair: &Pair, program: &str) -> Option<PathBuf> {
    if program.starts_with('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let ours = pair.programs.join(program);
    if ours.is_file() { Some(ours) } else { process::find(program) }
}

/// Steps the program once on the stepper's own CPU and encodes it in every way. Returns its output.
fn step(stepper: Stepper<'_>, subject: &Subject, path: &Path, folder: &Path) -> Result<String> {
    std::fs::create_dir_all(folder)?;
    let mut command = Command::new(stepper.program);
    command.args(["--quantum", "500", "--on-cpu", &stepper.cpu.to_string(), "--every-way"]).arg(folder);
    if !subject.counts {
        command.args(["--most", stepper.most_steps]);
    }
    command.arg("--").arg(path).args(subject.args).env("LC_ALL", "C.UTF-8");
    let run = process::capture(&mut command, STEP_LIMIT)?;
    if !run.ok() {
        bail!("{}", String::from_utf8_lossy(&run.stderr).trim());
    }
    Ok(run.text())
}

fn every_way(pair: &Pair, subject: &Subject, folder: &Path, printed: &str) -> Result<Score> {
    let mut score = Score::default();
    for way in WAYS {
        let data = folder.join(format!("{way}.data"));
        let what = format!("pt {} {way}", subject.program);
        let truth = lists(&std::fs::read_to_string(folder.join(format!("{way}.truth")))?);
        let path = data.to_string_lossy().into_owned();
        let mut ours = lists(&pair.tally(&["calls", "branches", "-i", &path])?.text());
        forget_last_target(&truth, &mut ours);
        score += Score::of(!truth.is_empty() && equal(&format!("{what}, tally"), &truth, &ours));
        let perf = pair.perf(&["script", "--itrace=cr", "--ns", FIELDS, "-i", &path])?;
        let mut perf = lists_of_perf(&perf.text());
        forget_last_target(&truth, &mut perf);
        score += Score::of(equal(&format!("{what}, perf"), &truth, &perf));
        score += Score::of(same_packets(pair, &what, &path)?);
        score += Score::of(same_lines(pair, &what, &path)?);
        // perf counts instructions up to the next branch where packets were lost, without proof that they ran.
        if way != "overflows" {
            score += Score::of(same_samples(pair, &what, &path)?);
        }
        if subject.counts && way != "overflows" {
            score += Score::of(counted(pair, &what, &path, printed)?);
        }
    }
    for (way, part) in RECORDED {
        score += recorded(pair, subject, &folder.join(way), part)?;
    }
    Ok(score)
}

/// Whether tally and perf read the recorder's files `base.truth` and `base.data` correctly.
fn recorded(pair: &Pair, subject: &Subject, base: &Path, part: Part) -> Result<Score> {
    let way = base.file_name().unwrap_or_default().display();
    let what = format!("pt {} {way}", subject.program);
    let truth = lists(&std::fs::read_to_string(base.with_extension("truth"))?);
    let path = base.with_extension("data").to_string_lossy().into_owned();
    let mut ours = lists(&pair.tally(&["calls", "branches", "-i", &path])?.text());
    let perf = pair.perf(&["script", "--itrace=cr", "--ns", FIELDS, "-i", &path])?;
    let mut perf = lists_of_perf(&perf.text());
    forget_last_target(&truth, &mut ours);
    forget_last_target(&truth, &mut perf);
    let mut score = Score::default();
    let any = |lists: &Lists| lists.values().any(|list| !list.is_empty());
    if part != Part::All && !any(&ours) && !any(&perf) {
        println!("{what}: the part kept has no entry, in tally and in perf");
        return Ok(score);
    }
    for (who, got) in [("tally", &ours), ("perf", &perf)] {
        let fits = match part {
            Part::All => equal(&format!("{what}, {who}"), &truth, got),
            Part::End | Part::Some => truth.iter().all(|(tid, truth)| {
                let got = got.get(tid).map_or(&[][..], Vec::as_slice);
                let fits = if part == Part::End { truth.ends_with(got) } else { is_within(got, truth) };
                if !fits {
                    println!(
                        "{what}, {who}: thread {tid}: {} entries are no part of {}",
                        got.len(),
                        truth.len()
                    );
                }
                fits
            }),
        };
        if !(fits && any(got)) && part == Part::Some && who == "perf" {
            println!("{what}: perf misdecodes from the full area to the next PSB");
            continue;
        }
        score += Score::of(fits && any(got));
    }
    Ok(score)
}

/// Stepping that ended at a direct call never saw its target, which the decoders read from the code.
fn forget_last_target(truth: &Lists, got: &mut Lists) {
    for (tid, list) in got {
        let wanted = truth.get(tid).and_then(|list| list.last());
        if let (Some((kind, from, 0)), Some(last)) = (wanted, list.last_mut())
            && (&last.0, last.1) == (kind, *from)
        {
            last.2 = 0;
        }
    }
}

/// Whether `whole` contains all of `part` in the same order.
fn is_within<T: PartialEq>(part: &[T], whole: &[T]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|entry| whole.any(|other| other == entry))
}

/// Whether a list equals the true one. Prints the first difference.
fn equal(what: &str, truth: &Lists, got: &Lists) -> bool {
    for (tid, wanted) in truth {
        let got = got.get(tid).map_or(&[][..], Vec::as_slice);
        let differs = wanted.iter().zip(got).position(|(a, b)| a != b);
        if differs.is_some() || wanted.len() != got.len() {
            let at = differs.unwrap_or(wanted.len().min(got.len()));
            let (wanted_there, got_there) = (wanted.get(at), got.get(at));
            // One write: two subjects are compared at a time.
            println!(
                "{what}: thread {tid} has {} entries, not {}\n    number {at} is {got_there:x?}, not {wanted_there:x?}",
                got.len(),
                wanted.len()
            );
            return false;
        }
    }
    true
}

/// The fields that perf prints for each branch.
const FIELDS: &str = "-F-event,-period,+addr,-comm,+flags,-dso,-sym,-symoff";

/// Lines `TID NS KIND FROM TO`.
fn lists(text: &str) -> Lists {
    let mut lists = Lists::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [tid, _, kind @ ("call" | "return"), from, to] = words[..] else { continue };
        lists.entry(tid.parse().unwrap_or(0)).or_default().push(branch(kind, from, to));
    }
    lists
}

/// Lines `TID [CPU] TIME: FLAGS FROM [symbol] => TO [symbol]`.
fn lists_of_perf(text: &str) -> Lists {
    let mut lists = Lists::new();
    for line in text.lines() {
        let Some((head, to)) = line.split_once("=>") else { continue };
        let words: Vec<&str> = head.split_whitespace().collect();
        let kind = words.iter().position(|word| matches!(*word, "call" | "return"));
        let from = kind.and_then(|at| Some((words[at], *words.get(at + 1)?)));
        let (Some((kind, from)), Some(to)) = (from, to.split_whitespace().next()) else { continue };
        lists.entry(words[0].parse().unwrap_or(0)).or_default().push(branch(kind, from, to));
    }
    lists
}

/// A branch by its kind and hexadecimal addresses.
fn branch(kind: &str, from: &str, to: &str) -> (String, u64, u64) {
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
    (kind.to_owned(), hex(from), hex(to))
}

/// Whether `tally calls` has the counts that the program printed: lines `FUNCTION COUNT`.
fn counted(pair: &Pair, what: &str, data: &str, printed: &str) -> Result<bool> {
    let table = pair.tally(&["calls", "report", "-i", data])?.text();
    let mut all = true;
    for (name, count) in printed.lines().filter_map(|line| line.split_once(' ')) {
        let Ok(count) = count.parse::<u64>() else { continue };
        // The child of a fork is not traced; its calls of `leaf` are in the program's sum.
        let count = if name == "leaf" { count - 11 } else { count };
        let got = table.lines().find(|line| line.split_whitespace().last() == Some(name)).and_then(calls_of);
        if got != Some(count) {
            println!("{what}: {name} was called {count} times, not {got:?}");
            all = false;
        }
    }
    Ok(all)
}

/// The number of calls in a line of the table: its only column without a unit.
fn calls_of(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let units = ["ns", "µs", "ms", "s"];
    let plain = |at: &usize| {
        let number = words[*at].replace(',', "").parse::<u64>().is_ok();
        number && words.get(at + 1).is_none_or(|next| !units.contains(next))
    };
    let at = (0..words.len().saturating_sub(1)).find(plain)?;
    words[at].replace(',', "").parse().ok()
}
