//! Each thread's life as far as its moments are known: waits with begin and end, sums of waits at unknown times in an
//! interval, and samples of running.

use crate::grow::GrownSum as _;
use crate::off_cpu::{RunSample, ThreadTotals, Wait};
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::view::ranking::RankRows as _;
use crate::view::wall::{Classes, Part, WallOpts};
use perfdata::off_cpu::{State, flag};
use rustc_hash::FxHashMap;

/// A wait whose moments are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedWait {
    pub from: u64,
    pub to: u64,
    /// Index into the waits of the recording.
    pub wait: usize,
}

/// Waits of which only the sum is known: they are in this interval, outside the timed ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummedWaits {
    pub from: u64,
    pub to: u64,
    pub ns: u64,
    /// The part of the interval, outside the timed waits, that they are: 0 to 1.
    pub rate: f64,
    /// The wait that represents them.
    pub wait: usize,
}

/// One thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// All its tasks (the thread under its names), the first one first.
    pub tasks: Vec<TaskId>,
    /// Totals of its lives.
    pub totals: Vec<ThreadTotals>,
    /// In order of time, without overlaps.
    pub timed: Vec<TimedWait>,
    /// By begin.
    pub summed: Vec<SummedWaits>,
    /// In order of time.
    pub runs: Vec<RunSample>,
    /// Σ length of `timed` up to each of them.
    timed_before: Vec<u64>,
}

impl Timeline {
    /// The first of its tasks.
    pub fn task(&self) -> TaskId {
        self.tasks[0]
    }

    /// First and last moment; all time if they are not known.
    pub fn life(&self) -> (u64, u64) {
        let start = self.totals.iter().map(|totals| totals.start_ns).min();
        let end = self.totals.iter().map(|totals| totals.end_ns).max();
        (start.unwrap_or(0), end.unwrap_or(u64::MAX))
    }

    /// Σ of all its states, ns.
    pub fn total_ns(&self) -> u64 {
        self.totals.iter().flat_map(|totals| totals.total_ns).grown_sum()
    }

    /// Timed waits that overlap an interval.
    pub fn timed_in(&self, from: u64, to: u64) -> &[TimedWait] {
        let first = self.timed.partition_point(|wait| wait.to <= from);
        let last = self.timed.partition_point(|wait| wait.from < to);
        self.timed.get(first..last).unwrap_or_default()
    }

    /// The last timed wait that had ended by a moment, and the one that it is the end or the inside of.
    pub fn around(&self, moment: u64) -> (Option<TimedWait>, Option<TimedWait>) {
        let next = self.timed.partition_point(|wait| wait.from < moment);
        let Some(last) = next.checked_sub(1).map(|at| self.timed[at]) else { return (None, None) };
        if last.to >= moment { (None, Some(last)) } else { (Some(last), None) }
    }

    /// Samples of running in an interval.
    pub fn runs_in(&self, from: u64, to: u64) -> &[RunSample] {
        let first = self.runs.partition_point(|run| run.time_ns < from);
        let last = self.runs.partition_point(|run| run.time_ns < to);
        self.runs.get(first..last).unwrap_or_default()
    }

    /// ns of timed waits before a moment.
    fn timed_until(&self, moment: u64) -> u64 {
        let next = self.timed.partition_point(|wait| wait.from < moment);
        let Some(last) = next.checked_sub(1).map(|at| self.timed[at]) else { return 0 };
        self.timed_before[next - 1] + last.to.min(moment).saturating_sub(last.from)
    }

    /// ns of an interval outside timed waits.
    pub fn free_ns(&self, from: u64, to: u64) -> u64 {
        let timed = self.timed_until(to).saturating_sub(self.timed_until(from));
        to.saturating_sub(from).saturating_sub(timed)
    }

    fn order(&mut self) {
        self.timed.sort_by_key(|wait| (wait.from, wait.to, wait.wait));
        let mut end = 0;
        for wait in &mut self.timed {
            wait.from = wait.from.max(end);
            end = end.max(wait.to);
        }
        self.timed.retain(|wait| wait.from < wait.to);
        let before = self.timed.iter().scan(0u64, |sum, wait| {
            let before = *sum;
            *sum = before + (wait.to - wait.from);
            Some(before)
        });
        self.timed_before = before.collect();
        self.runs.sort_by_key(|run| run.time_ns);
        self.totals.rank_by_key(|totals| totals.start_ns);
    }
}

/// All threads of a recording.
pub(crate) struct Timelines<'p> {
    pub profile: &'p Profile,
    /// Kind of each wait, idle ones included.
    pub parts: Vec<Part>,
    pub threads: Vec<Timeline>,
    by_tid: FxHashMap<u32, Vec<usize>>,
    /// By thread: process and thread id.
    by_task: FxHashMap<(u32, i32), usize>,
    /// Timed waits of a thread at a place, by time.
    places: FxHashMap<(usize, CallsiteId), Vec<TimedWait>>,
    /// By wait: its interval where it is timed.
    timed: FxHashMap<usize, TimedWait>,
}

impl<'p> Timelines<'p> {
    /// Those of all threads with waits, totals or samples.
    pub fn of(profile: &'p Profile) -> Self {
        let opts = WallOpts { with_idle: true, ..WallOpts::default() };
        let parts = Classes::of(profile, &opts).iter(profile).map(|class| class.part).collect();
        let mut of = Self {
            profile,
            parts,
            threads: Vec::new(),
            by_tid: FxHashMap::default(),
            by_task: FxHashMap::default(),
            places: FxHashMap::default(),
            timed: FxHashMap::default(),
        };
        let owners = of.add_threads();
        of.threads.iter_mut().for_each(Timeline::order);
        of.note_places();
        of.add_sums(&owners);
        of
    }

    /// Makes the threads; answers the thread of each wait.
    fn add_threads(&mut self) -> Vec<usize> {
        let profile = self.profile;
        let index = &mut self.by_task;
        let threads = &mut self.threads;
        let by_tid = &mut self.by_tid;
        let mut thread_of = |task: TaskId, threads: &mut Vec<Timeline>| {
            let of = profile.task(task);
            let at = *index.entry((of.process, of.tid)).or_insert_with(|| {
                by_tid.entry(of.tid.cast_unsigned()).or_default().push(threads.len());
                threads.push(Timeline::default());
                threads.len() - 1
            });
            if !threads[at].tasks.contains(&task) {
                threads[at].tasks.push(task);
            }
            at
        };
        for totals in &profile.off_cpu.totals {
            let at = thread_of(totals.task, threads);
            threads[at].totals.push(*totals);
        }
        for run in &profile.off_cpu.seen_running {
            let at = thread_of(run.task, threads);
            threads[at].runs.push(*run);
        }
        let mut owners = Vec::with_capacity(profile.off_cpu.waits.len());
        for (wait, of) in profile.off_cpu.waits.iter().enumerate() {
            let at = thread_of(of.task, threads);
            owners.push(at);
            if of.length_ns > 0 && of.weight_ns > 0 && of.state != State::Idle {
                let to = of.since_ns.saturating_add(of.length_ns);
                threads[at].timed.push(TimedWait { from: of.since_ns, to, wait });
            }
        }
        owners
    }

    fn note_places(&mut self) {
        for (at, thread) in self.threads.iter().enumerate() {
            for timed in &thread.timed {
                self.timed.insert(timed.wait, *timed);
                if let Some(callsite) = self.profile.off_cpu.waits[timed.wait].callsite {
                    self.places.entry((at, callsite)).or_default().push(*timed);
                }
            }
        }
    }

    /// Weights beyond the timed lengths.
    fn add_sums(&mut self, owners: &[usize]) {
        let mut last_end: FxHashMap<(usize, State), u64> = FxHashMap::default();
        for (wait, (of, &owner)) in self.profile.off_cpu.waits.iter().zip(owners).enumerate() {
            let life = self.threads[owner].life();
            let before = last_end.insert((owner, of.state), of.since_ns.saturating_add(of.length_ns));
            let ns = self.summed_ns(wait);
            if ns == 0 || of.state == State::Idle {
                continue;
            }
            let (mut from, mut to) = interval_of_sum(of, before.unwrap_or(life.0), life.1);
            if self.threads[owner].free_ns(from, to) == 0 {
                (from, to) = life;
            }
            let rate = ns as f64 / self.threads[owner].free_ns(from, to).max(1) as f64;
            self.threads[owner].summed.push(SummedWaits { from, to, ns, rate: rate.min(1.0), wait });
        }
        for thread in &mut self.threads {
            thread.summed.rank_by_key(|sum| (sum.from, sum.wait));
        }
    }

    /// The part of a wait's weight beyond its own length.
    pub fn summed_ns(&self, wait: usize) -> u64 {
        let timed = self.timed.get(&wait).map_or(0, |timed| timed.to - timed.from);
        self.profile.off_cpu.waits[wait].weight_ns.saturating_sub(timed)
    }

    /// Intervals that show who ended waits like this one: its own, else those of the thread's waits at the same place,
    /// no more than a few. Each with its weight.
    pub fn shown_by(&self, thread: usize, wait: usize) -> Vec<TimedWait> {
        const MOST: usize = 32;
        if let Some(timed) = self.timed.get(&wait) {
            return vec![*timed];
        }
        let callsite = self.profile.off_cpu.waits[wait].callsite;
        let same = callsite.and_then(|callsite| self.places.get(&(thread, callsite)));
        let same = same.map_or(&[][..], |same| same.as_slice());
        same.iter().step_by(same.len().div_ceil(MOST).max(1)).copied().collect()
    }

    /// True if there are such intervals.
    pub fn is_shown(&self, thread: usize, wait: usize) -> bool {
        let of_place = |callsite| self.places.contains_key(&(thread, callsite));
        self.timed.contains_key(&wait) || self.profile.off_cpu.waits[wait].callsite.is_some_and(of_place)
    }

    /// True for a thread that another recorded thread made.
    pub fn is_child(&self, thread: usize) -> bool {
        let tid = self.profile.task(self.threads[thread].task()).tid.cast_unsigned();
        let births = &self.profile.off_cpu.births;
        births.iter().any(|birth| birth.tid == tid && self.by_tid.contains_key(&birth.parent_tid))
    }

    /// The thread that made this one by a moment, and lived before; `None` if that isn't known.
    pub fn maker(&self, thread: usize, now: u64) -> Option<usize> {
        let tid = self.profile.task(self.threads[thread].task()).tid.cast_unsigned();
        let births = &self.profile.off_cpu.births;
        let birth = births.iter().rev().find(|birth| birth.tid == tid && birth.time_ns <= now)?;
        let maker = self.thread_at(birth.parent_tid, now)?;
        (maker != thread && self.threads[maker].life().0 < now).then_some(maker)
    }

    /// The thread of a task, under whichever name; `None` if nothing is known of its time.
    pub fn thread_of(&self, task: TaskId) -> Option<usize> {
        let of = self.profile.task(task);
        self.by_task.get(&(of.process, of.tid)).copied()
    }

    /// The thread that had this id at a moment.
    pub fn thread_at(&self, tid: u32, moment: u64) -> Option<usize> {
        let all = self.by_tid.get(&tid)?;
        let lives = |at: &&usize| {
            let (from, to) = self.threads[**at].life();
            (from..=to).contains(&moment)
        };
        all.iter().find(lives).or(all.first().filter(|_| all.len() == 1)).copied()
    }
}

/// Where the waits are that this one represents beyond itself.
fn interval_of_sum(of: &Wait, before: u64, end: u64) -> (u64, u64) {
    match &of.sums {
        Some(_) if of.flags & flag::REST != 0 => (of.since_ns, end),
        Some(sums) if sums.since_ns > 0 => (sums.since_ns, of.since_ns),
        _ if of.length_ns == 0 => (before, end),
        _ => (before, of.since_ns),
    }
}
