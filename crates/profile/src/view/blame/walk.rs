//! The walk from a thread's waits to what their wakers did.

mod cpu_waits;
mod leads;
mod lock_holders;
mod sums;
mod windows;

pub(crate) use leads::Lead;
use leads::{Handovers, lead};
use lock_holders::LockReleases;
pub(crate) use sums::WaitSum;
use windows::{CutWindows, NextWindows, Window, merged, windows_of};

use super::split::split;
use super::timelines::{Timeline, Timelines};
use super::{BlameEnd, BlameLink, BlameLinkId, BlamePath};
use crate::grow::{Grow as _, GrownSum as _};
use crate::off_cpu::WaitReason;
use crate::table::CallsiteId;
use crate::view::wall::Part;
use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Waits that are followed one after another.
const MOST_LINKS: usize = 12;

/// Chains with less than this part of the whole time are not followed further: threads that wait for each other make
/// trees of chains that are too many to walk, and nearly all of them hold next to nothing.
const LEAST_PART: u64 = 200_000;

/// A thread that is looked at: as the end of which chain.
#[derive(Clone, Copy)]
struct Visit {
    root: usize,
    link: Option<BlameLinkId>,
    thread: usize,
}

/// Time by chain, stack and end.
type PathKey = (usize, Option<BlameLinkId>, Option<CallsiteId>, BlameEnd);

/// The walk under way.
pub(crate) struct Walk<'t, 'p> {
    lines: &'t Timelines<'p>,
    /// By wait.
    leads: Rc<[Lead]>,
    links: Vec<BlameLink>,
    link_ids: FxHashMap<(usize, BlameLink), BlameLinkId>,
    paths: Vec<(PathKey, u64)>,
    path_ids: FxHashMap<PathKey, usize>,
    /// The threads that wait: they can't end a wait meanwhile.
    asleep: Vec<usize>,
    /// Chains with less time than this end, ns.
    least_ns: u64,
}

impl<'t, 'p> Walk<'t, 'p> {
    /// Where all waits lead.
    pub fn leads(lines: &Timelines<'_>) -> Rc<[Lead]> {
        let mut leads: Vec<Lead> = (0..lines.parts.len()).map(|wait| lead(lines, wait)).collect();
        LockReleases::of(lines, &leads).lead_to_holders(lines, &mut leads);
        Handovers::of(lines, &leads).lead_on(lines, &mut leads);
        leads.into()
    }

    /// Without time yet; `leads` are those of these threads, and `whole_ns` is the time to be divided.
    pub fn new(lines: &'t Timelines<'p>, leads: Rc<[Lead]>, whole_ns: u64) -> Self {
        Self {
            lines,
            leads,
            links: Vec::new(),
            link_ids: FxHashMap::default(),
            paths: Vec::new(),
            path_ids: FxHashMap::default(),
            asleep: Vec::new(),
            least_ns: whole_ns / LEAST_PART,
        }
    }

    /// Where a wait leads.
    pub fn lead(&self, wait: usize) -> &Lead {
        &self.leads[wait]
    }

    /// Kind of a wait.
    pub fn part(&self, wait: usize) -> Part {
        self.lines.parts[wait]
    }

    /// Adds time of a thread itself.
    pub fn add_end(&mut self, thread: usize, callsite: Option<CallsiteId>, end: BlameEnd, ns: u64) {
        self.add(Visit { root: thread, link: None, thread }, callsite, end, ns);
    }

    /// Adds the time of a thread from one moment to another, its waits included.
    pub fn add_window(&mut self, thread: usize, from: u64, to: u64) {
        self.add_spans(thread, &[(from, to)]);
    }

    /// Adds what a thread did in these times, its waits included.
    pub fn add_spans(&mut self, thread: usize, spans: &[(u64, u64)]) {
        self.visit_root(thread, |walk, visit| {
            let (sums, mut next) = walk.look_at(visit, &windows_of(spans));
            sums.into_iter().for_each(|sum| walk.enter_sum(visit, sum, &mut next));
            next
        });
    }

    fn visit_root(&mut self, thread: usize, add: impl FnOnce(&mut Self, Visit) -> NextWindows) {
        let visit = Visit { root: thread, link: None, thread };
        self.asleep.push(thread);
        let next = add(self, visit);
        self.visit_next(visit, next);
        self.asleep.pop();
    }

    /// All links and paths.
    pub fn finish(self) -> (Vec<BlameLink>, Vec<BlamePath>) {
        let threads = &self.lines.threads;
        let path = |((root, link, callsite, end), ns): (PathKey, u64)| BlamePath {
            root: threads[root].task(),
            link,
            callsite,
            end,
            ns,
        };
        (self.links, self.paths.into_iter().map(path).collect())
    }

    /// Adds the whole time of a thread: its running by its samples, and its waits with their exact weights.
    pub fn add_root(&mut self, root: usize) {
        let visit = Visit { root, link: None, thread: root };
        let thread = &self.lines.threads[root];
        self.asleep.push(root);
        let total = |state| thread.totals.iter().map(|totals| totals.of(state)).grown_sum();
        self.run(visit, total(State::On), &[(0, u64::MAX)], &[]);
        self.add(visit, None, BlameEnd::Waited(Part::Idle), total(State::Idle));
        let mut next = NextWindows::new();
        for timed in &thread.timed {
            let ns = (timed.to - timed.from).min(self.lines.profile.off_cpu.waits[timed.wait].weight_ns);
            self.enter(
                visit,
                timed.wait,
                Window { from: timed.from, to: timed.to, ns, woken_from: None },
                &mut next,
            );
        }
        for sum in &thread.summed {
            self.enter_sum(visit, WaitSum { wait: sum.wait, ns: sum.ns }, &mut next);
        }
        let unknown = |wait: &usize| self.lines.profile.off_cpu.waits[*wait].state == State::Unknown;
        let waits =
            thread.timed.iter().map(|timed| timed.wait).chain(thread.summed.iter().map(|sum| sum.wait));
        let mut sampled: Vec<usize> = waits.filter(unknown).collect();
        sampled.sort_unstable();
        sampled.dedup();
        let sampled_ns =
            sampled.iter().map(|&wait| self.lines.profile.off_cpu.waits[wait].weight_ns).grown_sum();
        let unsampled_ns = total(State::Unknown).saturating_sub(sampled_ns);
        self.add(visit, None, BlameEnd::Waited(Part::Blocked(WaitReason::Unknown)), unsampled_ns);
        self.visit_next(visit, next);
        self.asleep.pop();
    }

    fn add(&mut self, visit: Visit, callsite: Option<CallsiteId>, end: BlameEnd, ns: u64) {
        if ns == 0 {
            return;
        }
        let key = (visit.root, visit.link, callsite, end);
        let at = *self.path_ids.entry(key.clone()).or_insert_with(|| {
            self.paths.push((key, 0));
            self.paths.len() - 1
        });
        self.paths[at].1.grow(ns);
    }

    /// Follows the chains that are left of a thread's waits; those with next to no time end here.
    fn visit_next(&mut self, visit: Visit, next: NextWindows) {
        for ((sleeper, waker), windows) in next {
            let ns = windows.iter().map(|window| window.ns).grown_sum();
            if ns < self.least_ns {
                self.add(visit, sleeper, BlameEnd::TooLittle, ns);
                continue;
            }
            let link = Some(self.link(visit, sleeper, waker));
            let visit = Visit { link, thread: waker, ..visit };
            self.asleep.push(waker);
            let (sums, mut next) = self.look_at(visit, &merged(windows));
            sums.into_iter().for_each(|sum| self.enter_sum(visit, sum, &mut next));
            self.visit_next(visit, next);
            self.asleep.pop();
        }
    }

    /// Divides what these windows of a thread count among what it did in them. Answers what is left to be followed:
    /// waits that are known by their sums, and chains.
    fn look_at(&mut self, visit: Visit, windows: &[Window]) -> (Vec<WaitSum>, NextWindows) {
        let thread = &self.lines.threads[visit.thread];
        let mut found = CutWindows::default();
        for window in windows {
            self.cut(visit, thread, window, &mut found);
        }
        let CutWindows { gaps, mut next } = found;
        let mut on_ns = gaps.iter().map(|gap| gap.ns).grown_sum();
        let mut sums = Vec::new();
        for (wait, ns) in self.sums_in(visit.thread, &gaps) {
            let ns = ns.min(on_ns);
            on_ns -= ns;
            if self.enter_cpu_sum(visit, WaitSum { wait, ns }, windows, &mut next) {
                continue;
            }
            match self.end_of_sum(visit.thread, wait) {
                Some(end) => self.add(visit, self.lines.profile.off_cpu.waits[wait].callsite, end, ns),
                None => sums.push(WaitSum { wait, ns }),
            }
        }
        let spans: Vec<(u64, u64)> = gaps.iter().map(|gap| (gap.from, gap.to)).collect();
        let stacks: Vec<(Option<CallsiteId>, u64)> =
            gaps.iter().map(|gap| (gap.woken_from, gap.ns)).collect();
        self.run(visit, on_ns, &spans, &stacks);
        (sums, next)
    }

    /// Cuts a window into the thread's timed waits and what is between them.
    fn cut(&mut self, visit: Visit, thread: &Timeline, window: &Window, found: &mut CutWindows) {
        let (born, _) = thread.life();
        let mut at = window.from;
        // (from, to, wait)
        let mut pieces: Vec<(u64, u64, Option<usize>)> = Vec::new();
        for timed in thread.timed_in(window.from, window.to) {
            let (from, to) = (timed.from.max(at), timed.to.min(window.to));
            pieces.push((at, from, None));
            pieces.push((from, to, Some(timed.wait)));
            at = to;
        }
        pieces.push((at, window.to, None));
        let lengths: Vec<u64> = pieces.iter().map(|(from, to, _)| to - from).collect();
        let shares = split(window.ns, &lengths);
        let before_birth = |ns, to| Window { from: window.from, to, ns, woken_from: None };
        for ((from, to, wait), ns) in pieces.into_iter().zip(shares).filter(|(_, ns)| *ns > 0) {
            let piece = Window { from, to, ns, woken_from: window.woken_from };
            match wait {
                Some(wait) => self.enter_or_pass(visit, wait, [piece, *window], &mut found.next),
                None if from < born && born <= to => {
                    let parts = split(ns, &[born - from, to - born]);
                    self.enter_unborn(visit, before_birth(parts[0], born), &mut found.next);
                    found.gaps.push(Window { from: born, ns: parts[1], ..piece });
                }
                None if to < born => self.enter_unborn(visit, before_birth(ns, to), &mut found.next),
                None => found.gaps.push(piece),
            }
        }
    }

    /// Time before the thread began: the thread that made it counts.
    fn enter_unborn(&mut self, visit: Visit, window: Window, next: &mut NextWindows) {
        let maker = self.lines.maker(visit.thread, self.lines.threads[visit.thread].life().0);
        match maker.filter(|maker| !self.asleep.contains(maker) && self.asleep.len() <= MOST_LINKS) {
            Some(maker) if window.ns > 0 => next.entry((None, maker)).or_default().push(window),
            _ => self.add(visit, None, BlameEnd::Unborn, window.ns),
        }
    }

    /// Running time by the samples in these spans; without any, by the stacks of wake-ups.
    fn run(&mut self, visit: Visit, ns: u64, spans: &[(u64, u64)], stacks: &[(Option<CallsiteId>, u64)]) {
        let thread = &self.lines.threads[visit.thread];
        let mut seen: BTreeMap<CallsiteId, u64> = BTreeMap::new();
        for &(from, to) in spans {
            thread
                .runs_in(from, to)
                .iter()
                .for_each(|run| seen.entry(run.callsite).or_default().grow(run.period));
        }
        let unsampled = seen.is_empty();
        let mut parts: Vec<(Option<CallsiteId>, u64)> =
            seen.into_iter().map(|(callsite, period)| (Some(callsite), period)).collect();
        if unsampled {
            parts = if stacks.is_empty() { vec![(None, 1)] } else { stacks.to_vec() };
        }
        let weights: Vec<u64> = parts.iter().map(|(_, weight)| *weight).collect();
        let end = if unsampled { BlameEnd::RanUnsampled } else { BlameEnd::Ran };
        for ((callsite, _), ns) in parts.into_iter().zip(split(ns, &weights)) {
            self.add(visit, callsite, end.clone(), ns);
        }
    }

    /// A wait in a window of its thread: the same window of the thread that ended it counts, or the chain ends.
    fn enter(&mut self, visit: Visit, wait: usize, window: Window, next: &mut NextWindows) {
        let sleeper = self.lines.profile.off_cpu.waits[wait].callsite;
        let end = match self.leads[wait].clone() {
            Lead::End(end) => end,
            Lead::HandedOver(..) => return self.enter_handed_over(visit, wait, window, next),
            Lead::To(waker, _) if self.asleep.contains(&waker) => {
                BlameEnd::Knot(self.lines.threads[waker].task())
            }
            Lead::To(..) if self.asleep.len() > MOST_LINKS => BlameEnd::TooDeep,
            Lead::To(waker, woken_from) => {
                next.entry((sleeper, waker)).or_default().push(Window { woken_from, ..window });
                return;
            }
        };
        self.add(visit, sleeper, end, window.ns);
    }

    fn link(&mut self, visit: Visit, sleeper: Option<CallsiteId>, waker: usize) -> BlameLinkId {
        let waited_for = self.lines.threads[waker].task();
        let link = BlameLink { before: visit.link, sleeper, waited_for };
        *self.link_ids.entry((visit.root, link)).or_insert_with(|| {
            self.links.push(link);
            BlameLinkId(u32::try_from(self.links.len() - 1).unwrap_or(u32::MAX))
        })
    }
}
