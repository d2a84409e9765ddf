//! Lives of threads without recorded totals. perf's own `offcpu-time` records only waits, and a recorder that was
//! killed could not write totals. Such a life is as long as the recorded times of the thread.

use super::{ThreadTotals, Wait};
use crate::profile::{EventInfo, Profile, Sums, TaskId};
use perfdata::abi::{PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_TYPE_SOFTWARE};
use perfdata::off_cpu::State;
use rustc_hash::{FxHashMap, FxHashSet};

/// One thread's life: its samples of the CPU's clock, if there is such an event, and its waits, from the recording's
/// first sample on. `total_ns` adds up to it; the waits are of unknown state.
pub(crate) fn of_samples(profile: &Profile) -> Vec<ThreadTotals> {
    lives(profile, &FxHashSet::default(), clock_event(profile), |_| State::Unknown)
}

/// Lives of the threads without totals in a recording that was cut off; waits keep their own state. Waits still open
/// when the recorder ended are missing.
pub(crate) fn of_unfinished(profile: &Profile) -> Vec<ThreadTotals> {
    let told = profile.off_cpu.totals.iter().map(|totals| thread_of(profile, totals.task)).collect();
    lives(profile, &told, clock_event(profile).or_else(|| event_by_frequency(profile)), |wait| wait.state)
}

/// Lives of the threads without totals in a flight recorder's file, from the begin of its window on: recorded times.
pub(super) fn of_kept(profile: &Profile, begin_ns: u64) -> Vec<ThreadTotals> {
    let mut lives = of_unfinished(profile);
    lives.iter_mut().for_each(|life| life.start_ns = begin_ns);
    lives
}

/// Identity of a thread, whatever its names.
pub(super) fn thread_of(profile: &Profile, task: TaskId) -> (u32, i32) {
    let of = profile.task(task);
    (of.process, of.tid)
}

fn lives(
    profile: &Profile,
    told: &FxHashSet<(u32, i32)>,
    clock: Option<Clock>,
    state_of: impl Fn(&Wait) -> State,
) -> Vec<ThreadTotals> {
    let (start_ns, _) = profile.time_span_ns.unwrap_or_default();
    let mut index: FxHashMap<(u32, i32), usize> = FxHashMap::default();
    let mut lives: Vec<ThreadTotals> = Vec::new();
    let mut add = |task: TaskId, state: State, ns: u64| {
        let thread = thread_of(profile, task);
        if told.contains(&thread) {
            return;
        }
        let at = *index.entry(thread).or_insert_with(|| {
            lives.push(ThreadTotals { task, start_ns, end_ns: start_ns, total_ns: [0; 8], switches: 0 });
            lives.len() - 1
        });
        let life = &mut lives[at];
        life.end_ns = life.end_ns.saturating_add(ns);
        let total = &mut life.total_ns[usize::from(state.code())];
        *total = total.saturating_add(ns);
    };
    if let Some(clock) = clock {
        let cells = profile.cells().iter().filter(|(key, _)| key.event as usize == clock.event);
        let on_ns = |sums: &Sums| clock.sample_ns.map_or(sums.period, |ns| sums.count.saturating_mul(ns));
        cells.for_each(|(key, sums)| add(key.task, State::On, on_ns(sums)));
    }
    profile.off_cpu.waits.iter().for_each(|wait| add(wait.task, state_of(wait), wait.weight_ns));
    lives
}

/// An event that measures time on the CPU.
#[derive(Clone, Copy)]
struct Clock {
    /// Index.
    event: usize,
    /// Time per sample, ns; `None`: its period.
    sample_ns: Option<u64>,
}

/// The first event whose periods are ns on the CPU.
fn clock_event(profile: &Profile) -> Option<Clock> {
    let is_clock = |config| [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK].contains(&config);
    let is_clock = |event: &EventInfo| event.kind == PERF_TYPE_SOFTWARE && is_clock(event.config);
    profile.events.iter().position(is_clock).map(|event| Clock { event, sample_ns: None })
}

/// The first event that samples so often a second of running.
fn event_by_frequency(profile: &Profile) -> Option<Clock> {
    let event = profile.events.iter().position(|event| event.by_frequency && event.period_or_hz > 0)?;
    Some(Clock { event, sample_ns: Some(1_000_000_000 / profile.events[event].period_or_hz) })
}
