//! Event texts as `-e` takes them, parsed into what `perf_event_open` needs.
//!
//! Knows names, sysfs' and tracefs' descriptions (through [`EventSource`]) and the fields of
//! `perf_event_attr`; opens nothing. `cycles:u`, `{cs,faults}:S`, `cpu/event=0x3c,umask=1/`, `block:*`,
//! `mem:0x1000:w`, `r08` and the rest of perf's grammar, each fault with its place and the nearest names.

mod branch;
mod cache;
pub mod catalog;
mod error;
mod intel_pt;
mod modifier;
mod name;
mod parse;
mod pmu;
pub mod probe_list;
mod source;
mod term;
#[cfg(test)]
mod tests;
mod tracefs;
mod tracepoint;

use perfdata::{Attr, abi};

pub use branch::parse_branch_filter;
pub use cache::cache_events;
pub use error::{Error, Fault, nearest};
pub use name::{HARDWARE, NamedEvent, SOFTWARE, TOOL, Tool};
pub use parse::parse;
pub use perfdata::text::glob;
pub use source::{EventSource, SystemSource};
pub use term::{CallGraphTerm, Terms};
pub(crate) use tracefs::mounted_tracefs;
pub use tracefs::tracefs;
pub use tracepoint::optional_tracepoint;

/// One event to open.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSpec {
    /// Type, config words, breakpoint fields and the flags that modifiers set; sampling, read format and
    /// inheritance are the caller's.
    pub attr: Attr,
    /// The name that perf prints for it: the text as typed, `system:event`, or the `name=` term.
    pub name: String,
    /// The group it is in; `None`: alone.
    pub group: Option<EventGroup>,
    /// Settings that override the command line's for this event.
    pub terms: Terms,
    /// `--filter` text for the kernel's `SET_FILTER`.
    pub filter: Option<String>,
    /// Count only tasks of this cgroup, a path below the hierarchy's mount (system-wide counters only).
    pub cgroup: Option<String>,
    /// A count that tally takes itself; the attr is a dummy then.
    pub tool: Option<Tool>,
    /// The only CPUs the PMU counts on (`cpumask` in sysfs), ascending; `None`: all.
    pub cpus: Option<Vec<u32>>,
    /// Its data is a processor's trace, which goes to an AUX area.
    pub aux: bool,
    /// Unit of the scaled count as the PMU states it.
    pub unit: Option<String>,
    /// Factor from count to unit as the PMU states it.
    pub scale: Option<f64>,
    modifiers: modifier::Modifiers,
}

/// Membership in `{a,b}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventGroup {
    /// Index of the group's first event in the list that this event is in; the leader names itself.
    pub leader: usize,
    /// `name` of `name{a,b}`.
    pub name: Option<String>,
}

impl EventSpec {
    /// Index of the event to open this one under, for the event at `index`; `None`: opened on its own.
    #[must_use]
    pub fn leader_of(&self, index: usize) -> Option<usize> {
        self.group.as_ref().map(|g| g.leader).filter(|&leader| leader != index)
    }

    /// The same in `cgroup`, as a copy of a whole list of events that begins at `first`.
    #[must_use]
    pub fn in_cgroup(mut self, cgroup: &str, first: usize) -> Self {
        self.cgroup = Some(cgroup.to_owned());
        if let Some(group) = &mut self.group {
            group.leader += first;
        }
        self
    }

    /// `P`: the highest `precise_ip` the kernel takes.
    #[must_use]
    pub fn wants_max_precision(&self) -> bool {
        self.modifiers.precise_max
    }

    /// `S`: members of the group are read with each sample of the leader.
    #[must_use]
    pub fn reads_group(&self) -> bool {
        self.modifiers.sample_read
    }

    /// `W`: when the group cannot be opened as one, its events may be opened alone.
    #[must_use]
    pub fn group_is_weak(&self) -> bool {
        self.modifiers.weak
    }

    /// True if the user selected the modes (u, k, h) to count. Then no fallback may change them.
    #[must_use]
    pub fn modes_said(&self) -> bool {
        self.modifiers.exclude_user || self.modifiers.exclude_kernel || self.modifiers.exclude_hv
    }

    /// Leaves out all but user mode, whatever the modifiers are.
    pub fn only_user(&mut self) {
        self.keep_only(true);
    }

    /// Leaves out all but the kernel, whatever the modifiers are.
    pub fn only_kernel(&mut self) {
        self.keep_only(false);
    }

    fn keep_only(&mut self, user: bool) {
        self.modifiers.exclude_user = !user;
        self.modifiers.exclude_kernel = user;
        self.modifiers.exclude_hv = true;
        self.finish();
    }

    /// Is it a tracepoint (its samples carry fields, `--filter` narrows it)?
    #[must_use]
    pub fn is_tracepoint(&self) -> bool {
        self.attr.type_ == abi::PERF_TYPE_TRACEPOINT
    }
}

/// One event option in the order of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opt<'a> {
    /// `-e TEXT`.
    Events(&'a str),
    /// `--filter TEXT`: narrows the events of the `-e` before it.
    Filter(&'a str),
}

/// All events of a command line; leaders are indices into the result.
pub fn parse_opts(opts: &[Opt<'_>], source: &dyn EventSource) -> Result<Vec<EventSpec>, Error> {
    let mut all: Vec<EventSpec> = Vec::new();
    let mut last_from = 0;
    for opt in opts {
        match opt {
            Opt::Events(text) => {
                last_from = all.len();
                all.extend(parse(text, source)?.into_iter().map(|mut event| {
                    if let Some(group) = &mut event.group {
                        group.leader += last_from;
                    }
                    event
                }));
            }
            Opt::Filter(text) => attach_filter(text, &mut all[last_from..])?,
        }
    }
    Ok(all)
}

fn attach_filter(text: &str, events: &mut [EventSpec]) -> Result<(), Error> {
    let fail = |fault| {
        Err(Error { text: text.to_owned(), span: 0..text.len(), fault: Box::new(fault), nearest: Vec::new() })
    };
    if events.is_empty() {
        return fail(Fault::FilterWithoutEvent);
    }
    for event in events {
        // Dynamic PMUs (numbers from 6 on) may filter by address; the kernel reports an error if they don't.
        if !event.is_tracepoint() && event.attr.type_ <= abi::PERF_TYPE_BREAKPOINT {
            return fail(Fault::FilterOnPlainEvent(event.name.clone()));
        }
        event.filter = Some(match event.filter.take() {
            Some(before) => format!("({before}) && ({text})"),
            None => text.to_owned(),
        });
    }
    Ok(())
}
