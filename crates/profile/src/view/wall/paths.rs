//! The wall clock as paths with weights, for flame graphs.

use super::{Classes, Classified, NamedTarget, Part, WallOpts, functions, related_name, threads};
use crate::off_cpu::WaitReason;
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;

/// Time of one thread in one place and state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WallPath {
    /// The thread.
    pub task: TaskId,
    /// Where; `None` without stack.
    pub callsite: Option<CallsiteId>,
    /// Part of the wall clock.
    pub part: Part,
    /// How long, ns.
    pub ns: u64,
    /// The sum of short waits that were not recorded one by one.
    pub is_rest: bool,
    /// Waker (its name), and from where it woke.
    pub waker: Option<(String, Option<CallsiteId>)>,
    /// Target of the wait; `None` if that has no name.
    pub target: Option<String>,
}

/// All of the wall clock shown by `opts`: running time scaled to its exact length, then waits in the order of their
/// ends. The sum is the whole of [`super::wall`] less what `min_block_ns` leaves out.
#[must_use]
pub fn paths(profile: &Profile, opts: &WallOpts) -> Vec<WallPath> {
    let classes = Classes::of(profile, opts);
    let rows = threads::rows(profile, &classes);
    let running = functions::running(profile, &rows).into_iter().map(|(task, callsite, ns)| WallPath {
        task,
        callsite,
        part: Part::On,
        ns,
        is_rest: false,
        waker: None,
        target: None,
    });
    let waits = classes.named(profile).map(|Classified { wait, part }| WallPath {
        task: wait.task,
        callsite: wait.callsite,
        part,
        ns: wait.weight_ns,
        is_rest: wait.is_short_rest()
            && wait.callsite.is_none()
            && part != Part::Blocked(WaitReason::Unknown),
        waker: related_name(profile, wait)
            .map(|(name, _)| (name, wait.other.and_then(|other| other.callsite))),
        target: NamedTarget::of(profile, wait, part).and_then(NamedTarget::known),
    });
    running.chain(waits).filter(|path| path.ns > 0).collect()
}
