//! `blame`: chains of waits with known terms. The program measures how long its feeder computed and slept; `tally
//! report
//! --blame` of its main thread must give the same shares, and its parts must add up to the whole. So must those of
//! `tally report --critical-path`, whose pieces must follow each other without a gap.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Pair;
use crate::score::{Score, skip};

/// Allowed difference of a term, in shares of the wall time.
const MOST_APART: f64 = 0.03;
/// The chains.
const MODES: [&str; 5] = ["threads", "process", "epoll", "pool", "convoy"];
/// Functions of the program that compute, and the one that sleeps.
const CRUNCHES: [&str; 3] = ["crunch", "now", "clock_ns"];
const SLEEPS: &str = "rest";

/// Records each chain and compares. A difference gets one more try: a busy machine delays the program's own clock.
pub fn compare(pair: &Pair) -> Result<Score> {
    let program = pair.programs.join("chain");
    if !program.is_file() {
        return Ok(skip("oracle blame", "the test programs are not built"));
    }
    let program = program.display().to_string();
    let mut score = Score::default();
    for mode in MODES {
        let Some(mut misses) = once(pair, &program, mode)? else {
            return Ok(skip("oracle blame", "time off the CPU cannot be recorded here"));
        };
        if !misses.is_empty() {
            println!("blame: {mode}: second try, after {}", misses.join("; "));
            misses = once(pair, &program, mode)?.unwrap_or_default();
        }
        misses.iter().for_each(|miss| println!("blame: {mode}: {miss}"));
        score += Score::of(misses.is_empty());
    }
    println!("blame: {score}");
    Ok(score)
}

fn once(pair: &Pair, program: &str, mode: &str) -> Result<Option<Vec<String>>> {
    const FILE: &str = "blame.data";
    let run = pair.tally(&["record", "--off-cpu", "-o", FILE, "--", program, mode])?;
    let Some([wall, crunch, sleep]) = own_times(&run.text()).filter(|_| run.ok()) else { return Ok(None) };
    let report = pair.tally(&["report", "--blame", "--json", "-i", FILE])?;
    let blame: Value = serde_json::from_str(&report.text()).context("report --blame --json")?;
    let total = blame["total_ns"].as_f64().unwrap_or(0.0);
    let mut misses = Vec::new();
    let rows = blame["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = |of: &dyn Fn(&Value) -> bool| -> f64 {
        rows.iter().filter(|row| of(row)).filter_map(|row| row["ns"].as_f64()).sum::<f64>() + 0.0
    };
    if sum(&|_| true) != total {
        misses.push(format!("the causes add up to {} of {total} ns", sum(&|_| true)));
    }
    let is_crunch = |row: &Value| CRUNCHES.iter().any(|name| row["function"] == *name);
    let terms = [
        ("computing", crunch / wall, sum(&is_crunch) / wall),
        ("sleeping", sleep / wall, sum(&|row| row["function"] == SLEEPS) / wall),
    ];
    for (what, own, of_tally) in terms {
        // In a convoy a thread can be preempted outside the lock while another computes: both are true.
        let is_one_chain = mode != "convoy";
        if is_one_chain && (own - of_tally).abs() > MOST_APART {
            misses.push(format!("{what}: measured {:.1} %, tally {:.1} %", own * 100.0, of_tally * 100.0));
        }
        println!("blame: {mode}: {what}: measured {:.1} %, tally {:.1} %", own * 100.0, of_tally * 100.0);
    }
    let path = pair.tally(&["report", "--critical-path", "--json", "-i", FILE])?;
    let path: Value = serde_json::from_str(&path.text()).context("report --critical-path --json")?;
    misses.extend(misses_of_path(&path, [crunch, sleep], wall));
    Ok(Some(misses))
}

/// Faults of the critical path, by the times that the program measured, ns: of its functions, and of all between the
/// first and the last statement of `main`. What the loader took before it is none of them.
fn misses_of_path(path: &Value, own: [f64; 2], wall: f64) -> Vec<String> {
    let list = |name: &str| path[name].as_array().cloned().unwrap_or_default();
    let total = path["total_ns"].as_f64().unwrap_or(0.0);
    let mut misses = Vec::new();
    let mut now = 0;
    for piece in list("pieces") {
        if piece["from_ns"].as_u64() != Some(now) {
            misses.push(format!("the path has a gap or an overlap at {now} ns"));
        }
        now = piece["to_ns"].as_u64().unwrap_or(0);
    }
    if now as f64 != total {
        misses.push(format!("the path ends at {now} of {total} ns"));
    }
    let functions = list("functions");
    for (name, own) in ["crunch", SLEEPS].into_iter().zip(own) {
        let rows = functions.iter().filter(|row| row["function"] == name);
        let bound = rows.filter_map(|row| row["bound"].as_f64()).sum::<f64>() + 0.0;
        let (own, of_tally) = (own / wall, bound * total / wall);
        println!(
            "blame: critical path: {name}: measured {:.1} %, tally {:.1} %",
            own * 100.0,
            of_tally * 100.0
        );
        let more = if name == SLEEPS { 0.0 } else { queued_at_lock_ns(path) / wall };
        if of_tally > own + MOST_APART || of_tally + more < own - MOST_APART {
            misses.push(format!("critical path: {name}: measured {own:.3}, tally {of_tally:.3}"));
        }
    }
    misses
}

/// Time of the path in which a thread that has left or is about to take a convoy's lock wants a CPU. Another one may
/// hold the lock and compute meanwhile, which the program counts: both are true.
fn queued_at_lock_ns(path: &Value) -> f64 {
    let of = |row: &&Value| {
        let state = row["state"].as_str().unwrap_or("");
        row["function"] == "under_lock" && ["runnable", "preempted"].contains(&state)
    };
    let rows = path["parts"].as_array().map_or(&[][..], Vec::as_slice);
    rows.iter().filter(of).filter_map(|row| row["ns"].as_f64()).sum::<f64>() + 0.0
}

/// Wall, computing and sleeping time that the program printed, ns.
fn own_times(text: &str) -> Option<[f64; 3]> {
    let line = text.lines().find(|line| line.starts_with("wall "))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<f64>().ok();
    Some([number(1)?, number(3)?, number(5)?])
}
