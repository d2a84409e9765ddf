//! Code of the functions that ran most, with the share of samples of each line: the page's tab Source.

use crate::terminal::foreign::harmless;
use profile::profile::Sums;
use profile::view::annotate::{AnnotateFunction, AnnotateOpts};
use profile::view::flame::events_shown;
use serde_json::{Value, json};
use symbols::Recording;
use symbols::listing::{self, CodeLine, Line, Listing, ListingOpts, Sources};

/// Functions at most.
const FUNCTIONS: usize = 40;
/// Until these functions have so many percent of the samples.
const PERCENT: u64 = 95;
/// Size of all code at most, before it is packed.
const MOST_BYTES: usize = 600_000;
/// Lines shown around one with samples.
const CONTEXT: usize = 12;

/// Code with samples.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Functions, hottest first, as docs/formats/page.md describes them.
    pub functions: Vec<Value>,
    /// Functions within the limits whose code is not on this machine.
    pub missing: usize,
}

/// The code of the hottest functions of the first event that isn't of waits.
#[must_use]
pub fn code(recording: &Recording) -> Code {
    let profile = &recording.profile;
    let Some(event) = events_shown(profile, true).first().copied() else { return Code::default() };
    let whole = profile.total(event).period.max(1);
    let mut functions = annotate_view(recording, event);
    functions.sort_by_key(|function| std::cmp::Reverse(function.totals[event].period));
    let (sources, opts) = (Sources::new(None), ListingOpts { source: true, ..ListingOpts::default() });
    let (mut code, mut covered, mut size) = (Code::default(), 0u64, 0);
    for function in functions.iter().take(FUNCTIONS) {
        if covered.saturating_mul(100) >= whole.saturating_mul(PERCENT) || size > MOST_BYTES {
            break;
        }
        covered = covered.saturating_add(function.totals[event].period);
        let listings = listing::listings(profile, &recording.files, &sources, function, &opts);
        let shown: Vec<&Listing> = listings.iter().filter(|listing| listing.no_code.is_none()).collect();
        code.missing += usize::from(shown.is_empty());
        for listing in shown.iter().filter(|listing| listing.totals[event].period > 0) {
            let value = function_value(listing, event, whole);
            size += value.to_string().len();
            code.functions.push(value);
        }
    }
    code
}

fn annotate_view(recording: &Recording, event: usize) -> Vec<AnnotateFunction> {
    let mut functions = profile::view::annotate::annotate(&recording.profile, &AnnotateOpts::default());
    functions.retain(|function| function.totals[event].period > 0);
    functions
}

fn function_value(listing: &Listing, event: usize, whole: u64) -> Value {
    let own = listing.totals[event].period;
    let hits: Vec<usize> =
        (0..listing.lines.len()).filter(|&at| period(&listing.lines[at], event) > 0).collect();
    let is_near = |at: usize| {
        let next = hits.partition_point(|&hit| hit + CONTEXT < at);
        hits.get(next).is_some_and(|&hit| hit <= at + CONTEXT)
    };
    let mut lines = Vec::new();
    let mut cut = 0usize;
    for (at, line) in listing.lines.iter().enumerate() {
        if is_near(at) {
            if cut > 0 {
                lines.push(json!(["…", cut]));
            }
            cut = 0;
            lines.push(line_value(line, event));
        } else {
            cut += 1;
        }
    }
    if cut > 0 {
        lines.push(json!(["…", cut]));
    }
    json!({
        "name": harmless(&listing.name), "file": harmless(&listing.dso), "own": own,
        "share": own as f64 / whole as f64, "lines": lines,
    })
}

fn period(line: &Line, event: usize) -> u64 {
    match line {
        Line::Code(code) => code.sums.get(event).map_or(0, |sums: &Sums| sums.period),
        _ => 0,
    }
}

/// `[kind, …]`: a function's name, a place without its source, a line of source, or an instruction.
fn line_value(line: &Line, event: usize) -> Value {
    match line {
        Line::Function(name) => json!(["f", harmless(name)]),
        Line::Place { file, line } => json!(["p", format!("{}:{line}", harmless(file))]),
        Line::Source { line, text } => json!(["s", line, harmless(text)]),
        Line::Code(code) => instruction(code, period(line, event)),
    }
}

fn instruction(code: &CodeLine, period: u64) -> Value {
    let place = code.place.as_ref().filter(|(_, line)| *line > 0);
    let place = place.map(|(file, line)| format!("{}:{line}", harmless(last_part(file))));
    json!(["c", format!("{:x}", code.svma.0), harmless(&code.text), period, place])
}

/// A file's name without its folders.
fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
