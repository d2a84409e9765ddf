//! The wall clock as single moments, for views in which a reader selects a span of time.

use super::{Classes, Classified, Part, ThreadRow, WallOpts, functions, related_name, threads};
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::{Profile, TaskId};
use crate::table::{CallsiteId, StringId};
use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;

/// Time of one thread in one place and state, and when it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WallMoment {
    /// The thread.
    pub task: TaskId,
    /// Where; `None` without stack.
    pub callsite: Option<CallsiteId>,
    /// Part of the wall clock.
    pub part: Part,
    /// Time that it represents, ns.
    pub ns: u64,
    /// Begin of a wait, or time of a sample, ns of the recording's clock; `None` for a sum over the thread's life.
    pub since_ns: Option<u64>,
    /// Length of a wait that was kept, ns; 0 for samples and sums.
    pub length_ns: u64,
    /// The longest of the waits that it represents, ns; 0 for samples and where none is known.
    pub longest_ns: u64,
    /// Number of waits or samples that it represents.
    pub count: u64,
    /// Waker (its name), and from where it woke.
    pub waker: Option<(String, Option<CallsiteId>)>,
    /// Text of the goroutine's labels, where the session kept them ([`crate::session::Dimensions::labels`]).
    pub labels: Option<StringId>,
}

/// All of the wall clock shown by `opts`, moment by moment: running time scaled to its exact length, then waits in the
/// order of their ends. The sum is the whole of [`super::wall`] less what `min_block_ns` leaves out. Samples have times
/// only if the session kept them ([`crate::session::Dimensions::time_slice_ns`]).
#[must_use]
pub fn moments(profile: &Profile, opts: &WallOpts) -> Vec<WallMoment> {
    let classes = Classes::of(profile, opts);
    let rows = threads::rows(profile, &classes);
    let running = functions::running_cells(profile, &rows).into_iter().map(|(task, key, ns)| WallMoment {
        task,
        callsite: key.map(|key| key.callsite),
        part: Part::On,
        ns,
        since_ns: key.and_then(|key| profile.extra(key.extra).time_ns),
        length_ns: 0,
        longest_ns: 0,
        count: u64::from(key.is_some()),
        waker: None,
        labels: key.and_then(|key| profile.extra(key.extra).labels),
    });
    let waits = classes.named(profile).map(|Classified { wait, part }| WallMoment {
        task: wait.task,
        callsite: wait.callsite,
        part,
        ns: wait.weight_ns,
        since_ns: (wait.length_ns > 0).then_some(wait.since_ns),
        length_ns: wait.length_ns,
        longest_ns: wait.longest_ns(),
        count: wait.stands_for(),
        waker: related_name(profile, wait)
            .map(|(name, _)| (name, wait.other.and_then(|other| other.callsite))),
        labels: wait.labels,
    });
    let kernel_idle = kernel_idle(&rows, &classes, profile);
    running.chain(waits).chain(kernel_idle).filter(|moment| moment.ns > 0).collect()
}

/// Idle time that is known only as a sum of a thread, such as that of kernel threads that never ran.
fn kernel_idle(rows: &[ThreadRow], classes: &Classes, profile: &Profile) -> Vec<WallMoment> {
    let mut known: FxHashMap<TaskId, u64> = FxHashMap::default();
    for class in classes.named(profile).filter(|class| class.wait.state == State::Idle) {
        known.entry(class.wait.task).or_default().grow(class.wait.weight_ns);
    }
    let moment = |row: &ThreadRow| {
        let listed: u64 = row.tasks.iter().filter_map(|task| known.get(task)).copied().grown_sum();
        let task = *row.tasks.first()?;
        let ns = row.kernel_idle_ns.saturating_sub(listed);
        Some(WallMoment {
            task,
            callsite: None,
            part: Part::Idle,
            ns,
            since_ns: None,
            length_ns: 0,
            longest_ns: 0,
            count: 0,
            waker: None,
            labels: None,
        })
    };
    rows.iter().filter_map(moment).collect()
}
