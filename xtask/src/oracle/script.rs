//! `script`: byte for byte where chains were recorded, frame by frame where each program unwinds by itself.

use anyhow::{Result, bail};

use super::{Case, Pair, chains, differ};
use crate::score::Score;

const QUESTIONS: &[(&str, &[&str])] =
    &[("default", &[]), ("fields", &["-F", "comm,pid,tid,cpu,time,event,period,ip,sym,dso"])];

/// Every question over one file.
pub fn compare(pair: &Pair, case: &Case) -> Result<Score> {
    let mut score = Score::default();
    for (name, options) in QUESTIONS {
        let file = case.file.to_string_lossy();
        let mut args = vec!["script", "-i", &file];
        args.extend(*options);
        let perf = pair.perf(&args)?;
        let tally = pair.tally(&args)?;
        if !perf.ok() {
            // perf refuses these fields for this file (no cpu recorded, say): there is nothing to compare.
            continue;
        }
        if !tally.ok() {
            bail!("tally {}: {}\n{}", args.join(" "), tally.how(), tally.tail(5));
        }
        let (perf, tally) = (perf.text(), tally.text());
        score += if case.snapshots {
            chains::compare(&case.name, &perf, &tally)
        } else if perf == tally {
            Score::PASS
        } else {
            same_but_order(name, case, &perf, &tally)
        };
    }
    Ok(score)
}

/// Different texts: says which lines, or that only their order differs (which fails too).
fn same_but_order(name: &str, case: &Case, perf: &str, tally: &str) -> Score {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (perf, tally) = (lines(perf), lines(tally));
    let what = format!("script ({name})");
    let score = differ(&what, case, &perf, &tally);
    if score.failed > 0 {
        return score;
    }
    let at = perf.iter().zip(&tally).position(|(a, b)| a != b).unwrap_or(perf.len().min(tally.len()));
    println!("{what} {}: the same lines in another order, from line {}", case.name, at + 1);
    for (mark, lines) in [('-', &perf), ('+', &tally)] {
        println!("    {mark} {}", lines.get(at).map_or("(end)", String::as_str));
    }
    Score::FAIL
}
