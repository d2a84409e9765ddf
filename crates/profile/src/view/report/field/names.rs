//! The names of columns on the command line.

use super::{MemoryPart, ReportField, SortKey};
use crate::profile::SampleWord;

/// (name, key): the names perf accepts, the first of equal keys being the canonical one.
pub(super) const KEYS: &[(&str, SortKey)] = &[
    ("comm", SortKey::Comm),
    ("dso", SortKey::Dso),
    ("symbol", SortKey::Symbol),
    ("pid", SortKey::Pid),
    ("tid", SortKey::Tid),
    ("tgid", SortKey::Tgid),
    ("cpu", SortKey::Cpu),
    ("srcline", SortKey::SrcLine),
    ("srcfile", SortKey::SrcFile),
    ("parent", SortKey::Parent),
    ("trace", SortKey::Trace),
    ("cgroup", SortKey::Cgroup),
    ("cgroup_id", SortKey::Cgroup),
    ("container", SortKey::Container),
    ("label", SortKey::Label(None)),
    ("dso_from", SortKey::DsoFrom),
    ("dso_to", SortKey::DsoTo),
    ("symbol_from", SortKey::SymbolFrom),
    ("symbol_to", SortKey::SymbolTo),
    ("mispredict", SortKey::Mispredict),
    ("in_tx", SortKey::InTx),
    ("abort", SortKey::Abort),
    ("cycles", SortKey::Cycles),
    ("weight", SortKey::Weight),
    ("local_weight", SortKey::LocalWeight),
    ("time", SortKey::Time),
    ("transaction", SortKey::Transaction),
    ("socket", SortKey::Socket),
    ("symbol_size", SortKey::SymbolSize),
    ("dso_size", SortKey::DsoSize),
    ("symbol_daddr", SortKey::DataAddr),
    ("addr", SortKey::Addr),
    ("addr_from", SortKey::AddrFrom),
    ("addr_to", SortKey::AddrTo),
    ("srcline_from", SortKey::SrcLineFrom),
    ("srcline_to", SortKey::SrcLineTo),
    ("ins_lat", SortKey::WordTotal(SampleWord::InstructionLatency)),
    ("local_ins_lat", SortKey::Word(SampleWord::InstructionLatency)),
    ("p_stage_cyc", SortKey::WordTotal(SampleWord::StageCycles)),
    ("local_p_stage_cyc", SortKey::Word(SampleWord::StageCycles)),
    ("code_page_size", SortKey::Word(SampleWord::CodePageSize)),
    ("data_page_size", SortKey::Word(SampleWord::DataPageSize)),
    ("phys_daddr", SortKey::Word(SampleWord::PhysicalAddress)),
    ("mem", SortKey::Memory(MemoryPart::Level)),
    ("tlb", SortKey::Memory(MemoryPart::Tlb)),
    ("snoop", SortKey::Memory(MemoryPart::Snoop)),
    ("locked", SortKey::Memory(MemoryPart::Lock)),
    ("blocked", SortKey::Memory(MemoryPart::Blocked)),
    ("parallelism", SortKey::Word(SampleWord::Parallelism)),
];

const NUMBERS: &[(&str, ReportField)] = &[
    ("overhead", ReportField::Overhead),
    ("overhead_children", ReportField::OverheadChildren),
    ("overhead_sys", ReportField::OverheadSys),
    ("overhead_us", ReportField::OverheadUs),
    ("overhead_guest_sys", ReportField::OverheadGuestSys),
    ("overhead_guest_us", ReportField::OverheadGuestUs),
    ("sample", ReportField::Samples),
    ("latency", ReportField::Latency),
    ("period", ReportField::Period),
];

impl SortKey {
    /// The name that `--sort` takes.
    #[must_use]
    pub fn name(&self) -> &str {
        if let Self::TraceField(name) = self {
            return name;
        }
        let label = Self::Label(None);
        let key = if matches!(self, Self::Label(_)) { &label } else { self };
        KEYS.iter().find(|(_, known)| known == key).map_or("", |(name, _)| name)
    }
}

impl ReportField {
    /// The field perf knows by `name`, which may be shortened (`sym`, `dso`, `overhead_s`): the
    /// first that begins with it. Case does not matter. `None` for an unknown name: it may be a
    /// tracepoint field, which only the caller can know.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        if name.is_empty() {
            return None;
        }
        let begins = |full: &str| full.len() >= name.len() && full[..name.len()].eq_ignore_ascii_case(name);
        let exact = |full: &str| full.eq_ignore_ascii_case(name);
        let number =
            |test: &dyn Fn(&str) -> bool| NUMBERS.iter().find(|(n, _)| test(n)).map(|(_, f)| f.clone());
        let key = |test: &dyn Fn(&str) -> bool| {
            KEYS.iter().find(|(n, _)| test(n)).map(|(_, k)| Self::Key(k.clone()))
        };
        if let Some(key) = name.strip_prefix("label:").filter(|key| !key.is_empty()) {
            return Some(Self::Key(SortKey::Label(Some(key.to_owned()))));
        }
        if name.eq_ignore_ascii_case("samples") {
            return Some(Self::Samples);
        }
        key(&exact).or_else(|| number(&exact)).or_else(|| key(&begins)).or_else(|| number(&begins))
    }

    /// All names that [`ReportField::parse`] knows, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KEYS.iter().map(|(name, _)| *name).chain(NUMBERS.iter().map(|(name, _)| *name))
    }
}
