//! Names of events: as recorded, else made from the attribute as perf does.
//
// Source of the made-up names: linux v7.2 tools/perf/util/evsel.c, evsel__name().

use crate::abi::*;
use crate::file::features::Features;
use crate::{Attr, AttrFlags, Event};

/// Takes names (and ids, where the attribute section has none) from the `EVENT_DESC` feature.
pub(super) fn take_event_desc(events: &mut [Event], desc: &[Event]) {
    for (index, event) in events.iter_mut().enumerate() {
        let by_id = desc.iter().find(|d| event.ids.iter().any(|id| d.ids.contains(id)));
        let by_place = || desc.get(index).filter(|d| d.attr.type_ == event.attr.type_);
        if let Some(found) = by_id.or_else(by_place).filter(|d| !d.name.is_empty()) {
            event.name.clone_from(&found.name);
        }
    }
}

/// Names the events that have none.
pub(super) fn name_events(events: &mut [Event], features: &Features) {
    for event in events.iter_mut().filter(|e| e.name.is_empty()) {
        event.name = match event.attr.type_ {
            PERF_TYPE_TRACEPOINT => features
                .tracing_data
                .as_ref()
                .and_then(|t| t.name_of(event.attr.config))
                .unwrap_or_else(|| "unknown tracepoint".into()),
            _ => made_up(&event.attr),
        };
    }
}

const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
const CACHE_OPS: [(&str, &str); 3] =
    [("loads", "load-misses"), ("stores", "store-misses"), ("prefetches", "prefetch-misses")];

/// The name that perf derives from type and config.
pub(super) fn made_up(attr: &Attr) -> String {
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let base = match attr.type_ {
        PERF_TYPE_HARDWARE => match HARDWARE.get(index(attr.config & 0xffff_ffff)) {
            Some(name) => (*name).into(),
            None => "unknown-hardware".into(),
        },
        PERF_TYPE_SOFTWARE => match SOFTWARE.get(index(attr.config)) {
            Some(name) => (*name).into(),
            None => "unknown-software".into(),
        },
        PERF_TYPE_HW_CACHE => return cache_name(attr.config) + &modifiers(attr),
        PERF_TYPE_RAW => format!("raw {:#x}", attr.config),
        PERF_TYPE_BREAKPOINT => return breakpoint_name(attr) + &modifiers(attr),
        other => return format!("unknown attr type: {other}"),
    };
    base + &modifiers(attr)
}

fn cache_name(config: u64) -> String {
    let byte = |shift: u32| usize::try_from(config >> shift & 0xff).unwrap_or(usize::MAX);
    match (CACHES.get(byte(0)), CACHE_OPS.get(byte(8)), byte(16)) {
        (Some(cache), Some((hits, _)), 0) => format!("{cache}-{hits}"),
        (Some(cache), Some((_, misses)), 1) => format!("{cache}-{misses}"),
        _ => "invalid-cache".into(),
    }
}

fn breakpoint_name(attr: &Attr) -> String {
    let flag = |bit: u32, c: &'static str| if attr.bp_type & bit != 0 { c } else { "" };
    format!("mem:{:#x}:{}{}{}", attr.config1, flag(1, "r"), flag(2, "w"), flag(4, "x"))
}

/// `:u`, `:k`, `:pp`, `:G` … as perf appends them.
fn modifiers(attr: &Attr) -> String {
    let f = attr.flags;
    let mut out = String::new();
    let mut exclude_guest_default = false;
    let all =
        [(AttrFlags::EXCLUDE_KERNEL, 'k'), (AttrFlags::EXCLUDE_USER, 'u'), (AttrFlags::EXCLUDE_HV, 'h')];
    if all.iter().any(|(flag, _)| f.has(*flag)) {
        out.extend(all.iter().filter(|(flag, _)| !f.has(*flag)).map(|(_, c)| *c));
        exclude_guest_default = true;
    }
    if f.precise_ip() > 0 {
        out.extend(std::iter::repeat_n('p', usize::from(f.precise_ip())));
        exclude_guest_default = true;
    }
    let (host, guest) = (f.has(AttrFlags::EXCLUDE_HOST), f.has(AttrFlags::EXCLUDE_GUEST));
    if host || guest == exclude_guest_default {
        out.extend((!host).then_some('H').into_iter().chain((!guest).then_some('G')));
    }
    if out.is_empty() { out } else { format!(":{out}") }
}
