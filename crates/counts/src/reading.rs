//! Reading of a counter, and where it counts.

/// One tid and one CPU to count on; at least one of them is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountPlace {
    /// Only this CPU; `None`: wherever the task runs.
    pub cpu: Option<u32>,
    /// Only this thread (and what it will start, if that is counted); `None`: all tasks.
    pub tid: Option<u32>,
}

/// The extent to which an event is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It counts as asked.
    Full,
    /// It counts user mode only, because `perf_event_paranoid` forbids the rest.
    UserOnly,
    /// The kernel or CPU does not have it; the errno of `perf_event_open`.
    None(i32),
}

/// One counter's state since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// The count.
    pub value: u64,
    /// How long it was switched on, in ns.
    pub enabled_ns: u64,
    /// How long it was on the PMU, in ns; less than `enabled_ns` when counters are shared out.
    pub running_ns: u64,
}

impl Reading {
    /// Difference since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            value: self.value.wrapping_sub(before.value),
            enabled_ns: self.enabled_ns.saturating_sub(before.enabled_ns),
            running_ns: self.running_ns.saturating_sub(before.running_ns),
        }
    }
}

/// One logical CPU's place in the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CpuPlace {
    /// Physical package.
    pub socket: u32,
    /// Die within the package.
    pub die: u32,
    /// Core within the package.
    pub core: u32,
    /// Memory node.
    pub node: u32,
}
