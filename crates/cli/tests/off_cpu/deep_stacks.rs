//! Stacks of threads that lose their CPU, deeper than the usual copy.

use std::process::Command;

use super::{ONE, Rivals, TALLY, folder, has_bpf, outputs_of, program};

/// Percent of complete stacks in `run -v`'s line `stacks     99.8% of 812 reach the thread's start`.
fn complete_percent(screen: &str) -> Option<f64> {
    let line = screen.lines().find(|line| line.starts_with("stacks "))?;
    line.split_whitespace().find_map(|word| word.strip_suffix('%'))?.parse().ok()
}

/// A preempted thread's memory changes before anyone can read more of it than was copied.
#[test]
#[ignore = "live: records with BPF"]
fn preempted_threads_with_deep_stacks_have_complete_ones() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("deep-stacks");
    let Some(deep) = program("deep", &folder).filter(|_| has_bpf()) else { return };
    let _rivals = Rivals::start(4);
    let mut run = Command::new(TALLY);
    run.args(["run", "-v", "-o"]).arg(folder.join("perf.data")).arg("--").arg(deep);
    // 30 frames of 400 bytes and more: 12 to 16 KB.
    run.args(["30", "400", "40000"]);
    let (_, screen) = outputs_of(run);
    let percent = complete_percent(&screen);
    assert!(percent.is_some_and(|percent| percent > 97.0), "{percent:?}: {screen}");
}
