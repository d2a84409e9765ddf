//! `stat`: compares counts of one run each. Deterministic counts must agree closely, the others within their noise.

use std::collections::BTreeMap;

use anyhow::Result;

use super::Pair;
use crate::score::{Score, skip};

/// The events, and the factor by which two correct runs may differ.
const EVENTS: &[(&str, f64)] = &[("page-faults", 1.1), ("task-clock", 2.0), ("minor-faults", 1.1)];

/// Compares over two programs. A difference gets one more try.
pub fn compare(pair: &Pair) -> Result<Score> {
    let mut score = Score::default();
    for (program, args) in [("faults", ["20"]), ("knapsack-old", ["100"])] {
        let path = pair.programs.join(program);
        if !path.is_file() {
            score += skip(&format!("oracle stat {program}"), "the test programs are not built");
            continue;
        }
        let path = path.to_string_lossy().into_owned();
        let mut misses = once(pair, &path, &args)?;
        if !misses.is_empty() {
            println!("stat {program}: second try, after {}", misses.join("; "));
            misses = once(pair, &path, &args)?;
        }
        misses.iter().for_each(|miss| println!("stat {program}: {miss}"));
        score += Score::of(misses.is_empty());
    }
    Ok(score)
}

fn once(pair: &Pair, program: &str, args: &[&str]) -> Result<Vec<String>> {
    let names: Vec<&str> = EVENTS.iter().map(|(name, _)| *name).collect();
    let events = names.join(",");
    let mut line = vec!["stat", "-x,", "-e", &events, "--", program];
    line.extend(args);
    let (perf, tally) = (pair.perf(&line)?, pair.tally(&line)?);
    let (perf, tally) = (counts(&perf.stderr), counts(&tally.stderr));
    let mut misses = Vec::new();
    for (name, factor) in EVENTS {
        match (perf.get(*name), tally.get(*name)) {
            (Some(a), Some(b)) if *a > 0.0 && b / a <= *factor && a / b <= *factor => {}
            (None, None) => {}
            (a, b) => misses.push(format!("{name}: perf {a:?}, tally {b:?}")),
        }
    }
    Ok(misses)
}

/// `VALUE,UNIT,EVENT,…` lines; modifiers such as `:u` are not part of the name.
fn counts(text: &[u8]) -> BTreeMap<String, f64> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let name = fields.get(2)?.split(':').next()?.to_owned();
            Some((name, fields.first()?.parse().ok()?))
        })
        .collect()
}
