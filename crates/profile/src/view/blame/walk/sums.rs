//! Waits of which only the sum is known: how much of them is expected in a window, and where they lead.

use super::super::split::split;
use super::super::timelines::{SummedWaits, TimedWait, Timeline, Timelines};
use super::windows::{NextWindows, Window, windows_of};
use super::{Lead, Visit, Walk};
use crate::grow::{Grow as _, GrownSum as _};
use crate::view::blame::BlameEnd;
use perfdata::off_cpu::State;
use std::collections::BTreeMap;

/// Time of waits that are known by their sum.
#[derive(Clone, Copy)]
pub(crate) struct WaitSum {
    /// The wait that represents them.
    pub wait: usize,
    pub ns: u64,
}

/// How much of the time outside its timed waits a thread runs.
struct RunningPart {
    /// In its life: 0 to 1.
    in_life: f64,
    /// Running time that each of its samples represents.
    ns_per_sample: f64,
}

impl RunningPart {
    fn of(thread: &Timeline) -> Self {
        if thread.totals.is_empty() {
            return Self { in_life: 1.0, ns_per_sample: 0.0 };
        }
        let on_ns = thread.totals.iter().map(|totals| totals.of(State::On)).grown_sum() as f64;
        let (from, to) = thread.life();
        Self {
            in_life: (on_ns / thread.free_ns(from, to).max(1) as f64).min(1.0),
            ns_per_sample: on_ns / thread.runs.len().max(1) as f64,
        }
    }

    /// The part of a gap in which it probably ran.
    fn part_of(&self, lines: &Timelines<'_>, thread: usize, gap: &Window) -> f64 {
        let samples = lines.threads[thread].runs_in(gap.from, gap.to).len() as f64;
        self.in_life.max(samples * self.ns_per_sample / gap.to.saturating_sub(gap.from).max(1) as f64)
    }
}

impl Walk<'_, '_> {
    /// Adds the same but for the waits that are known by their sums and lead to other threads. Answers those.
    pub fn add_spans_but_sums(&mut self, thread: usize, spans: &[(u64, u64)]) -> Vec<WaitSum> {
        let mut left = Vec::new();
        self.visit_root(thread, |walk, visit| {
            let (sums, next) = walk.look_at(visit, &windows_of(spans));
            left = sums;
            next
        });
        left
    }

    /// Adds waits of a thread that are known by their sums.
    pub fn add_sums(&mut self, thread: usize, sums: impl IntoIterator<Item = WaitSum>) {
        self.visit_root(thread, |walk, visit| {
            let mut next = NextWindows::new();
            sums.into_iter().for_each(|sum| walk.enter_sum(visit, sum, &mut next));
            next
        });
    }

    /// Time of waits that are known by their sums and expected in these gaps, by wait. A thread can't wait for one that
    /// is asleep: the time such waits have in its life is divided among all else that it does. Each sum is spread over
    /// an interval of its own, so that together they are more than all time in some gaps and less in others: a gap's
    /// rest is running only as far as the thread runs at all, by its samples there or by its life.
    pub(super) fn sums_in(&self, thread: usize, gaps: &[Window]) -> BTreeMap<usize, u64> {
        let mut gaps: Vec<&Window> = gaps.iter().filter(|gap| gap.from < gap.to).collect();
        gaps.sort_by_key(|gap| gap.from);
        let mut expected: BTreeMap<usize, u64> = BTreeMap::new();
        let running = RunningPart::of(&self.lines.threads[thread]);
        let mut coming = self.lines.threads[thread].summed.iter().peekable();
        let mut under_way: Vec<(&SummedWaits, f64)> = Vec::new();
        for gap in gaps {
            under_way.retain(|(sum, _)| sum.to > gap.from);
            while let Some(sum) = coming.next_if(|sum| sum.from < gap.to) {
                if sum.to > gap.from {
                    under_way.push((sum, self.possible_part(thread, sum.wait)));
                }
            }
            let share = |sum: &SummedWaits| {
                let common = sum.to.min(gap.to).saturating_sub(sum.from.max(gap.from)) as f64;
                common * sum.rate / (gap.to - gap.from) as f64
            };
            let shares: Vec<(f64, f64)> = under_way.iter().map(|(sum, part)| (share(sum), *part)).collect();
            let possible = shares.iter().map(|(share, part)| share * part).sum::<f64>();
            let impossible = shares.iter().map(|(share, part)| share * (1.0 - part)).sum::<f64>();
            let rest = (1.0 - impossible - possible).clamp(0.0, 1.0);
            let ran = rest.min(running.part_of(self.lines, thread, gap));
            let whole = (ran + possible).max(f64::MIN_POSITIVE);
            for ((sum, part), (share, _)) in under_way.iter().zip(shares) {
                let ns = (share * part / whole * gap.ns as f64) as u64;
                expected.entry(sum.wait).or_default().grow(ns);
            }
        }
        expected
    }

    /// The part of waits known by their sum that may have been for threads that are awake, by those timed at their place:
    /// 0 to 1.
    fn possible_part(&self, thread: usize, wait: usize) -> f64 {
        if !matches!(self.leads[wait], Lead::To(..)) {
            return 1.0;
        }
        let shown = self.lines.shown_by(thread, wait);
        if shown.is_empty() {
            return if self.is_possible(wait) { 1.0 } else { 0.0 };
        }
        let length = |timed: &TimedWait| (timed.to - timed.from) as f64;
        let possible: f64 = shown.iter().filter(|timed| self.is_possible(timed.wait)).map(length).sum();
        possible / shown.iter().map(length).sum::<f64>().max(1.0)
    }

    /// False for a wait that a thread which is asleep ended.
    fn is_possible(&self, wait: usize) -> bool {
        !matches!(&self.leads[wait], Lead::To(waker, _) if self.asleep.contains(waker))
    }

    /// The end of a wait that is known by its sum; `None` if it leads to other threads, as the timed ones of its place
    /// do.
    pub(super) fn end_of_sum(&self, thread: usize, wait: usize) -> Option<BlameEnd> {
        match &self.leads[wait] {
            Lead::End(end @ (BlameEnd::Waited(_) | BlameEnd::WaitedFor(..))) => Some(end.clone()),
            _ if self.lines.is_shown(thread, wait) => None,
            Lead::End(end) | Lead::HandedOver(_, end) => Some(end.clone()),
            Lead::To(..) => Some(BlameEnd::WakerUnknown(self.lines.parts[wait])),
        }
    }

    /// Waits that are known by their sum: they count as the timed ones of their place do.
    pub(super) fn enter_sum(&mut self, visit: Visit, sum: WaitSum, next: &mut NextWindows) {
        let WaitSum { wait, ns } = sum;
        if let Some(end) = self.end_of_sum(visit.thread, wait) {
            return self.add(visit, self.lines.profile.off_cpu.waits[wait].callsite, end, ns);
        }
        let mut shown_by = self.lines.shown_by(visit.thread, wait);
        if shown_by.iter().any(|timed| self.is_possible(timed.wait)) {
            shown_by.retain(|timed| self.is_possible(timed.wait));
        }
        let lengths: Vec<u64> = shown_by.iter().map(|timed| timed.to - timed.from).collect();
        for (timed, ns) in shown_by.iter().zip(split(ns, &lengths)).filter(|(_, ns)| *ns > 0) {
            self.enter(
                visit,
                timed.wait,
                Window { from: timed.from, to: timed.to, ns, woken_from: None },
                next,
            );
        }
    }
}
