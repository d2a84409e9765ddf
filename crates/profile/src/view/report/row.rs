//! Rows: the contents of a report, in numbers and ids.

use super::field::{ReportField, SortKey};
use crate::machine::Mode;
use crate::profile::{Profile, Sums};
use crate::table::{DsoId, DsoKind, FrameId, StringId, SymbolId};

/// A report: one section per event (or group of events).
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order of the file's events; events without samples have a section too.
    pub sections: Vec<ReportSection>,
    /// The nodes' entries of all call graphs; [`GraphNode::entries`] are positions here.
    pub chain_entries: Vec<ChainEntry>,
}

/// The rows of one event, or of a group of events shown side by side.
#[derive(Clone, Debug, Default)]
pub struct ReportSection {
    /// Indices into [`Profile::events`]; more than one only for groups.
    pub events: Vec<usize>,
    /// Sums of all samples of each event, before `--comms`, `--dsos` and `--symbols`.
    pub totals: Vec<Sums>,
    /// Sums of the samples that pass these filters. Percentages refer to `totals` as in perf,
    /// unless [`super::ReportOpts::relative`] is set.
    pub shown: Vec<Sums>,
    /// The columns from left to right.
    pub columns: Vec<ReportField>,
    /// The keys of [`ReportRow::values`].
    pub keys: Vec<SortKey>,
    /// Sorted as perf sorts.
    pub rows: Vec<ReportRow>,
    /// Base of percentages, by event: period.
    pub base_periods: Vec<u64>,
    /// The same for [`Sums::latency`].
    pub base_latencies: Vec<u64>,
}

impl ReportSection {
    /// The name of the section's event; of several the names between commas, in braces after their group's name if they
    /// were counted together.
    #[must_use]
    pub fn event_names(&self, profile: &Profile) -> String {
        let names: Vec<&str> = self.events.iter().map(|&event| profile.events[event].name.as_str()).collect();
        let [leader, member, ..] = self.events[..] else { return names.concat() };
        let names = names.join(", ");
        let group = profile.events[leader].group_name.as_deref().unwrap_or("anon group");
        let counted_together = profile.events[member].leader == leader;
        if counted_together { format!("{group} {{ {names} }}") } else { names }
    }
}

/// One row.
#[derive(Clone, Debug, Default)]
pub struct ReportRow {
    /// By event of the section: samples hitting this row itself.
    pub own: Vec<Sums>,
    /// By event of the section: samples with this row anywhere in the chain, counted once. Equal
    /// to `own` when children were not requested.
    pub children: Vec<Sums>,
    /// Self period by mode: kernel, user, guest kernel, guest user.
    pub by_mode: [u64; 4],
    /// The keys' values, in the order of [`ReportSection::keys`].
    pub values: Vec<SortValue>,
    /// The call graph's roots; empty when none was requested or all is below its minimum.
    pub graph: Vec<GraphNode>,
    /// Longest chain through the row.
    pub max_depth: u32,
    /// The frame the row was first seen at, for annotating.
    pub frame: Option<FrameId>,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum SortValue {
    /// The sample has no such thing.
    #[default]
    None,
    /// Text.
    Text(StringId),
    /// A DSO, by its short name.
    Dso(DsoId),
    /// A function, or the bare address if it is unresolved.
    Symbol {
        /// The DSO that contains it.
        dso: DsoId,
        /// `None` when no name is known.
        symbol: Option<SymbolId>,
        /// The address as shown; 0 when there is a name.
        addr: u64,
    },
    /// A task: id and name.
    Task {
        /// Process or thread id.
        id: i32,
        /// Name.
        comm: StringId,
    },
    /// A number (CPU, weight, size, cycles).
    Number(i64),
    /// An address.
    Address(u64),
    /// A source line.
    Line {
        /// The file.
        file: StringId,
        /// 1-based.
        line: u32,
    },
    /// Time in ns.
    Time(u64),
    /// Yes or no, as the column's own words.
    Flag(bool),
}

/// A node of a call graph: a run of frames without a fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphNode {
    /// Positions in [`Report::chain_entries`], in the direction of the graph (leaf first for
    /// callee order, root first for caller order).
    pub entries: Vec<u32>,
    /// Period of the chains that end here.
    pub own: u64,
    /// Period of all chains through here (before the minimum was applied).
    pub cumulative: u64,
    /// Number of samples that end here.
    pub own_count: u64,
    /// Number of samples through here.
    pub cumulative_count: u64,
    /// Biggest first; those below the minimum are gone.
    pub children: Vec<GraphNode>,
}

impl GraphNode {
    /// Period of all chains that go on from here (perf's `children_hit`).
    #[must_use]
    pub fn children_period(&self) -> u64 {
        self.cumulative - self.own
    }
}

/// A line of a call graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainEntry {
    /// The DSO that contains it.
    pub dso: DsoId,
    /// `None` when no name is known.
    pub symbol: Option<SymbolId>,
    /// The address in the process, shown when it is unresolved.
    pub avma: u64,
    /// The first frame seen for this entry.
    pub frame: FrameId,
    /// File and line, when the graph's key is the address or lines are shown.
    pub line: Option<(StringId, u32)>,
}

impl Profile {
    /// Text of a graph line: the name (with `(inlined)`), or the address.
    #[must_use]
    pub fn chain_entry_text(&self, entry: &ChainEntry) -> String {
        match entry.symbol.map(|id| self.symbols.of(id)) {
            Some(symbol) if symbol.inlined => format!("{} (inlined)", self.strings.of(symbol.name)),
            Some(symbol) => self.strings.of(symbol.name).to_owned(),
            // C's %#x: no prefix for zero.
            None if entry.avma == 0 => "0".to_owned(),
            None => format!("{:#x}", entry.avma),
        }
    }

    /// `[k] schedule`, or `[.] 0x0000000000001234`.
    #[must_use]
    pub fn symbol_text(&self, dso: DsoId, symbol: Option<SymbolId>, addr: u64) -> String {
        let level = self.dsos.of(dso).level;
        match symbol.map(|id| self.symbols.of(id)) {
            Some(symbol) => {
                let inlined = if symbol.inlined { " (inlined)" } else { "" };
                format!("[{level}] {}{inlined}", self.strings.of(symbol.name))
            }
            None if addr == 0 => format!("[{level}] 0000000000000000"),
            None => format!("[{level}] {addr:#018x}"),
        }
    }

    /// The address perf shows for a frame: within the module for kernel modules.
    #[must_use]
    pub fn shown_addr(&self, frame: FrameId) -> u64 {
        let frame = self.frames.of(frame);
        let dso = self.dsos.of(frame.dso);
        match dso.kind {
            DsoKind::KernelModule => frame.addr.wrapping_sub(dso.start_avma),
            _ => frame.addr,
        }
    }

    /// The kind of code a DSO holds.
    #[must_use]
    pub fn mode_of(&self, dso: DsoId) -> Mode {
        match self.dsos.of(dso).level {
            'k' => Mode::Kernel,
            'g' => Mode::GuestKernel,
            'u' => Mode::GuestUser,
            'H' => Mode::Hypervisor,
            _ => Mode::User,
        }
    }
}
