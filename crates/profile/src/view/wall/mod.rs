//! The wall-clock view: on-CPU, runnable and blocked time in one scale, per thread and per function.
//!
//! ```text
//!   waits ─ classify (reason, idle?) ─┬─ threads    on + runnable + preempted + Σ reasons = life
//!   CPU samples, scaled to exact ns ──┼─ functions  self and children, by state
//!                                     └─ histograms, longest waits
//! ```
//! Conservation: the whole is Σ threads × life; nanoseconds without stack have a row of their own.

mod classes;
mod functions;
mod histogram;
mod idle;
mod idle_groups;
mod label_times;
mod longest;
mod moments;
mod named_target;
mod own_code;
mod paths;
mod place_texts;
mod ready_member;
mod related;
mod requested_file;
mod state_names;
mod targets;
mod thread_starts;
mod threads;
mod wait_places;
mod wait_rows;
mod waker;

use crate::grow::{Grow as _, GrownSum as _};
pub use crate::machine::c_library::is_c_library;
pub(crate) use crate::machine::c_library::is_thread_start;
pub(crate) use classes::Classes;
use classes::Reasons;
pub use classes::{Classified, is_called};
pub use functions::FunctionRow;
pub use histogram::Histogram;
pub use idle_groups::{IdleGroup, idle_groups};
pub use label_times::{LabelTimes, label_times};
pub use longest::LongWait;
pub use moments::{WallMoment, moments};
pub use named_target::NamedTarget;
pub(crate) use named_target::{CLOSED, members_in, waits_for};
pub(crate) use own_code::own_code;
pub use paths::{WallPath, paths};
pub use place_texts::{place_text, place_texts};
pub(crate) use ready_member::{HELD_BACK, is_deliverer};
pub use related::{part_words, ran_instead, related_name, runnable_words};
pub use state_names::{part_name, state_frame};
pub use targets::{WaitTarget, named_words};
pub(crate) use thread_starts::unnamed_starts;
pub use threads::ThreadRow;
pub use wait_places::WaitPlace;
pub use wait_rows::{WaitRow, WaitRows, place_rows, target_rows};
pub use waker::{causing_frames, waker_frames};
pub(crate) use waker::{interrupt_of, is_interrupt_entry, is_of_kernel, other_name};

use crate::off_cpu::{OffCpuSource, RelatedThread, WaitReason, is_for_cpu};
use crate::profile::{Profile, TaskId};
use crate::table::{CallsiteId, FrameId};
use perfdata::off_cpu::State;
use std::collections::BTreeMap;

/// Threads and waits to show.
#[derive(Clone, Debug, Default)]
pub struct WallOpts {
    /// Only threads with this name, or this thread id.
    pub thread: Option<String>,
    /// Leave out shorter waits (their time still counts in the totals).
    pub min_block_ns: u64,
    /// Count idle waits like all others.
    pub with_idle: bool,
    /// Where all threads are idle, their waits count like others: a view of them is never empty.
    pub never_empty: bool,
    /// How many of the longest waits to keep.
    pub longest: usize,
}

/// A share of time: ns by what the thread was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Running.
    pub on_ns: u64,
    /// Woken, waiting for a CPU.
    pub runnable_ns: u64,
    /// Another thread ran instead.
    pub preempted_ns: u64,
    /// Blocked, by reason; idle waits are not in here.
    pub blocked_ns: BTreeMap<WaitReason, u64>,
    /// Waiting for work, nothing to do.
    pub idle_ns: u64,
}

impl Times {
    /// Blocked for any reason, idle left out.
    #[must_use]
    pub fn blocked_total_ns(&self) -> u64 {
        self.blocked_ns.values().copied().grown_sum()
    }

    /// All but idle.
    #[must_use]
    pub fn active_ns(&self) -> u64 {
        [self.on_ns, self.runnable_ns, self.preempted_ns, self.blocked_total_ns()].into_iter().grown_sum()
    }

    /// All.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.active_ns().saturating_add(self.idle_ns)
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.on_ns.grow(other.on_ns);
        self.runnable_ns.grow(other.runnable_ns);
        self.preempted_ns.grow(other.preempted_ns);
        self.idle_ns.grow(other.idle_ns);
        for (&reason, ns) in &other.blocked_ns {
            self.blocked_ns.entry(reason).or_default().grow(*ns);
        }
    }

    /// Adds ns of one state.
    pub fn add_part(&mut self, part: Part, ns: u64) {
        match part {
            Part::On => self.on_ns.grow(ns),
            Part::Runnable => self.runnable_ns.grow(ns),
            Part::Preempted => self.preempted_ns.grow(ns),
            Part::Idle => self.idle_ns.grow(ns),
            Part::Blocked(reason) => self.blocked_ns.entry(reason).or_default().grow(ns),
        }
    }
}

/// One part of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Running.
    On,
    /// Woken, waiting for a CPU.
    Runnable,
    /// Another thread ran instead.
    Preempted,
    /// Blocked.
    Blocked(WaitReason),
    /// Waiting for work.
    Idle,
}

/// The whole view.
#[derive(Clone, Debug, Default)]
pub struct Wall {
    /// Source of the waits; `None` if the recording has no data about time off the CPU.
    pub source: Option<OffCpuSource>,
    /// Σ over threads.
    pub whole: Times,
    /// By time, most first; idle threads last.
    pub threads: Vec<ThreadRow>,
    /// By children time, most first.
    pub functions: Vec<FunctionRow>,
    /// Lengths of run-queue waits (wake-up to running).
    pub run_queue: Histogram,
    /// Lengths of the times another thread ran instead of one that could.
    pub preempted: Histogram,
    /// Lengths of waits by reason.
    pub waits: BTreeMap<WaitReason, Histogram>,
    /// Waits by stack, most time first.
    pub places: Vec<WaitPlace>,
    /// Waits by what they were for, most time first; those for no descriptor are left out.
    pub targets: Vec<WaitTarget>,
    /// The longest waits, longest first; idle ones only if requested.
    pub longest: Vec<LongWait>,
    /// ns of waits that could be in `longest`, but are known only in sums.
    pub only_summed_ns: u64,
    /// Times threads left a CPU.
    pub switches: u64,
    /// First moment, ns of the recording's clock.
    pub begin_ns: u64,
    /// From the first to the last moment of any thread.
    pub wall_ns: u64,
}

impl Wall {
    /// True if threads were seen to run and to wait. Without switches in it, a recording shows only their begins and
    /// ends.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        match self.source {
            None => false,
            Some(OffCpuSource::SwitchRecords) => self.whole.on_ns > 0,
            Some(_) => !self.threads.is_empty(),
        }
    }
}

/// Computes the view.
#[must_use]
pub fn wall(profile: &Profile, opts: &WallOpts) -> Wall {
    let classes = Classes::of(profile, opts);
    let mut wall = Wall { source: profile.off_cpu.source, ..Wall::default() };
    wall.begin_ns = profile.off_cpu.totals.iter().map(|t| t.start_ns).min().unwrap_or(0);
    let end_ns = profile.off_cpu.totals.iter().map(|t| t.end_ns).max().unwrap_or(0);
    wall.wall_ns = end_ns.saturating_sub(wall.begin_ns);
    wall.threads = threads::rows(profile, &classes);
    thread_starts::name_by_start(profile, &classes, &mut wall.threads);
    for row in &wall.threads {
        wall.whole.add(&row.times);
        wall.switches.grow(row.switches);
    }
    wall.functions = functions::rows(profile, &classes, &wall.threads);
    for Classified { wait, part } in classes.iter(profile) {
        match part {
            _ if wait.is_short_rest() => {}
            Part::Runnable => wall.run_queue.add_wait(wait),
            Part::Preempted => wall.preempted.add_wait(wait),
            Part::Blocked(reason) => wall.waits.entry(reason).or_default().add_wait(wait),
            _ => {}
        }
    }
    exact_queues(&mut wall, profile);
    wall.places = wait_places::places(profile, &classes, opts);
    wall.targets = targets::targets(profile, &classes, opts);
    wall.longest = longest::longest(profile, &classes, wall.begin_ns, opts);
    wall.only_summed_ns = longest::only_summed_ns(profile, &classes, opts);
    wall
}

/// Replaces sampled run-queue waits with exact counts, if every thread's waits for a CPU were counted one by one.
fn exact_queues(wall: &mut Wall, profile: &Profile) {
    let off_cpu = &profile.off_cpu;
    if off_cpu.queues.is_empty() || off_cpu.queues.len() < off_cpu.totals.len() {
        return;
    }
    let sum = |which: usize, state: State| {
        let total_ns = off_cpu.totals.iter().map(|totals| totals.of(state)).grown_sum();
        Histogram::of_counts(off_cpu.queues.iter().map(|(_, of)| &of[which]), total_ns)
    };
    wall.run_queue = sum(0, State::Runnable);
    wall.preempted = sum(1, State::Preempted);
}

/// A wait with a stack, as it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedWait {
    /// The thread.
    pub task: TaskId,
    /// Where.
    pub callsite: CallsiteId,
    /// Part of the wall clock.
    pub part: Part,
    /// Time it represents, ns.
    pub ns: u64,
    /// Number of waits of its length.
    pub waits: u64,
    /// For a woken thread that waits for a CPU: its reason for the wait before.
    pub after: Option<WaitReason>,
    /// Kind of work that an idle wait is for; `None` for others.
    pub idle_for: Option<WaitReason>,
    /// Thread that ended it, or ran instead.
    pub other: Option<RelatedThread>,
    /// True if `other` had the CPU that the thread waited for.
    pub is_instead: bool,
    /// The first arguments of its system call.
    pub args: [u64; 3],
}

/// All waits with a stack.
pub(crate) fn placed_waits(profile: &Profile, opts: &WallOpts) -> Vec<PlacedWait> {
    let classes = Classes::of(profile, opts);
    let mut reasons = Reasons::default();
    let mut place = |Classified { wait, part }: Classified<'_>| {
        let after = (part == Part::Runnable).then(|| reasons.reason(profile, wait));
        let idle_for = (part == Part::Idle).then(|| reasons.reason(profile, wait));
        Some(PlacedWait {
            task: wait.task,
            callsite: wait.callsite?,
            part,
            ns: wait.weight_ns,
            waits: wait.stands_for(),
            after,
            idle_for,
            other: wait.other,
            is_instead: is_for_cpu(wait),
            args: wait.args,
        })
    };
    classes.iter(profile).filter_map(&mut place).collect()
}

/// Running time by path, as in the function rows. Time without a sample is left out.
pub(crate) fn running_paths(profile: &Profile, wall: &Wall) -> Vec<(CallsiteId, u64)> {
    running_by_task(profile, wall).into_iter().map(|(_, callsite, ns)| (callsite, ns)).collect()
}

/// The same with whose it is.
pub(crate) fn running_by_task(profile: &Profile, wall: &Wall) -> Vec<(TaskId, CallsiteId, u64)> {
    let parts = functions::running(profile, &wall.threads).into_iter();
    parts.filter_map(|(task, callsite, ns)| Some((task, callsite?, ns))).collect()
}

/// The kernel frames of a path, leaf first.
pub(crate) fn kernel_frames(profile: &Profile, callsite: CallsiteId) -> impl Iterator<Item = FrameId> + '_ {
    profile.callsites.leaf_first(callsite).take_while(|&frame| is_kernel(profile, frame))
}

pub(crate) fn is_kernel(profile: &Profile, frame: FrameId) -> bool {
    profile.dsos.of(profile.frames.of(frame).dso).kind.is_kernel()
}

/// The names of a frame's functions for a place of a few functions, innermost first: inlined ones from line
/// information, the symbol table's last. The C library's frames have only the latter: its internals would leave no room
/// for the callers. None if unresolved.
pub fn place_names(profile: &Profile, frame: FrameId) -> impl Iterator<Item = &str> {
    let dso = &profile.dsos.of(profile.frames.of(frame).dso).short_name;
    let all = profile.frame_names(frame);
    let inlined = if is_c_library(dso) { all.len().saturating_sub(1) } else { 0 };
    all[inlined..].iter().map(|inline| profile.strings.of(profile.symbols.of(inline.symbol).name))
}

/// The symbol-table name of a frame.
pub(crate) fn name_of(profile: &Profile, frame: FrameId) -> Option<&str> {
    profile.frame_names(frame).last().map(|inline| profile.strings.of(profile.symbols.of(inline.symbol).name))
}
