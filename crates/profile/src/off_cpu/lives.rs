//! Lives for perf's own `offcpu-time`, which records waits and nothing else: as long as what was told of a thread.

use super::ThreadTotals;
use crate::profile::{Profile, TaskId};
use perfdata::abi::{PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_TYPE_SOFTWARE};
use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;

/// One thread's life: its samples of the CPU's clock, if there is such an event, and its waits, from the recording's
/// first sample on. `total_ns` adds up to it; the waits are of unknown state.
pub(crate) fn of_samples(profile: &Profile) -> Vec<ThreadTotals> {
    let (start_ns, _) = profile.time_span_ns.unwrap_or_default();
    let mut index: FxHashMap<(u32, i32), usize> = FxHashMap::default();
    let mut lives: Vec<ThreadTotals> = Vec::new();
    let mut add = |task: TaskId, state: State, ns: u64| {
        let of = profile.task(task);
        let at = *index.entry((of.process, of.tid)).or_insert_with(|| {
            lives.push(ThreadTotals { task, start_ns, end_ns: start_ns, total_ns: [0; 8], switches: 0 });
            lives.len() - 1
        });
        let life = &mut lives[at];
        life.end_ns = life.end_ns.saturating_add(ns);
        let total = &mut life.total_ns[usize::from(state.code())];
        *total = total.saturating_add(ns);
    };
    if let Some(clock) = clock_event(profile) {
        let cells = profile.cells().iter().filter(|(key, _)| key.event as usize == clock);
        cells.for_each(|(key, sums)| add(key.task, State::On, sums.period));
    }
    profile.off_cpu.waits.iter().for_each(|wait| add(wait.task, State::Unknown, wait.weight_ns));
    lives
}

/// The first event whose periods are ns on the CPU.
fn clock_event(profile: &Profile) -> Option<usize> {
    let is_clock = |config| [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK].contains(&config);
    profile.events.iter().position(|event| event.kind == PERF_TYPE_SOFTWARE && is_clock(event.config))
}
