//! `report`: totals and rows of every event, and the drawn call graphs.

mod explained;

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::{Case, Pair, differ};
use crate::score::Score;
use explained::explained;

/// Questions and their options.
const QUESTIONS: &[(&str, &[&str])] = &[
    ("self", &["--no-children", "-g", "none", "--percent-limit", "0"]),
    ("samples", &["--no-children", "-g", "none", "--percent-limit", "0", "-F", "sample,period,comm,dso,sym"]),
    ("children", &["--children", "--no-inline", "-g", "none", "--percent-limit", "0"]),
    ("children of dsos", &["--children", "--no-inline", "-g", "none", "--sort", "comm,dso"]),
    ("pid", &["--no-children", "-g", "none", "--sort", "pid,dso"]),
];

/// Rows that cannot be equal, and how they are treated.
#[derive(Clone, Copy)]
enum Class {
    /// Rows without a symbol, `0x…` in its place.
    Unnamed,
    /// Rows of the kernel.
    Kernel,
    /// Rows of the vdso.
    Vdso,
    /// Rows whose last column is a number above 32,767.
    LargeCycles,
    /// Rows of a thread whose name is cut: this word for that.
    Cut(&'static str, &'static str),
    /// Rows of a tracepoint that begin with a file's name: perf ends the text where its column does.
    FileName,
    /// Rows that were counted as callers: only their own hits are compared.
    Callers,
    /// All rows: perf shows nothing.
    PerfGivesUp,
    /// All rows: the question is not asked.
    All,
}

/// Questions about the drawn paths. perf 6.1 has no inline frames in recorded chains; tally has.
const GRAPHS: &[(&str, &[&str])] = &[
    ("graph by caller", &["--no-inline", "--no-children", "-g", "graph,0.5,caller"]),
    ("graph by callee", &["--no-inline", "--no-children", "-g", "fractal,0.5,callee"]),
];

/// Every question over one file.
pub fn compare(pair: &Pair, case: &Case) -> Result<Score> {
    let mut score = Score::default();
    for (name, options) in QUESTIONS {
        // With snapshots, children depend on the unwinder; `chains` compares those frame by frame.
        if case.snapshots && name.starts_with("children") {
            continue;
        }
        score += question(pair, case, name, options)?;
    }
    if !case.snapshots && case.name.contains("fp-") | case.name.contains("callchain") {
        for (name, options) in GRAPHS {
            score += question(pair, case, name, options)?;
        }
    }
    Ok(score)
}

fn question(pair: &Pair, case: &Case, name: &str, options: &[&str]) -> Result<Score> {
    let class = explained(name, &case.name);
    if matches!(class, Some(Class::All)) {
        return Ok(Score::default());
    }
    let file = case.file.to_string_lossy();
    let mut args = vec!["report", "--stdio", "-i", &file];
    args.extend(options);
    let mut of_perf = args.clone();
    if case.name.contains("intel_pt") {
        // perf decodes the trace into synthesized samples; only the recorded samples are compared.
        of_perf.push("--no-itrace");
    }
    let perf = pair.perf(&of_perf)?;
    let tally = pair.tally(&args)?;
    if !tally.ok() && perf.ok() {
        bail!("tally {}: {}\n{}", args.join(" "), tally.how(), tally.tail(5));
    }
    if matches!(class, Some(Class::PerfGivesUp)) {
        let told = rows(&perf.text()).is_empty() && !rows(&tally.text()).is_empty();
        println!("report ({name}) {}: perf {}, tally shows the readable part", case.name, perf.how());
        return Ok(if told { Score::PASS } else { Score::FAIL });
    }
    let (mut perf, mut tally) = (rows(&perf.text()), rows(&tally.text()));
    let stubs = as_perf_stubs(&perf, &mut tally);
    if stubs > 0 {
        println!("report ({name}) {}: {stubs} entries of the PLT that perf has no function for", case.name);
    }
    if name.starts_with("children") && (case.name.starts_with("live-") || case.name.starts_with("fp-")) {
        let renamed = as_perf_names(&perf, &mut tally);
        if renamed > 0 {
            println!(
                "report ({name}) {}: {renamed} callers that tally names by the call and perf by the return address",
                case.name
            );
        }
    }
    let vdso = case.foreign.then_some(Class::Vdso);
    for class in vdso.into_iter().chain(class) {
        let (of_perf, of_tally) = (class.apart(&mut perf), class.apart(&mut tally));
        if of_perf + of_tally > 0 {
            println!(
                "report ({name}) {}: {of_perf} rows of perf and {of_tally} of tally excluded",
                case.name
            );
        }
    }
    Ok(differ(&format!("report ({name})"), case, &perf, &tally))
}

impl Class {
    /// Brings the rows of this class into a comparable form. Returns their number.
    ///
    /// Rows that begin with samples and period are summed by all other columns except the symbol; those sums must be
    /// equal. Rows with shares in percent are left out, because rounded shares have no exact sum.
    fn apart(self, rows: &mut Vec<String>) -> usize {
        if let Self::Cut(whole, cut) = self {
            let hit = rows.iter_mut().filter(|row| row.split(' ').any(|word| word == whole));
            return hit.map(|row| *row = row.replace(whole, cut)).count();
        }
        if let Self::LargeCycles = self {
            return rows.iter_mut().filter_map(|row| as_signed_word(row).map(|signed| *row = signed)).count();
        }
        if let Self::FileName = self {
            let hit = rows.iter_mut().filter(|row| row.contains("% filename="));
            return hit.map(|row| *row = cut_text(row)).count();
        }
        if let Self::Callers = self {
            let all = rows.len();
            *rows = rows.iter().filter_map(|row| own_share(row)).collect();
            return all - rows.len();
        }
        let before = rows.len();
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        rows.retain(|row| {
            if !self.holds(row) {
                return true;
            }
            if let Some((samples, period, rest)) = numbers(row) {
                let sum = sums.entry(rest).or_default();
                *sum = (sum.0 + samples, sum.1 + period);
            }
            false
        });
        let gone = before - rows.len();
        rows.extend(
            sums.into_iter().map(|(rest, (samples, period))| format!("{samples} {period} {rest} (together)")),
        );
        gone
    }

    fn holds(self, row: &str) -> bool {
        match self {
            Self::Unnamed => row.split(' ').any(is_address),
            Self::Kernel => row.contains("[kernel.kallsyms]"),
            Self::Vdso => row.contains("[vdso]"),
            Self::LargeCycles | Self::Cut(..) | Self::FileName | Self::Callers => false,
            Self::PerfGivesUp | Self::All => true,
        }
    }
}

/// A row whose last number does not fit a signed 16-bit word, as perf prints it (without the sign, which looks like a
/// stroke of a graph).
fn as_signed_word(row: &str) -> Option<String> {
    let (rest, last) = row.rsplit_once(' ')?;
    let cycles: u32 = last.parse().ok()?;
    (0x8000..0x1_0000).contains(&cycles).then(|| format!("{rest} {}", 0x1_0000 - cycles))
}

/// Number of characters compared where perf cuts a text: the width of the column's heading.
const COMPARED_TEXT: usize = "Trace output".len();

fn cut_text(row: &str) -> String {
    let (percent, text) = row.split_once(' ').unwrap_or((row, ""));
    format!("{percent} {}", text.chars().take(COMPARED_TEXT).collect::<String>())
}

/// The row without its share as a caller; `None` if it was never sampled itself.
fn own_share(row: &str) -> Option<String> {
    match row.split_once(' ') {
        Some((children, own)) if children.ends_with('%') && own.contains('%') => {
            (!own.starts_with("0.00%")).then(|| own.to_owned())
        }
        _ => Some(row.to_owned()),
    }
}

/// `0x` and 16 digits, or only zeros: the text in place of a symbol.
fn is_address(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Samples, period, and the other columns except the symbol; `None` if the row does not begin with them.
fn numbers(row: &str) -> Option<(u64, u64, String)> {
    let mut words = row.split(' ');
    let (samples, period) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let rest: Vec<&str> = words.collect();
    let symbol =
        rest.iter().position(|word| word.len() == 3 && word.starts_with('[') && word.ends_with(']'))?;
    Some((samples, period, rest[..symbol].join(" ")))
}

/// Replaces tally's rows of PLT entries by perf's where perf has no function for the entry (`@plt` or an address), names it
/// after the function before it (`_init`), or gives the entry of an indirect function, which has no name in the file, the
/// name of the next one. Returns their number.
fn as_perf_stubs(perf: &[String], tally: &mut [String]) -> usize {
    const NAMES: [&str; 2] = ["@plt", "_init"];
    fn parts(row: &str) -> (&str, &str) {
        row.rsplit_once(' ').unwrap_or(("", row))
    }
    let mut left = without(perf, tally);
    let others = without(tally, perf);
    let stubs: Vec<String> = others.into_iter().filter(|row| row.ends_with("@plt")).cloned().collect();
    let mut renamed = 0;
    for stub in stubs {
        let (before, own) = parts(&stub);
        let may_be = |other: &&String| {
            let (others_before, name) = parts(other);
            let is_excused =
                NAMES.contains(&name) || is_address(name) || (own == "@plt" && name.ends_with("@plt"));
            before == others_before && is_excused
        };
        if let Some(at) = left.iter().position(may_be)
            && let Some(row) = tally.iter_mut().find(|row| **row == stub)
        {
            row.clone_from(left.remove(at));
            renamed += 1;
        }
    }
    renamed
}

/// The rows without those of `others`; a row that is there twice has to be in `others` twice.
fn without<'r>(rows: &'r [String], others: &[String]) -> Vec<&'r String> {
    let mut left: Vec<&String> = rows.iter().collect();
    for other in others {
        if let Some(at) = left.iter().position(|row| *row == other) {
            left.swap_remove(at);
        }
    }
    left
}

/// Replaces tally's rows that differ from perf's only in the symbol. Returns their number.
///
/// perf looks a caller up at its return address. After a call that never returns (`exit`, `abort`, a throw) that is in
/// the next function, or in none.
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

/// Rows with single spaces, without rulers and general remarks; lines with totals stay.
///
/// The strokes of the graphs are removed too: siblings of equal weight have no order, and the last one is drawn
/// differently.
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
        // perf takes the mode of unmapped frames from the frame before.
        .map(|line| line.replace("[unknown] [k]", "[unknown] [.]").replace("[...] (inlined)", "[...]"))
        // perf ends with a random hint.
        .filter(|line| !line.starts_with("# (") && !line.starts_with("# Tip"))
        .collect()
}

/// `--23.5%--name` as `23.5% name`; a lone `|` as nothing. A lone `-` is a missing value.
fn without_strokes(word: &str) -> String {
    let stripped = word.trim_start_matches(['|', '-']);
    if word == "-" || (stripped == word && !word.contains("%--")) {
        return word.to_owned();
    }
    stripped.replace("%--", "% ")
}
