//! Events that the machine describes: of a PMU in sysfs, by number, tracepoints, breakpoints.

use std::ops::Range;

use perfdata::abi;

use super::super::cache::cache_events;
use super::super::error::{Fault, nearest};
use super::super::modifier::looks_like_modifiers;
use super::super::name::all_names;
use super::super::pmu::{Config, Pmu, PmuTerms, configure_plain};
use super::super::term::{Term, parse_number};
use super::super::tracepoint::{find_tracepoints, parse_breakpoint};
use super::{Draft, FaultSpan, Parser, fault, place};

impl<'a> Parser<'a> {
    /// `TYPE:CONFIG` as two numbers.
    pub(super) fn numbered(&mut self, start: usize) -> Result<(), FaultSpan> {
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

    pub(super) fn tracepoint(&mut self, system: &str, start: usize) -> Result<(), FaultSpan> {
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
            Err((wrong, nearest)) => return Err(FaultSpan { span, fault: wrong, nearest }),
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
    fn sysfs_modified(&mut self, name: &str, span: Range<usize>) -> Result<(), FaultSpan> {
        self.at = span.end;
        self.sysfs_event(name, span)
    }

    pub(super) fn pmu_event(&mut self, name: &str, span: Range<usize>) -> Result<(), FaultSpan> {
        let pmus = Pmu::find_all(name, self.source);
        if pmus.is_empty() {
            let known = self.source.list_pmu("").unwrap_or_default();
            let nearest = nearest(name, known.into_iter().chain(all_names().map(str::to_owned)));
            return Err(FaultSpan { span, fault: Fault::UnknownPmu(name.to_owned()), nearest });
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
    pub(super) fn sysfs_event(&mut self, name: &str, span: Range<usize>) -> Result<(), FaultSpan> {
        let term =
            Term { name: name.to_owned(), name_span: span.clone(), value: None, value_span: span.clone() };
        let names = self.source.list_pmu("").unwrap_or_default();
        let pmus: Vec<Pmu> = names.iter().filter_map(|n| Pmu::read(n, self.source)).collect();
        let owners: Vec<&Pmu> =
            pmus.iter().filter(|p| p.events(self.source).iter().any(|e| e == name)).collect();
        if owners.is_empty() {
            return Err(FaultSpan {
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

    pub(super) fn breakpoint(&mut self, start: usize) -> Result<(), FaultSpan> {
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
}
