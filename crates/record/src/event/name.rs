//! The fixed names: hardware, software and tool events with their aliases.
//
// Source: linux v6.18 include/uapi/linux/perf_event.h perf_hw_id, perf_sw_ids; the names are perf's own.

/// A named event of the kernel's generic kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedEvent {
    /// The name perf prints first.
    pub name: &'static str,
    /// The other name, if it has one.
    pub alias: Option<&'static str>,
    /// `attr.config`.
    pub config: u64,
}

const fn event(name: &'static str, alias: Option<&'static str>, config: u64) -> NamedEvent {
    NamedEvent { name, alias, config }
}

/// `PERF_TYPE_HARDWARE`'s events in the order of their numbers.
pub const HARDWARE: &[NamedEvent] = &[
    event("cpu-cycles", Some("cycles"), 0),
    event("instructions", None, 1),
    event("cache-references", None, 2),
    event("cache-misses", None, 3),
    event("branch-instructions", Some("branches"), 4),
    event("branch-misses", None, 5),
    event("bus-cycles", None, 6),
    event("stalled-cycles-frontend", Some("idle-cycles-frontend"), 7),
    event("stalled-cycles-backend", Some("idle-cycles-backend"), 8),
    event("ref-cycles", None, 9),
];

/// `PERF_TYPE_SOFTWARE`'s events in the order of their numbers.
pub const SOFTWARE: &[NamedEvent] = &[
    event("cpu-clock", None, 0),
    event("task-clock", None, 1),
    event("page-faults", Some("faults"), 2),
    event("context-switches", Some("cs"), 3),
    event("cpu-migrations", Some("migrations"), 4),
    event("minor-faults", None, 5),
    event("major-faults", None, 6),
    event("alignment-faults", None, 7),
    event("emulation-faults", None, 8),
    event("dummy", None, 9),
    event("bpf-output", None, 10),
    event("cgroup-switches", None, 11),
];

/// Counts that tally itself takes, without the kernel's perf events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Wall-clock time of the run in ns.
    DurationTime,
    /// The target's user time in ns, from `rusage`.
    UserTime,
    /// The target's system time in ns, from `rusage`.
    SystemTime,
}

/// Tool events by name.
pub const TOOL: &[(&str, Tool)] = &[
    ("duration_time", Tool::DurationTime),
    ("user_time", Tool::UserTime),
    ("system_time", Tool::SystemTime),
];

/// The entry that `name` names, by either of its names.
pub(super) fn find_named(table: &'static [NamedEvent], name: &str) -> Option<&'static NamedEvent> {
    table.iter().find(|e| e.name == name || e.alias == Some(name))
}

/// Every fixed name, for suggestions.
pub(super) fn all_names() -> impl Iterator<Item = &'static str> {
    let both = |e: &'static NamedEvent| std::iter::once(e.name).chain(e.alias);
    HARDWARE.iter().flat_map(both).chain(SOFTWARE.iter().flat_map(both)).chain(TOOL.iter().map(|t| t.0))
}
