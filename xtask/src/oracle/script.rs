//! `script`: compares recorded chains byte for byte, and chains that each program unwinds frame by frame.

use anyhow::{Result, bail};

use super::{Case, Pair, chains, differ};
use crate::score::Score;

const QUESTIONS: &[(&str, &[&str])] =
    &[("default", &[]), ("fields", &["-F", "comm,pid,tid,cpu,time,event,period,ip,dso"])];

/// Files for which perf shows nothing: it gives up at a record of size 0, tally shows the records before it.
const PERF_GIVES_UP: &str = "zero_size_sample";

/// Files with chains of more than 127 entries: perf cuts them, and so does tally with an option.
const CUT_CHAINS: &str = "callgraph_and_branch";

/// Files of other machines without build-ids: perf names their kernels' addresses by the running kernel's symbols.
const FOREIGN_KERNEL: &str = "piped.";

/// Every question over one file.
pub fn compare(pair: &Pair, case: &Case) -> Result<Score> {
    let mut score = Score::default();
    for (name, options) in QUESTIONS {
        if *name == "fields" && case.name.contains("intel_pt") {
            // Its cycles event has no cpu; perf looks only at the events that it decodes.
            continue;
        }
        let file = case.file.to_string_lossy();
        let mut args = vec!["script", "-i", &file];
        args.extend(*options);
        if case.name.contains(CUT_CHAINS) {
            args.extend(["--max-stack", "127"]);
        }
        let mut of_perf = args.clone();
        if case.name.contains("intel_pt") {
            of_perf.push("--no-itrace");
        }
        let perf = pair.perf(&of_perf)?;
        let tally = pair.tally(&args)?;
        if case.name.contains(PERF_GIVES_UP) {
            let told = perf.text().trim().is_empty() && !tally.text().trim().is_empty();
            println!("script ({name}) {}: perf {}, tally shows the readable part", case.name, perf.how());
            score += if told { Score::PASS } else { Score::FAIL };
            continue;
        }
        if !perf.ok() {
            // perf refuses these fields for this file (for example, without recorded cpu): nothing to compare.
            continue;
        }
        if !tally.ok() {
            bail!("tally {}: {}\n{}", args.join(" "), tally.how(), tally.tail(5));
        }
        let (mut perf, mut tally) = (perf.text(), tally.text());
        if case.name.contains(FOREIGN_KERNEL) {
            (perf, tally) = (without_kernel_names(&perf), without_kernel_names(&tally));
        }
        if case.foreign {
            (perf, tally) = (without_vdso_names(&perf), without_vdso_names(&tally));
        }
        let tally = if case.snapshots { tally } else { without_what_perf_drops(&case.name, &perf, &tally) };
        score += if case.snapshots {
            chains::compare(&case.name, &perf, &tally)
        } else if same_but_named(&case.name, &perf, &tally) {
            Score::PASS
        } else {
            same_but_order(name, case, &perf, &tally)
        };
    }
    Ok(score)
}

/// Lines that end in the kernel's file, without the text between address and file.
fn without_kernel_names(text: &str) -> String {
    without_names_of(" ([kernel.kallsyms])", text)
}

/// The same for the vdso: perf names any recording's vdso by the running one.
fn without_vdso_names(text: &str) -> String {
    without_names_of(" ([vdso])", text)
}

fn without_names_of(file: &str, text: &str) -> String {
    let line = |line: &str| {
        let is_address = |word: &&str| word.len() >= 3 && word.bytes().all(|b| b.is_ascii_hexdigit());
        match (line.ends_with(file), line.split(' ').rfind(is_address)) {
            (true, Some(address)) => {
                let end = line.rfind(address).unwrap_or(0) + address.len();
                format!("{}{file}\n", &line[..end])
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// Tally's text without the frames of samples for which perf prints only the head line although the recording has
/// their chain. perf 6.1 sometimes does so in Rust programs with inlined code. Prints their number.
pub fn without_what_perf_drops(name: &str, perf: &str, tally: &str) -> String {
    let (of_perf, of_tally): (Vec<&str>, Vec<&str>) =
        (perf.split("\n\n").collect(), tally.split("\n\n").collect());
    if of_perf.len() != of_tally.len() {
        return tally.to_owned();
    }
    let mut dropped = 0;
    let kept: Vec<&str> = of_perf
        .iter()
        .zip(&of_tally)
        .map(|(perf, tally)| {
            let only_head = !perf.is_empty() && !perf.trim_end().contains('\n');
            let frames =
                tally.strip_prefix(perf.trim_end()).is_some_and(|rest| rest.trim_end().contains('\n'));
            dropped += usize::from(only_head && frames);
            if only_head && frames { *perf } else { *tally }
        })
        .collect();
    if dropped > 0 {
        println!("script {name}: {dropped} samples for which perf prints no frame");
    }
    kept.join("\n\n")
}

/// Whether perf has no symbol for a frame, or names a return address that is already the next function's first byte.
fn is_excused(perf: &str, tally: &str) -> bool {
    // The frame of a sample without a chain follows the event's name.
    let parts = |line: &str| -> Option<(String, String, String)> {
        let (head, frame) = line.rsplit_once(": ").unwrap_or(("", line));
        let (address, rest) = frame.trim_start().split_once(' ')?;
        let (symbol, dso) = rest.rsplit_once(" (")?;
        Some((format!("{head}{address}"), symbol.to_owned(), dso.to_owned()))
    };
    let (Some(a), Some(b)) = (parts(perf), parts(tally)) else { return false };
    // perf 6.1 names some entries of the PLT after the function before them.
    let is_stub = a.1.starts_with("_init+") && b.1.contains("@plt");
    a.0 == b.0 && a.2 == b.2 && (a.1 == "[unknown]" || a.1.ends_with("+0x0") || is_stub)
}

/// perf's text with tally's names of the frames in which they may differ.
pub fn with_excused_names(perf: &str, tally: &str) -> String {
    let mut of_tally = tally.lines();
    let line = |line: &str| match of_tally.next() {
        Some(other) if is_excused(line, other) => format!("{other}\n"),
        _ => format!("{line}\n"),
    };
    perf.lines().map(line).collect()
}

/// Whether the texts are equal, line by line, except for symbols that perf lacks, or looked up at a return address that
/// is already the next function's first byte (`+0x0`). Prints their number.
fn same_but_named(name: &str, perf: &str, tally: &str) -> bool {
    let mut excused = 0;
    let same = perf.lines().count() == tally.lines().count()
        && perf.lines().zip(tally.lines()).all(|(a, b)| {
            let excused_here = a != b && is_excused(a, b);
            excused += usize::from(excused_here);
            a == b || excused_here
        });
    if same && excused > 0 {
        println!(
            "script {name}: {excused} frames that tally names by the call and perf by the return address"
        );
    }
    same
}

/// Prints the lines in which two texts differ, or that only their order differs (which fails too).
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
