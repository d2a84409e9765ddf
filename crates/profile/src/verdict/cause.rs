//! Final cause of the main thread's waits: a function of another thread.

use super::called;
use crate::off_cpu::WaitReason;
use crate::profile::{Profile, TaskId};
use crate::view::blame::{BlameCause, BlameEnd, CriticalPath, blame, blamed_functions, causes, thread_name};
use crate::view::wall::Part;

/// The function of another thread that most of a thread's time went to, through its waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitCause {
    /// The thread whose time it is, in words: `the main thread (chain)`, `thread feeder`.
    pub root: String,
    /// Activity of the other thread, in words: `feeder computes in crunch() (chain.c:31)`.
    pub text: String,
    /// Share of the root thread's wall-clock time, 0 to 1.
    pub share: f64,
    /// An upper bound of how much shorter the run were without that function, 0 to 1; 0 if it isn't known.
    pub bound: f64,
}

impl WaitCause {
    /// Cause in a recording with the times of its samples; `None` if nothing has a large share. `path` is the critical path
    /// to the end of the main thread, asked for where there is a cause.
    #[must_use]
    pub fn of<'p>(profile: &Profile, path: &dyn Fn() -> &'p CriticalPath) -> Option<Self> {
        const LEAST: f64 = 0.2;
        let blame = blame(profile, None);
        let root = *blame.roots.first()?;
        let rows = causes(profile, &blame);
        let top = rows.iter().find(|row| !row.end.lacks_evidence() && in_words(row).is_some())?;
        let share = top.ns as f64 / blame.total_ns.max(1) as f64;
        let is_of_another = top.chain.len() > 1 && !top.function.is_empty();
        (is_of_another && share >= LEAST).then_some(())?;
        let path = path();
        let mut functions = blamed_functions(profile, &path.parts).into_iter();
        let of = functions.find(|of| of.thread == top.thread && of.function == top.function);
        let bound = of.map_or(0.0, |of| of.ns as f64 / path.parts.total_ns.max(1) as f64);
        let culprit = match top.thread == thread_name(profile, root) {
            true => culprit_words(top),
            false => top.thread.clone(),
        };
        let text = format!("{culprit} {}", in_words(top)?);
        Some(Self { root: root_words(profile, root), text, share, bound })
    }

    /// `because feeder computes in crunch() (chain.c:31); the run would be at most 55 % shorter without it`. Where no bound
    /// is known: `…, 52 % of the time of the main thread (chain)`.
    #[must_use]
    pub fn because(&self) -> String {
        match self.bound {
            0.0 => format!("because {}, {:.0} % of the time of {}", self.text, self.share * 100.0, self.root),
            bound => format!(
                "because {}; the run would be at most {:.0} % shorter without it",
                self.text,
                bound * 100.0
            ),
        }
    }
}

/// A main thread often has the name of its program, which alone would not show that a thread is meant.
fn root_words(profile: &Profile, root: TaskId) -> String {
    let (task, name) = (profile.task(root), thread_name(profile, root));
    if task.tid == task.pid { format!("the main thread ({name})") } else { format!("thread {name}") }
}

/// The threads of a cause that have the name of the thread that waits: `thread 4711`, or `chain (in 3 threads)`.
fn culprit_words(row: &BlameCause) -> String {
    match (row.tids.first(), row.tids.len()) {
        (Some(tid), 1) => format!("thread {tid}"),
        (_, count) => format!("{} (in {count} threads)", row.thread),
    }
}

/// Activity; `None` for waits for a CPU, which aren't a thread's own doing.
fn in_words(row: &BlameCause) -> Option<String> {
    activity_words(&row.end, &row.function, row.line.as_deref())
}

/// Activity of a thread: `sleeps in rest() (chain.c:55)`; `None` for waits for a CPU, which aren't its own doing.
pub(super) fn activity_words(end: &BlameEnd, function: &str, line: Option<&str>) -> Option<String> {
    let does = match &end.without_name() {
        BlameEnd::Ran => "computes".to_owned(),
        BlameEnd::Waited(Part::Blocked(WaitReason::Timer)) => "sleeps".to_owned(),
        BlameEnd::Waited(Part::Blocked(reason)) => format!("waits ({})", reason.name()),
        _ => return None,
    };
    let target = end.name().map_or_else(String::new, |target| format!(" for {target}"));
    if function.is_empty() {
        return Some(format!("{does}{target}"));
    }
    let line = line.map_or_else(String::new, |line| format!(" ({line})"));
    Some(format!("{does}{target} in {}{line}", called(function)))
}
