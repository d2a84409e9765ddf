//! One row per function: the time it and its callees spent, by state.
//!
//! On-CPU samples are scaled, per thread, to the exact running time; a thread that ran without a sample has its
//! running time in the row `[no sample]`, waits without stack in `[short waits]`, other such time in `[no stack]`, what lost
//! records hide in `[unknown]`.

use super::{Classes, Part, ThreadRow, Times};
use crate::grow::Grow as _;
use crate::off_cpu::WaitReason;
use crate::profile::{CellKey, Profile, TaskId};
use crate::table::{CallsiteId, DsoId, FrameId, StringId};
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// One function's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRow {
    /// Name; in brackets for time without stack.
    pub name: String,
    /// File that contains it; empty without one.
    pub dso: String,
    /// In the kernel.
    pub kernel: bool,
    /// Itself at the leaf (of user code: the innermost user function; the kernel part counts for who called it).
    pub own: Times,
    /// With everything it called.
    pub children: Times,
}

/// A function, by its name and file.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Named(StringId, DsoId),
    Unnamed(DsoId),
    Bracket(&'static str),
}

/// Rows by children time without idle, most first.
pub(super) fn rows(profile: &Profile, classes: &Classes, threads: &[ThreadRow]) -> Vec<FunctionRow> {
    let mut table =
        Table { profile, rows: Vec::new(), index: FxHashMap::default(), seen: Vec::new(), stamp: 0 };
    add_running(&mut table, threads);
    for class in classes.named(profile) {
        match class.wait.callsite {
            Some(callsite) => table.add_path(callsite, class.part, class.wait.weight_ns),
            None if class.part == Part::Blocked(WaitReason::Unknown) => {
                table.add_bracket("[unknown]", class.part, class.wait.weight_ns)
            }
            None if matches!(class.part, Part::Blocked(_)) && class.wait.is_short_rest() => {
                table.add_bracket("[short waits]", class.part, class.wait.weight_ns)
            }
            None => table.add_bracket("[no stack]", class.part, class.wait.weight_ns),
        }
    }
    let mut rows = table.rows;
    rows.rank_by(|a, b| {
        let key = |row: &FunctionRow| (Reverse(row.children.active_ns()), Reverse(row.children.total_ns()));
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn add_running(table: &mut Table<'_>, threads: &[ThreadRow]) {
    for (_, callsite, ns) in running(table.profile, threads) {
        match callsite {
            Some(callsite) => table.add_path(callsite, Part::On, ns),
            None => table.add_bracket("[no sample]", Part::On, ns),
        }
    }
}

/// Running time by thread and path, from the event that samples it best; `None` for time without a sample.
pub(super) fn running(profile: &Profile, threads: &[ThreadRow]) -> Vec<(TaskId, Option<CallsiteId>, u64)> {
    let cells = running_cells(profile, threads).into_iter();
    cells.map(|(task, key, ns)| (task, key.map(|key| key.callsite), ns)).collect()
}

/// The same, cell by cell: with the times of samples where the profile has them.
pub(super) fn running_cells(profile: &Profile, threads: &[ThreadRow]) -> Vec<(TaskId, Option<CellKey>, u64)> {
    let mut rows_of: FxHashMap<TaskId, usize> = FxHashMap::default();
    for (at, row) in threads.iter().enumerate() {
        rows_of.extend(row.tasks.iter().map(|&task| (task, at)));
    }
    let event = profile.clock_event();
    let cells: Vec<(usize, CellKey, u64)> = (profile.cells().iter())
        .filter(|(key, _)| Some(key.event as usize) == event)
        .filter_map(|(key, sums)| Some((*rows_of.get(&key.task)?, *key, sums.period)))
        .collect();
    let mut shares = path_shares(&cells, threads);
    let mut given = vec![0u64; threads.len()];
    let mut parts = Vec::with_capacity(cells.len() + threads.len());
    for (at, key, period) in cells {
        let ns = shares.get_mut(&(key.task, key.callsite)).map_or(0, |share| share.next(period));
        given[at].grow(ns);
        parts.push((key.task, Some(key), ns));
    }
    for (row, given) in threads.iter().zip(given) {
        let rest = row.times.on_ns.saturating_sub(given);
        parts.extend(row.tasks.first().map(|&task| (task, None, rest)));
    }
    parts
}

/// Running time of one path of a thread, which its samples share.
#[derive(Default)]
struct PathShare {
    period: u128,
    ns: u64,
    /// The part of `period`, and of `ns`, of the samples so far.
    seen: u128,
    given: u64,
}

impl PathShare {
    /// The next sample's part. That of all of them is the whole, however many they are.
    fn next(&mut self, period: u64) -> u64 {
        self.seen += u128::from(period);
        let so_far = scaled(self.ns, self.seen, self.period);
        let before = std::mem::replace(&mut self.given, so_far);
        so_far.saturating_sub(before)
    }
}

/// Each path's part of its thread's exact time, rounded down: the same however many samples it has.
fn path_shares(
    cells: &[(usize, CellKey, u64)],
    threads: &[ThreadRow],
) -> FxHashMap<(TaskId, CallsiteId), PathShare> {
    let mut sampled = vec![0u128; threads.len()];
    let mut paths: FxHashMap<(TaskId, CallsiteId), (usize, u128)> = FxHashMap::default();
    for (at, key, period) in cells {
        sampled[*at] += u128::from(*period);
        paths.entry((key.task, key.callsite)).or_insert((*at, 0)).1 += u128::from(*period);
    }
    let share = |(at, period): (usize, u128)| {
        let ns = scaled(threads[at].times.on_ns, period, sampled[at]);
        PathShare { period, ns, ..PathShare::default() }
    };
    paths.into_iter().map(|(path, of)| (path, share(of))).collect()
}

fn scaled(ns: u64, part: u128, whole: u128) -> u64 {
    u64::try_from(u128::from(ns) * part / whole.max(1)).unwrap_or(u64::MAX)
}

/// The functions of a frame, innermost first.
fn keys(profile: &Profile, frame: FrameId) -> impl Iterator<Item = Key> {
    let dso = profile.frames.of(frame).dso;
    let names = profile.frame_names(frame);
    let named = names.iter().map(move |inline| Key::Named(profile.symbols.of(inline.symbol).name, dso));
    named.chain(names.is_empty().then_some(Key::Unnamed(dso)))
}

struct Table<'p> {
    profile: &'p Profile,
    rows: Vec<FunctionRow>,
    index: FxHashMap<Key, usize>,
    /// By row: stamp of the last path it was counted for, so that recursion counts once.
    seen: Vec<u64>,
    stamp: u64,
}

impl Table<'_> {
    fn add_bracket(&mut self, name: &'static str, part: Part, ns: u64) {
        if ns > 0 {
            let at = self.row(Key::Bracket(name), None);
            self.rows[at].own.add_part(part, ns);
            self.rows[at].children.add_part(part, ns);
        }
    }

    /// Own time goes to the leaf when running, to the innermost user function when waiting. The reason already gives
    /// the kernel's part of the wait. Readers look for the function that made the thread wait.
    fn add_path(&mut self, callsite: CallsiteId, part: Part, ns: u64) {
        self.stamp += 1;
        let frames = self.profile.callsites.leaf_first(callsite);
        let functions: Vec<(FrameId, Key)> =
            frames.flat_map(|frame| keys(self.profile, frame).map(move |key| (frame, key))).collect();
        let first_user = functions.iter().position(|(frame, _)| !super::is_kernel(self.profile, *frame));
        let own = if part == Part::On { 0 } else { first_user.unwrap_or(0) };
        for (depth, (frame, key)) in functions.into_iter().enumerate() {
            let at = self.row(key, Some(frame));
            if depth == own {
                self.rows[at].own.add_part(part, ns);
            }
            if std::mem::replace(&mut self.seen[at], self.stamp) != self.stamp {
                self.rows[at].children.add_part(part, ns);
            }
        }
    }

    fn row(&mut self, key: Key, frame: Option<FrameId>) -> usize {
        if let Some(&at) = self.index.get(&key) {
            return at;
        }
        let dso = frame.map_or_else(String::new, |frame| {
            self.profile.dsos.of(self.profile.frames.of(frame).dso).short_name.clone()
        });
        let name = match &key {
            Key::Named(name, _) => self.profile.strings.of(*name).to_owned(),
            Key::Unnamed(id) => self.profile.dsos.of(*id).bracketed_name(),
            Key::Bracket(name) => (*name).to_owned(),
        };
        let kernel = frame.is_some_and(|frame| super::is_kernel(self.profile, frame));
        self.rows.push(FunctionRow { name, dso, kernel, own: Times::default(), children: Times::default() });
        self.seen.push(0);
        self.index.insert(key, self.rows.len() - 1);
        self.rows.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::{OffCpuSource, ThreadTotals, Wait};
    use crate::profile::Task;
    use crate::view::wall::{WallOpts, wall};
    use perfdata::off_cpu::{State, flag};

    #[test]
    fn only_blocked_time_without_a_stack_is_in_short_waits() {
        let mut profile = Profile::default();
        let comm = profile.strings.intern("main");
        let task = profile.push_task(Task { pid: 1, tid: 1, process: 0, comm });
        let totals = ThreadTotals { task, start_ns: 0, end_ns: 100, total_ns: [0; 8], switches: 9 };
        profile.off_cpu.totals.push(totals);
        profile.off_cpu.source = Some(OffCpuSource::Tally);
        for (state, weight_ns) in [(State::Sleep, 30), (State::Preempted, 20), (State::Runnable, 10)] {
            profile.off_cpu.waits.push(Wait { state, weight_ns, flags: flag::REST, ..Wait::of(task) });
        }
        let found = wall(&profile, &WallOpts { with_idle: true, ..WallOpts::default() }).functions;
        let time_of = |name: &str| found.iter().find(|row| row.name == name).map(|row| &row.own);
        let short = time_of("[short waits]").expect("the blocked time");
        assert_eq!((short.blocked_total_ns(), short.preempted_ns), (30, 0));
        let queued = time_of("[no stack]").expect("the time in the queue");
        assert_eq!((queued.preempted_ns, queued.runnable_ns), (20, 10));
    }

    #[test]
    fn the_parts_of_samples_are_the_whole_of_their_path() {
        let mut share = PathShare { period: 3, ns: 10, ..PathShare::default() };
        let parts = [share.next(1), share.next(1), share.next(1)];
        assert_eq!((parts, parts.iter().sum::<u64>()), ([3, 3, 4], 10));
        let mut at_once = PathShare { period: 3, ns: 10, ..PathShare::default() };
        assert_eq!(at_once.next(3), 10);
    }
}
