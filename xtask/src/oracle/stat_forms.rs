//! `stat` in all its forms: text, CSV and JSON field by field without the numbers, and counts from a file to the byte.

use std::process::Command;

use anyhow::Result;

use super::Pair;
use crate::score::Score;

const EVENTS: &str = "cpu-clock,page-faults,cs,cycles";

/// perf prints one CPU for unsupported events, whatever the number of CPUs.
const SUPPORTED: &str = "cpu-clock,page-faults,cs";

/// Placeholder for a process that does nothing.
const QUIET: &str = "PID";

/// Ways to count.
const RUNS: &[&[&str]] = &[
    &["true"],
    &["-r", "3", "true"],
    &["-a", "sleep", "0.1"],
    &["-A", "-a", "sleep", "0.1"],
    &["--per-core", "-a", "sleep", "0.1"],
    &["--per-die", "-a", "sleep", "0.1"],
    &["--per-socket", "-a", "sleep", "0.1"],
    &["--per-node", "-a", "sleep", "0.1"],
    &["--per-thread", "-p", QUIET, "sleep", "0.1"],
    &["-I", "200", "-a", "sleep", "0.3"],
    &["-I", "200", "-A", "-a", "sleep", "0.3"],
    &["-I", "200", "--per-core", "-a", "sleep", "0.3"],
];

/// Output forms.
const FORMS: &[&[&str]] = &[&[], &["-x,"], &["-j"]];

/// Compares every run in every form, then counts in files.
pub fn compare(pair: &Pair) -> Result<Score> {
    let mut quiet = Command::new("sleep").arg("600").spawn()?;
    let pid = quiet.id().to_string();
    let score = compare_with(pair, &pid);
    quiet.kill()?;
    quiet.wait()?;
    score
}

fn compare_with(pair: &Pair, pid: &str) -> Result<Score> {
    let mut score = Score::default();
    for run in runs(pid) {
        for form in FORMS {
            let line = [&["stat", "-e", EVENTS][..], form, &run].concat();
            let both =
                || -> Result<_> { Ok((shape(&pair.perf(&line)?.stderr), shape(&pair.tally(&line)?.stderr))) };
            let (mut perf, mut tally) = both()?;
            for _ in 0..4 {
                if perf == tally {
                    break;
                }
                // A busy machine has fewer intervals, and a process that does not run within 0.1 s is not counted.
                (perf, tally) = both()?;
            }
            score += told(&line, &perf, &tally);
        }
    }
    score += files(pair, pid)?;
    Ok(score)
}

fn runs(pid: &str) -> impl Iterator<Item = Vec<&str>> {
    RUNS.iter().map(move |run| run.iter().map(|word| if *word == QUIET { pid } else { word }).collect())
}

/// Compares both programs' reading of both files.
fn files(pair: &Pair, pid: &str) -> Result<Score> {
    let mut score = Score::default();
    for run in runs(pid).filter(|run| run.first() != Some(&"-r")) {
        let events = if run.len() > 1 { SUPPORTED } else { EVENTS };
        let line = |file| [&["stat", "record", "-o", file, "-e", events][..], &run].concat();
        // For intervals perf computes rates from all counts up to them.
        let part = if run.contains(&"-I") { " # " } else { "\n" };
        pair.perf(&line("perf.counts"))?;
        pair.tally(&line("tally.counts"))?;
        for file in ["perf.counts", "tally.counts"] {
            let line = ["stat", "report", "-i", file];
            let counts =
                |line: &str| line.split(part).next().unwrap_or_default().trim_end().to_owned() + "\n";
            let text =
                |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).lines().map(counts).collect::<String>();
            let (perf, tally) = (text(pair.perf(&line)?.stderr), text(pair.tally(&line)?.stderr));
            score += told(&[&line[..], &run].concat(), &perf, &tally);
        }
    }
    Ok(score)
}

fn told(line: &[&str], perf: &str, tally: &str) -> Score {
    // Two empty outputs would be equal, too.
    let same = perf == tally && perf.lines().count() > 1;
    if !same {
        println!("{}:\n--- perf\n{perf}--- tally\n{tally}", line.join(" "));
    }
    Score::of(same)
}

/// Numbers as `N`, without the thousands of their unit, with single blanks, and without tally's 95 % intervals and
/// version.
fn shape(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(|line| line_shape(line) + "\n").collect()
}

fn line_shape(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line.split("  [95%").next().unwrap_or(line).chars().peekable();
    while let Some(letter) = rest.next() {
        if letter.is_ascii_digit() {
            while rest.next_if(|&c| c.is_ascii_digit() || c == '.').is_some() {}
            shape.push('N');
        } else if letter != ' ' || !shape.ends_with(' ') {
            shape.push(letter);
        }
    }
    for prefix in ["K/sec", "M/sec", "G/sec"] {
        shape = shape.replace(prefix, "/sec");
    }
    shape = shape.replace("\"interval-N-low\" : N, \"interval-N-high\" : N, ", "");
    shape = shape.replace(", \"schema_version\" : N", "");
    // One run has no spread; nor have three runs with the same counts.
    shape = shape.replace("( +- N% )", "").replace("-nan", "N");
    shape.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_matter_and_words_do() {
        assert_eq!(
            line_shape("   1.24 msec task-clock  #  0.077 CPUs utilized  "),
            " N msec task-clock # N CPUs utilized"
        );
        assert_eq!(line_shape("7,,cs,9,100.00,1.2,K/sec"), line_shape("12,,cs,9,100.00,900,/sec"));
        assert_ne!(line_shape("7,,cs"), line_shape("7,,faults"));
    }
}
