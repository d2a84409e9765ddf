//! The critical path of a run, in numbers that rules judge by.

use super::cause::activity_words;
use super::facts::running_samples;
use super::{HotFunction, called};
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::{Profile, TaskId};
use crate::view::blame::{
    BlameCause, BlameEnd, BlamedFunction, CriticalPath, blamed_functions, causes, thread_name,
};
use crate::view::ranking::RankRows as _;
use crate::view::wall::{Part, part_name};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of a run's length: the path from its begin to its end through whoever was waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathFacts {
    /// Times that it passes from one thread to another.
    pub handovers: usize,
    /// Threads by name with their share of it, 0 to 1, most first: `3 threads named worker`.
    pub threads: Vec<(String, f64)>,
    /// The thread with most of it as in a sentence, `feeder` or `the main thread (node)`, and its share.
    pub most_of_one: (String, f64),
    /// Share of it on the CPU, or wanting it.
    pub on: f64,
    /// The part of that in which it wants a CPU and has none.
    pub queued: f64,
    /// The rest: states with their shares, largest first: `timer`, 0.38.
    pub asleep: Vec<(&'static str, f64)>,
    /// The function with most running time on it; `None` if that has no name.
    pub top: Option<PathTop>,
    /// The wait with most of it, not one for a CPU, and its share: `feeder sleeps in rest() (chain.c:63)`; `None` below
    /// a fifth.
    pub wait: Option<(String, f64)>,
}

/// The function that a path spends most running time in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathTop {
    /// Name of its thread; `None` where several threads have their part of it.
    pub thread: Option<String>,
    /// As in a sentence: `crunch()`.
    pub function: String,
    /// `chain.c:48`; `None` if not known.
    pub line: Option<String>,
    /// Share of the path in it and what it calls: an upper bound of how much shorter the run were without it.
    pub bound: f64,
    /// About so many samples show it.
    pub samples: u64,
}

impl PathTop {
    /// Whether the run would be much shorter without it.
    pub(super) fn is_large(&self) -> bool {
        const LEAST: f64 = 0.1;
        const LEAST_SAMPLES: u64 = 10;
        self.bound >= LEAST && self.samples >= LEAST_SAMPLES
    }

    /// Without the thread's name if several threads of the path have it.
    fn with_one_thread(mut self, profile: &Profile, by_task: &BTreeMap<TaskId, u64>) -> Self {
        self.thread = self.thread.filter(|name| threads_named(profile, by_task, name).nth(1).is_none());
        self
    }

    /// The bound of a path, if it is worth a change; else that no function has much.
    pub(super) fn most_words(&self) -> String {
        match self.is_large() {
            true => self.bound_words(),
            false if self.bound >= 0.1 => "too few samples to name a function".to_owned(),
            false => format!("no function has more than {:.0} % of the critical path", self.bound * 100.0),
        }
    }

    /// `the run would be at most 58 % shorter without crunch() (chain.c:48) of thread feeder`.
    pub(super) fn bound_words(&self) -> String {
        let Self { thread, function, line, bound, .. } = self;
        let function = super::called_at_line(function, line.as_deref());
        let of = thread.as_ref().map_or_else(String::new, |thread| format!(" of thread {thread}"));
        format!("the run would be at most {:.0} % shorter without {function}{of}", bound * 100.0)
    }
}

/// Waits and samples that are followed within a fraction of a second.
const MOST: usize = 200_000;

/// Whether there are few enough waits in a recording to follow all of them, and times of samples to follow them by.
pub(super) fn can_follow(profile: &Profile) -> bool {
    let off_cpu = &profile.off_cpu;
    !off_cpu.seen_running.is_empty() && off_cpu.waits.len() + off_cpu.seen_running.len() <= MOST
}

impl PathFacts {
    /// About the path to the end of the main thread; `None` if its times aren't known. `below` is the program's own function in
    /// which most of the CPU time passes, for it or for what it calls.
    pub(super) fn of(profile: &Profile, path: &CriticalPath, below: Option<&HotFunction>) -> Option<Self> {
        if path.parts.total_ns == 0 {
            return None;
        }
        let rows = causes(profile, &path.parts);
        let by_task = ns_by_task(path);
        let share = |of: fn(&BlameCause) -> bool| {
            rows.iter().filter(|row| of(row)).map(|row| row.ns).grown_sum() as f64
                / path.parts.total_ns as f64
        };
        Some(Self {
            handovers: handovers(path),
            threads: threads(profile, &by_task, path.parts.total_ns),
            most_of_one: most_of_one(profile, &by_task, path.parts.total_ns),
            on: share(wants_cpu),
            queued: share(is_queued),
            asleep: asleep(&rows, path.parts.total_ns),
            top: top(profile, path, &rows, below).map(|top| top.with_one_thread(profile, &by_task)),
            wait: wait(path, &rows),
        })
    }
}

fn wants_cpu(row: &BlameCause) -> bool {
    matches!(row.end, BlameEnd::Ran | BlameEnd::RanUnsampled) || is_queued(row)
}

fn is_queued(row: &BlameCause) -> bool {
    matches!(row.end.without_name(), BlameEnd::Waited(Part::Runnable | Part::Preempted))
}

fn asleep(rows: &[BlameCause], total_ns: u64) -> Vec<(&'static str, f64)> {
    let mut by_state = BTreeMap::<&'static str, u64>::new();
    for row in rows.iter().filter(|row| !wants_cpu(row)) {
        let state = match row.end.without_name() {
            BlameEnd::Waited(part) | BlameEnd::WakerUnknown(part) => part_name(part),
            _ => "waits for unknown threads",
        };
        by_state.entry(state).or_default().grow(row.ns);
    }
    let mut shares: Vec<_> =
        by_state.into_iter().map(|(state, ns)| (state, ns as f64 / total_ns as f64)).collect();
    shares.rank_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

fn handovers(path: &CriticalPath) -> usize {
    path.pieces.windows(2).filter(|pair| pair[0].task != pair[1].task).count()
}

fn ns_by_task(path: &CriticalPath) -> BTreeMap<TaskId, u64> {
    let mut by_task: BTreeMap<TaskId, u64> = BTreeMap::new();
    for piece in &path.pieces {
        *by_task.entry(piece.task).or_default() += piece.to_ns - piece.from_ns;
    }
    by_task
}

fn threads(profile: &Profile, by_task: &BTreeMap<TaskId, u64>, total_ns: u64) -> Vec<(String, f64)> {
    let mut by_name: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (&task, task_ns) in by_task {
        let (ns, tasks) = by_name.entry(thread_name(profile, task)).or_default();
        (*ns, *tasks) = (*ns + task_ns, *tasks + 1);
    }
    // In a single process the first thread would be called as the program is.
    let pids: BTreeSet<i32> = by_task.keys().map(|&task| profile.task(task).pid).collect();
    let first = by_task.keys().find(|task| profile.task(**task).pid == profile.task(**task).tid);
    let main = first.filter(|_| pids.len() == 1 && by_task.len() > 1);
    let main = main.map(|&task| thread_name(profile, task));
    let label = |name: &str, count: usize| match count {
        1 if main == Some(name) => "the main thread".to_owned(),
        1 => name.to_owned(),
        _ => format!("{count} threads named {name}"),
    };
    let shares =
        by_name.into_iter().map(|(name, (ns, tasks))| (label(name, tasks), ns as f64 / total_ns as f64));
    let mut shares: Vec<(String, f64)> = shares.collect();
    shares.rank_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// The path's threads of this name.
fn threads_named(
    profile: &Profile,
    by_task: &BTreeMap<TaskId, u64>,
    name: &str,
) -> impl Iterator<Item = TaskId> {
    by_task.keys().copied().filter(move |task| thread_name(profile, *task) == name)
}

fn most_of_one(profile: &Profile, by_task: &BTreeMap<TaskId, u64>, total_ns: u64) -> (String, f64) {
    let most = by_task.iter().max_by_key(|(_, ns)| **ns);
    most.map_or_else(Default::default, |(&task, &ns)| {
        let (name, of) = (thread_name(profile, task), profile.task(task));
        // A program's first thread has its name: that one thread, not the program, is meant.
        let is_first = |other: &TaskId| profile.task(*other).pid == profile.task(*other).tid;
        let is_unique = threads_named(profile, by_task, name).nth(1).is_none();
        let is_alone = threads_named(profile, by_task, name).filter(is_first).nth(1).is_none();
        let name = match of.pid == of.tid {
            true if is_alone => format!("the main thread ({name})"),
            true => format!("the main thread ({name} {})", of.pid),
            false if is_unique => name.to_owned(),
            false => format!("thread {name} {}", of.tid),
        };
        (name, ns as f64 / total_ns as f64)
    })
}

fn wait(path: &CriticalPath, rows: &[BlameCause]) -> Option<(String, f64)> {
    const LEAST: f64 = 0.2;
    let row = rows.iter().find(|row| !matches!(row.end, BlameEnd::Ran | BlameEnd::RanUnsampled))?;
    let share = row.ns as f64 / path.parts.total_ns as f64;
    let does = activity_words(&row.end, &row.function, row.line.as_deref())?;
    (share >= LEAST).then(|| (format!("{} {does}", row.thread), share))
}

/// A function of the program that calls others is named in place of the one that runs if so much more of the path is its.
const MORE_OF_PATH: f64 = 0.05;

/// The function that runs most, or the one below which that and more of the same threads passes.
fn top(
    profile: &Profile,
    path: &CriticalPath,
    rows: &[BlameCause],
    below: Option<&HotFunction>,
) -> Option<PathTop> {
    let mut ran = BTreeMap::<&str, u64>::new();
    for row in rows.iter().filter(|row| row.end == BlameEnd::Ran) {
        ran.entry(&row.function).or_default().grow(row.ns);
    }
    let (most, _) = ran.into_iter().max_by_key(|(_, ns)| *ns)?;
    let row = rows.iter().find(|row| row.end == BlameEnd::Ran && row.function == most)?;
    let functions = blamed_functions(profile, &path.parts);
    let found = |function: &str| Shared::of(function, &functions, path.parts.total_ns);
    let leaf = found(most)?;
    let own = below.filter(|below| below.calls_most).and_then(|below| Some((below, found(&below.name)?)));
    let (function, line, of) = match own.filter(|(_, of)| of.share > leaf.share + MORE_OF_PATH) {
        Some((below, of)) => (called(&below.name), below.at.clone(), of),
        None => (called(most), row.line.clone(), leaf),
    };
    let samples = (of.share * running_samples(profile) as f64) as u64;
    Some(PathTop { thread: of.thread, function, line, bound: of.share, samples })
}

/// A function's part of the path, in all threads.
struct Shared {
    share: f64,
    /// The only thread, or the only one with more than a little of it.
    thread: Option<String>,
}

impl Shared {
    fn of(function: &str, functions: &[BlamedFunction], total_ns: u64) -> Option<Self> {
        /// With so much of the function's part, one thread is named for it.
        const NEARLY_ALL: f64 = 0.9;
        let rows = || functions.iter().filter(|row| row.function == function);
        let whole_ns = rows().map(|row| row.ns).grown_sum();
        let most = rows().max_by_key(|row| row.ns)?;
        let thread = (most.ns as f64 >= whole_ns as f64 * NEARLY_ALL).then(|| most.thread.clone());
        Some(Self { share: whole_ns as f64 / total_ns as f64, thread })
    }
}
