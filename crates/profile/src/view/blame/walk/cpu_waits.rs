//! A thread that wants a CPU while the thread that it waits for next works: it delays nobody.
//!
//! ```text
//!   main     |··············· waits ·················|■■|
//!   worker   |■■|·· preempted ··|■|···· waits ····|■■^        main ← worker: only ■
//!   feeder   |■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■^             main ← worker ← feeder: also while worker was preempted
//! ```

use super::super::timelines::TimedWait;
use super::windows::{NextWindows, Window};
use super::{Lead, MOST_LINKS, Visit, WaitSum, Walk};
use crate::view::blame::split::split;
use crate::view::wall::Part;

/// The next wait is at least this part of the wait for a CPU. One that is much shorter is more likely a chance meeting at
/// a lock than the end of work that was needed all along.
const LEAST_PART: u64 = 8;

/// The thread that is waited for next, and the wait.
#[derive(Clone, Copy)]
struct NextWait {
    wait: usize,
    waker: usize,
}

impl Walk<'_, '_> {
    /// Enters a wait. A wait for a CPU counts for the thread that the waiting one waits for next, as far as that one
    /// works meanwhile. `looked_at` is the window that this one is part of.
    pub(super) fn enter_or_pass(
        &mut self,
        visit: Visit,
        wait: usize,
        [window, looked_at]: [Window; 2],
        next: &mut NextWindows,
    ) {
        let is_cut = visit.link.is_some() && self.wants_cpu(wait);
        let then = is_cut.then(|| self.next_wait(visit.thread, window, looked_at.to)).flatten();
        let Some(then) = then else { return self.enter(visit, wait, window, next) };
        let sleeper = self.lines.profile.off_cpu.waits[then.wait].callsite;
        for (is_work, piece) in self.cut_by_work(then.waker, window) {
            if is_work {
                next.entry((sleeper, then.waker)).or_default().push(piece);
            } else {
                self.enter(visit, wait, piece, next);
            }
        }
    }

    /// Enters a preemption by a thread that was woken just before: its work counts. For what is left, the chain ends.
    pub(super) fn enter_handed_over(
        &mut self,
        visit: Visit,
        wait: usize,
        window: Window,
        next: &mut NextWindows,
    ) {
        let Lead::HandedOver(to, end) = self.leads[wait].clone() else { return };
        let sleeper = self.lines.profile.off_cpu.waits[wait].callsite;
        // It may be one of the chain: its own waits are in sums, and this time shows that it wasn't in one of them.
        let may_follow = self.asleep.len() <= MOST_LINKS;
        for (is_work, piece) in self.cut_by_work(to, window) {
            if is_work && may_follow {
                next.entry((sleeper, to)).or_default().push(piece);
            } else {
                self.add(visit, sleeper, end.clone(), piece.ns);
            }
        }
    }

    /// Enters waits for a CPU that are known by their sum, as those of their place in these windows. False if there are
    /// none of them, or the waits are others.
    pub(super) fn enter_cpu_sum(
        &mut self,
        visit: Visit,
        sum: WaitSum,
        windows: &[Window],
        next: &mut NextWindows,
    ) -> bool {
        if visit.link.is_none() || !self.wants_cpu(sum.wait) {
            return false;
        }
        let around = |timed: TimedWait| {
            let after = windows.partition_point(|window| window.from <= timed.from);
            let window = *windows.get(after.checked_sub(1)?)?;
            (timed.to <= window.to).then_some((timed, window))
        };
        let shown = self.lines.shown_by(visit.thread, sum.wait).into_iter().filter_map(around);
        let shown: Vec<(TimedWait, Window)> = shown.collect();
        let lengths: Vec<u64> = shown.iter().map(|(timed, _)| timed.to - timed.from).collect();
        for ((timed, looked_at), ns) in shown.iter().zip(split(sum.ns, &lengths)) {
            let window = Window { from: timed.from, to: timed.to, ns, woken_from: None };
            self.enter_or_pass(visit, timed.wait, [window, *looked_at], next);
        }
        !shown.is_empty()
    }

    /// The thread's next wait for another thread in a window of it, and that thread.
    fn next_wait(&self, thread: usize, window: Window, end: u64) -> Option<NextWait> {
        let mut after = self.lines.threads[thread].timed_in(window.to, end).iter();
        let then = after.find(|timed| matches!(self.leads[timed.wait], Lead::To(..)))?;
        let Lead::To(waker, _) = self.leads[then.wait] else { return None };
        let is_long = (then.to - then.from).saturating_mul(LEAST_PART) >= window.to - window.from;
        let may_follow = self.asleep.len() <= MOST_LINKS && !self.asleep.contains(&waker);
        (is_long && may_follow).then_some(NextWait { wait: then.wait, waker })
    }

    /// True for a wait for a CPU.
    pub fn wants_cpu(&self, wait: usize) -> bool {
        matches!(self.lines.parts[wait], Part::Runnable | Part::Preempted)
    }

    /// A window, cut into times in which this thread works (or wants to, or waits for one that may) and others.
    fn cut_by_work(&self, thread: usize, window: Window) -> Vec<(bool, Window)> {
        let line = &self.lines.threads[thread];
        let mut spans: Vec<(bool, u64, u64)> = Vec::new();
        let mut at = line.life().0.clamp(window.from, window.to);
        spans.push((false, window.from, at));
        for timed in line.timed_in(at, window.to) {
            let (from, to) = (timed.from.max(at), timed.to.min(window.to));
            let may_work = match self.leads[timed.wait] {
                Lead::To(waker, _) => waker != thread && !self.asleep.contains(&waker),
                Lead::End(_) | Lead::HandedOver(..) => self.wants_cpu(timed.wait),
            };
            spans.extend([(true, at, from), (may_work, from, to)]);
            at = to;
        }
        spans.push((true, at, window.to));
        let lengths: Vec<u64> = spans.iter().map(|(_, from, to)| to - from).collect();
        let shares = split(window.ns, &lengths);
        let piece = |((is_work, from, to), ns)| (is_work, Window { from, to, ns, woken_from: None });
        spans.into_iter().zip(shares).map(piece).filter(|(_, piece)| piece.ns > 0).collect()
    }
}
