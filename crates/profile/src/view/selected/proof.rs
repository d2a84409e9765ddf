//! The selection that shows a finding of the verdict; the page's "show" selects the same.

use super::Selection;
use crate::view::page::PageData;

/// Selects the states that a finding, by its name for scripts, is about.
#[must_use]
pub fn proof(data: &PageData, finding: &str) -> Selection {
    let is_known = |state: &&str| data.states.iter().any(|known| known == state);
    let states = states_of(finding).iter().filter(|state| is_known(state));
    Selection {
        states: states.map(|&state| state.to_owned()).collect(),
        with_idle: finding == "idle",
        ..Selection::default()
    }
}

fn states_of(finding: &str) -> &'static [&'static str] {
    match finding {
        "lock-contention" => &["futex", "GIL", "file lock"],
        "file-lock" => &["file lock"],
        "kernel-lock" => &["kernel lock"],
        "disk" | "disk-saturated" => &["disk", "fsync", "page fault"],
        "memory-pressure" => &["page fault", "memory", "disk"],
        "cpu-saturation" | "cgroup-throttled" => &["runnable", "preempted"],
        "garbage-collection" => &["GC"],
        "preemption" => &["preempted"],
        "waiting-for-others" => &["poll", "socket", "pipe", "child", "futex"],
        "polling" => &["timer"],
        "cpu-bound" | "system-calls" | "page-faults" | "serial-bottleneck" | "memory-bound"
        | "short-processes" => &["on CPU"],
        "idle" => &["idle"],
        _ => &[],
    }
}
