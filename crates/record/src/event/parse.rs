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

mod cursor;

use std::ops::Range;

use perfdata::{Attr, AttrFlags, abi};

use super::cache::{cache_events, parse_cache};
use super::error::{Error, Fault, nearest};
use super::modifier::{Modifiers, looks_like_modifiers};
use super::name::{HARDWARE, SOFTWARE, TOOL, Tool, all_names, find_named};
use super::pmu::{Config, Pmu, PmuTerms, TermError, configure_plain};
use super::source::EventSource;
use super::term::{Term, parse_hex, parse_number};
use super::tracepoint::{find_tracepoints, parse_breakpoint};
use super::{EventSpec, Group};

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
struct At {
    span: Range<usize>,
    fault: Fault,
    nearest: Vec<String>,
}

fn fault<T>(span: Range<usize>, fault: Fault) -> Result<T, At> {
    Err(At { span, fault, nearest: Vec::new() })
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
    fn list(&mut self) -> Result<(), At> {
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

    fn item(&mut self) -> Result<(), At> {
        self.blanks();
        let open = self.text[self.at..].find(|c: char| "{,:/".contains(c)).map(|i| self.at + i);
        match open.filter(|&i| self.text[i..].starts_with('{')) {
            Some(open) => self.group(open),
            None => self.event(),
        }
    }

    fn group(&mut self, open: usize) -> Result<(), At> {
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
            event.group = Some(Group { leader: first, name: name.clone() });
            event.finish();
        }
        Ok(())
    }

    fn event(&mut self) -> Result<(), At> {
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
    fn plain(&self, name: &str, span: &Range<usize>) -> Result<Option<Plain>, At> {
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

    fn plain_event(&mut self, plain: Plain, start: usize) -> Result<(), At> {
        let terms = self.terms()?;
        let config = Config { words: [plain.config, 0, 0, 0] };
        let settings = configure_plain(&terms, config).map_err(|e| place(e, &terms))?;
        let letters = self.modifiers();
        let draft =
            Draft { tool: plain.tool, ..Draft::new(plain.kind, settings, &self.text[start..self.at]) };
        self.push(draft, &letters)
    }

    /// `TYPE:CONFIG` as two numbers.
    fn numbered(&mut self, start: usize) -> Result<(), At> {
        let kind_span = start..self.at;
        let kind = parse_number(&self.text[kind_span.clone()]).and_then(|k| u32::try_from(k).ok());
        self.at += 1;
        let config_start = self.at;
        let config = parse_number(self.word(",{}/:"));
        let (Some(kind), Some(config)) = (kind, config) else {
            let wrong = self.text[start..self.at].to_owned();
            return fault(kind_span.start..config_start.max(self.at), Fault::UnknownEvent(wrong));
        };
        let letters = self.modifiers();
        let settings = PmuTerms { config: Config { words: [config, 0, 0, 0] }, ..PmuTerms::default() };
        let draft = Draft::new(kind, settings, &self.text[start..self.at]);
        self.push(draft, &letters)
    }

    fn tracepoint(&mut self, system: &str, start: usize) -> Result<(), At> {
        let system_span = start..self.at;
        self.at += 1;
        let event = self.word(",{}/:");
        let span = start..self.at;
        if event.is_empty() {
            return fault(self.at..self.at, Fault::MissingEvent);
        }
        let found = match find_tracepoints(system, event, self.source) {
            Ok(found) => found,
            Err(_) if looks_like_modifiers(event) => return self.sysfs_modified(system, system_span),
            Err((wrong, nearest)) => return Err(At { span, fault: wrong, nearest }),
        };
        let terms = self.terms()?;
        let letters = self.modifiers();
        for tracepoint in found {
            let config = Config { words: [tracepoint.id, 0, 0, 0] };
            let settings = configure_plain(&terms, config).map_err(|e| place(e, &terms))?;
            self.push(Draft::new(abi::PERF_TYPE_TRACEPOINT, settings, &tracepoint.name), &letters)?;
        }
        Ok(())
    }

    /// `name:u` where the letters were first taken for a tracepoint: an event of a PMU after all.
    fn sysfs_modified(&mut self, name: &str, span: Range<usize>) -> Result<(), At> {
        self.at = span.end;
        self.sysfs_event(name, span)
    }

    fn pmu_event(&mut self, name: &str, span: Range<usize>) -> Result<(), At> {
        let pmus = Pmu::find_all(name, self.source);
        if pmus.is_empty() {
            let known = self.source.list_pmu("").unwrap_or_default();
            let nearest = nearest(name, known.into_iter().chain(all_names().map(str::to_owned)));
            return Err(At { span, fault: Fault::UnknownPmu(name.to_owned()), nearest });
        }
        let terms = self.terms()?;
        let letters = self.modifiers();
        let text = self.text[span.start..self.at].to_owned();
        for pmu in pmus {
            let settings = pmu.configure(&terms, self.source).map_err(|e| place(e, &terms))?;
            let aux = pmu.writes_trace();
            self.push(Draft { cpus: pmu.cpus, aux, ..Draft::new(pmu.kind, settings, &text) }, &letters)?;
        }
        Ok(())
    }

    /// A bare name that some PMU's `events` folder has.
    fn sysfs_event(&mut self, name: &str, span: Range<usize>) -> Result<(), At> {
        let term =
            Term { name: name.to_owned(), name_span: span.clone(), value: None, value_span: span.clone() };
        let names = self.source.list_pmu("").unwrap_or_default();
        let pmus: Vec<Pmu> = names.iter().filter_map(|n| Pmu::read(n, self.source)).collect();
        let owners: Vec<&Pmu> =
            pmus.iter().filter(|p| p.events(self.source).iter().any(|e| e == name)).collect();
        if owners.is_empty() {
            return Err(At {
                span,
                fault: Fault::UnknownEvent(name.to_owned()),
                nearest: self.suggest(name, &pmus),
            });
        }
        let letters = self.modifiers();
        let text = self.text[span.start..self.at].to_owned();
        for pmu in owners {
            let terms = std::slice::from_ref(&term);
            let settings = pmu.configure(terms, self.source).map_err(|e| place(e, terms))?;
            self.push(Draft { cpus: pmu.cpus.clone(), ..Draft::new(pmu.kind, settings, &text) }, &letters)?;
        }
        Ok(())
    }

    fn suggest(&self, typed: &str, pmus: &[Pmu]) -> Vec<String> {
        let of_pmus = pmus.iter().flat_map(|p| p.events(self.source));
        let fixed = all_names().map(str::to_owned).chain(cache_events().map(|c| c.0));
        nearest(typed, fixed.chain(of_pmus))
    }

    fn breakpoint(&mut self, start: usize) -> Result<(), At> {
        self.at += 1;
        let place_start = self.at;
        let place = self.word(",{}:");
        let place_span = place_start..self.at;
        let mut access = "";
        if self.after_colon(|w| !w.is_empty() && w.chars().all(|c| "rwx".contains(c))) {
            self.at += 1;
            access = self.word(",{}:/");
        }
        let found = parse_breakpoint(place, access)
            .or_else(|wrong| fault(place_span.start..self.at.max(place_span.end), wrong))?;
        let letters = self.modifiers();
        let settings = PmuTerms {
            config: Config { words: [0, found.address, found.len_bytes, 0] },
            ..PmuTerms::default()
        };
        let draft = Draft {
            breakpoint: Some(found.access),
            ..Draft::new(abi::PERF_TYPE_BREAKPOINT, settings, &self.text[start..self.at])
        };
        self.push(draft, &letters)
    }

    fn push(&mut self, draft: Draft, letters: &Range<usize>) -> Result<(), At> {
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

fn apply(modifiers: &mut Modifiers, text: &str, letters: &Range<usize>) -> Result<(), At> {
    let wrong = |(offset, fault): (usize, Fault)| {
        let start = letters.start + offset;
        let len = text[start..].chars().next().map_or(0, char::len_utf8);
        At { span: start..start + len, fault, nearest: Vec::new() }
    };
    modifiers.apply(&text[letters.clone()]).map_err(wrong)
}

fn place(error: TermError, terms: &[Term]) -> At {
    let span = terms
        .get(error.index)
        .map_or(0..0, |t| if error.in_value { t.value_span.clone() } else { t.name_span.clone() });
    At { span, fault: error.fault, nearest: error.nearest }
}
