//! Metrics of a count in relation to others: GHz, insn per cycle, % of branches, per second.
//
// The words, the number formats and the choice of the other event are perf's.

use perfdata::abi;

use super::frame::{Cell, CountRole, EventInfo};

/// One `# value unit` after a count.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Unrounded.
    pub value: f64,
    /// As perf's text shows it, padding included.
    pub text: String,
    /// The words after the number.
    pub unit: String,
}

/// How perf rounds a kind of metric.
#[derive(Clone, Copy)]
enum Form {
    /// `%8.3f`
    Three,
    /// `%7.2f `
    Ratio,
    /// `%7.2f%%`
    Percent,
    /// `%8.3f %%`
    PercentThree,
}

fn metric(form: Form, value: f64, unit: &str) -> Metric {
    let text = match form {
        Form::Three => format!("{value:8.3}"),
        Form::Ratio => format!("{value:7.2} "),
        Form::Percent => format!("{value:7.2}%"),
        Form::PercentThree => format!("{value:8.3} %"),
    };
    Metric { value, text, unit: unit.to_owned() }
}

/// The metrics of the event at `index`, from the cells of its own block; several for instructions, none for most.
pub fn metrics(events: &[EventInfo], cells: &[Cell], index: usize, wall_ns: f64) -> Vec<Metric> {
    let (Some(event), Some(value)) = (events.get(index), cells.get(index).and_then(Cell::value)) else {
        return Vec::new();
    };
    let all = Related { events, cells, of: event };
    match event.role {
        CountRole::Clock => ratio(Form::Three, value, Some(wall_ns), 1.0, "CPUs utilized"),
        CountRole::Hardware(abi::PERF_COUNT_HW_INSTRUCTIONS) => instructions(value, &all),
        CountRole::Hardware(config) => hardware(config, value, &all),
        CountRole::Cache(config) => cache(config, value, &all),
        CountRole::Tool => Vec::new(),
        CountRole::Other => all.per_second(value),
    }
}

fn hardware(config: u64, value: f64, all: &Related<'_>) -> Vec<Metric> {
    let against = |other: u64, form: Form, unit: &str| ratio(form, value, all.hardware(other), 100.0, unit);
    match config {
        abi::PERF_COUNT_HW_CPU_CYCLES => ratio(Form::Three, value, all.clock_ns(), 1.0, "GHz"),
        abi::PERF_COUNT_HW_BRANCH_MISSES => {
            against(abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS, Form::Percent, "of all branches")
        }
        abi::PERF_COUNT_HW_CACHE_MISSES => {
            against(abi::PERF_COUNT_HW_CACHE_REFERENCES, Form::PercentThree, "of all cache refs")
        }
        abi::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND => {
            against(abi::PERF_COUNT_HW_CPU_CYCLES, Form::Percent, "frontend cycles idle")
        }
        abi::PERF_COUNT_HW_STALLED_CYCLES_BACKEND => {
            against(abi::PERF_COUNT_HW_CPU_CYCLES, Form::Percent, "backend cycles idle")
        }
        _ => all.per_second(value),
    }
}

/// Instructions per cycle, and stalled cycles per instruction where those are counted.
fn instructions(value: f64, all: &Related<'_>) -> Vec<Metric> {
    let cycles = all.hardware(abi::PERF_COUNT_HW_CPU_CYCLES);
    let mut found = ratio(Form::Ratio, value, cycles, 1.0, "insn per cycle");
    let front = all.hardware(abi::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND).unwrap_or(0.0);
    let back = all.hardware(abi::PERF_COUNT_HW_STALLED_CYCLES_BACKEND).unwrap_or(0.0);
    let stalled = front.max(back);
    if stalled > 0.0 {
        found.extend(ratio(Form::Ratio, stalled, Some(value), 1.0, "stalled cycles per insn"));
    }
    found
}

/// Read misses of a cache against its reads; any other cache event per second.
fn cache(config: u64, value: f64, all: &Related<'_>) -> Vec<Metric> {
    let read_misses = abi::PERF_COUNT_HW_CACHE_RESULT_MISS << 16 | abi::PERF_COUNT_HW_CACHE_OP_READ << 8;
    let what = match config & 0xff {
        _ if config & !0xff != read_misses => return all.per_second(value),
        abi::PERF_COUNT_HW_CACHE_L1D => "of all L1-dcache accesses",
        abi::PERF_COUNT_HW_CACHE_L1I => "of all L1-icache accesses",
        abi::PERF_COUNT_HW_CACHE_LL => "of all LL-cache accesses",
        abi::PERF_COUNT_HW_CACHE_DTLB => "of all dTLB cache accesses",
        abi::PERF_COUNT_HW_CACHE_ITLB => "of all iTLB cache accesses",
        _ => return all.per_second(value),
    };
    ratio(Form::Percent, value, all.find(CountRole::Cache(config & 0xff)), 100.0, what)
}

/// `factor * value / total`, if there is a total.
fn ratio(form: Form, value: f64, total: Option<f64>, factor: f64, unit: &str) -> Vec<Metric> {
    total.filter(|t| *t > 0.0).map(|t| metric(form, factor * value / t, unit)).into_iter().collect()
}

/// The other events that an event can be related to.
struct Related<'a> {
    events: &'a [EventInfo],
    cells: &'a [Cell],
    of: &'a EventInfo,
}

impl Related<'_> {
    fn find(&self, role: CountRole) -> Option<f64> {
        let same = |e: &EventInfo| e.role == role && e.modes == self.of.modes && e.cgroup == self.of.cgroup;
        self.events.iter().zip(self.cells).find(|(e, _)| same(e)).and_then(|(_, c)| c.value())
    }

    fn hardware(&self, config: u64) -> Option<f64> {
        self.find(CountRole::Hardware(config))
    }

    /// The clock's time; one that leaves out the same modes before any other.
    fn clock_ns(&self) -> Option<f64> {
        let any = || {
            let is_clock = |e: &EventInfo| e.role == CountRole::Clock && e.cgroup == self.of.cgroup;
            let clocks = self.events.iter().zip(self.cells).filter(|(e, _)| is_clock(e));
            clocks.filter_map(|(_, c)| c.value()).next()
        };
        self.find(CountRole::Clock).or_else(any).filter(|ns| *ns > 0.0)
    }

    fn per_second(&self, value: f64) -> Vec<Metric> {
        let Some(ns) = self.clock_ns() else { return Vec::new() };
        let mut rate = 1e9 * value / ns;
        let mut unit = "/sec";
        for larger in ["K/sec", "M/sec", "G/sec"] {
            if rate < 1000.0 {
                break;
            }
            rate /= 1000.0;
            unit = larger;
        }
        vec![metric(Form::Three, rate, unit)]
    }
}
