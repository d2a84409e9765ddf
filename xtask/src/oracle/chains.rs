//! Compares chains that each program unwound from the same snapshots, frame by frame.

use std::collections::BTreeMap;

use crate::score::Score;

/// One sample of a script text: its head line and its frames, leaf first, as `symbol (dso)`.
struct Sample {
    head: String,
    frames: Vec<String>,
}

/// The named reason why two chains differ; `None` for an unexplained difference.
fn explain(perf: &[String], tally: &[String]) -> Option<&'static str> {
    let same = agreeing(perf, tally);
    if same == perf.len() && same == tally.len() {
        return Some("perf has other names for functions that it considers inlined");
    }
    if same == perf.len() {
        return Some("tally continues where perf stops");
    }
    let unknown = |frame: &String| frame.starts_with("[unknown]");
    if perf[same..].iter().all(unknown) {
        return Some("perf ends in frames that it cannot name");
    }
    let without = |frames: &[String]| frames.iter().filter(|f| !unknown(f)).cloned().collect::<Vec<_>>();
    let (perf_named, tally_named) = (without(perf), without(tally));
    if agreeing(&perf_named, &tally_named) == perf_named.len() {
        return Some("perf has frames in between that it cannot name");
    }
    None
}

/// Number of frames, from the leaf, with the same function in both chains.
fn agreeing(perf: &[String], tally: &[String]) -> usize {
    let most = perf.len().min(tally.len());
    (0..most).take_while(|&at| perf[at] == tally[at] || is_renamed(perf, tally, at)).count()
}

/// Whether perf has another name for the function at `at`:
///
/// - `f (inlined)` for a function `f` or `f.constprop.0` of its own, when its symbol's name is not the one in the debug
///   information (readelf -s has it as a function, eu-addr2line and llvm-symbolizer have no inlined one there);
/// - for an inlined function, the name of the function around it. That is binutils' answer, which perf uses;
///   llvm-symbolizer, eu-addr2line and gdb have the inlined function's name, as in the debug information;
/// - none for a signal's return trampoline, which it looks up one byte before.
fn is_renamed(perf: &[String], tally: &[String], at: usize) -> bool {
    let is_inlined = |frame: &str| frame.ends_with("(inlined)");
    let name = |frame: &str| frame.rsplit_once(" (").map_or(String::new(), |(name, _)| name.to_owned());
    let around = tally[at..].iter().find(|frame| !is_inlined(frame));
    match (is_inlined(&perf[at]), is_inlined(&tally[at])) {
        (true, false) => true,
        (false, true) => around.is_some_and(|around| name(around) == name(&perf[at])),
        _ => perf[at].starts_with("[unknown]") && name(&tally[at]) == "__restore_rt",
    }
}

/// Compares every sample of two script texts.
pub fn compare(name: &str, perf: &str, tally: &str) -> Score {
    let (perf, tally) = (samples(perf), samples(tally));
    if perf.len() != tally.len() {
        println!("script {name}: {} samples of perf, {} of tally", perf.len(), tally.len());
        return Score::FAIL;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut shown = 0;
    for (a, b) in perf.iter().zip(&tally) {
        let kind = match a.frames == b.frames {
            true => "equal",
            false => explain(&a.frames, &b.frames).unwrap_or("unexplained"),
        };
        *counts.entry(kind).or_default() += 1;
        if kind == "unexplained" && shown < 2 {
            shown += 1;
            println!(
                "script {name}: {}\n    perf  {}\n    tally {}",
                a.head,
                a.frames.join(" < "),
                b.frames.join(" < ")
            );
        }
    }
    let told: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    println!("chains {name}: {}", told.join(", "));
    Score::of(!counts.contains_key("unexplained"))
}

fn samples(text: &str) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with(['\t', ' ']) || line.contains("cpu-clock") {
            samples.push(Sample { head: line.trim().to_owned(), frames: Vec::new() });
        } else if let Some(sample) = samples.last_mut() {
            let frame = line.trim().split_once(' ').map_or("", |(_, frame)| frame);
            sample.frames.push(without_offset(frame));
        }
    }
    samples
}

/// `name+0x12 (dso)` as `name (dso)`.
fn without_offset(frame: &str) -> String {
    match frame.rsplit_once("+0x") {
        Some((name, rest)) => format!("{name}{}", rest.trim_start_matches(|c: char| c.is_ascii_hexdigit())),
        None => frame.to_owned(),
    }
}
