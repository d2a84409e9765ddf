//! perf and tally side by side in one run: only ratios are told.

use anyhow::Result;

use crate::repo::Repo;
use crate::score::{Score, skip};

/// Runs every comparison, or those whose name contains `filter`.
pub fn run(_repo: &Repo, _filter: Option<&str>) -> Result<Score> {
    Ok(skip("bench", "no command of tally to measure yet"))
}
