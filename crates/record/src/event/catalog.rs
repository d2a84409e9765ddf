//! Every event that can be named on this machine, in perf's order, whether or not it can be opened.

use super::cache::cache_events;
use super::name::{HARDWARE, NamedEvent, SOFTWARE, TOOL};
use super::pmu::Pmu;
use super::source::EventSource;

/// The kinds of events as `tally list` sorts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CatalogKind {
    /// The kernel's generic hardware events.
    Hardware,
    /// Counted by the kernel itself.
    Software,
    /// Taken by tally.
    Tool,
    /// Generic cache events.
    Cache,
    /// Named by a PMU in sysfs.
    Pmu,
    /// Fixed points in the kernel, and probes that were added.
    Tracepoint,
}

impl CatalogKind {
    /// The text that perf prints in brackets.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Hardware => "Hardware event",
            Self::Software => "Software event",
            Self::Tool => "Tool event",
            Self::Cache => "Hardware cache event",
            Self::Pmu => "Kernel PMU event",
            Self::Tracepoint => "Tracepoint event",
        }
    }
}

/// One event that can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The name that perf prints first.
    pub name: String,
    /// Other name.
    pub alias: Option<String>,
    /// Which kind.
    pub kind: CatalogKind,
}

/// All events of the given kinds: each kind's in perf's order (by name; tools in their own).
#[must_use]
pub fn catalog(kinds: &[CatalogKind], source: &dyn EventSource) -> Vec<CatalogEntry> {
    let mut all = Vec::new();
    for kind in kinds {
        match kind {
            CatalogKind::Hardware => all.extend(named(HARDWARE, *kind)),
            CatalogKind::Software => all.extend(named(SOFTWARE, *kind)),
            CatalogKind::Tool => all.extend(TOOL.iter().map(|t| entry(t.0.to_owned(), None, *kind))),
            CatalogKind::Cache => {
                let mut caches: Vec<CatalogEntry> = cache_events().map(|c| entry(c.0, None, *kind)).collect();
                caches.sort_by(|a, b| a.name.cmp(&b.name));
                all.extend(caches);
            }
            CatalogKind::Pmu => all.extend(pmu_events(source)),
            CatalogKind::Tracepoint => all.extend(tracepoints(source)),
        }
    }
    all
}

fn entry(name: String, alias: Option<String>, kind: CatalogKind) -> CatalogEntry {
    CatalogEntry { name, alias, kind }
}

fn named(table: &'static [NamedEvent], kind: CatalogKind) -> Vec<CatalogEntry> {
    let mut all: Vec<CatalogEntry> =
        table.iter().map(|e| entry(e.name.to_owned(), e.alias.map(str::to_owned), kind)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn pmu_events(source: &dyn EventSource) -> Vec<CatalogEntry> {
    let pmus = source.list_pmu("").unwrap_or_default();
    let pmus = pmus.iter().filter_map(|name| Pmu::read(name, source));
    let events = pmus.flat_map(|pmu| {
        pmu.events(source).into_iter().map(move |event| {
            let full = format!("{}/{event}/", pmu.name);
            if pmu.name == "cpu" {
                entry(event, Some(full), CatalogKind::Pmu)
            } else {
                entry(full, None, CatalogKind::Pmu)
            }
        })
    });
    events.collect()
}

/// Those with an id; without tracefs none (the parser gives the reason when one is requested).
fn tracepoints(source: &dyn EventSource) -> Vec<CatalogEntry> {
    let systems = source.list_tracefs("").unwrap_or_default();
    let events = systems.iter().flat_map(|system| {
        let names = source.list_tracefs(system).unwrap_or_default();
        // Most of ftrace's own events have no id; elsewhere all have, and reading thousands of files takes time.
        let has_id = move |event: &String| {
            system != "ftrace" || source.read_tracefs(&format!("{system}/{event}/id")).is_ok()
        };
        names
            .into_iter()
            .filter(has_id)
            .map(move |event| entry(format!("{system}:{event}"), None, CatalogKind::Tracepoint))
    });
    events.collect()
}
