//! `sched`: switches, run times and maps of one recording, line by line.

use anyhow::Result;

use super::{Case, Pair, differ};
use crate::score::{self, Score, skip};

/// Records with tally, and compares what both programs make of the file.
pub fn compare(pair: &Pair) -> Result<Score> {
    if !pair.knows("sched") {
        return Ok(skip("oracle sched", "no sched command"));
    }
    let file = pair.dir.join("sched.data");
    let name = file.to_string_lossy().into_owned();
    let recorded =
        pair.tally(&["sched", "record", "-o", &name, "--", "sh", "-c", "sleep 0.1; ls /; sleep 0.1"])?;
    if !recorded.ok() {
        return Ok(skip("oracle sched", "the scheduler's tracepoints can't be recorded here"));
    }
    let case = Case { name: "sched.data".to_owned(), file, snapshots: false, foreign: false };
    let mut score = Score::default();
    for (view, lines) in
        [("timehist", turns as fn(&str) -> Vec<String>), ("map", words), ("latency", runtimes)]
    {
        let line = ["sched", view, "-i", &name];
        let (perf, tally) = (pair.perf(&line)?, pair.tally(&line)?);
        let of = |run: &crate::process::Finished| String::from_utf8_lossy(&run.stdout).into_owned();
        let (mut perf, mut tally) = (lines(&of(&perf)), lines(&of(&tally)));
        if view == "latency" {
            // Threads of these two end while the recording goes on: perf 6.1 gives their last moments another name.
            let is_own = |line: &String| ["tally", "xtask:"].iter().any(|own| line.starts_with(own));
            perf.retain(|line| !is_own(line));
            // perf 6.1 leaves out threads that were only preempted.
            let task = |line: &str| line.rsplit_once(' ').map(|(task, _)| task.to_owned());
            let known: Vec<_> = perf.iter().map(|line| task(line)).collect();
            tally.retain(|line| known.contains(&task(line)));
        }
        // A quiet machine has few programs, but never none.
        if perf.len() < 3 {
            score::fault(&format!("sched {view}: perf shows {} lines", perf.len()));
            score += Score::FAIL;
            continue;
        }
        score += differ(&format!("sched {view}"), &case, &perf, &tally);
    }
    Ok(score)
}

/// Time, CPU and run time of every switch. perf 6.1 loses the name of a thread that has ended, and with it the times
/// before: these columns are the ones that don't depend on names.
fn turns(text: &str) -> Vec<String> {
    let turn = |line: &str| {
        let (begin, rest) = line.split_once("]  ")?;
        let run = rest.split_whitespace().next_back()?;
        run.parse::<f64>().is_ok().then(|| format!("{} {run}", begin.trim()))
    };
    text.lines().filter_map(turn).collect()
}

/// Words of each line: perf 6.1 has columns for CPUs that did nothing yet.
fn words(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Program and CPU time of each line, sorted: perf 6.1 takes preempted threads for sleeping ones, so waits differ.
fn runtimes(text: &str) -> Vec<String> {
    let cells = |line: &str| {
        let (task, rest) = line.split_once('|')?;
        let runtime = rest.split_once(" ms |").map(|(runtime, _)| runtime.trim())?;
        Some(format!("{} {runtime}", task.trim()))
    };
    let mut lines: Vec<String> = text.lines().filter_map(cells).collect();
    lines.retain(|line| !line.starts_with("TOTAL"));
    lines.sort();
    lines
}
