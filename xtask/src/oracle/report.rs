//! `report`: totals and rows of every event, and the drawn call graphs.

use anyhow::{Result, bail};

use super::{Case, Pair, differ};
use crate::score::Score;

/// What is asked, and with which options.
const QUESTIONS: &[(&str, &[&str])] = &[
    ("self", &["--no-children", "-g", "none", "--percent-limit", "0"]),
    ("samples", &["--no-children", "-g", "none", "--percent-limit", "0", "-F", "sample,period,comm,dso,sym"]),
    ("children", &["--children", "--no-inline", "-g", "none", "--percent-limit", "0"]),
    ("children of dsos", &["--children", "--no-inline", "-g", "none", "--sort", "comm,dso"]),
    ("pid", &["--no-children", "-g", "none", "--sort", "pid,dso"]),
];

/// A question that a file's differences make useless, and why the differences are there: (question, file, reason).
const EXPLAINED: &[(&str, &str, &str)] = &[
    (
        "children",
        "perf.data.",
        "perf tells callers without a symbol by their address in the process, tally by that in the file",
    ),
    ("children", "with-callchain", "the same"),
    ("*", "zero_size_sample", "perf gives up at a record of size 0; tally tells what came before it"),
    ("*", "hybrid_topology", "perf cuts a command's name to the width of the thread's later, shorter name"),
    ("self", "piped.", "perf names a foreign kernel's addresses by the running kernel's symbols"),
    ("samples", "piped.", "the same"),
    (
        "samples",
        "branch",
        "perf tells branch ends by their address in the process when asked for a plain symbol",
    ),
    ("self", "branch-4.14", "perf prints a cycle count above 32,767 as a negative number"),
    (
        "self",
        "callgraph_and_branch",
        "perf keeps rows apart that differ only in where each process mapped the file",
    ),
    (
        "children",
        "fp-primes",
        "perf looks a return address up without a step back, which names signal trampolines by chance",
    ),
    ("graph by caller", "fp-primes", "the same"),
    ("graph by callee", "fp-primes", "the same"),
    (
        "graph by caller",
        "fp-words",
        "perf draws no chain under a row of one sample in inlined code (why is not known)",
    ),
    ("graph by callee", "fp-words", "the same"),
    ("self", "trace-server", "perf cuts the text of a tracepoint where its column ends"),
    (
        "children",
        "live-throw",
        "perf names a caller by where it returns to, which behind a call that never returns is the next function",
    ),
    (
        "children",
        "live-forks",
        "perf has no mappings of a child between vfork and exec; tally takes the parent's",
    ),
];

fn explained(question: &str, case: &str) -> bool {
    let fits = |(q, file, _): &&(&str, &str, &str)| (*q == "*" || *q == question) && case.contains(file);
    EXPLAINED.iter().any(|entry| fits(&entry))
}

/// The same with the lines that draw the paths. perf 6.1 has no inline frames in recorded chains; tally has.
const GRAPHS: &[(&str, &[&str])] = &[
    ("graph by caller", &["--no-inline", "--no-children", "-g", "graph,0.5,caller"]),
    ("graph by callee", &["--no-inline", "--no-children", "-g", "fractal,0.5,callee"]),
];

/// Every question over one file.
pub fn compare(pair: &Pair, case: &Case) -> Result<Score> {
    let mut score = Score::default();
    for (name, options) in QUESTIONS {
        // With snapshots, children depend on the unwinder; that is compared frame by frame elsewhere.
        if case.snapshots && name.starts_with("children") || explained(name, &case.name) {
            continue;
        }
        score += question(pair, case, name, options)?;
    }
    if !case.snapshots && case.name.contains("fp-") | case.name.contains("callchain") {
        for (name, options) in GRAPHS.iter().filter(|(name, _)| !explained(name, &case.name)) {
            score += question(pair, case, name, options)?;
        }
    }
    Ok(score)
}

fn question(pair: &Pair, case: &Case, name: &str, options: &[&str]) -> Result<Score> {
    let file = case.file.to_string_lossy();
    let mut args = vec!["report", "--stdio", "-i", &file];
    args.extend(options);
    let mut of_perf = args.clone();
    if case.name.contains("intel_pt") {
        // perf decodes the trace into samples of its own making; the recorded ones are what is compared.
        of_perf.push("--no-itrace");
    }
    let perf = pair.perf(&of_perf)?;
    let tally = pair.tally(&args)?;
    if !tally.ok() && perf.ok() {
        bail!("tally {}: {}\n{}", args.join(" "), tally.how(), tally.tail(5));
    }
    let (perf, mut tally) = (rows(&perf.text()), rows(&tally.text()));
    if name.starts_with("children") && case.name.starts_with("live-") {
        let renamed = as_perf_names(&perf, &mut tally);
        if renamed > 0 {
            println!(
                "report ({name}) {}: {renamed} callers that tally names by the call and perf by what follows it",
                case.name
            );
        }
    }
    Ok(differ(&format!("report ({name})"), case, &perf, &tally))
}

/// Rows of tally's that are perf's but for the symbol become perf's; how many there were.
///
/// perf looks a caller up at the address it returns to. Behind a call that never returns (`exit`, `abort`, a throw)
/// that is the next function, or none.
fn as_perf_names(perf: &[String], tally: &mut [String]) -> usize {
    let mut left: Vec<&String> = perf.iter().filter(|row| !tally.contains(row)).collect();
    let but_symbol = |row: &str| row.split_once("[.] ").map(|(before, _)| before.to_owned());
    let mut renamed = 0;
    for row in tally.iter_mut().filter(|row| !perf.contains(row)) {
        let same = |other: &&String| but_symbol(other).is_some() && but_symbol(other) == but_symbol(row);
        if let Some(at) = left.iter().position(same) {
            row.clone_from(left.remove(at));
            renamed += 1;
        }
    }
    renamed
}

/// Rows with single spaces, without rulers and general remarks; the lines that say totals stay.
///
/// The strokes of the graphs go too: siblings of equal weight have no order, and the last one is drawn otherwise.
fn rows(text: &str) -> Vec<String> {
    let kept = |line: &&str| {
        let line = line.trim();
        !line.is_empty()
            && (!line.starts_with('#')
                || line.starts_with("# Samples:")
                || line.starts_with("# Event count")
                || line.starts_with("# Total Lost"))
    };
    text.lines()
        .filter(kept)
        .map(|line| {
            line.split_whitespace().map(without_strokes).collect::<Vec<_>>().join(" ").trim().to_owned()
        })
        .filter(|line| !line.is_empty())
        // perf takes the mode of frames that nobody has mapped from the frame before.
        .map(|line| line.replace("[unknown] [k]", "[unknown] [.]").replace("[...] (inlined)", "[...]"))
        // perf closes with a hint that changes by chance.
        .filter(|line| !line.starts_with("# (") && !line.starts_with("# Tip"))
        .collect()
}

/// `--23.5%--name` as `23.5% name`; a lone `|` as nothing. A lone `-` is a value that is not there.
fn without_strokes(word: &str) -> String {
    let stripped = word.trim_start_matches(['|', '-']);
    if word == "-" || (stripped == word && !word.contains("%--")) {
        return word.to_owned();
    }
    stripped.replace("%--", "% ")
}
