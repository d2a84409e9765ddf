//! The grammar of `-e`, by recursive descent over the text; every fault knows its place.
//!
//! ```text
//! list  = item { "," item }
//! item  = [name] "{" event { "," event } "}" [":" modifiers]  |  event
//! event = "mem:" address ["/" length] [":" access] [":" modifiers]
//!       | number ":" number [":" modifiers]
//!       | system ":" event [terms] [":" modifiers]         both may be patterns
//!       | name [terms] [":"] [modifiers]                   a fixed name, rNNN, a PMU or an event of one
//! terms = "/" [ term { "," term } ] "/"       term = name [ "=" value ]
//! ```

mod by_source;
mod cursor;

use std::ops::Range;

use perfdata::{Attr, AttrFlags, abi};

use super::cache::parse_cache;
use super::error::{Error, Fault};
use super::modifier::Modifiers;
use super::name::{HARDWARE, SOFTWARE, TOOL, Tool, find_named};
use super::pmu::{Config, Pmu, PmuTerms, TermError, configure_plain};
use super::source::EventSource;
use super::term::{Term, parse_hex, parse_number};
use super::{EventGroup, EventSpec};

/// The events that `text`, one `-e` option's value, names; leaders as indices into the result.
pub fn parse(text: &str, source: &dyn EventSource) -> Result<Vec<EventSpec>, Error> {
    let mut parser = Parser { text, at: 0, source, out: Vec::new() };
    parser.list().map_err(|at| Error {
        text: text.to_owned(),
        span: at.span,
        fault: Box::new(at.fault),
        nearest: at.nearest,
    })?;
    Ok(parser.out)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    source: &'a dyn EventSource,
    out: Vec<EventSpec>,
}

/// A fault and its place.
struct FaultSpan {
    span: Range<usize>,
    fault: Fault,
    nearest: Vec<String>,
}

fn fault<T>(span: Range<usize>, fault: Fault) -> Result<T, FaultSpan> {
    Err(FaultSpan { span, fault, nearest: Vec::new() })
}

/// An event before its modifiers are known.
struct Draft {
    kind: u32,
    settings: PmuTerms,
    name: String,
    tool: Option<Tool>,
    cpus: Option<Vec<u32>>,
    aux: bool,
    breakpoint: Option<u32>,
}

impl Draft {
    fn new(kind: u32, settings: PmuTerms, name: &str) -> Self {
        Self { kind, settings, name: name.to_owned(), tool: None, cpus: None, aux: false, breakpoint: None }
    }
}

/// A fixed name that needs no look into the machine.
struct Plain {
    kind: u32,
    config: u64,
    tool: Option<Tool>,
}

impl<'a> Parser<'a> {
    fn list(&mut self) -> Result<(), FaultSpan> {
        loop {
            self.item()?;
            self.blanks();
            match self.peek() {
                None => return Ok(()),
                Some(',') => self.at += 1,
                Some(_) => return fault(self.at..self.text.len(), Fault::Trailing),
            }
        }
    }

    fn item(&mut self) -> Result<(), FaultSpan> {
        self.blanks();
        let open = self.text[self.at..].find(|c: char| "{,:/".contains(c)).map(|i| self.at + i);
        match open.filter(|&i| self.text[i..].starts_with('{')) {
            Some(open) => self.group(open),
            None => self.event(),
        }
    }

    fn group(&mut self, open: usize) -> Result<(), FaultSpan> {
        let name = self.text[self.at..open].trim();
        let name = (!name.is_empty()).then(|| name.to_owned());
        let first = self.out.len();
        self.at = open + 1;
        loop {
            self.blanks();
            if self.peek() == Some('{') {
                return fault(self.at..self.at + 1, Fault::NestedGroup);
            }
            self.event()?;
            self.blanks();
            match self.peek() {
                Some(',') => self.at += 1,
                Some('}') => break,
                Some('{') => return fault(self.at..self.at + 1, Fault::NestedGroup),
                Some(_) => return fault(self.at..self.text.len(), Fault::Trailing),
                None => return fault(open..self.text.len(), Fault::UnclosedGroup),
            }
        }
        self.at += 1;
        let letters = self.modifiers();
        for event in &mut self.out[first..] {
            apply(&mut event.modifiers, self.text, &letters)?;
            event.group = Some(EventGroup { leader: first, name: name.clone() });
            event.finish();
        }
        Ok(())
    }

    fn event(&mut self) -> Result<(), FaultSpan> {
        let start = self.at;
        let name = self.word(",{}/:");
        let span = start..self.at;
        if name.is_empty() {
            return fault(start..start, Fault::MissingEvent);
        }
        if name == "mem" && self.peek() == Some(':') {
            return self.breakpoint(start);
        }
        match (self.plain(name, &span)?, self.peek()) {
            (Some(plain), _) => self.plain_event(plain, start),
            (None, Some(':')) if self.after_colon(is_number) && is_number(name) => self.numbered(start),
            (None, Some(':')) => self.tracepoint(name, start),
            (None, Some('/')) => self.pmu_event(name, span),
            (None, _) => self.sysfs_event(name, span),
        }
    }

    /// Hardware, software, tool, cache and raw names, unless a `/` selects a PMU of that name.
    fn plain(&self, name: &str, span: &Range<usize>) -> Result<Option<Plain>, FaultSpan> {
        let plain = |kind, config| Ok(Some(Plain { kind, config, tool: None }));
        if let Some(event) = find_named(HARDWARE, name) {
            return plain(abi::PERF_TYPE_HARDWARE, event.config);
        }
        if let Some(event) = find_named(SOFTWARE, name) {
            return plain(abi::PERF_TYPE_SOFTWARE, event.config);
        }
        if let Some((_, tool)) = TOOL.iter().find(|t| t.0 == name) {
            let (kind, config) = (abi::PERF_TYPE_SOFTWARE, abi::PERF_COUNT_SW_DUMMY);
            return Ok(Some(Plain { kind, config, tool: Some(*tool) }));
        }
        if self.peek() == Some('/') && Pmu::read(name, self.source).is_some() {
            return Ok(None);
        }
        if let Some(raw) = name.strip_prefix('r').and_then(parse_hex) {
            return plain(abi::PERF_TYPE_RAW, raw);
        }
        match parse_cache(name) {
            Some(Ok(config)) => plain(abi::PERF_TYPE_HW_CACHE, config),
            Some(Err(wrong)) => fault(span.clone(), wrong),
            None => Ok(None),
        }
    }

    fn plain_event(&mut self, plain: Plain, start: usize) -> Result<(), FaultSpan> {
        let terms = self.terms()?;
        let config = Config { words: [plain.config, 0, 0, 0] };
        let settings = configure_plain(&terms, config).map_err(|e| place(e, &terms))?;
        let letters = self.modifiers();
        let draft =
            Draft { tool: plain.tool, ..Draft::new(plain.kind, settings, &self.text[start..self.at]) };
        self.push(draft, &letters)
    }

    fn push(&mut self, draft: Draft, letters: &Range<usize>) -> Result<(), FaultSpan> {
        let mut modifiers = Modifiers::none();
        if !letters.is_empty() {
            modifiers = Modifiers::default();
            apply(&mut modifiers, self.text, letters)?;
        }
        let [config, config1, config2, config3] = draft.settings.config.words;
        let attr = Attr {
            type_: draft.kind,
            config,
            config1,
            config2,
            config3,
            bp_type: draft.breakpoint.unwrap_or(0),
            ..Attr::default()
        };
        let mut event = EventSpec {
            attr,
            name: draft.settings.name.unwrap_or(draft.name),
            group: None,
            terms: draft.settings.terms,
            filter: None,
            cgroup: None,
            tool: draft.tool,
            cpus: draft.cpus,
            aux: draft.aux,
            unit: draft.settings.unit,
            scale: draft.settings.scale,
            modifiers,
        };
        event.finish();
        self.out.push(event);
        Ok(())
    }
}

impl EventSpec {
    /// Writes the modifiers into the attr.
    pub(super) fn finish(&mut self) {
        let m = &self.modifiers;
        let flags = &mut self.attr.flags;
        flags.set(AttrFlags::EXCLUDE_USER, m.exclude_user);
        flags.set(AttrFlags::EXCLUDE_KERNEL, m.exclude_kernel);
        flags.set(AttrFlags::EXCLUDE_HV, m.exclude_hv);
        flags.set(AttrFlags::EXCLUDE_HOST, m.exclude_host);
        flags.set(AttrFlags::EXCLUDE_GUEST, m.exclude_guest);
        flags.set(AttrFlags::EXCLUDE_IDLE, m.exclude_idle);
        flags.set(AttrFlags::PINNED, m.pinned);
        flags.set(AttrFlags::EXCLUSIVE, m.exclusive);
        flags.set_precise_ip(m.precise);
    }
}

fn is_number(text: &str) -> bool {
    parse_number(text).is_some()
}

fn apply(modifiers: &mut Modifiers, text: &str, letters: &Range<usize>) -> Result<(), FaultSpan> {
    let wrong = |(offset, fault): (usize, Fault)| {
        let start = letters.start + offset;
        let len = text[start..].chars().next().map_or(0, char::len_utf8);
        FaultSpan { span: start..start + len, fault, nearest: Vec::new() }
    };
    modifiers.apply(&text[letters.clone()]).map_err(wrong)
}

fn place(error: TermError, terms: &[Term]) -> FaultSpan {
    let span = terms
        .get(error.index)
        .map_or(0..0, |t| if error.in_value { t.value_span.clone() } else { t.name_span.clone() });
    FaultSpan { span, fault: error.fault, nearest: error.nearest }
}
