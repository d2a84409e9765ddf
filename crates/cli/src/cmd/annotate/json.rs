//! `tally annotate --json`: functions with their lines and instructions, for scripts.

use super::{Args, hottest_first, sources};
use crate::terminal::out;
use exchange::rows::{SCHEMA_VERSION, sums_value};
use profile::profile::{Profile, Sums};
use profile::view::annotate::AnnotateFunction;
use serde_json::{Value, json};
use symbols::Recording;
use symbols::listing::{self, CodeLine, HottestLines, Line, Listing, ListingOpts};

/// Functions, hottest first; lists of sums are by event, in the order of `events`.
pub(super) fn print(
    recording: &Recording,
    functions: &[AnnotateFunction],
    opts: &ListingOpts,
    args: &Args,
) -> anyhow::Result<()> {
    let (profile, sources) = (&recording.profile, sources(args));
    let events: Vec<usize> = (0..profile.events.len()).collect();
    let totals: Vec<Sums> = events.iter().map(|&event| profile.total(event)).collect();
    let hit = hottest_first(functions, &events, &totals, args.percent_limit);
    let listings = hit.iter().flat_map(|of| listing::listings(profile, &recording.files, &sources, of, opts));
    let functions: Vec<Value> = listings.map(|listing| function(&listing, args.max_lines)).collect();
    let value = json!({
        "schema_version": SCHEMA_VERSION, "view": "annotate", "events": names(profile),
        "totals": sums(&totals), "functions": functions,
    });
    out::rows(&value, args.max_lines)
}

fn names(profile: &Profile) -> Vec<&str> {
    profile.events.iter().map(|event| event.name.as_str()).collect()
}

fn sums(sums: &[Sums]) -> Vec<Value> {
    sums.iter().map(sums_value).collect()
}

/// A function with at most `most` lines (0: all): those with most samples, in their order.
fn function(listing: &Listing, most: usize) -> Value {
    let HottestLines { lines, left_out, left_out_sums } = listing.hottest_lines(most);
    json!({
        "symbol": listing.name, "dso": listing.dso, "path": listing.path, "start": listing.start.0,
        "totals": sums(&listing.totals), "no_code": listing.no_code.map(|why| why.to_string()),
        "lines": lines.into_iter().map(line).collect::<Vec<_>>(),
        "lines_left_out": left_out, "left_out_self": sums(&left_out_sums),
    })
}

fn line(line: &Line) -> Value {
    match line {
        Line::Function(name) => json!({ "kind": "function", "name": name }),
        Line::Place { file, line } => json!({ "kind": "place", "file": file, "line": line }),
        Line::Source { line, text } => json!({ "kind": "source", "line": line, "text": text }),
        Line::Statement { file, line, text, sums: of } => {
            json!({ "kind": "statement", "file": file, "line": line, "text": text, "self": sums(of) })
        }
        Line::Code(code) => instruction(code),
    }
}

fn instruction(code: &CodeLine) -> Value {
    let (file, line) = code.place.as_ref().map(|(file, line)| (file.as_str(), *line)).unzip();
    json!({
        "kind": "instruction", "address": code.svma.0, "bytes": code.len, "text": code.text,
        "file": file, "line": line.filter(|line| *line > 0), "self": sums(&code.sums),
    })
}
