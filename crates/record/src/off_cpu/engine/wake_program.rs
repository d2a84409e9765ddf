//! Attaches and detaches the program at wake-ups, by the rate of switches.

use aya::maps::Array;

use dso::system_file;

use super::Error;
use super::wake_link::WakeLink;
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
    link: WakeLink,
    /// The scheduler keeps the time of wake-ups.
    has_schedstat: bool,
}

impl WakeProgram {
    /// Attaches it.
    pub(super) fn attach(object: &LoadedObject, at_ns: u64) -> Result<Self, Error> {
        let link = object.attach_tracepoint(ON_WAKING)?;
        let program = object.program(ON_WAKING)?.try_clone_to_owned();
        let program =
            program.map_err(|error| Error::Attach { program: ON_WAKING, reason: error.to_string() })?;
        let link = WakeLink::of(program, link);
        Ok(Self { windows: WakeWindows::new(at_ns), link, has_schedstat: has_schedstat() })
    }

    /// True once the phase has ended: a closed one when the program is attached again.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let is_over = self.windows.is_due(now_ns);
        if is_over && !self.windows.is_open() {
            self.link.attach();
            return self.link.is_attached();
        }
        is_over
    }

    /// Time until [`WakeProgram::is_due`], ns.
    pub(super) fn left_ns(&self, now_ns: u64) -> u64 {
        /// Between two looks whether the program is attached.
        const LOOK_NS: u64 = 2_000_000;
        let least = if self.windows.is_open() { 0 } else { LOOK_NS };
        self.windows.left_ns(now_ns).max(least)
    }

    /// Begins the next window, or ends it; [`WakeProgram::follow_windows`] is to follow.
    pub(super) fn turn(&mut self, object: &LoadedObject, now_ns: u64) {
        let may_close = self.windows.is_open() && self.has_schedstat && self.link.can_turn();
        self.windows.turn(now_ns, if may_close { switches_by_cpu(object) } else { Vec::new() });
    }

    /// Attaches or detaches it, as the windows have it.
    pub(super) fn follow_windows(&mut self) {
        if self.windows.is_open() { self.link.attach() } else { self.link.detach() }
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
