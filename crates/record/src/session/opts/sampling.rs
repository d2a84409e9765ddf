//! Which events are sampled, how often, and what a sample holds.

use perfdata::Attr;

use super::stacks::CallGraph;

/// How all events of a recording are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)]
pub struct SamplingOpts {
    /// Sampling rate of events without one of their own.
    pub rate: Rate,
    /// Fail if the kernel's limit is below the requested frequency, instead of lowering it.
    pub strict_rate: bool,
    /// No event samples: they only report processes, and count.
    pub no_samples: bool,
    /// Sample user mode only, also the default event.
    pub all_user: bool,
    /// Sample kernel mode only, also the default event.
    pub all_kernel: bool,
    /// Children don't inherit the events.
    pub no_inherit: bool,
    /// Samples of this very process are left out.
    pub exclude_self: bool,
}

/// One event to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRequest {
    /// Name of the event as requested ("cycles:u").
    pub name: String,
    /// Type, config, modifiers, and whatever the event's own terms set (period, call-graph …).
    pub attr: Attr,
    /// Index of its group's leader in the list; `None` if it is one or has no group.
    pub leader: Option<usize>,
    /// True if its own terms set a period or frequency, which then holds.
    pub own_rate: bool,
    /// Only the leader of the group samples; the members are read with it (`:S`).
    pub leader_samples: bool,
    /// Method for this event's user stacks; `None`: as for the others.
    pub call_graph: Option<CallGraph>,
    /// A tracepoint's filter.
    pub filter: Option<String>,
    /// Children don't inherit this event.
    pub no_inherit: bool,
    /// Its data is a processor's trace, which goes to an AUX area; it takes no samples.
    pub aux: bool,
}

impl EventRequest {
    /// An event without group, filter or terms of its own.
    #[must_use]
    pub fn plain(name: &str, attr: Attr) -> Self {
        let name = name.to_owned();
        Self {
            name,
            attr,
            leader: None,
            own_rate: false,
            leader_samples: false,
            call_graph: None,
            filter: None,
            no_inherit: false,
            aux: false,
        }
    }
}

/// Samples per second of running time, if no rate is given. It isn't 1000, to avoid running in step with work that
/// programs do every millisecond.
const USUAL_HZ: u64 = 997;
/// The same when off-CPU time is recorded too. Then samples only divide a time that is counted exactly. Each one
/// costs its thread an interrupt (25 µs on a virtual machine), and 190 bytes.
const USUAL_HZ_WITH_OFF_CPU: u64 = 499;

/// How often to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rate {
    /// As often as suits what else is recorded ([`Rate::usual_hz`]); each hit of a tracepoint.
    #[default]
    Usual,
    /// Samples per second and CPU of running time.
    Hz(u64),
    /// As many as the kernel allows.
    MaxHz,
    /// One sample for this many occurrences.
    Period(u64),
}

impl Rate {
    /// Samples per second if no rate is given.
    #[must_use]
    pub const fn usual_hz(with_off_cpu: bool) -> u64 {
        if with_off_cpu { USUAL_HZ_WITH_OFF_CPU } else { USUAL_HZ }
    }
}

/// Extra fields in samples and extra records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)]
pub struct SampleExtras {
    /// `PERF_SAMPLE_*` bits to add.
    pub sample_type: u64,
    /// `PERF_SAMPLE_BRANCH_*` bits; 0 for none.
    pub branches: u64,
    /// Registers as of the interrupt (mask).
    pub regs_intr: u64,
    /// Registers of user mode (mask), beyond what stacks need.
    pub regs_user: u64,
    /// Mappings of data as well.
    pub data_maps: bool,
    /// Counts per task (`inherit_stat`).
    pub stat: bool,
    /// Context switches.
    pub switches: bool,
    /// Namespaces of tasks.
    pub namespaces: bool,
    /// Cgroups of tasks.
    pub cgroups: bool,
}
