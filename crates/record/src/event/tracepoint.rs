//! Tracepoints and breakpoints: `sched:sched_switch`, `block:*`, `mem:0x1000/4:rw`.
//
// Source: linux v6.18 Documentation/trace/events.rst (tracefs events/<system>/<event>/id is attr.config);
//         include/uapi/linux/hw_breakpoint.h.

use super::error::{Fault, nearest};
use super::glob;
use super::source::EventSource;
use super::term::parse_number;

// Source: linux v6.18 include/uapi/linux/hw_breakpoint.h
const HW_BREAKPOINT_R: u32 = 1;
const HW_BREAKPOINT_W: u32 = 2;
const HW_BREAKPOINT_X: u32 = 4;

/// Well-known tracepoints that many kernels are built without, and what they need.
const OPTIONAL: &[(&str, &str)] = &[
    ("sched:sched_stat_sleep", "CONFIG_SCHEDSTATS"),
    ("sched:sched_stat_blocked", "CONFIG_SCHEDSTATS"),
    ("sched:sched_stat_iowait", "CONFIG_SCHEDSTATS"),
    ("sched:sched_stat_wait", "CONFIG_SCHEDSTATS"),
    ("sched:sched_blocked_reason", "an Android kernel"),
    ("irq_vectors:local_timer_entry", "CONFIG_X86_LOCAL_APIC"),
    ("preemptirq:irq_disable", "CONFIG_TRACE_IRQFLAGS"),
    ("preemptirq:irq_enable", "CONFIG_TRACE_IRQFLAGS"),
    ("lock:lock_acquire", "CONFIG_LOCKDEP"),
    ("lock:lock_release", "CONFIG_LOCKDEP"),
];

/// The kernel requirement of the well-known tracepoint `name`; `None` if it is not one of those.
#[must_use]
pub fn optional_tracepoint(name: &str) -> Option<&'static str> {
    OPTIONAL.iter().find(|(known, _)| *known == name).map(|(_, needs)| *needs)
}

/// A tracepoint that a name or pattern means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tracepoint {
    /// `system:event`.
    pub name: String,
    /// `attr.config`.
    pub id: u64,
}

/// The tracepoints that `system:event` names, in the order of their names; not empty.
pub(super) fn find_tracepoints(
    system: &str,
    event: &str,
    source: &dyn EventSource,
) -> Result<Vec<Tracepoint>, (Fault, Vec<String>)> {
    let exact = !glob::is_glob(system) && !glob::is_glob(event);
    if let Some(found) = exact.then(|| read_id(system, event, source)).flatten() {
        return Ok(vec![found]);
    }
    let systems = source.list_tracefs("").map_err(|e| (Fault::NoTracefs(e.to_string()), Vec::new()))?;
    let mut found = Vec::new();
    for s in systems.iter().filter(|s| glob::matches(system, s)) {
        let events = source.list_tracefs(s).unwrap_or_default();
        let wanted = events.iter().filter(|e| glob::matches(event, e));
        found.extend(wanted.filter_map(|e| read_id(s, e, source)));
    }
    if found.is_empty() {
        let fault = Fault::UnknownTracepoint(format!("{system}:{event}"));
        return Err((fault, suggest(system, event, &systems, source)));
    }
    Ok(found)
}

/// `None` if the tracepoint doesn't exist, or is one of ftrace's own that perf events can't use.
fn read_id(system: &str, event: &str, source: &dyn EventSource) -> Option<Tracepoint> {
    if [system, event].iter().any(|s| s.is_empty() || s.contains('/')) {
        return None;
    }
    let id = source.read_tracefs(&format!("{system}/{event}/id")).ok()?.trim().parse().ok()?;
    Some(Tracepoint { name: format!("{system}:{event}"), id })
}

/// Near names within the system; the same event in another system; a system with a near name.
fn suggest(system: &str, event: &str, systems: &[String], source: &dyn EventSource) -> Vec<String> {
    let has = |s: &str, e: &str| read_id(s, e, source).is_some();
    if systems.iter().any(|s| s == system) {
        let events = source.list_tracefs(system).unwrap_or_default();
        return nearest(event, events).into_iter().map(|e| format!("{system}:{e}")).collect();
    }
    let mut found: Vec<String> =
        systems.iter().filter(|s| has(s, event)).take(3).map(|s| format!("{s}:{event}")).collect();
    let near = nearest(system, systems).into_iter().filter(|s| !has(s, event));
    found.extend(near.map(|s| format!("{s}:*")));
    found
}

/// A hardware breakpoint's attr fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Breakpoint {
    pub address: u64,
    pub len_bytes: u64,
    /// `HW_BREAKPOINT_*` bits.
    pub access: u32,
}

/// Reads `ADDR[/LEN]` and the access letters (empty: rw).
pub(super) fn parse_breakpoint(place: &str, access: &str) -> Result<Breakpoint, Fault> {
    let (address, len) = place.split_once('/').map_or((place, None), |(a, l)| (a, Some(l)));
    let address =
        parse_number(address).ok_or(Fault::BadBreakpoint("a breakpoint is mem:ADDRESS[/LENGTH][:rwx]"))?;
    let mut bits = 0;
    for letter in access.chars() {
        let bit = match letter {
            'r' => HW_BREAKPOINT_R,
            'w' => HW_BREAKPOINT_W,
            'x' => HW_BREAKPOINT_X,
            _ => return Err(Fault::BadBreakpoint("a breakpoint's access is made of r, w and x")),
        };
        if bits & bit != 0 {
            return Err(Fault::RepeatedModifier(letter));
        }
        bits |= bit;
    }
    let access = if bits == 0 { HW_BREAKPOINT_R | HW_BREAKPOINT_W } else { bits };
    // The kernel takes an execution breakpoint only with the length of a machine word.
    let usual = if access == HW_BREAKPOINT_X { 8 } else { 4 };
    let len_bytes = len.map_or(Some(usual), parse_number).filter(|l| matches!(l, 1..=8));
    let len_bytes = len_bytes.ok_or(Fault::BadBreakpoint("a breakpoint's length is 1 to 8 bytes"))?;
    Ok(Breakpoint { address, len_bytes, access })
}
