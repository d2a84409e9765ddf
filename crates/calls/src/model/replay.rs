//! A thread's entries and exits, replayed into finished calls.

use super::replay_gate::{Passage, ReplayGate};
use super::tree_builder::{ROOT, TreeBuilder};
use super::{CallProfile, FunctionId, NodeId};
use profile::grow::Grow as _;

/// One thing a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Entered a function.
    Enter(FunctionId),
    /// Left the function of the innermost open call for another, which returns in its place.
    TailJump(FunctionId),
    /// Returned from the call that is this many below the innermost open one (0 is the innermost; others only
    /// with several stacks in one thread).
    Exit(usize),
    /// Left the call that is this many below the innermost open one without returning: longjmp, exception.
    Unwound(usize),
    /// This many calls were not recorded here.
    Lost(u64),
    /// The thread was off the CPU for this many ns, up to this step's time.
    OffCpu(u64),
    /// The call that is this many below the innermost open one ended in an unknown way.
    Abandon(usize),
    /// A piece of the trace is missing here.
    Hole,
    /// More was recorded of a call; see [`Extra`].
    Extra(Extra),
}

/// Data of a call other than its times: its position in the thread's file ([`super::ThreadFile::extra`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Kind of data.
    pub kind: ExtraKind,
    /// First event, counted from the first that the file holds.
    pub at: u32,
    /// Bytes.
    pub bytes: u32,
}

/// Kinds of data that a recording may have for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraKind {
    /// Arguments of the call just entered.
    Arguments,
    /// The result of the call that ends next.
    Result,
    /// Functions open around the call just entered that are not recorded, outermost first.
    Backtrace,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By returning.
    Returned,
    /// By longjmp or an exception.
    Unwound,
    /// Not within the recording; its time is up to the recording's end and stays out of averages.
    Open,
}

/// One finished call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Place in the tree.
    pub node: NodeId,
    /// The called function.
    pub function: FunctionId,
    /// Time of entry, ns of the recording's clock.
    pub start_ns: u64,
    /// Duration, ns.
    pub total_ns: u64,
    /// Part of the total not spent in calls it made, ns.
    pub self_ns: u64,
    /// Part of the total off the CPU, ns.
    pub off_ns: u64,
    /// Part of its own time off the CPU, ns.
    pub self_off_ns: u64,
    /// Open calls around it.
    pub depth: usize,
    /// Way in which it ended.
    pub end: End,
}

/// When and how a call ended.
#[derive(Clone, Copy)]
struct Ending {
    time_ns: u64,
    end: End,
}

/// An open call. Short, for the innermost ones shall stay in the cache.
struct Open {
    start_ns: u64,
    inner_ns: u64,
    off_ns: u64,
    inner_off_ns: u64,
    /// Place in the tree; the root when it is not counted.
    place: u32,
    /// Its own place, or that of the innermost counted call around it.
    parent: u32,
    passage: Passage,
}

/// Replays one thread.
pub struct Replay<'a> {
    profile: CallProfile,
    tree: TreeBuilder,
    gate: ReplayGate<'a>,
    /// Calls as slow as this may be among the slowest, ns.
    slow_from_ns: u64,
    open: Vec<Open>,
    last_ns: u64,
}

impl<'a> Replay<'a> {
    /// A thread with no open call. `profile` is empty and has the settings for kept data, `gate` the filters.
    #[must_use]
    pub fn new(profile: CallProfile, gate: ReplayGate<'a>) -> Self {
        let slow_from_ns = profile.slow_from_ns();
        Self { profile, tree: TreeBuilder::new(), gate, slow_from_ns, open: Vec::new(), last_ns: 0 }
    }

    /// Number of open calls.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether nothing that is still to come can count.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.gate.is_over(self.last_ns)
    }

    /// The calls finished so far.
    #[must_use]
    pub fn so_far(&self) -> CallProfile {
        let mut profile = self.profile.clone();
        profile.set_nodes(self.tree.settled());
        profile
    }

    /// Takes the thread's next step; finished calls go to `each`, inner ones before outer ones.
    /// Time that runs backwards is held still, and counted.
    #[inline(always)]
    pub fn step(&mut self, time_ns: u64, step: Step, each: &mut (impl FnMut(&Call) + ?Sized)) {
        let time_ns = self.not_before(time_ns);
        match step {
            Step::Enter(function) => self.enter(time_ns, function),
            Step::TailJump(function) => {
                self.close(time_ns, End::Returned, each);
                self.enter(time_ns, function);
            }
            Step::Exit(0) => self.close(time_ns, End::Returned, each),
            Step::Exit(below) => self.close_below(below, time_ns, End::Returned, each),
            Step::Unwound(below) => self.close_below(below, time_ns, End::Unwound, each),
            Step::Lost(calls) => self.profile.lost.grow(calls),
            Step::OffCpu(ns) => {
                if let Some(open) = self.open.last_mut() {
                    open.off_ns.grow(ns);
                }
            }
            Step::Abandon(below) => self.close_below(below, time_ns, End::Open, each),
            Step::Hole => self.profile.gaps += 1,
            Step::Extra(_) => {}
        }
    }

    #[inline(always)]
    fn not_before(&mut self, time_ns: u64) -> u64 {
        if time_ns < self.last_ns {
            self.profile.backwards += 1;
        } else {
            self.last_ns = time_ns;
        }
        self.last_ns
    }

    /// The recording ends: calls still open are closed as such.
    pub fn finish(mut self, each: &mut (impl FnMut(&Call) + ?Sized)) -> CallProfile {
        let end_ns = self.last_ns;
        while !self.open.is_empty() {
            self.close(end_ns, End::Open, each);
        }
        self.profile.set_nodes(self.tree.settled());
        self.profile
    }

    #[inline(always)]
    fn enter(&mut self, time_ns: u64, function: FunctionId) {
        let passage = self.gate.enter(time_ns, function);
        let around = self.open.last().map_or(ROOT, |open| open.parent);
        let (place, parent) = if passage.counted {
            let place = self.tree.child(around, function);
            (place, place)
        } else {
            (ROOT, around)
        };
        if self.gate.callers_only() && passage.leads {
            // Those around one that leads there know already.
            let unaware = self.open.iter_mut().rev().take_while(|open| !open.passage.leads);
            unaware.for_each(|open| open.passage.leads = true);
        }
        let start_ns = time_ns;
        self.open.push(Open { start_ns, inner_ns: 0, off_ns: 0, inner_off_ns: 0, place, parent, passage });
    }

    /// The innermost call ends.
    #[inline(always)]
    fn close(&mut self, time_ns: u64, end: End, each: &mut (impl FnMut(&Call) + ?Sized)) {
        match self.open.pop() {
            Some(open) => self.ended(&open, self.open.len(), Ending { time_ns, end }, each),
            // The trace began inside this call.
            None => self.profile.returns_without_call += 1,
        }
    }

    /// The call `below` the innermost one ends.
    #[inline(never)]
    fn close_below(&mut self, below: usize, time_ns: u64, end: End, each: &mut (impl FnMut(&Call) + ?Sized)) {
        match self.open.len().checked_sub(below + 1) {
            Some(at) => {
                let open = self.open.remove(at);
                let around = at.checked_sub(1).map_or(ROOT, |outer| self.open[outer].parent);
                // Those directly within it that are not counted do not hang from it any more.
                let inner = self.open[at..].iter_mut().take_while(|open| open.place == ROOT);
                inner.for_each(|open| open.parent = around);
                self.ended(&open, at, Ending { time_ns, end }, each);
            }
            None => self.profile.returns_without_call += 1,
        }
    }

    /// A call with `outer` open calls around it ended.
    #[inline(always)]
    fn ended(&mut self, open: &Open, outer: usize, ending: Ending, each: &mut (impl FnMut(&Call) + ?Sized)) {
        let Ending { time_ns, end } = ending;
        let total_ns = time_ns.saturating_sub(open.start_ns);
        let is_long = total_ns >= self.gate.min_ns() || end == End::Open;
        let kept = open.place != ROOT && open.passage.leads && is_long;
        self.gate.leave(open.passage);
        if let Some(outer) = outer.checked_sub(1).and_then(|at| self.open.get_mut(at)) {
            outer.off_ns.grow(open.off_ns);
            outer.inner_ns.grow(if kept { total_ns } else { open.inner_ns.min(total_ns) });
            outer.inner_off_ns.grow(if kept { open.off_ns } else { open.inner_off_ns });
        }
        if !kept {
            return;
        }
        let self_ns = total_ns.saturating_sub(open.inner_ns);
        let call = Call {
            node: NodeId(open.place - 1),
            function: self.tree.function(open.place),
            start_ns: open.start_ns,
            total_ns,
            self_ns,
            off_ns: open.off_ns.min(total_ns),
            self_off_ns: open.off_ns.saturating_sub(open.inner_off_ns).min(self_ns),
            depth: open.passage.depth(),
            end,
        };
        self.tree.closed(open.place, &call);
        if total_ns >= self.slow_from_ns {
            self.profile.keep_slow(&call);
            self.slow_from_ns = self.profile.slow_from_ns();
        }
        each(&call);
    }
}
