//! `tally agent` on a machine under load for half an hour: its CPU time, its memory, and how many rounds it kept.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Bench;
use crate::score::skip;
use crate::{leftovers, process, soak, usage};

/// Minutes, a round in each. `TALLY_BENCH_MINUTES` sets another number.
const MINUTES: u64 = 30;
/// Goals: percent of one CPU, and bytes.
const GOALS: (f64, u64) = (1.0, 200 << 20);

/// The bench.
pub fn agent(bench: &Bench) -> Result<()> {
    if !process::is_root() {
        let _ = skip("bench agent", "only root may record the whole machine");
        return Ok(());
    }
    let minutes = match std::env::var("TALLY_BENCH_MINUTES") {
        Ok(text) => text.parse().with_context(|| format!("not a number of minutes: {text}"))?,
        Err(_) => MINUTES,
    };
    let folder = bench.dir.join("agent");
    let _ = std::fs::remove_dir_all(&folder);
    let loads = soak::start_loads();
    let mut command = std::process::Command::new(&bench.tally);
    command.args(["agent", "--every", "60s", "--for", "5s", "--to"]).arg(&folder);
    // It would go on for ever: `measure` ends it.
    let used = usage::measure(&mut command, None, Duration::from_secs(60 * minutes));
    soak::end_loads(loads?);
    leftovers::end_all();
    let used = used?;
    let percent = used.cpu.as_secs_f64() / used.wall.as_secs_f64().max(1e-9) * 100.0;
    println!(
        "  {:.0} s under load: {percent:.2} % of a CPU (goal {}), largest process {} MB (goal {})",
        used.wall.as_secs_f64(),
        GOALS.0,
        used.peak_bytes >> 20,
        GOALS.1 >> 20
    );
    println!(
        "  {} of {minutes} rounds kept; the others would have cost more than that share",
        rounds(&folder.join("samples"))
    );
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}

/// Files in a folder and those below it.
fn rounds(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { rounds(&entry.path()) } else { 1 }).sum()
}
