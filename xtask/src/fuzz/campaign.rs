//! A long run: all targets in turn, one process per CPU, until the time is over or Ctrl-C.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use super::driver::{Driver, Outcome, Slice};
use super::findings::Findings;
use crate::leftovers;
use crate::parallel;
use crate::repo::Repo;
use crate::score::Score;

/// Maximum slice of a target of weight 1.
const LONGEST: u64 = 60;
const SHORTEST: u64 = 3;

/// Result of a target so far.
#[derive(Default)]
struct Tally {
    inputs: u64,
    time: Duration,
    seeds: u64,
    edges: u64,
    faults: u64,
    /// Inputs added to the repository's corpus.
    kept: u64,
}

struct Progress {
    /// Slices started.
    given: usize,
    by_target: BTreeMap<String, Tally>,
    findings: Findings,
}

struct Campaign {
    driver: Driver,
    folder: PathBuf,
    targets: Vec<String>,
    slice: u64,
    end: Instant,
    seed: u64,
    progress: Mutex<Progress>,
}

/// Runs all targets, or those named, in turn for `duration`. Fails if an input failed.
pub fn run(repo: &Repo, duration: Duration, named: &[String]) -> Result<Score> {
    leftovers::note_interrupts();
    println!("building the driver with counters of reached code");
    let driver = Driver::build_counting(repo)?;
    let all = driver.targets()?;
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("no target '{unknown}'; the targets: {}", all.join(" "));
    }
    let targets = if named.is_empty() { all } else { named.to_vec() };
    let folder = repo.target().join("fuzz");
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let progress =
        Progress { given: 0, by_target: BTreeMap::new(), findings: Findings::new(folder.join("findings")) };
    let slice = slice_for(duration, &targets);
    let end = Instant::now() + duration;
    let campaign = Campaign { driver, folder, targets, slice, end, seed, progress: Mutex::new(progress) };
    println!(
        "{} targets in turn, slices of {slice} s; Ctrl-C ends it with a summary",
        campaign.targets.len()
    );
    parallel::on_each_cpu(|worker| campaign.work(worker)).into_iter().collect::<Result<()>>()?;
    campaign.reduce()?;
    campaign.summarize()
}

/// Weight of a target. Targets of the whole program read all files together, so they get more time than a parser.
fn weight(target: &str) -> u64 {
    match target {
        "program-recording" => 16,
        _ if target.starts_with("program-") => 4,
        _ => 1,
    }
}

/// Seconds for a weight of 1, so that every target has its turn.
fn slice_for(duration: Duration, targets: &[String]) -> u64 {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let weights: u64 = targets.iter().map(|target| weight(target)).sum();
    (duration.as_secs() * cpus / weights.max(1)).clamp(SHORTEST, LONGEST)
}

impl Campaign {
    fn work(&self, worker: usize) -> Result<()> {
        let keep = self.folder.join(worker.to_string());
        while let Some((number, target)) = self.next_slice() {
            let left = self.end.saturating_duration_since(Instant::now()).as_secs();
            let mut seconds = (self.slice * weight(&target)).min(left);
            // A fault ends a process early; the rest of the slice continues with other inputs.
            for seed in 0..8 {
                if seconds < SHORTEST.min(left) || leftovers::is_interrupted() {
                    break;
                }
                let start = Instant::now();
                let seed = self.seed.wrapping_add((number as u64) << 8) + seed;
                let outcome = self.driver.run(&Slice { target: &target, seconds, keep: &keep, seed })?;
                self.note(&target, &outcome, start.elapsed(), &keep.join(format!("{target}.input")))?;
                seconds = seconds.saturating_sub(start.elapsed().as_secs().max(1));
            }
        }
        Ok(())
    }

    fn next_slice(&self) -> Option<(usize, String)> {
        if Instant::now() + Duration::from_secs(1) > self.end || leftovers::is_interrupted() {
            return None;
        }
        let mut progress = self.progress();
        progress.given += 1;
        let number = progress.given - 1;
        Some((number, self.targets[number % self.targets.len()].clone()))
    }

    fn note(&self, target: &str, outcome: &Outcome, time: Duration, input: &std::path::Path) -> Result<()> {
        let mut progress = self.progress();
        let tally = progress.by_target.entry(target.to_owned()).or_default();
        tally.inputs += outcome.inputs;
        tally.time += time;
        tally.seeds = tally.seeds.max(outcome.seeds);
        tally.edges = tally.edges.max(outcome.edges);
        tally.faults += u64::from(outcome.fault.is_some());
        let (inputs, seconds) = (outcome.inputs, time.as_secs());
        println!("{target:<32} {inputs:>9} inputs in {seconds:>4} s, {} edges reached", outcome.edges);
        if let Some(why) = &outcome.fault {
            let is_new = progress.findings.add(target, input, why)?;
            println!(
                "{target}: {}{}",
                if is_new { "NEW FINDING: " } else { "" },
                why.lines().next().unwrap_or_default()
            );
        }
        Ok(())
    }

    /// Adds inputs that reach new code to the repository's corpus, unless the run was interrupted.
    fn reduce(&self) -> Result<()> {
        for target in &self.targets {
            if leftovers::is_interrupted() {
                println!(
                    "interrupted: fuzz/corpus is unchanged; the next long run starts with the inputs found"
                );
                break;
            }
            // A failing input stays out, and the target's corpus stays unchanged.
            match self.driver.reduce(target, &self.folder.join("0")) {
                Ok(kept) => self.progress().by_target.entry(target.clone()).or_default().kept = kept,
                Err(error) => println!("{error:#}"),
            }
        }
        Ok(())
    }

    /// Prints a line for each target and each cause, and writes them to `target/fuzz/summary`.
    fn summarize(&self) -> Result<Score> {
        let progress = self.progress();
        let mut text = format!(
            "{:<32} {:>10} {:>8} {:>7} {:>7} {:>7} {:>7}\n",
            "target", "inputs", "seconds", "corpus", "edges", "kept", "faults"
        );
        let mut whole = Tally::default();
        for (target, tally) in &progress.by_target {
            whole.inputs += tally.inputs;
            whole.time += tally.time;
            let Tally { inputs, time, seeds, edges, kept, faults } = tally;
            text += &format!(
                "{target:<32} {inputs:>10} {:>8} {seeds:>7} {edges:>7} {kept:>7} {faults:>7}\n",
                time.as_secs()
            );
        }
        let (hours, causes) = (whole.time.as_secs_f64() / 3600.0, progress.findings.causes());
        text +=
            &format!("{} inputs in {hours:.2} hours of processes, {causes} causes of faults\n", whole.inputs);
        text += &progress.findings.text();
        print!("\n{text}");
        std::fs::write(self.folder.join("summary"), &text)?;
        let passed = progress.by_target.values().filter(|tally| tally.faults == 0).count() as u32;
        Ok(Score { passed, failed: causes, skipped: 0 })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_turn() {
        let targets: Vec<String> = (0..20).map(|number| format!("dso-{number}")).collect();
        assert_eq!(slice_for(Duration::from_secs(86_400), &targets), LONGEST);
        let short = slice_for(Duration::from_secs(200), &targets);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        assert!(short * 20 <= (200 * cpus).max(SHORTEST * 20), "{short}");
    }
}
