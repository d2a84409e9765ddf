//! A thread's time, put into columns.
//!
//! Waits that were kept are where they were. All other time of the thread's life is free: its running time, and waits of
//! which only sums are known, share it.
//!
//! 1. Running goes where samples of the CPU's clock were taken, each with its share of the exact running time.
//! 2. Waits that a kept wait represents go before it, as far as there is room.
//! 3. All that is left is spread evenly over the room that is left, the time after the last kept wait included.
//! 4. A column with more running than CPUs gives some of it to others ([`super::balance`]).

use super::Column;
use crate::grow::{Grow as _, GrownSum as _};
use crate::off_cpu::WaitReason;
use crate::view::wall::Part;
use std::collections::BTreeMap;
use std::ops::Range;

/// A state, and what it is for by its number among the names; `None` for what has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Activity {
    pub part: Part,
    pub target: Option<u32>,
}

impl From<Part> for Activity {
    fn from(part: Part) -> Self {
        Self { part, target: None }
    }
}

/// A wait, with the time it represents beyond its own length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub of: Activity,
    pub since_ns: u64,
    /// 0 of a sum without place.
    pub length_ns: u64,
    pub weight_ns: u64,
}

/// All that is known of one thread's time.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadTime {
    /// Times from first to last moment.
    pub lives: Vec<Range<u64>>,
    /// Waits by their begin.
    pub pieces: Vec<Piece>,
    /// Moments at which it was sampled on a CPU, in order.
    pub seen_running: Vec<u64>,
    /// Exact sum of running.
    pub on_ns: u64,
    /// Exact sum of a kernel's idle thread.
    pub idle_ns: u64,
}

/// Where columns are.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub begin_ns: u64,
    pub column_ns: u64,
    pub columns: usize,
}

/// Free time between kept waits, and the sum of waits that the one at its end represents.
struct Gap {
    from: u64,
    to: u64,
    before: Option<(Activity, u64)>,
}

/// Part of a gap over which all states are spread evenly.
struct Slot {
    from: u64,
    to: u64,
    used: u64,
}

impl Slot {
    fn room(&self) -> u64 {
        (self.to - self.from).saturating_sub(self.used)
    }
}

/// A thread's columns while they are filled.
pub(super) struct Strip {
    grid: Grid,
    pub columns: Vec<Column>,
    /// The part of `columns` whose place is not known exactly: all but kept waits.
    pub guessed: Vec<Column>,
}

impl Strip {
    pub fn new(grid: Grid) -> Self {
        let columns = vec![Column::default(); grid.columns];
        Self { grid, guessed: columns.clone(), columns }
    }

    /// One in which no place is known.
    #[cfg(test)]
    pub fn of_guesses(columns: Vec<Column>) -> Self {
        let grid = Grid { begin_ns: 0, column_ns: 100, columns: columns.len() };
        Self { grid, guessed: columns.clone(), columns }
    }

    pub fn into_columns(self) -> Vec<Column> {
        self.columns
    }

    pub fn fill(&mut self, time: ThreadTime) {
        let (sums, kept): (Vec<Piece>, Vec<Piece>) =
            time.pieces.iter().partition(|piece| piece.length_ns == 0);
        for piece in &kept {
            let end_ns = piece.since_ns.saturating_add(piece.length_ns);
            self.grid.each(piece.since_ns, end_ns, |at, ns| self.columns[at].add(piece.of, ns));
        }
        let gaps: Vec<Gap> = time.lives.iter().flat_map(|life| gaps(life, &kept)).collect();
        let sample_ns = time.on_ns / (time.seen_running.len() as u64).max(1);
        let mut rest: BTreeMap<Activity, u64> = BTreeMap::new();
        let mut slots: Vec<Slot> = Vec::new();
        let mut running = 0u64;
        for gap in &gaps {
            let first = slots.len();
            running.grow(self.place_running(gap, &time.seen_running, sample_ns, &mut slots));
            if let Some((of, ns)) = gap.before {
                let poured = self.pour(&mut slots[first..], of, ns);
                rest.entry(of).or_default().grow(ns - poured);
            }
        }
        rest.entry(Part::On.into()).or_default().grow(time.on_ns.saturating_sub(running));
        rest.entry(Part::Idle.into()).or_default().grow(time.idle_ns);
        for sum in sums {
            rest.entry(sum.of).or_default().grow(sum.weight_ns);
        }
        for (of, ns) in rest {
            self.pour(&mut slots, of, ns);
        }
        // Time without any record.
        self.pour(&mut slots, Part::Blocked(WaitReason::Unknown).into(), u64::MAX);
    }

    /// Puts `sample_ns` of running around each sample in `gap`, appends the slots of the gap, and returns the sum of
    /// the running that found room.
    fn place_running(&mut self, gap: &Gap, seen: &[u64], sample_ns: u64, slots: &mut Vec<Slot>) -> u64 {
        let inside =
            &seen[seen.partition_point(|&at| at < gap.from)..seen.partition_point(|&at| at < gap.to)];
        let (mut from, mut sum) = (gap.from, 0u64);
        for (i, &at) in inside.iter().enumerate() {
            let middle = |a: u64, b: u64| a + (b - a) / 2;
            let least = i.checked_sub(1).map_or(gap.from, |before| middle(inside[before], at));
            let most = inside.get(i + 1).map_or(gap.to, |&after| middle(at, after));
            let half_ns = sample_ns.div_ceil(2);
            // Where one side has no room for its half, the other takes it.
            let begin = at.saturating_sub(half_ns).max(least);
            let end = begin.saturating_add(sample_ns).min(most);
            let begin = end.saturating_sub(sample_ns).clamp(least, begin);
            if from < begin {
                slots.push(Slot { from, to: begin, used: 0 });
            }
            if begin < end {
                self.spread(Part::On.into(), begin..end, end - begin);
                slots.push(Slot { from: begin, to: end, used: end - begin });
                sum.grow(end - begin);
            }
            from = from.max(end);
        }
        if from < gap.to {
            slots.push(Slot { from, to: gap.to, used: 0 });
        }
        sum
    }

    /// Spreads up to `ns` of a state over the room in `slots`; returns how much found room.
    fn pour(&mut self, slots: &mut [Slot], of: Activity, ns: u64) -> u64 {
        let room: u64 = slots.iter().map(Slot::room).grown_sum();
        let ns = ns.min(room);
        let share =
            |room_so_far: u64| (u128::from(ns) * u128::from(room_so_far) / u128::from(room.max(1))) as u64;
        let mut passed = 0u64;
        for slot in slots.iter_mut().filter(|_| ns > 0) {
            let here = share(passed + slot.room()) - share(passed);
            passed += slot.room();
            slot.used += here;
            self.spread(of, slot.from..slot.to, here);
        }
        ns
    }

    /// `ns` of a state, evenly over a time.
    fn spread(&mut self, of: Activity, time: Range<u64>, ns: u64) {
        let Range { start: from, end: to } = time;
        if ns == 0 || from >= to {
            return;
        }
        let whole = u128::from(to - from);
        let mut passed = 0u64;
        let share = |ns_so_far: u64| (u128::from(ns) * u128::from(ns_so_far) / whole) as u64;
        let before = from.max(self.grid.begin_ns).min(to) - from;
        self.grid.each(from, to, |at, ns_here| {
            let here = share(before + passed + ns_here) - share(before + passed);
            passed += ns_here;
            self.columns[at].add(of, here);
            self.guessed[at].add(of, here);
        });
    }
}

impl Grid {
    /// Calls `add` for each column that a time covers in part or whole, with the covered ns.
    pub fn each(self, from: u64, to: u64, mut add: impl FnMut(usize, u64)) {
        let Self { begin_ns, column_ns, columns } = self;
        let column_end = |at: u64| begin_ns.saturating_add(column_ns.saturating_mul(at));
        let end_ns = column_end(columns as u64);
        let (mut from, to) = (from.max(begin_ns), to.min(end_ns));
        while from < to {
            let at = ((from - begin_ns) / column_ns) as usize;
            let until = to.min(column_end(at as u64 + 1));
            add(at, until - from);
            from = until;
        }
    }
}

/// The gaps between kept waits within a life.
fn gaps(life: &Range<u64>, kept: &[Piece]) -> Vec<Gap> {
    let Range { start, end } = *life;
    let mut gaps = Vec::new();
    let mut since = start;
    let inside = kept.iter().filter(|p| p.since_ns >= start && p.since_ns < end.max(start.saturating_add(1)));
    for piece in inside {
        let before = Some((piece.of, piece.weight_ns.saturating_sub(piece.length_ns)));
        gaps.push(Gap { from: since, to: piece.since_ns.max(since), before });
        since = since.max(piece.since_ns.saturating_add(piece.length_ns));
    }
    if since < end {
        gaps.push(Gap { from: since, to: end, before: None });
    }
    gaps
}
