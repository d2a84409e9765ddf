//! Checks that `--dsos` selects the same samples in all views: those whose leaf is in the file.

use anyhow::Result;

use super::{MANY_ROUNDED, Pair, ROUNDED, read, text_of};
use crate::score::{self, Score};

/// Compares the views of one file's samples, for the file with most of them.
pub(super) fn by_file(pair: &Pair, name: &str, file: &str, event: &str) -> Result<Score> {
    let report = |options: &[&str]| -> Result<Vec<(String, f64)>> {
        let form = ["report", "--stdio", "-g", "none", "-t", "|", "-i", file];
        Ok(read::rows(&text_of(pair, &[&form[..], options].concat())?, event))
    };
    let files = report(&["--no-children", "-s", "dso"])?;
    let Some((dso, share)) = files.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Ok(Score::default());
    };
    let own = read::sums(&report(&["--no-children", "-s", "sym", "--dsos", &dso])?);
    let mut score = near(name, &dso, "own shares", own.values().sum(), share, MANY_ROUNDED);
    // A function that called all of it has the whole share, and none can have more.
    let all = report(&["--children", "-s", "sym", "--dsos", &dso])?;
    let most = all.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    score += near(name, &dso, "the largest share with callees", most.max(share), share, ROUNDED);
    let total = |filter: &[&str]| -> Result<u64> {
        let form = ["script", "--json", "-i", file];
        Ok(read::script_total(&text_of(pair, &[&form[..], filter].concat())?, event))
    };
    let of_file = 100.0 * total(&["--dsos", &dso])? as f64 / total(&[])?.max(1) as f64;
    score += near(name, &dso, "script's samples", of_file, share, ROUNDED);
    Ok(score)
}

fn near(name: &str, dso: &str, what: &str, got: f64, truth: f64, apart: f64) -> Score {
    let is_near = (got - truth).abs() <= apart;
    if !is_near {
        score::fault(&format!("views {name}: {what} in {dso}: {got:.2} %, its samples {truth:.2} %"));
    }
    Score::of(is_near)
}
