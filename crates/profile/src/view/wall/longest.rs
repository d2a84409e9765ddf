//! The longest waits, each with its moment and who ended it.

use super::{Classes, Classified, NamedTarget, Part, WallOpts, related_name};
use crate::grow::GrownSum as _;
use crate::off_cpu::is_for_cpu;
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::view::ranking::RankRows as _;
use perfdata::off_cpu::flag;

/// One of the longest waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// The thread.
    pub task: TaskId,
    /// Part of the wall clock.
    pub part: Part,
    /// Begin, ns since the recording's first moment.
    pub at_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// Where.
    pub callsite: Option<CallsiteId>,
    /// Target of the wait; `None` if that has no name.
    pub target: Option<String>,
    /// Name and thread id of the waker, or of the thread that ran instead; `None` if not known.
    pub waker: Option<(String, u32)>,
    /// True if that one ran instead.
    pub is_instead: bool,
    /// It began before the recording, or did not end in it.
    pub open: bool,
}

/// ns of waits without a moment and a length of their own: they are known as the sum of a place.
pub(super) fn only_summed_ns(profile: &Profile, classes: &Classes, opts: &WallOpts) -> u64 {
    let is_meant = |c: &Classified<'_>| c.part != Part::Idle || opts.with_idle;
    let beyond = |c: Classified<'_>| c.wait.weight_ns.saturating_sub(c.wait.length_ns);
    classes.named(profile).filter(is_meant).map(beyond).grown_sum()
}

/// Those shown, longest first; `opts.longest` of them.
pub(super) fn longest(profile: &Profile, classes: &Classes, begin_ns: u64, opts: &WallOpts) -> Vec<LongWait> {
    let mut found: Vec<Classified<'_>> = classes
        .named(profile)
        .filter(|c| c.wait.length_ns > 0 && (c.part != Part::Idle || opts.with_idle))
        .collect();
    found.rank_by_key(|c| (std::cmp::Reverse(c.wait.length_ns), c.wait.since_ns, c.wait.task));
    found.truncate(opts.longest);
    let row = |c: Classified<'_>| LongWait {
        task: c.wait.task,
        part: c.part,
        at_ns: c.wait.since_ns.saturating_sub(begin_ns),
        length_ns: c.wait.length_ns,
        callsite: c.wait.callsite,
        target: NamedTarget::of(profile, c.wait, c.part).and_then(NamedTarget::known),
        waker: related_name(profile, c.wait),
        is_instead: is_for_cpu(c.wait),
        open: c.wait.flags & (flag::OPEN_LEFT | flag::OPEN_RIGHT) != 0,
    };
    found.into_iter().map(row).collect()
}
