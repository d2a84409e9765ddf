//! Blame: what the waits of a thread were for.
//!
//! Each wait's time is spread over what its waker did between the wait's begin and the wake-up: its running by its
//! samples, its own waits again over what their wakers did. So the whole is one thread's wall-clock time, and
//! functions of other threads have the part of it that they held the thread up for.
//!
//! ```text
//!   main     |■■|··········· cond_wait ···········|■■|
//!   worker        |■|········ read ·········|■■■■■^          main ← worker ■■■■■
//!   feeder         |■■■■ crunch ■■■■|·usleep·^               main ← worker ← feeder: crunch, sleep
//! ```
//! Waits that are known only as the sum of a place count as the sampled waits of that place do.
//! Conservation: Σ paths = Σ of the thread's states, to the nanosecond. Weight without evidence has a [`BlameEnd`] that
//! says so.

mod causes;
mod chains;
mod critical;
mod end_names;
mod frames;
pub(crate) mod split;
mod stretches;
#[cfg(test)]
mod tests;
pub(crate) mod timelines;
pub(crate) mod walk;

pub use self::causes::{
    BlameCause, BlamedFunction, WaitEdge, blamed_functions, causes, end_function, thread_name, wait_edges,
};
pub use self::chains::{BlameChain, ChainState, NamedTime, blame_chains};
pub use self::critical::{CriticalOpts, CriticalPath, CriticalPiece, critical_path, critical_strip};
pub use self::end_names::{end_words, state_words};
pub use self::frames::{end_frames, waiting_frames};
pub use self::stretches::{PathStretch, StretchPart};
use self::timelines::Timelines;
use self::walk::Walk;
use crate::grow::GrownSum as _;
use crate::off_cpu::WaitReason;
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::view::ranking::RankRows as _;
use crate::view::wall::{Part, WallOpts, is_called, wall};

/// How a chain of waits ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlameEnd {
    /// The thread ran; its stack is that of a sample.
    Ran,
    /// It ran, without a sample in these moments: the stack is that of the wake-up; `None` where no stack is known.
    RanUnsampled,
    /// It waited, for a reason of its own: a timer, a disk, a CPU, the network.
    Waited(Part),
    /// The same for something with a name: a file, a socket.
    WaitedFor(Part, String),
    /// It was preempted by the thread of this name.
    PreemptedBy(String),
    /// It waited for a thread of this name, which is not in the recording.
    NotRecorded(String),
    /// It waited, and the recording doesn't show who ended it.
    WakerUnknown(Part),
    /// It waited for a thread of the chain before it.
    Knot(TaskId),
    /// The chain has more waits than are followed.
    TooDeep,
    /// It waited for another thread, in a chain with too little of the time to be followed.
    TooLittle,
    /// The thread waited for did not live yet.
    Unborn,
}

impl BlameEnd {
    /// True for weight whose cause the recording doesn't show.
    #[must_use]
    pub fn lacks_evidence(&self) -> bool {
        matches!(
            self,
            Self::RanUnsampled | Self::WakerUnknown(_) | Self::TooDeep | Self::TooLittle | Self::Unborn
        ) || *self == Self::Waited(Part::Blocked(WaitReason::Unknown))
    }

    /// True for running, and for waits for a CPU.
    fn is_active(&self) -> bool {
        let runs = matches!(self, Self::Ran | Self::RanUnsampled | Self::PreemptedBy(_));
        let is_of_cpu = |part: &Part| matches!(part, Part::Runnable | Part::Preempted);
        runs || matches!(self, Self::Waited(part) | Self::WaitedFor(part, _) if is_of_cpu(part))
    }

    /// The same without the name of what was waited for, or of the thread that ran instead.
    #[must_use]
    pub fn without_name(&self) -> Self {
        match self {
            Self::PreemptedBy(_) => Self::Waited(Part::Preempted),
            Self::WaitedFor(part, _) => Self::Waited(*part),
            end => end.clone(),
        }
    }

    /// That name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::PreemptedBy(name) | Self::WaitedFor(_, name) => Some(name),
            _ => None,
        }
    }
}

/// A link of a chain: a thread's wait, and the thread that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlameLink {
    /// The link before; `None` after the thread itself.
    pub before: Option<BlameLinkId>,
    /// Stack of the wait; `None` without stack.
    pub sleeper: Option<CallsiteId>,
    /// The thread that was waited for.
    pub waited_for: TaskId,
}

/// Index into [`Blame::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlameLinkId(u32);

/// Time of the thread, by where it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlamePath {
    /// The thread whose time it is.
    pub root: TaskId,
    /// The last link of the chain; `None` for the thread's own doing.
    pub link: Option<BlameLinkId>,
    /// Activity of the last thread of the chain; `None` without stack.
    pub callsite: Option<CallsiteId>,
    /// How the chain ends.
    pub end: BlameEnd,
    /// How long, ns.
    pub ns: u64,
}

/// Time of some threads, by where it went.
#[derive(Clone, Debug, Default)]
pub struct Blame {
    /// The threads, as tasks.
    pub roots: Vec<TaskId>,
    /// Σ wall-clock time of `roots`, ns. The paths add up to it.
    pub total_ns: u64,
    /// By time, most first.
    pub paths: Vec<BlamePath>,
    links: Vec<BlameLink>,
}

impl Blame {
    pub(crate) fn of_walk(roots: Vec<TaskId>, walk: Walk<'_, '_>) -> Self {
        let (links, mut paths) = walk.finish();
        paths.rank_by_key(|path| std::cmp::Reverse(path.ns));
        let total_ns = paths.iter().map(|path| path.ns).grown_sum();
        Self { roots, total_ns, paths, links }
    }

    /// True if half of the time are a thread's waits for events or times that no recorded thread ended, as those of a
    /// server's first process and of a thread that polls: they explain nothing. Waits of `but` don't count.
    #[must_use]
    pub fn mostly_polls(&self, but: Option<TaskId>) -> bool {
        let polls = |path: &&BlamePath| {
            let is_poll = matches!(
                path.end,
                BlameEnd::Waited(Part::Blocked(WaitReason::Poll | WaitReason::Timer))
                    | BlameEnd::WaitedFor(Part::Blocked(WaitReason::Poll | WaitReason::Timer), _)
            );
            is_poll && but != Some(self.culprit(path))
        };
        let waits_ns = self.paths.iter().filter(polls).map(|path| path.ns).grown_sum();
        self.total_ns > 0 && u128::from(waits_ns) * 2 >= u128::from(self.total_ns)
    }

    /// The links of a path, the thread's own wait first.
    #[must_use]
    pub fn links(&self, path: &BlamePath) -> Vec<BlameLink> {
        let mut at = path.link;
        let next = || {
            let link = at.and_then(|BlameLinkId(id)| self.links.get(id as usize).copied());
            at = link.and_then(|link| link.before);
            link
        };
        let mut links: Vec<BlameLink> = std::iter::from_fn(next).collect();
        links.reverse();
        links
    }

    /// The thread that did what the path ends with.
    #[must_use]
    pub fn culprit(&self, path: &BlamePath) -> TaskId {
        let link = path.link.and_then(|BlameLinkId(id)| self.links.get(id as usize));
        link.map_or(path.root, |link| link.waited_for)
    }

    /// Time whose cause the recording doesn't show, ns.
    #[must_use]
    pub fn unknown_ns(&self) -> u64 {
        self.paths.iter().filter(|path| path.end.lacks_evidence()).map(|path| path.ns).grown_sum()
    }
}

/// Computes it for the threads of this name or id. Without one, for the main thread of the recorded program: of the
/// processes that no recorded thread made, the first one, and of several that came at once the one with most active
/// time.
#[must_use]
pub fn blame(profile: &Profile, thread: Option<&str>) -> Blame {
    let lines = Timelines::of(profile);
    let roots = roots(&lines, thread);
    let whole_ns = roots.iter().map(|&root| lines.threads[root].total_ns()).grown_sum();
    let mut walk = Walk::new(&lines, Walk::leads(&lines), whole_ns);
    roots.iter().for_each(|&root| walk.add_root(root));
    Blame::of_walk(roots.iter().map(|&root| lines.threads[root].task()).collect(), walk)
}

/// Indices of the threads whose time is asked for.
fn roots(lines: &Timelines<'_>, thread: Option<&str>) -> Vec<usize> {
    let profile = lines.profile;
    let all = 0..lines.threads.len();
    if let Some(wanted) = thread {
        let is = |&task: &TaskId| is_called(profile, task, wanted);
        return all.filter(|&at| lines.threads[at].tasks.iter().any(is)).collect();
    }
    main_thread(lines).into_iter().collect()
}

fn main_thread(lines: &Timelines<'_>) -> Option<usize> {
    /// Threads found when recording began have their clocks started one after another.
    const AT_ONCE_NS: u64 = 1_000_000;
    let view = wall(lines.profile, &WallOpts { never_empty: true, ..WallOpts::default() });
    let active = |at: usize| {
        let tasks = &lines.threads[at].tasks;
        let row = view.threads.iter().find(|row| row.tasks.iter().any(|task| tasks.contains(task)));
        row.map_or(0, |row| row.times.active_ns())
    };
    let is_main = |at: &usize| {
        let of = lines.profile.task(lines.threads[*at].task());
        of.pid == of.tid
    };
    let with_life = || (0..lines.threads.len()).filter(|&at| !lines.threads[at].totals.is_empty());
    let mains: Vec<usize> = with_life().filter(is_main).filter(|&at| !lines.is_child(at)).collect();
    let of = if mains.is_empty() { with_life().collect() } else { mains };
    let first = of.iter().map(|&at| lines.threads[at].life().0).min()?;
    let early = of.into_iter().filter(|&at| lines.threads[at].life().0 <= first.saturating_add(AT_ONCE_NS));
    early.max_by_key(|&at| (active(at), std::cmp::Reverse(at)))
}
