//! The report: a profile grouped by keys, with call graphs, as perf defines both.
//!
//! ```text
//!   cells ─→ expand frames to source-level entries ─→ group by keys ─→ sort ─→ graphs of shown rows
//! ```
//! Text is not made here except for single cells ([`Profile::value_text`]).

mod build;
mod cell;
mod cell_paths;
mod chain_sums;
mod context;
mod expand;
mod field;
mod graph;
mod hierarchy;
mod order;
mod paths;
mod row;
mod rows;
mod section_paths;

pub use field::{MemoryPart, ReportField, SortKey};
pub use hierarchy::{Level, hierarchy};
pub use paths::{PathRow, path_rows};
pub use row::{ChainEntry, GraphNode, Report, ReportRow, ReportSection, SortValue};

use crate::profile::Profile;
use regex_lite::Regex;

/// Size of the pieces in which all cores share this many cells or paths.
fn piece_of(count: usize) -> usize {
    /// Fewer are not worth a core.
    const FEWEST: usize = 4096;
    count.div_ceil(rayon::current_num_threads()).max(FEWEST)
}

/// How a call graph is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphMode {
    /// Percentages of the section's total.
    Graph,
    /// Percentages of the parent node.
    Fractal,
    /// One list per distinct chain.
    Flat,
    /// One line per distinct chain.
    Folded,
}

/// Which end of the chain a call graph begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphOrder {
    /// Leaf first: who called this.
    Callee,
    /// Root first: the callers of this function.
    Caller,
}

/// Identity of frames in a call graph: frames with equal keys are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphKey {
    /// The function.
    Function,
    /// The address.
    Address,
    /// The source line.
    SrcLine,
}

/// Call graph options (`-g`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphOpts {
    /// Layout.
    pub mode: GraphMode,
    /// Nodes below this percentage are left out.
    pub min_percent: f64,
    /// Direction.
    pub order: GraphOrder,
    /// Grouping.
    pub key: GraphKey,
}

impl Default for GraphOpts {
    fn default() -> Self {
        Self { mode: GraphMode::Graph, min_percent: 0.5, order: GraphOrder::Callee, key: GraphKey::Function }
    }
}

/// Which samples are shown. An empty list lets everything pass.
#[derive(Clone, Debug, Default)]
pub struct RowFilter {
    /// Thread names.
    pub comms: Vec<String>,
    /// DSOs of the leaf, by short name or path.
    pub dsos: Vec<String>,
    /// Functions of the leaf.
    pub symbols: Vec<String>,
    /// A text the leaf's function contains (`--symbol-filter`).
    pub symbol_contains: Option<String>,
    /// Process ids.
    pub pids: Vec<i32>,
    /// Thread ids.
    pub tids: Vec<i32>,
    /// A name that the thread had, or its id.
    pub thread: Option<String>,
    /// CPUs; needs [`crate::session::Dimensions::cpu`].
    pub cpus: Vec<i32>,
    /// CPUs of this socket; needs the same, and the machine's layout in the header.
    pub socket: Option<u32>,
}

impl RowFilter {
    /// Does it depend on the leaf's code?
    pub(crate) fn is_by_code(&self) -> bool {
        !(self.dsos.is_empty() && self.symbols.is_empty() && self.symbol_contains.is_none())
    }
}

/// Unit of rows of functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FunctionUnit {
    /// Functions of the symbol table, each by its place: perf's rows. Functions of JIT compilers by their names.
    #[default]
    Symbol,
    /// The innermost inlined function where line information has it (needs [`crate::source::Want::Lines`]), by file and
    /// name wherever its copies are: the frames of flame graphs.
    Inlined,
}

/// Contents and form of a report.
#[derive(Clone, Debug)]
pub struct ReportOpts {
    /// Keys, in order (`--sort`).
    pub sort: Vec<SortKey>,
    /// Columns in order (`--fields`); `None` for perf's default: overheads, then the keys.
    pub fields: Option<Vec<ReportField>>,
    /// Count a sample at every function of its chain as well.
    pub children: bool,
    /// Call graphs; `None` for none.
    pub graph: Option<GraphOpts>,
    /// Which samples are shown.
    pub filter: RowFilter,
    /// Rows below this percentage are left out.
    pub percent_limit: f64,
    /// Percentages of the shown rows' sum instead of the total.
    pub relative: bool,
    /// Frames of a chain to be looked at, from the leaf.
    pub max_stack: usize,
    /// Functions that count as parent for the `parent` key; `None` for perf's default.
    pub parent: Option<Regex>,
    /// Leave out samples without a parent when grouping by it.
    pub exclude_other: bool,
    /// Functions whose callees are folded into them.
    pub ignore_callees: Option<Regex>,
    /// Show inlined functions as frames (needs [`crate::source::Want::Lines`]).
    pub inlines: bool,
    /// Unit of functions: which frames share a row.
    pub unit: FunctionUnit,
    /// Leave out frames without a name.
    pub hide_unresolved: bool,
    /// Columns after the numbers that are always shown, before the other keys.
    pub more_fields: Vec<ReportField>,
    /// Show the events of a group side by side.
    pub group: bool,
    /// Show all events side by side, even if they were counted separately.
    pub one_group: bool,
    /// The event of a group whose numbers rows are sorted by first: its place in the group.
    pub group_sort: usize,
    /// Add a column with the number of samples.
    pub show_samples: bool,
    /// Add a column with the period.
    pub show_period: bool,
    /// Add columns for kernel and user mode.
    pub show_modes: bool,
}

impl Default for ReportOpts {
    fn default() -> Self {
        Self {
            sort: vec![SortKey::Comm, SortKey::Dso, SortKey::Symbol],
            fields: None,
            children: false,
            graph: None,
            filter: RowFilter::default(),
            percent_limit: 0.0,
            relative: false,
            max_stack: usize::MAX,
            parent: None,
            exclude_other: true,
            ignore_callees: None,
            inlines: false,
            unit: FunctionUnit::Symbol,
            hide_unresolved: false,
            group: false,
            one_group: false,
            more_fields: Vec::new(),
            group_sort: 0,
            show_samples: false,
            show_period: false,
            show_modes: false,
        }
    }
}

impl ReportOpts {
    /// The columns from left to right.
    #[must_use]
    pub fn columns(&self) -> Vec<ReportField> {
        let keys = self.keys();
        let mut columns = match &self.fields {
            Some(fields) => fields.clone(),
            None if self.by_latency() => {
                let latency = std::iter::once(ReportField::Latency);
                latency.chain(self.default_numbers()).collect()
            }
            None => self.default_numbers(),
        };
        for field in self.more_fields.iter().cloned().chain(keys.into_iter().map(ReportField::Key)) {
            if !columns.contains(&field) {
                columns.push(field);
            }
        }
        columns
    }

    /// The keys rows are grouped by: of `sort`, then those that are in the lists of fields only.
    #[must_use]
    pub fn keys(&self) -> Vec<SortKey> {
        let mut keys = Vec::new();
        let fields = self.fields.iter().flatten().chain(&self.more_fields);
        let of_fields = fields.filter_map(|field| match field {
            ReportField::Key(key) => Some(key),
            _ => None,
        });
        for key in self.sort.iter().chain(of_fields) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        keys
    }

    /// Sort keys of rows, first to last.
    #[must_use]
    pub fn row_order(&self) -> Vec<ReportField> {
        let keys = self.sort.iter().cloned().map(ReportField::Key);
        let mut order: Vec<ReportField> = Vec::new();
        match &self.fields {
            Some(fields) => {
                order.extend(keys);
                order.extend(fields.iter().cloned());
            }
            None => {
                if self.children {
                    order.push(ReportField::OverheadChildren);
                }
                if self.by_latency() {
                    order.push(ReportField::Latency);
                }
                order.push(ReportField::Overhead);
                order.extend(keys);
            }
        }
        order
    }

    /// True if `latency` is among the keys: as perf, its column is the first, and rows are in its order.
    fn by_latency(&self) -> bool {
        self.more_fields.contains(&ReportField::Latency)
    }

    fn default_numbers(&self) -> Vec<ReportField> {
        let mut columns = Vec::new();
        if self.children {
            columns.push(ReportField::OverheadChildren);
        }
        columns.push(ReportField::Overhead);
        if self.show_modes {
            columns.extend([ReportField::OverheadSys, ReportField::OverheadUs]);
        }
        if self.show_samples {
            columns.push(ReportField::Samples);
        }
        if self.show_period {
            columns.push(ReportField::Period);
        }
        columns
    }
}

/// Makes the report.
#[must_use]
pub fn report(profile: &Profile, opts: &ReportOpts) -> Report {
    build::build(profile, opts)
}
