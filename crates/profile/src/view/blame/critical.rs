//! The critical path: backwards from a thread's end through those who woke it, without a gap and without an overlap.
//!
//! ```text
//!   main     |■■■|·········· waits ··········|■■■|        path: main ■■■, worker ■■■■, feeder ■■■■■■, main ■■■
//!   worker         |··· waits ···|■■■■■■■■^
//!   feeder     ^■■■■■■■■■■■■■■■■^
//! ```
//! At the end of a wait the path goes on with the thread that ended it, at the same moment; at a thread's birth with
//! the thread that made it. A wait that no recorded thread ended is itself a piece of the path.

mod path_ends;
mod strip;

use path_ends::path_ends;

use super::stretches::PathStretch;
use super::timelines::{TimedWait, Timelines};
use super::walk::{Lead, Walk};
use super::{Blame, BlameEnd, BlamePath};
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use perfdata::off_cpu::State;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Which path.
#[derive(Clone, Debug, Default)]
pub struct CriticalOpts {
    /// It ends with this thread (name or id); without one with the main thread.
    pub thread: Option<String>,
    /// It begins when this function is first seen on a stack.
    pub from: Option<String>,
    /// It ends when this function is last seen on a stack; its thread is the one it ends with.
    pub to: Option<String>,
}

/// A piece of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPiece {
    /// The thread that the run waited for.
    pub task: TaskId,
    /// Activity: [`BlameEnd::Ran`], or the wait.
    pub state: BlameEnd,
    /// Most frequent stack meanwhile; `None` without stack.
    pub callsite: Option<CallsiteId>,
    /// Begin, ns of the recording's clock.
    pub from_ns: u64,
    /// End, and begin of the next piece.
    pub to_ns: u64,
}

/// The path.
#[derive(Clone, Debug, Default)]
pub struct CriticalPath {
    /// In order of time. They cover the time from the first one's begin to the last one's end.
    pub pieces: Vec<CriticalPiece>,
    /// The same time by thread, stack and state: running by its samples, with the short waits that are known by their
    /// sums.
    pub parts: Blame,
    /// Time in which the thread at the end ran or wanted a CPU, while the path was in other threads, ns. Blame counts it
    /// for that thread. `None` for a path that isn't the thread's whole life.
    pub beside_ns: Option<u64>,
    /// Threads that ran at a time, on average over the recording.
    pub parallelism: f64,
}

/// Computes it; empty if no thread's times are known, or a function was never seen.
#[must_use]
pub fn critical_path(profile: &Profile, opts: &CriticalOpts) -> CriticalPath {
    FollowedPath::of(profile, opts).map_or_else(CriticalPath::default, |followed| followed.path())
}

/// The path, and the same from begin to end in at most about `most` stretches, each with its time by thread and state.
#[must_use]
pub fn critical_strip(
    profile: &Profile,
    opts: &CriticalOpts,
    most: usize,
) -> (CriticalPath, Vec<PathStretch>) {
    let followed = FollowedPath::of(profile, opts);
    followed.map_or_else(Default::default, |followed| (followed.path(), followed.strip(most)))
}

/// The pieces from the end back to the begin, and the threads they are of.
struct FollowedPath<'p> {
    lines: Timelines<'p>,
    leads: Rc<[Lead]>,
    /// The thread at the end.
    last: usize,
    /// The last one first.
    pieces: Vec<RawPiece>,
}

impl<'p> FollowedPath<'p> {
    fn of(profile: &'p Profile, opts: &CriticalOpts) -> Option<Self> {
        let lines = Timelines::of(profile);
        let leads = Walk::leads(&lines);
        let (last, from_ns, to_ns) = path_ends(&lines, opts)?;
        let walk = Walk::new(&lines, leads.clone(), 0);
        let mut back = Backwards { lines: &lines, walk: &walk, begin: from_ns, hops: 0, pieces: Vec::new() };
        back.go(last, to_ns);
        let pieces = back.pieces;
        Some(Self { lines, leads, last, pieces })
    }

    fn path(&self) -> CriticalPath {
        let mut walk = self.new_walk();
        for (thread, spans) in add_waits(&mut walk, self.lines.profile, &self.pieces) {
            walk.add_spans(thread, &spans);
        }
        let pieces = self.pieces.iter().rev().map(|piece| piece_of(&self.lines, &walk, piece)).collect();
        let parts = self.blame_of(walk);
        let beside_ns = self.beside_ns(&parts);
        CriticalPath { pieces, parts, beside_ns, parallelism: parallelism(self.lines.profile) }
    }

    /// The last thread's active time that isn't on its path.
    fn beside_ns(&self, parts: &Blame) -> Option<u64> {
        let line = &self.lines.threads[self.last];
        let (begin, end) = line.life();
        let ends = (self.pieces.last()?.from, self.pieces.first()?.to);
        let is_whole = ends == (begin, end);
        let active = [State::On, State::Runnable, State::Preempted];
        let active_ns =
            line.totals.iter().flat_map(|totals| active.map(|state| totals.of(state))).grown_sum();
        let own = |path: &&BlamePath| path.link.is_none() && path.root == line.task() && path.end.is_active();
        let on_path_ns = parts.paths.iter().filter(own).map(|path| path.ns).grown_sum();
        is_whole.then(|| active_ns.saturating_sub(on_path_ns))
    }

    fn new_walk(&self) -> Walk<'_, 'p> {
        let length = |piece: &RawPiece| piece.to - piece.from;
        Walk::new(&self.lines, self.leads.clone(), self.pieces.iter().map(length).grown_sum())
    }

    fn blame_of(&self, walk: Walk<'_, 'p>) -> Blame {
        Blame::of_walk(vec![self.lines.threads[self.last].task()], walk)
    }
}

/// Adds the time of the pieces that are waits. Answers when each thread ran.
fn add_waits(
    walk: &mut Walk<'_, '_>,
    profile: &Profile,
    pieces: &[RawPiece],
) -> BTreeMap<usize, Vec<(u64, u64)>> {
    let mut ran: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    for piece in pieces {
        match piece.wait {
            _ if piece.is_unborn => walk.add_end(piece.thread, None, BlameEnd::Unborn, piece.to - piece.from),
            None => ran.entry(piece.thread).or_default().push((piece.from, piece.to)),
            Some(wait) => {
                let end = state_of(walk, wait);
                let callsite = profile.off_cpu.waits[wait].callsite;
                walk.add_end(piece.thread, callsite, end, piece.to - piece.from);
            }
        }
    }
    ran
}

fn parallelism(profile: &Profile) -> f64 {
    let totals = &profile.off_cpu.totals;
    let on: u128 = totals.iter().map(|of| u128::from(of.of(State::On))).sum();
    let begin = totals.iter().map(|of| of.start_ns).min().unwrap_or(0);
    let end = totals.iter().map(|of| of.end_ns).max().unwrap_or(0);
    on as f64 / end.saturating_sub(begin).max(1) as f64
}

/// A piece, not yet with names.
#[derive(Clone, Copy)]
struct RawPiece {
    thread: usize,
    /// `None`: it ran.
    wait: Option<usize>,
    is_unborn: bool,
    from: u64,
    to: u64,
}

/// The way back.
struct Backwards<'t, 'p> {
    lines: &'t Timelines<'p>,
    walk: &'t Walk<'t, 'p>,
    begin: u64,
    /// Changes of the thread at one moment.
    hops: usize,
    /// The last one first.
    pieces: Vec<RawPiece>,
}

impl Backwards<'_, '_> {
    fn go(&mut self, mut thread: usize, mut now: u64) {
        while now > self.begin {
            let line = &self.lines.threads[thread];
            let (born, _) = line.life();
            if now <= born {
                match self.lines.maker(thread, now) {
                    Some(maker) if self.may_hop() => thread = maker,
                    _ => {
                        self.put(RawPiece { thread, wait: None, is_unborn: true, from: self.begin, to: now });
                        return;
                    }
                }
                continue;
            }
            let (before, inside) = line.around(now);
            if let Some(timed) = inside {
                match self.waker(timed, now) {
                    Some(waker) if self.may_hop() => thread = waker,
                    _ => now = self.put_wait(thread, timed, now),
                }
                continue;
            }
            let from = before.map_or(born, |timed| timed.to.max(born)).max(self.begin);
            self.put(RawPiece { thread, wait: None, is_unborn: false, from, to: now });
            now = from;
        }
    }

    fn may_hop(&mut self) -> bool {
        self.hops += 1;
        self.hops <= self.lines.threads.len()
    }

    fn put(&mut self, piece: RawPiece) {
        self.hops = 0;
        self.pieces.push(piece);
    }

    fn put_wait(&mut self, thread: usize, timed: TimedWait, now: u64) -> u64 {
        let from = timed.from.max(self.begin);
        if let Lead::HandedOver(to, _) = *self.walk.lead(timed.wait) {
            self.put_handed_over(thread, timed.wait, [from, now], to);
            return from;
        }
        self.put(RawPiece { thread, wait: Some(timed.wait), is_unborn: false, from, to: now });
        from
    }

    /// Puts a preemption by a thread that was woken just before: what that one does and its want of a CPU, and the
    /// preemption while it waits for something else.
    fn put_handed_over(&mut self, thread: usize, wait: usize, [from, mut now]: [u64; 2], to: usize) {
        while now > from {
            let (before, inside) = self.lines.threads[to].around(now);
            let (thread, wait, since) = match inside {
                Some(timed) if self.walk.wants_cpu(timed.wait) => (to, Some(timed.wait), timed.from),
                Some(timed) => (thread, Some(wait), timed.from),
                None => (to, None, before.map_or(0, |timed| timed.to)),
            };
            let since = since.max(from);
            self.put(RawPiece { thread, wait, is_unborn: false, from: since, to: now });
            now = since;
        }
    }

    /// The thread that ended this wait at this moment; `None` if it is not known, or was asleep itself.
    fn waker(&self, timed: TimedWait, now: u64) -> Option<usize> {
        let Lead::To(waker, _) = self.walk.lead(timed.wait) else { return None };
        let line = &self.lines.threads[*waker];
        let asleep = line.around(now).1.is_some_and(|of| of.to > now);
        (timed.to == now && !asleep && line.life().0 < now).then_some(*waker)
    }
}

fn state_of(walk: &Walk<'_, '_>, wait: usize) -> BlameEnd {
    match walk.lead(wait) {
        Lead::End(end) | Lead::HandedOver(_, end) => end.clone(),
        Lead::To(..) => BlameEnd::WakerUnknown(walk.part(wait)),
    }
}

fn piece_of(lines: &Timelines<'_>, walk: &Walk<'_, '_>, raw: &RawPiece) -> CriticalPiece {
    let line = &lines.threads[raw.thread];
    let mut seen: BTreeMap<CallsiteId, u64> = BTreeMap::new();
    for run in line.runs_in(raw.from, raw.to) {
        seen.entry(run.callsite).or_default().grow(run.period);
    }
    let most = seen.into_iter().max_by_key(|(_, period)| *period).map(|(callsite, _)| callsite);
    let (state, callsite) = match raw.wait {
        _ if raw.is_unborn => (BlameEnd::Unborn, None),
        Some(wait) => (state_of(walk, wait), lines.profile.off_cpu.waits[wait].callsite),
        None => (BlameEnd::Ran, most),
    };
    CriticalPiece { task: line.task(), state, callsite, from_ns: raw.from, to_ns: raw.to }
}
