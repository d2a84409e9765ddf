//! Code of the functions that ran most, with the share of samples of each line: the page's tab Source.

use crate::terminal::foreign::harmless;
use profile::view::flame::events_shown;
use serde_json::{Value, json};
use symbols::Recording;
use symbols::listing::{CodeLine, Excerpt, HottestCode, Line, Listing};

/// Functions at most.
const FUNCTIONS: usize = 40;
/// Size of all code at most, before it is packed.
const MOST_BYTES: usize = 100_000;
/// Lines shown around one with samples.
const CONTEXT: usize = 8;

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
    let (mut code, mut size) = (Code::default(), 0);
    for listings in HottestCode::new(recording, event, FUNCTIONS) {
        code.missing += usize::from(listings.is_empty());
        for listing in listings.iter().filter(|listing| listing.totals[event].period > 0) {
            let value = function_value(listing, event, whole);
            size += value.to_string().len();
            code.functions.push(value);
        }
        if size > MOST_BYTES {
            break;
        }
    }
    code
}

fn function_value(listing: &Listing, event: usize, whole: u64) -> Value {
    let own = listing.totals[event].period;
    let mut before = Before::default();
    let mut line = |piece: &Excerpt<'_>| match piece {
        Excerpt::Line(line) => line_value(line, event, &mut before),
        Excerpt::Cut(lines) => json!(["…", lines]),
    };
    let lines: Vec<Value> = listing.excerpt(event, CONTEXT).iter().map(&mut line).collect();
    json!({
        "name": harmless(&listing.name), "file": harmless(&listing.dso), "own": own,
        "share": own as f64 / whole as f64, "lines": lines,
    })
}

/// `[kind, …]`: a function's name, a place without its source, a line of source, one that an interpreter ran, or an
/// instruction.
fn line_value(line: &Line, event: usize, before: &mut Before) -> Value {
    match line {
        Line::Function(name) => json!(["f", harmless(name)]),
        Line::Place { file, line } => json!(["p", format!("{}:{line}", harmless(file))]),
        Line::Source { line, text } => json!(["s", line, harmless(text)]),
        Line::Statement { file, line: number, text, .. } => {
            let place = format!("{}:{number}", harmless(last_part(file)));
            json!(["l", number, harmless(text), line.period(event), place])
        }
        Line::Code(code) => before.instruction(code, line.period(event)),
    }
}

/// The instruction before: most of the next one's address and place is the same.
#[derive(Default)]
struct Before {
    address: u64,
    place: Option<String>,
}

impl Before {
    /// Its address is the distance from the one before where that is short, its place 0 where it is the same.
    fn instruction(&mut self, code: &CodeLine, period: u64) -> Value {
        let address = code.svma.0;
        let distance = address.checked_sub(self.address).filter(|distance| *distance < 1 << 16);
        self.address = address;
        let place = code.place.as_ref().filter(|(_, line)| *line > 0);
        let place = place.map(|(file, line)| format!("{}:{line}", harmless(last_part(file))));
        let address = distance.map_or_else(|| json!(format!("{address:x}")), |distance| json!(distance));
        if place.is_some() && place == self.place {
            return json!(["c", address, harmless(&code.text), period, 0]);
        }
        self.place.clone_from(&place);
        json!(["c", address, harmless(&code.text), period, place])
    }
}

/// A file's name without its folders.
fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
