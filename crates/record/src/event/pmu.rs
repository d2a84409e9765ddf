//! PMU events: `cpu/event=0x3c,umask=1/` by the kernel's own description of the PMU in sysfs.
//
// Source: linux v6.18 Documentation/ABI/testing/sysfs-bus-event_source-devices-{format,events}:
//         format/<field> is "config1:0-7,32-35"; events/<name> is "event=0x3c,umask=0x1".

use super::error::{Fault, nearest};
use super::intel_pt;
use super::name::{HARDWARE, find_named};
use super::source::EventSource;
use super::term::{TERM_NAMES, Term, Terms, parse_hex, parse_number};
use crate::open::target::parse_cpu_list;

/// One PMU as sysfs describes it.
#[derive(Debug, Clone)]
pub(super) struct Pmu {
    pub name: String,
    /// `attr.type`.
    pub kind: u32,
    /// The CPUs to open the event on; `None`: any.
    pub cpus: Option<Vec<u32>>,
}

/// The numbers that an event's terms make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Config {
    /// `attr.config`, `config1`, `config2`, `config3`.
    pub words: [u64; 4],
}

/// Properties of an entry of `events/` in addition to the numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct PmuTerms {
    pub config: Config,
    pub terms: Terms,
    pub name: Option<String>,
    /// Unit of the scaled count, e.g. `Joules`.
    pub unit: Option<String>,
    /// Factor for the count.
    pub scale: Option<f64>,
}

/// A field of the PMU's registers: the bits of a value go to these ranges, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    word: usize,
    /// First and last bit of each range.
    ranges: Vec<(u32, u32)>,
}

impl Pmu {
    /// The PMUs that `name` means: that very one, or `name_0`, `name_1` … , or those that a pattern matches.
    pub(super) fn find_all(name: &str, source: &dyn EventSource) -> Vec<Self> {
        let all = source.list_pmu("").unwrap_or_default();
        let numbered = |pmu: &str, stem: &str| {
            pmu.strip_prefix(stem)
                .and_then(|r| r.strip_prefix('_'))
                .is_some_and(|n| parse_number(n).is_some())
        };
        let fits = |pmu: &str| {
            let short = pmu.strip_prefix("uncore_").unwrap_or(pmu);
            pmu == name || numbered(pmu, name) || numbered(short, name) || super::glob::matches(name, pmu)
        };
        let exact: Vec<_> = all.iter().filter(|p| *p == name).collect();
        let chosen = if exact.is_empty() { all.iter().filter(|p| fits(p)).collect() } else { exact };
        chosen.into_iter().filter_map(|p| Self::read(p, source)).collect()
    }

    /// `None` if sysfs has no such PMU.
    pub(super) fn read(name: &str, source: &dyn EventSource) -> Option<Self> {
        let kind = source.read_pmu(&format!("{name}/type")).ok()?.trim().parse().ok()?;
        let mask = source.read_pmu(&format!("{name}/cpumask")).ok();
        let cpus = mask.and_then(|m| parse_cpu_list(&m));
        Some(Self { name: name.to_owned(), kind, cpus })
    }

    /// Numbers and settings of `terms`; an error carries the index of the term at fault and whether its value is.
    pub(super) fn configure(&self, terms: &[Term], source: &dyn EventSource) -> Result<PmuTerms, TermError> {
        let mut out = self.defaults(source)?;
        for (index, term) in terms.iter().enumerate() {
            self.apply(term, source, &mut out, 0).map_err(|e| TermError { index, ..e })?;
        }
        Ok(out)
    }

    /// The settings that hold unless a term overrides them.
    fn defaults(&self, source: &dyn EventSource) -> Result<PmuTerms, TermError> {
        let mut out = PmuTerms::default();
        if self.writes_trace() {
            for part in intel_pt::default_terms(source).split(',') {
                let (name, value) = part.split_once('=').map_or((part, None), |(n, v)| (n, Some(v)));
                let (name, value) = (name.to_owned(), value.map(str::to_owned));
                let term = Term { name, name_span: 0..0, value, value_span: 0..0 };
                self.apply(&term, source, &mut out, 1)?;
            }
        }
        Ok(out)
    }

    /// Events write a trace to an AUX area.
    pub(super) fn writes_trace(&self) -> bool {
        self.name == intel_pt::PMU
    }

    fn apply(
        &self,
        term: &Term,
        source: &dyn EventSource,
        out: &mut PmuTerms,
        depth: u8,
    ) -> Result<(), TermError> {
        if let Some(fields) =
            self.read_event(&term.name, source).filter(|_| term.value.is_none() && depth == 0)
        {
            return self.apply_event(term, &fields, source, out);
        }
        if apply_general(term, out).map_err(TermError::in_value)? {
            return Ok(());
        }
        if let Some(text) = self.read_field(&term.name, source) {
            let bad = || Fault::BadSysfs { pmu: self.name.clone(), entry: term.name.clone() };
            let field = Field::parse(&text).ok_or_else(|| TermError::in_name(bad()))?;
            let value = term
                .value
                .as_ref()
                .map_or(Ok(1), |_| term.number("a number"))
                .map_err(TermError::in_value)?;
            return field.store(&term.name, value, &mut out.config).map_err(TermError::in_value);
        }
        let fault = Fault::UnknownPmuTerm { pmu: self.name.clone(), term: term.name.clone() };
        Err(TermError { nearest: self.suggest(&term.name, source), ..TermError::in_name(fault) })
    }

    /// Puts the terms of the named sysfs event in place of its name.
    fn apply_event(
        &self,
        term: &Term,
        fields: &str,
        source: &dyn EventSource,
        out: &mut PmuTerms,
    ) -> Result<(), TermError> {
        let event = self.event_name(&term.name, source);
        for part in fields.trim().split(',').filter(|p| !p.is_empty()) {
            let (name, value) = part.split_once('=').map_or((part, None), |(n, v)| (n, Some(v)));
            if value == Some("?") {
                continue; // a parameter that the user gives as a term of his own
            }
            let inner = Term { name: name.to_owned(), value: value.map(str::to_owned), ..term.clone() };
            self.apply(&inner, source, out, 1).map_err(|_| {
                TermError::in_name(Fault::BadSysfs { pmu: self.name.clone(), entry: term.name.clone() })
            })?;
        }
        let extra = |suffix: &str| source.read_pmu(&format!("{}/events/{event}.{suffix}", self.name)).ok();
        out.unit = extra("unit").map(|u| u.trim().to_owned());
        out.scale = extra("scale").and_then(|s| s.trim().parse().ok());
        Ok(())
    }

    /// Content of `events/<name>`; a generic hardware name works by either of its spellings.
    fn read_event(&self, name: &str, source: &dyn EventSource) -> Option<String> {
        let name = self.event_name(name, source);
        if name.contains(['/', '.'])
            && (name.ends_with(".scale") || name.ends_with(".unit") || name.contains('/'))
        {
            return None;
        }
        source.read_pmu(&format!("{}/events/{name}", self.name)).ok()
    }

    fn event_name(&self, name: &str, source: &dyn EventSource) -> String {
        let known = |n: &str| source.read_pmu(&format!("{}/events/{n}", self.name)).is_ok();
        let generic = || find_named(HARDWARE, name).filter(|e| known(e.name));
        let spelled = if known(name) { None } else { generic() };
        spelled.map_or(name, |e| e.name).to_owned()
    }

    fn read_field(&self, name: &str, source: &dyn EventSource) -> Option<String> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        source.read_pmu(&format!("{}/format/{name}", self.name)).ok()
    }

    fn suggest(&self, typed: &str, source: &dyn EventSource) -> Vec<String> {
        let mut known = source.list_pmu(&format!("{}/format", self.name)).unwrap_or_default();
        known.extend(self.events(source));
        known.extend(TERM_NAMES.iter().map(|s| (*s).to_owned()));
        nearest(typed, known)
    }

    /// Names in `events/`, without the files that only describe another.
    pub(super) fn events(&self, source: &dyn EventSource) -> Vec<String> {
        let mut names = source.list_pmu(&format!("{}/events", self.name)).unwrap_or_default();
        names.retain(|n| ![".scale", ".unit", ".snapshot", ".per-pkg"].iter().any(|s| n.ends_with(s)));
        names
    }
}

/// A fault in one of several terms.
#[derive(Debug, Clone)]
pub(super) struct TermError {
    pub index: usize,
    pub in_value: bool,
    pub fault: Fault,
    pub nearest: Vec<String>,
}

impl TermError {
    pub(super) fn in_name(fault: Fault) -> Self {
        Self { index: 0, in_value: false, fault, nearest: Vec::new() }
    }

    pub(super) fn in_value(fault: Fault) -> Self {
        Self { in_value: true, ..Self::in_name(fault) }
    }
}

/// `config=`, `name=`, raw `rNNN` and the settings of [`Terms`]: `false` if `term` is none of them.
fn apply_general(term: &Term, out: &mut PmuTerms) -> Result<bool, Fault> {
    let word = ["config", "config1", "config2", "config3"].iter().position(|w| *w == term.name);
    if let Some(word) = word {
        out.config.words[word] = term.number("a number")?;
    } else if term.name == "name" {
        out.name = Some(term.text()?.to_owned());
    } else if let Some(raw) =
        term.name.strip_prefix('r').and_then(parse_hex_raw).filter(|_| term.value.is_none())
    {
        out.config.words[0] = raw;
    } else {
        return out.terms.apply(term);
    }
    Ok(true)
}

fn parse_hex_raw(digits: &str) -> Option<u64> {
    parse_hex(digits.strip_prefix("0x").unwrap_or(digits))
}

/// Settings for an event that is not a PMU's: no format fields.
pub(super) fn configure_plain(terms: &[Term], config: Config) -> Result<PmuTerms, TermError> {
    let mut out = PmuTerms { config, ..PmuTerms::default() };
    for (index, term) in terms.iter().enumerate() {
        if !apply_general(term, &mut out).map_err(|f| TermError { index, ..TermError::in_value(f) })? {
            let fault = Fault::UnknownTerm(term.name.clone());
            let nearest = nearest(&term.name, TERM_NAMES);
            return Err(TermError { index, nearest, ..TermError::in_name(fault) });
        }
    }
    Ok(out)
}

impl Field {
    /// Reads `config1:0-7,32-35`.
    fn parse(text: &str) -> Option<Self> {
        let (word, ranges) = text.trim().split_once(':')?;
        let word = ["config", "config1", "config2", "config3"].iter().position(|w| *w == word)?;
        let ranges = ranges.split(',').map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < 64).then_some((first, last))
        });
        Some(Self { word, ranges: ranges.collect::<Option<_>>()? })
    }

    /// Puts `value`'s bits into their ranges: each range takes its width from the low end of what is left.
    fn store(&self, name: &str, value: u64, config: &mut Config) -> Result<(), Fault> {
        let width: u32 = self.ranges.iter().map(|(first, last)| last - first + 1).sum();
        let max = ones(width);
        if value > max {
            return Err(Fault::ValueTooBig { field: name.to_owned(), max });
        }
        let mut left = value;
        for &(first, last) in &self.ranges {
            let mask = ones(last - first + 1);
            let word = &mut config.words[self.word];
            *word = *word & !(mask << first) | (left & mask) << first;
            left = left.checked_shr(last - first + 1).unwrap_or(0);
        }
        Ok(())
    }
}

/// `width` one bits.
fn ones(width: u32) -> u64 {
    1u64.checked_shl(width).map_or(u64::MAX, |bit| bit - 1)
}
