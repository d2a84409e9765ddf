//! A thread's entries and exits, replayed into finished calls.

use super::{CallProfile, FunctionId, NodeId};

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
    /// How the call that is this many below the innermost open one ended is not known.
    Abandon(usize),
    /// A piece of the trace is missing here.
    Hole,
    /// More was recorded of a call; see [`Extra`].
    Extra(Extra),
}

/// What was recorded of a call beside its times: where it stands in the thread's file ([`super::ThreadFile::extra`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// What it is.
    pub kind: ExtraKind,
    /// Its first event, counted from the first that the file holds.
    pub at: u32,
    /// Its bytes.
    pub bytes: u32,
}

/// What may be recorded of a call.
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
    /// Its place in the tree.
    pub node: NodeId,
    /// What was called.
    pub function: FunctionId,
    /// When it was entered, ns of the recording's clock.
    pub start_ns: u64,
    /// How long it took, ns.
    pub total_ns: u64,
    /// Of that, time not spent in calls it made, ns.
    pub self_ns: u64,
    /// Of the total, time off the CPU, ns.
    pub off_ns: u64,
    /// Of its own time, off the CPU, ns.
    pub self_off_ns: u64,
    /// Open calls around it.
    pub depth: usize,
    /// How it ended.
    pub end: End,
}

/// What to leave out. Functions are asked once each.
pub trait Filter: Sync {
    /// What is to be done about calls of this function.
    fn of(&self, function: FunctionId) -> Filters;
}

/// What is to be done about calls of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Count from here on: calls outside are left out if any function says so.
    pub only: bool,
    /// Leave this call out, and all inside it.
    pub not: bool,
    /// Leave this call out, but not what it calls: its time is its caller's.
    pub hide: bool,
}

/// Calls that begin outside this span of time are left out, ns of the recording's clock: from, up to.
pub type Window = std::ops::Range<u64>;

/// Decides as calls open and close which are counted: the filters and the depth.
pub struct Gate<'a> {
    filter: Option<&'a dyn Filter>,
    any_only: bool,
    max_depth: usize,
    window: Window,
    /// Nothing is left out: the usual case, and the fast one.
    passes_all: bool,
    inside: usize,
    muted: usize,
    counted: usize,
}

/// What the gate said of a call; to be handed back when it ends.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    filters: Filters,
    /// Whether the call is counted.
    pub counted: bool,
    /// Open calls around it that are counted.
    pub depth: usize,
}

impl<'a> Gate<'a> {
    /// `any_only`: some function of `filter` says `only`. Calls nested deeper than `max_depth` are left out.
    #[must_use]
    pub fn new(filter: Option<&'a dyn Filter>, any_only: bool, max_depth: usize) -> Self {
        let passes_all = filter.is_none() && !any_only && max_depth == usize::MAX;
        let window = 0..u64::MAX;
        Self { filter, any_only, max_depth, window, passes_all, inside: 0, muted: 0, counted: 0 }
    }

    /// The same, but only calls that begin in `window` pass.
    #[must_use]
    pub fn within(self, window: Window) -> Self {
        Self { passes_all: self.passes_all && window == (0..u64::MAX), window, ..self }
    }

    /// A call begins at `time_ns`.
    #[inline]
    pub fn enter(&mut self, time_ns: u64, function: FunctionId) -> Passage {
        if self.passes_all {
            self.counted += 1;
            return Passage { filters: Filters::default(), counted: true, depth: self.counted - 1 };
        }
        self.pass(time_ns, function)
    }

    fn pass(&mut self, time_ns: u64, function: FunctionId) -> Passage {
        let filters = self.filter.map_or(Filters::default(), |filter| filter.of(function));
        self.inside += usize::from(filters.only);
        self.muted += usize::from(filters.not);
        let wanted = self.muted == 0 && (!self.any_only || self.inside > 0) && !filters.hide;
        let counted = wanted && self.counted < self.max_depth && self.window.contains(&time_ns);
        let passage = Passage { filters, counted, depth: self.counted };
        self.counted += usize::from(passage.counted);
        passage
    }

    /// It ends.
    #[inline]
    pub fn leave(&mut self, passage: Passage) {
        self.inside -= usize::from(passage.filters.only);
        self.muted -= usize::from(passage.filters.not);
        self.counted -= usize::from(passage.counted);
    }
}

struct Open {
    node: Option<NodeId>,
    function: FunctionId,
    start_ns: u64,
    inner_ns: u64,
    off_ns: u64,
    inner_off_ns: u64,
    passage: Passage,
}

/// Replays one thread.
pub struct Replay<'a> {
    profile: CallProfile,
    gate: Gate<'a>,
    min_ns: u64,
    open: Vec<Open>,
    last_ns: u64,
}

impl<'a> Replay<'a> {
    /// A thread with no open call, to be added to `profile`; calls shorter than `min_ns` are left out.
    #[must_use]
    pub fn new(profile: CallProfile, gate: Gate<'a>, min_ns: u64) -> Self {
        Self { profile, gate, min_ns, open: Vec::new(), last_ns: 0 }
    }

    /// Number of open calls.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The calls finished so far.
    #[must_use]
    pub fn so_far(&self) -> CallProfile {
        let mut profile = self.profile.clone();
        profile.settle();
        profile
    }

    /// Takes the thread's next step; finished calls go to `each`, inner ones before outer ones.
    /// Time that runs backwards is held still, and counted.
    #[inline]
    pub fn step(&mut self, time_ns: u64, step: Step, each: &mut (impl FnMut(&Call) + ?Sized)) {
        let time_ns = if time_ns < self.last_ns {
            self.profile.backwards += 1;
            self.last_ns
        } else {
            time_ns
        };
        self.last_ns = time_ns;
        match step {
            Step::Enter(function) => self.enter(time_ns, function),
            Step::TailJump(function) => {
                self.close(0, time_ns, End::Returned, each);
                self.enter(time_ns, function);
            }
            Step::Exit(below) => self.close(below, time_ns, End::Returned, each),
            Step::Unwound(below) => self.close(below, time_ns, End::Unwound, each),
            Step::Lost(calls) => self.profile.lost += calls,
            Step::OffCpu(ns) => {
                if let Some(open) = self.open.last_mut() {
                    open.off_ns += ns;
                }
            }
            Step::Abandon(below) => self.close(below, time_ns, End::Open, each),
            Step::Hole => self.profile.gaps += 1,
            Step::Extra(_) => {}
        }
    }

    /// The recording ends: calls still open are closed as such.
    pub fn finish(mut self, each: &mut (impl FnMut(&Call) + ?Sized)) -> CallProfile {
        let end_ns = self.last_ns;
        self.close_all(end_ns, each);
        self.profile.settle();
        self.profile
    }

    fn close_all(&mut self, time_ns: u64, each: &mut (impl FnMut(&Call) + ?Sized)) {
        while !self.open.is_empty() {
            self.close(0, time_ns, End::Open, each);
        }
    }

    fn enter(&mut self, time_ns: u64, function: FunctionId) {
        let passage = self.gate.enter(time_ns, function);
        let parent = self.open.iter().rev().find_map(|open| open.node);
        let node = passage.counted.then(|| self.profile.child(parent, function));
        let start_ns = time_ns;
        self.open.push(Open { node, function, start_ns, inner_ns: 0, off_ns: 0, inner_off_ns: 0, passage });
    }

    fn close(&mut self, below: usize, time_ns: u64, end: End, each: &mut (impl FnMut(&Call) + ?Sized)) {
        if below >= self.open.len() {
            // The trace began inside this call.
            self.profile.returns_without_call += 1;
            return;
        }
        let at = self.open.len() - 1 - below;
        let innermost = if below == 0 { self.open.pop() } else { None };
        let open = innermost.unwrap_or_else(|| self.open.remove(at));
        self.gate.leave(open.passage);
        let total_ns = time_ns - open.start_ns;
        let outer = at.checked_sub(1).and_then(|at| self.open.get_mut(at));
        let kept = open.node.is_some() && (total_ns >= self.min_ns || end == End::Open);
        if let Some(outer) = outer {
            outer.off_ns += open.off_ns;
            outer.inner_ns += if kept { total_ns } else { open.inner_ns.min(total_ns) };
            outer.inner_off_ns += if kept { open.off_ns } else { open.inner_off_ns };
        }
        let Some(node) = open.node.filter(|_| kept) else { return };
        let self_ns = total_ns.saturating_sub(open.inner_ns);
        let call = Call {
            node,
            function: open.function,
            start_ns: open.start_ns,
            total_ns,
            self_ns,
            off_ns: open.off_ns.min(total_ns),
            self_off_ns: open.off_ns.saturating_sub(open.inner_off_ns).min(self_ns),
            depth: open.passage.depth,
            end,
        };
        self.profile.closed(&call);
        each(&call);
    }
}
