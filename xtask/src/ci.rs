//! The whole gate: every step, timed; a failing one does not stop the next.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::repo::Repo;
use crate::score::{Score, skip};
use crate::{bpf, cargo, fixtures, fuzz, golden, leftovers, oracle, setup, tests, tidy};

type Step = (&'static str, fn(&Repo) -> Result<Score>);

const STEPS: &[Step] = &[
    ("setup", |_| Ok(setup::run())),
    ("fmt", cargo::fmt),
    ("tidy", tidy::run),
    ("clippy", cargo::clippy),
    ("fixtures", fixtures::run),
    ("test", |repo| tests::run(repo, None)),
    ("golden", |repo| golden::run(repo, &[])),
    ("fuzz", |repo| fuzz::run(repo, 3)),
    ("oracle", oracle_with_second_try),
    ("bpf", |repo| bpf::run(repo, true)),
    ("doc", cargo::doc),
    ("aarch64", cargo::cross),
];

/// Few differences over recordings made just now may be theirs: others are made and compared, once.
fn oracle_with_second_try(repo: &Repo) -> Result<Score> {
    const FORGIVEN: u32 = 3;
    let score = oracle::run(repo, None)?;
    if score.failed == 0 || score.failed > FORGIVEN {
        return Ok(score);
    }
    println!("oracle: second try, with new recordings, after {score}");
    oracle::run(repo, None)
}

/// The gate ends after this, whatever hangs.
const LIMIT: Duration = Duration::from_secs(50 * 60);
/// Later than this, the steps of `MAY_BE_LATE` are skipped, so that a slow machine gets an answer.
const LATE: Duration = Duration::from_secs(32 * 60);
const MAY_BE_LATE: &[&str] = &["fuzz", "oracle", "aarch64"];

/// Runs every step and prints the table and the count.
pub fn run(repo: &Repo) -> Result<Score> {
    let begin = Instant::now();
    leftovers::end_after(LIMIT);
    let mut total = Score::default();
    let mut table = Vec::new();
    for (name, step) in STEPS {
        println!("\n==> {name}");
        let start = Instant::now();
        let score = if begin.elapsed() > LATE && MAY_BE_LATE.contains(name) {
            skip(name, "this machine took too long with the steps before")
        } else {
            step(repo).unwrap_or_else(|error| {
                println!("{name}: {error:#}");
                Score::FAIL
            })
        };
        leftovers::end_all();
        total += score;
        table.push((name, score, start.elapsed()));
    }
    println!("\n==> summary");
    for (name, score, took) in &table {
        let mark = if score.failed > 0 { "FAILED" } else { "ok" };
        println!("{mark:<6} {name:<9} {:>7.1} s  {score}", took.as_secs_f64());
    }
    println!("\n{total}");
    Ok(total)
}
