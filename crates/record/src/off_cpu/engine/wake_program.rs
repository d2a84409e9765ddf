//! Attaches and detaches the program at wake-ups, by the rate of switches.

use std::os::fd::OwnedFd;

use aya::maps::Array;

use dso::system_file;

use super::Error;
use crate::off_cpu::wake_windows::WakeWindows;
use crate::sys::bpf_object::LoadedObject;

/// Name of the program.
pub(super) const ON_WAKING: &str = "on_waking";

/// Words of `struct cpu_facts` in bpf/off_cpu/maps.h.
const FACT_WORDS: usize = 8;
const COMPARED_NS: usize = 1;
const SWITCHES: usize = 6;
const UNWOKEN: usize = 7;

/// The program at wake-ups.
#[derive(Debug)]
pub(super) struct WakeProgram {
    pub(super) windows: WakeWindows,
    /// `None` while it is detached.
    link: Option<OwnedFd>,
    /// The scheduler keeps the time of wake-ups.
    has_schedstat: bool,
}

impl WakeProgram {
    /// Attaches it.
    pub(super) fn attach(object: &LoadedObject, at_ns: u64) -> Result<Self, Error> {
        let link = Some(object.attach_tracepoint(ON_WAKING)?);
        Ok(Self { windows: WakeWindows::new(at_ns), link, has_schedstat: has_schedstat() })
    }

    /// Begins the next window, or ends it; [`WakeProgram::follow_windows`] is to follow.
    pub(super) fn turn(&mut self, object: &LoadedObject, now_ns: u64) {
        let may_close = self.windows.is_open() && self.has_schedstat;
        self.windows.turn(now_ns, if may_close { switches_by_cpu(object) } else { Vec::new() });
    }

    /// Attaches or detaches it, as the windows have it.
    pub(super) fn follow_windows(&mut self, object: &LoadedObject) {
        match self.link.take() {
            // A failure shows up as wakers that are missing, and is tried again at the next window.
            None if self.windows.is_open() => self.link = object.attach_tracepoint(ON_WAKING).ok(),
            Some(link) if !self.windows.is_open() => drop(link),
            link => self.link = link,
        }
    }
}

/// True if the kernel counts how long threads wait for a CPU (CONFIG_SCHED_INFO, and switched on).
fn has_schedstat() -> bool {
    // "RUN_NS WAITED_NS TIMES": all 0 where it is switched off, and this thread has run.
    let text = system_file::read_text("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().last().is_some_and(|times| times != "0")
}

fn facts(object: &LoadedObject) -> Vec<[u64; FACT_WORDS]> {
    let map = object.map("cpus").and_then(|map| Array::<_, [u64; FACT_WORDS]>::try_from(map).ok());
    map.map_or_else(Vec::new, |map| map.iter().map_while(Result::ok).collect())
}

/// Switches of followed threads by CPU; none where a CPU can't use the scheduler's clock, and so not its times.
fn switches_by_cpu(object: &LoadedObject) -> Vec<u64> {
    let facts = facts(object);
    if facts.iter().any(|cpu| cpu[SWITCHES] > 0 && cpu[COMPARED_NS] == 0) {
        return Vec::new();
    }
    facts.iter().map(|cpu| cpu[SWITCHES]).collect()
}

/// Waits that have ended without the program.
pub(super) fn unwoken(object: &LoadedObject) -> u64 {
    facts(object).iter().map(|cpu| cpu[UNWOKEN]).sum()
}
