//! Makes fresh recordings with perf, of the test programs and of some system programs.

use anyhow::Result;

use super::{Case, Pair};
use crate::process::Finished;
use crate::score::{Score, skip};

/// A recording: its name, perf's options, the program (of `tests/programs`, or from PATH) and its arguments.
type Recording = (&'static str, &'static [&'static str], &'static str, &'static [&'static str]);

const FP: &[&str] = &["-F", "499", "-e", "cpu-clock", "-g"];
const PLAIN: &[&str] = &["-F", "499", "-e", "cpu-clock,page-faults"];
const DWARF: &[&str] = &["-F", "199", "-e", "cpu-clock", "--call-graph", "dwarf,16384"];
const TRACE: &[&str] = &["-e", "sched:sched_switch,sched:sched_process_exec", "-g"];

const RECORDINGS: &[Recording] = &[
    ("fp-rand", FP, "rand-fp", &["4", "100"]),
    ("fp-knapsack", FP, "knapsack-old", &["200"]),
    ("fp-list", FP, "list", &["4", "10000"]),
    ("fp-deep", FP, "deep-fp", &["100", "64", "10000"]),
    ("fp-exec", FP, "exec", &["2"]),
    ("fp-words", FP, "words", &["10000"]),
    ("fp-primes", FP, "primes", &["2000000"]),
    ("fp-forks", FP, "forks", &["100"]),
    ("fp-mmaps", FP, "mmaps", &["8", "500"]),
    ("fp-dlopen", FP, "dlopen", &["100000"]),
    ("fp-sort", FP, "sort", &["-R", "/usr/lib/x86_64-linux-gnu/libc.so.6"]),
    ("plain-faults", PLAIN, "faults", &["20"]),
    ("plain-convoy", PLAIN, "convoy", &["4", "200"]),
    ("plain-throw", PLAIN, "throw", &["20"]),
    ("plain-ls", PLAIN, "ls", &["-lR", "/usr/lib/x86_64-linux-gnu"]),
    ("trace-server", TRACE, "server", &["50", "1000"]),
    ("dwarf-rand", DWARF, "rand", &["4", "60"]),
    ("dwarf-throw", DWARF, "throw", &["30"]),
    ("dwarf-words", DWARF, "words", &["10000"]),
    ("dwarf-deep", DWARF, "deep", &["20", "64", "10000"]),
];

/// Recordings by tally: both programs must read its files in the same way.
const BY_TALLY: &[Recording] = &[
    ("live-rand", &["-F", "499", "-e", "cpu-clock"], "rand", &["4", "100"]),
    ("live-throw", &["-F", "499", "-e", "cpu-clock"], "throw", &["30"]),
    ("live-forks", &["-F", "997", "-e", "cpu-clock,page-faults"], "forks", &["60"]),
    ("live-zstd", &["-F", "997", "-z", "-e", "cpu-clock"], "knapsack-old", &["200"]),
];

/// Records those whose names contain `filter` (`None`: all), and appends them to `cases`.
pub fn make(pair: &Pair, cases: &mut Vec<Case>, filter: Option<&str>) -> Result<Score> {
    let chosen = |recordings: &[Recording]| -> Vec<Recording> {
        recordings
            .iter()
            .filter(|(name, ..)| filter.is_none_or(|word| name.contains(word)))
            .copied()
            .collect()
    };
    let mut score = record(pair, cases, &chosen(RECORDINGS), &["record", "-q", "-N"], Pair::perf)?;
    if pair.knows("record") {
        score += record(pair, cases, &chosen(BY_TALLY), &["record", "-q"], Pair::tally)?;
    }
    Ok(score)
}

fn record(
    pair: &Pair,
    cases: &mut Vec<Case>,
    recordings: &[Recording],
    head: &[&str],
    recorder: fn(&Pair, &[&str]) -> Result<Finished>,
) -> Result<Score> {
    let mut score = Score::default();
    for (name, options, program, args) in recordings {
        let built = pair.programs.join(program);
        let program =
            if built.is_file() { built.to_string_lossy().into_owned() } else { (*program).to_owned() };
        let file = pair.dir.join(format!("{name}.data"));
        let path = file.to_string_lossy().into_owned();
        let mut line = head.to_vec();
        line.extend(["-o", &path]);
        line.extend(*options);
        line.push("--");
        line.push(&program);
        line.extend(*args);
        let run = recorder(pair, &line)?;
        if run.ok() && file.metadata().is_ok_and(|meta| meta.len() > 0) {
            cases.push(Case {
                name: (*name).to_owned(),
                file,
                snapshots: name.starts_with("dwarf"),
                foreign: false,
            });
        } else {
            score += skip(&format!("oracle {name}"), &format!("it could not be recorded: {}", run.tail(1)));
        }
    }
    Ok(score)
}
