//! Table to print: events × places of one run, several runs, or one interval.

use perfdata::{Attr, AttrFlags, abi};

use super::series::Series;

/// Facts about an event for the printers.
#[derive(Debug, Clone)]
pub struct EventInfo {
    /// As perf names it, `:u` added where the kernel allowed user mode only.
    pub name: String,
    /// Unit of the printed value: `msec` for clocks, `ns` for tool events, the PMU's own, or nothing.
    pub unit: String,
    /// Factor from count to printed value.
    pub scale: f64,
    /// Quantity it counts, for the metrics that relate it to others.
    pub role: CountRole,
    /// The cgroup it counts in; only events of the same are related to each other.
    pub cgroup: Option<String>,
    /// The modes it leaves out; only events that leave out the same are related to each other.
    pub modes: u64,
}

/// Which part an event plays in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountRole {
    /// `task-clock` or `cpu-clock`, in ns.
    Clock,
    /// A generic hardware event, by its number.
    Hardware(u64),
    /// A cache event, by its config.
    Cache(u64),
    /// Taken by tally itself.
    Tool,
    /// Related to nothing but time.
    Other,
}

impl EventInfo {
    /// Facts for the printers about a kernel event of which no more is known.
    pub fn of_attr(name: String, attr: &Attr) -> Self {
        let modes = AttrFlags::EXCLUDE_USER
            | AttrFlags::EXCLUDE_KERNEL
            | AttrFlags::EXCLUDE_HV
            | AttrFlags::EXCLUDE_HOST
            | AttrFlags::EXCLUDE_IDLE;
        let role = match attr.type_ {
            abi::PERF_TYPE_SOFTWARE if attr.config <= abi::PERF_COUNT_SW_TASK_CLOCK => CountRole::Clock,
            abi::PERF_TYPE_HARDWARE => CountRole::Hardware(attr.config & 0xffff_ffff),
            abi::PERF_TYPE_HW_CACHE => CountRole::Cache(attr.config & 0xff_ffff),
            _ => CountRole::Other,
        };
        let (unit, scale) = if role == CountRole::Clock { ("msec", 1e-6) } else { ("", 1.0) };
        Self { name, unit: unit.to_owned(), scale, role, cgroup: None, modes: attr.flags.0 & modes.0 }
    }
}

/// One value to print.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    /// The kernel or CPU does not have the event.
    NotSupported,
    /// It was never on the PMU (or its task never ran).
    NotCounted {
        /// Time it was switched on, in ns.
        enabled_ns: f64,
    },
    /// It counted.
    Counted(Count),
}

/// A count, or the mean of several runs' counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// The count before [`EventInfo::scale`], scaled up for the time it was off the PMU.
    pub value: f64,
    /// Time it was switched on, summed over places, in ns.
    pub enabled_ns: f64,
    /// Time it was on the PMU, summed over places, in ns.
    pub running_ns: f64,
    /// All runs' counts; `None` for a single run.
    pub series: Option<Series>,
}

impl Cell {
    /// The count; `None` if there is none.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Counted(count) => Some(count.value),
            _ => None,
        }
    }
}

/// Grouping of readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// Everything.
    #[default]
    Global,
    /// Logical CPU.
    Cpu,
    /// Physical core.
    Core,
    /// Die.
    Die,
    /// Socket.
    Socket,
    /// Memory node.
    Node,
    /// Thread.
    Thread,
}

/// One unit of aggregation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountKey {
    /// Everything.
    Global,
    /// This logical CPU.
    Cpu(u32),
    /// Socket, die, core.
    Core(u32, u32, u32),
    /// Socket, die.
    Die(u32, u32),
    /// Socket.
    Socket(u32),
    /// Memory node.
    Node(u32),
    /// Thread id and name.
    Thread(u32, String),
}

/// All cells of one unit of aggregation.
#[derive(Debug, Clone)]
pub struct Block {
    /// Which unit.
    pub key: CountKey,
    /// How many CPUs (or threads) were summed up.
    pub places: usize,
    /// One per event.
    pub cells: Vec<Cell>,
}

/// Everything to print at once.
#[derive(Debug)]
pub struct CountFrame<'a> {
    /// The events in order.
    pub events: &'a [EventInfo],
    /// The units in order.
    pub blocks: Vec<Block>,
    /// How they were formed.
    pub by: Aggregation,
    /// Length of the run (the mean of several) or interval, in ns.
    pub wall_ns: f64,
    /// End of the interval since the start, in ns; `None` if this is no interval.
    pub at_ns: Option<u64>,
}

impl CountFrame<'_> {
    /// (block, event) in the order of printing: CPU by CPU within an event, threads so as well, in falling order of
    /// their counts; otherwise unit by unit.
    pub fn order(&self) -> Vec<(usize, usize)> {
        let (blocks, events) = (self.blocks.len(), self.events.len());
        match self.by {
            Aggregation::Cpu => (0..events).flat_map(|e| (0..blocks).map(move |b| (b, e))).collect(),
            Aggregation::Thread => {
                (0..events).flat_map(|e| self.by_count(e).into_iter().map(move |b| (b, e))).collect()
            }
            _ => (0..blocks).flat_map(|b| (0..events).map(move |e| (b, e))).collect(),
        }
    }

    /// The blocks in falling order of their counts of `event`.
    fn by_count(&self, event: usize) -> Vec<usize> {
        let count = |block: &usize| self.blocks[*block].cells[event].value().unwrap_or(0.0);
        let mut blocks: Vec<usize> = (0..self.blocks.len()).collect();
        blocks.sort_by(|a, b| count(b).total_cmp(&count(a)));
        blocks
    }
}
