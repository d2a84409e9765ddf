//! Lives of threads in a flight recorder's file, which has the newest records only. The kernel's sums of a thread are of
//! its whole life, and a thread that lives on has none yet: both are put together again from the kept records.

use super::perf_offcpu_lives::{of_kept, thread_of};
use super::{ThreadTotals, Wait};
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::Profile;
use perfdata::appendix::kept_window::KeptTime;
use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;

/// Lives of threads whose time off the CPU was recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum RecordedLives {
    /// Each has sums.
    #[default]
    Summed,
    /// The recorder was cut off: some have none.
    Unfinished,
    /// The file has only the records of this time.
    Window(KeptTime),
}

/// Cuts waits and lives to the time that the file is of. Lives that began in it keep their exact sums. Of the others,
/// running is known by samples; the rest is waits that still went on at the end, and counts as idle.
pub(crate) fn cut_to_window(profile: &mut Profile, kept: KeptTime) {
    profile.off_cpu.waits.iter_mut().for_each(|wait| cut_wait(wait, kept.begin_ns));
    let (whole, older): (Vec<_>, Vec<_>) =
        std::mem::take(&mut profile.off_cpu.totals).into_iter().partition(|of| of.start_ns >= kept.begin_ns);
    let ends: FxHashMap<_, u64> = older.iter().map(|of| (thread_of(profile, of.task), of.end_ns)).collect();
    let switches = switches_by_thread(profile);
    profile.off_cpu.totals = whole;
    let mut lives = of_kept(profile, kept.begin_ns);
    for life in &mut lives {
        let thread = thread_of(profile, life.task);
        life.end_ns = ends.get(&thread).map_or(kept.end_ns, |&end_ns| end_ns.min(kept.end_ns));
        life.switches = switches.get(&thread).copied().unwrap_or(0);
        fill(life);
    }
    profile.off_cpu.totals.extend(lives);
    // They count waits from before the window, too.
    profile.off_cpu.queues.clear();
}

/// Leaves out the part of a wait before the window.
fn cut_wait(wait: &mut Wait, begin_ns: u64) {
    let cut_ns = begin_ns.saturating_sub(wait.since_ns).min(wait.length_ns);
    wait.since_ns = wait.since_ns.saturating_add(cut_ns);
    wait.length_ns -= cut_ns;
    wait.weight_ns = wait.weight_ns.saturating_sub(cut_ns);
}

/// A wait for a CPU follows another wait, or is a preemption.
fn switches_by_thread(profile: &Profile) -> FxHashMap<(u32, i32), u64> {
    let mut switches = FxHashMap::<_, u64>::default();
    for wait in profile.off_cpu.waits.iter().filter(|wait| wait.state != State::Runnable) {
        let count = wait.sums.as_ref().map_or(1, |sums| u64::from(sums.count));
        switches.entry(thread_of(profile, wait.task)).or_default().grow(count);
    }
    switches
}

/// Makes the sums as long as the life: samples of running are only about right.
fn fill(life: &mut ThreadTotals) {
    let on = usize::from(State::On.code());
    let waited_ns = life.total_ns.iter().copied().grown_sum() - life.total_ns[on];
    life.start_ns = life.start_ns.min(life.end_ns.saturating_sub(waited_ns));
    let rest_ns = life.life_ns().saturating_sub(waited_ns);
    life.total_ns[on] = life.total_ns[on].min(rest_ns);
    life.total_ns[usize::from(State::Idle.code())].grow(rest_ns - life.total_ns[on]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Task, TaskId};

    fn wait(task: TaskId, since_ns: u64, length_ns: u64) -> Wait {
        Wait { state: State::Sleep, since_ns, length_ns, weight_ns: length_ns, ..Wait::of(task) }
    }

    fn totals(task: TaskId, start_ns: u64, end_ns: u64) -> ThreadTotals {
        let mut total_ns = [0; 8];
        total_ns[usize::from(State::On.code())] = end_ns - start_ns;
        ThreadTotals { task, start_ns, end_ns, total_ns, switches: 0 }
    }

    #[test]
    fn waits_and_lives_are_cut_to_the_window_and_add_up_to_it() {
        let mut profile = Profile::default();
        let comm = profile.strings.intern("main");
        let mut task = |tid| profile.intern_task(Task { pid: 1, tid, process: 0, comm });
        let [long, young, going_on] = [1, 2, 3].map(&mut task);
        profile.off_cpu.waits = vec![wait(long, 500, 700), wait(long, 1500, 100), wait(going_on, 1900, 50)];
        profile.off_cpu.totals = vec![totals(long, 0, 2500), totals(young, 1200, 1300)];
        cut_to_window(&mut profile, KeptTime { begin_ns: 1000, end_ns: 2000 });
        let waits: Vec<_> =
            profile.off_cpu.waits.iter().map(|of| (of.since_ns, of.length_ns, of.weight_ns)).collect();
        assert_eq!(waits, [(1000, 200, 200), (1500, 100, 100), (1900, 50, 50)]);
        let lives: Vec<_> =
            profile.off_cpu.totals.iter().map(|of| (of.task, of.start_ns, of.end_ns)).collect();
        assert_eq!(lives, [(young, 1200, 1300), (long, 1000, 2000), (going_on, 1000, 2000)]);
        for of in &profile.off_cpu.totals {
            assert_eq!(of.total_ns.iter().sum::<u64>(), of.life_ns(), "{of:?}");
        }
        let of_long = &profile.off_cpu.totals[1];
        assert_eq!((of_long.of(State::Sleep), of_long.of(State::Idle), of_long.switches), (300, 700, 2));
    }

    #[test]
    fn a_life_is_no_shorter_than_its_waits_and_has_no_more_running_than_the_rest() {
        let mut life = totals(TaskId::from_index(0), 1000, 1100);
        life.total_ns[usize::from(State::Sleep.code())] = 120;
        fill(&mut life);
        assert_eq!((life.start_ns, life.of(State::On), life.of(State::Idle)), (980, 0, 0));
        let mut life = totals(TaskId::from_index(0), 1000, 1100);
        life.total_ns[usize::from(State::Sleep.code())] = 70;
        fill(&mut life);
        assert_eq!((life.start_ns, life.of(State::On), life.of(State::Idle)), (1000, 30, 0));
    }
}
