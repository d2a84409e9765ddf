//! Checks that inferno gets the same stacks with the same counts from both texts of `script`.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::{Case, LIMIT, Pair, differ, script};
use crate::process;
use crate::score::{Score, skip};

const COLLAPSER: &str = "inferno-collapse-perf";

/// Files for which perf prints nothing, or another text. The comparison of `script` reports them.
const SET_APART: &[&str] = &["zero_size_sample", "intel_pt", "piped."];

/// Compares every file with recorded chains. Chains that each program unwinds are compared frame by frame elsewhere.
pub fn compare(pair: &Pair, cases: &[Case]) -> Result<Score> {
    if process::find(COLLAPSER).is_none() {
        return Ok(skip("oracle collapse", "no inferno-collapse-perf (cargo install inferno)"));
    }
    let mut score = Score::default();
    for case in cases.iter().filter(|case| !case.snapshots) {
        if !SET_APART.iter().any(|name| case.name.contains(name)) {
            score += one(pair, case)?;
        }
    }
    println!("collapse: {score}");
    Ok(score)
}

fn one(pair: &Pair, case: &Case) -> Result<Score> {
    let file = case.file.to_string_lossy();
    let args = ["script", "-i", &file, "--max-stack", "127"];
    let (perf, tally) = (pair.perf(&args)?, pair.tally(&args)?);
    if !perf.ok() || !tally.ok() {
        bail!("{}: perf {}, tally {}", case.name, perf.how(), tally.how());
    }
    let tally = script::without_what_perf_drops(&case.name, &perf.text(), &tally.text());
    let perf = script::with_excused_names(&perf.text(), &tally);
    Ok(differ("collapse", case, &collapsed(&pair.dir, &perf)?, &collapsed(&pair.dir, &tally)?))
}

fn collapsed(dir: &Path, text: &str) -> Result<Vec<String>> {
    let file = dir.join("collapse.txt");
    std::fs::write(&file, text)?;
    let run = process::capture(Command::new(COLLAPSER).arg("-q").arg(&file), LIMIT)?;
    let mut lines: Vec<String> = run.text().lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}
