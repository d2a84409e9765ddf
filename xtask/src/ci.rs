//! The whole gate: every step, timed. A failing step does not stop the next.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::oracle::Effort;
use crate::repo::Repo;
use crate::sampling_rate::SteadySamplingRate;
use crate::score::{self, Score, skip};
use crate::tests::{self, Tier};
use crate::{
    bpf, cargo, fixtures, fuzz, golden, instructions, kernels, leftovers, oracle, package, process, setup,
    soak, tidy, web,
};

/// The amount of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The checks that every change must pass.
    Gate,
    /// The heavier checks too: ignored tests, a minute of each fuzz target, and ten minutes of recording.
    All,
}

/// One run of the gate.
#[derive(Clone, Copy)]
struct Gate {
    depth: Depth,
    begin: Instant,
}

impl Gate {
    const fn is_whole(self) -> bool {
        matches!(self.depth, Depth::All)
    }

    fn effort(self) -> Effort {
        if self.is_whole() { Effort::Whole } else { Effort::Gate(self.begin + LAST_PART) }
    }
}

/// One step: its name, its time limit in minutes, and its function.
struct Step(&'static str, u64, fn(&Repo, Gate) -> Result<Score>);

const STEPS: &[Step] = &[
    Step("setup", 6, |repo, _| Ok(setup::run(repo))),
    Step("fmt", 2, |repo, _| cargo::fmt(repo)),
    Step("tidy", 4, |repo, _| tidy::run(repo)),
    Step("clippy", 8, |repo, _| cargo::clippy(repo)),
    Step("fixtures", 4, |repo, _| fixtures::run(repo)),
    Step("test", 27, |repo, gate| {
        tests::run(repo, None, if gate.is_whole() { Tier::ALL } else { Tier::GATE })
    }),
    Step("golden", 6, |repo, _| golden::run(repo, &[])),
    Step("fuzz", 8, |repo, gate| fuzz::run(repo, if gate.is_whole() { 60 } else { 3 })),
    Step("web", 6, |repo, _| web::check(repo)),
    Step("bpf", 3, |repo, _| bpf::run(repo, true)),
    Step("doc", 6, |repo, _| cargo::doc(repo)),
    Step("aarch64", 6, |repo, _| cargo::cross(repo)),
    // The longest of those that may stop halfway is last, so that a slow machine does all others.
    Step("oracle", 16, |repo, gate| oracle::run_with_second_try(repo, gate.effort(), FORGIVEN)),
];

/// Steps of the heavier checks alone.
const HEAVY_STEPS: &[Step] = &[
    Step("miri", 10, |repo, _| cargo::miri(repo)),
    Step("instructions", 12, |repo, _| instructions::run(repo, &[])),
    Step("kernels", 12, |repo, _| kernels::run(repo, &[])),
    Step("soak", 4, |repo, _| soak::run(repo, &[])),
    Step("package", 60, |repo, _| package::run(repo, &["--twice".to_owned()])),
];

/// If no more comparisons of the oracle fail, the parts they belong to are compared once more. One sample that the two
/// programs name differently shows in four reports and in the script.
const FORGIVEN: u32 = 6;

/// Time limit of the gate, even if something hangs. It takes about 30 minutes on two free cores, and half as much again on
/// cores that are shared: what begins before [`LATE`] is to reach its end.
const LIMIT: Duration = Duration::from_secs(64 * 60);
/// After this time, the steps of `MAY_BE_LATE` are skipped, so that a slow machine gets a result.
const LATE: Duration = Duration::from_secs(29 * 60);
const MAY_BE_LATE: &[&str] = &["fuzz", "aarch64"];
/// After this time, no further part of the oracle begins: the longest takes two minutes.
const LAST_PART: Duration = Duration::from_secs(34 * 60);
/// Factor for all limits with the heavier checks.
const HEAVIER: u32 = 5;
/// Number of failures listed again at the end.
const FAULTS_SHOWN: usize = 30;
/// Time reserved for the summary at the end.
const RESERVE: Duration = Duration::from_secs(20);

/// Runs every step (`--all`: with the heavier checks) and prints the table and the count.
pub fn run(repo: &Repo, args: &[String]) -> Result<Score> {
    let depth = match args {
        [] => Depth::Gate,
        [all] if all == "--all" => Depth::All,
        _ => bail!("cargo xtask ci [--all]"),
    };
    let gate = Gate { depth, begin: Instant::now() };
    let _steady = SteadySamplingRate::begin();
    let times = if depth == Depth::All { HEAVIER } else { 1 };
    let end = gate.begin + LIMIT * times;
    leftovers::end_after(LIMIT * times);
    let mut total = Score::default();
    let mut table = Vec::new();
    let heavy = if depth == Depth::All { HEAVY_STEPS } else { &[] };
    for Step(name, minutes, step) in STEPS.iter().chain(heavy) {
        println!("\n==> {name}");
        let start = Instant::now();
        let score = if depth == Depth::Gate && gate.begin.elapsed() > LATE && MAY_BE_LATE.contains(name) {
            skip(name, "this machine took too long with the steps before")
        } else {
            let deadline = (start + Duration::from_secs(minutes * 60) * times).min(end - RESERVE);
            process::set_deadline(deadline);
            within(name, deadline, || step(repo, gate))
        };
        leftovers::end_all();
        total += score;
        table.push((*name, score, start.elapsed()));
    }
    print_summary(&table, total);
    Ok(total)
}

/// The score of a step. It fails if its programs are killed at the deadline.
fn within(name: &str, deadline: Instant, step: impl FnOnce() -> Result<Score>) -> Score {
    let mut score = step().unwrap_or_else(|error| {
        score::fault(&format!("{name}: {error:#}"));
        Score::FAIL
    });
    if Instant::now() >= deadline {
        score::fault(&format!("{name}: not done within its time limit: killed"));
        score += Score::FAIL;
    }
    score
}

fn print_summary(table: &[(&str, Score, Duration)], total: Score) {
    println!("\n==> summary");
    for (name, score, took) in table {
        let mark = if score.failed > 0 { "FAILED" } else { "ok" };
        println!("{mark:<6} {name:<9} {:>7.1} s  {score}", took.as_secs_f64());
    }
    let faults = score::faults();
    if total.failed > 0 && !faults.is_empty() {
        println!("\nfailures, at the first try or at the second:");
        faults.iter().take(FAULTS_SHOWN).for_each(|fault| println!("- {fault}"));
    }
    if faults.len() > FAULTS_SHOWN {
        println!("- and {} more, above", faults.len() - FAULTS_SHOWN);
    }
    println!("\n{total}");
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_step_past_its_deadline_has_failed_whatever_it_says() {
        let score = within("late", Instant::now(), || Ok(Score::PASS));
        assert_eq!(score, Score { passed: 1, failed: 1, skipped: 0 });
        let score = within("early", Instant::now() + LIMIT, || Ok(Score::PASS));
        assert_eq!(score, Score::PASS);
    }
}
