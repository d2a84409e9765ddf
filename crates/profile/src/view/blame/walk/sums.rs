//! Waits of which only the sum is known: how much of them is expected in a window, and where they lead.

use super::super::split::split;
use super::super::timelines::{SummedWaits, Timeline};
use super::windows::{NextWindows, Window, windows_of};
use super::{Lead, Visit, Walk};
use crate::grow::Grow as _;
use crate::view::blame::BlameEnd;
use std::collections::BTreeMap;

/// Time of waits that are known by their sum.
#[derive(Clone, Copy)]
pub(crate) struct WaitSum {
    /// The wait that represents them.
    pub wait: usize,
    pub ns: u64,
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

    /// Time of waits that are known by their sums and expected in these gaps, by wait.
    pub(super) fn sums_in(&self, thread: &Timeline, gaps: &[Window]) -> BTreeMap<usize, u64> {
        let mut gaps: Vec<&Window> = gaps.iter().filter(|gap| gap.from < gap.to).collect();
        gaps.sort_by_key(|gap| gap.from);
        let possible = |sum: &&SummedWaits| match &self.leads[sum.wait] {
            Lead::To(waker, _) => !self.asleep.contains(waker),
            Lead::End(_) => true,
        };
        let sums: Vec<&SummedWaits> = thread.summed.iter().filter(possible).collect();
        let mut expected: BTreeMap<usize, u64> = BTreeMap::new();
        let (mut coming, mut under_way): (_, Vec<&SummedWaits>) = (sums.into_iter().peekable(), Vec::new());
        for gap in gaps {
            under_way.retain(|sum| sum.to > gap.from);
            while let Some(sum) = coming.next_if(|sum| sum.from < gap.to) {
                under_way.extend(Some(sum).filter(|sum| sum.to > gap.from));
            }
            let share = |sum: &SummedWaits| {
                let common = sum.to.min(gap.to).saturating_sub(sum.from.max(gap.from)) as f64;
                common * sum.rate / (gap.to - gap.from) as f64
            };
            let shares: Vec<f64> = under_way.iter().map(|sum| share(sum)).collect();
            let most = shares.iter().sum::<f64>().max(1.0);
            for (sum, share) in under_way.iter().zip(shares) {
                let ns = (share / most * gap.ns as f64) as u64;
                expected.entry(sum.wait).or_default().grow(ns);
            }
        }
        expected
    }

    /// The end of a wait that is known by its sum; `None` if it leads to other threads, as the timed ones of its place
    /// do.
    pub(super) fn end_of_sum(&self, thread: usize, wait: usize) -> Option<BlameEnd> {
        match &self.leads[wait] {
            Lead::End(end @ (BlameEnd::Waited(_) | BlameEnd::WaitedFor(..))) => Some(end.clone()),
            _ if self.lines.is_shown(thread, wait) => None,
            Lead::End(end) => Some(end.clone()),
            Lead::To(..) => Some(BlameEnd::WakerUnknown(self.lines.parts[wait])),
        }
    }

    /// Waits that are known by their sum: they count as the timed ones of their place do.
    pub(super) fn enter_sum(&mut self, visit: Visit, sum: WaitSum, next: &mut NextWindows) {
        let WaitSum { wait, ns } = sum;
        if let Some(end) = self.end_of_sum(visit.thread, wait) {
            return self.add(visit, self.lines.profile.off_cpu.waits[wait].callsite, end, ns);
        }
        let shown_by = self.lines.shown_by(visit.thread, wait);
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
