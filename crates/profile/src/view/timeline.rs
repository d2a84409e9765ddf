//! Threads over time: a strip for each, cut into columns, each of the state that took most of it.
//!
//! Waits that were kept lie where they were. A kept wait may stand for short ones before it: these are spread over the
//! time since the wait before; what is only known as a sum is spread over all the time left. The rest is running.

use super::wall::{Classes, Part, ThreadRow, WallOpts, wall};
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::{Profile, TaskId};
use rustc_hash::FxHashMap;

/// What to show.
#[derive(Clone, Debug, Default)]
pub struct TimelineOpts {
    /// Which threads, and whether idle waits are told apart.
    pub wall: WallOpts,
    /// Columns.
    pub columns: usize,
    /// From and to, ns since the recording's first moment; `None` for all.
    pub span_ns: Option<(u64, u64)>,
}

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineRow {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Its last name.
    pub comm: String,
    /// At least nine tenths of its life idle.
    pub is_idle: bool,
    /// By column: what took most of it; `None` where the thread was not alive.
    pub cells: Vec<Option<Part>>,
    /// From its first to its last moment, ns; of a thread id used twice, both lives.
    pub life_ns: u64,
    /// Share of its life in each state, by [`perfdata::off_cpu::State::code`]; of all of it, whatever part is shown.
    pub states: [f64; 8],
}

/// All threads shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Length of a column, ns.
    pub column_ns: u64,
    /// From and to, ns since the recording's first moment.
    pub span_ns: (u64, u64),
    /// In the order of the wall-clock view: most active time first.
    pub rows: Vec<TimelineRow>,
}

/// Computes it.
#[must_use]
pub fn timeline(profile: &Profile, opts: &TimelineOpts) -> Timeline {
    let view = wall(profile, &opts.wall);
    let columns = opts.columns.max(1);
    let asked = opts.span_ns.unwrap_or((0, u64::MAX));
    let from = asked.0.min(view.wall_ns);
    let to = asked.1.clamp(from, view.wall_ns);
    let column_ns = (to - from).div_ceil(columns as u64).max(1);
    let grid = Grid { begin_ns: view.begin_ns.saturating_add(from), column_ns, columns };
    let mut by_thread = pieces_by_thread(profile, opts, &view.threads);
    let lives = lives_by_thread(profile, &view.threads);
    let states = states_by_thread(profile, &view.threads);
    let row = |(at, thread): (usize, &ThreadRow)| {
        let mut strip = Strip::new(grid);
        strip.fill(&lives[at], std::mem::take(&mut by_thread[at]));
        TimelineRow {
            pid: thread.pid,
            tid: thread.tid,
            comm: thread.comm.clone(),
            is_idle: thread.is_idle(),
            cells: strip.cells(),
            life_ns: thread.life_ns,
            states: states[at],
        }
    };
    Timeline { column_ns, span_ns: (from, to), rows: view.threads.iter().enumerate().map(row).collect() }
}

/// A wait of known place, with what it stands for beyond its own length.
#[derive(Clone, Copy, Debug)]
struct Piece {
    part: Part,
    since_ns: u64,
    length_ns: u64,
    weight_ns: u64,
}

fn index_of(threads: &[ThreadRow]) -> FxHashMap<TaskId, usize> {
    let tasks =
        threads.iter().enumerate().flat_map(|(at, row)| row.tasks.iter().map(move |&task| (task, at)));
    tasks.collect()
}

fn pieces_by_thread(profile: &Profile, opts: &TimelineOpts, threads: &[ThreadRow]) -> Vec<Vec<Piece>> {
    let index = index_of(threads);
    let classes = Classes::of(profile, &opts.wall);
    let mut pieces = vec![Vec::new(); threads.len()];
    for class in classes.iter(profile) {
        let (part, wait) = (class.part, class.wait);
        if let Some(&at) = index.get(&wait.task) {
            let (since_ns, length_ns, weight_ns) = (wait.since_ns, wait.length_ns, wait.weight_ns);
            pieces[at].push(Piece { part, since_ns, length_ns, weight_ns });
        }
    }
    for thread in &mut pieces {
        thread.sort_by_key(|piece| piece.since_ns);
    }
    pieces
}

/// First and last moments of each thread; of threads without totals, all of the time.
fn lives_by_thread(profile: &Profile, threads: &[ThreadRow]) -> Vec<Vec<(u64, u64)>> {
    let index = index_of(threads);
    let mut lives = vec![Vec::new(); threads.len()];
    for totals in &profile.off_cpu.totals {
        if let Some(&at) = index.get(&totals.task) {
            lives[at].push((totals.start_ns, totals.end_ns));
        }
    }
    lives
}

fn states_by_thread(profile: &Profile, threads: &[ThreadRow]) -> Vec<[f64; 8]> {
    let index = index_of(threads);
    let mut sums = vec![([0u64; 8], 0u64); threads.len()];
    for totals in &profile.off_cpu.totals {
        let Some((sum, life)) = index.get(&totals.task).map(|&at| &mut sums[at]) else { continue };
        life.grow(totals.life_ns());
        for (sum, ns) in sum.iter_mut().zip(totals.total_ns) {
            sum.grow(ns);
        }
    }
    let shares = |(sum, life): ([u64; 8], u64)| sum.map(|ns| ns as f64 / life.max(1) as f64);
    sums.into_iter().map(shares).collect()
}

#[derive(Clone, Copy)]
struct Grid {
    begin_ns: u64,
    column_ns: u64,
    columns: usize,
}

/// A thread's columns while they are filled: ns by part.
struct Strip {
    grid: Grid,
    columns: Vec<Vec<(Part, u64)>>,
}

impl Strip {
    fn new(grid: Grid) -> Self {
        Self { grid, columns: vec![Vec::new(); grid.columns] }
    }

    fn fill(&mut self, lives: &[(u64, u64)], pieces: Vec<Piece>) {
        // What has no place of its own goes where the thread was not seen waiting.
        let sums: Vec<Piece> = pieces.iter().copied().filter(|piece| piece.length_ns == 0).collect();
        let placed: Vec<Piece> = pieces.into_iter().filter(|piece| piece.length_ns > 0).collect();
        for piece in &placed {
            self.add(piece.part, piece.since_ns, piece.since_ns.saturating_add(piece.length_ns));
        }
        let mut free: Vec<(u64, u64, u64)> = Vec::new();
        for &(start, end) in lives {
            self.gaps(start, end, &placed, &mut free);
        }
        let room: u64 = free.iter().map(|(from, to, used)| (to - from).saturating_sub(*used)).grown_sum();
        for (from, to, used) in free {
            let left = (to - from).saturating_sub(used);
            let mut running = left;
            for sum in &sums {
                let ns = (u128::from(sum.weight_ns) * u128::from(left) / u128::from(room.max(1))) as u64;
                let ns = ns.min(running);
                running -= ns;
                self.spread(sum.part, (from, to), ns);
            }
            self.spread(Part::On, (from, to), running);
        }
    }

    /// The gaps between waits within a life, each with the ns that the wait at its end stands for beyond its length.
    fn gaps(&mut self, start: u64, end: u64, placed: &[Piece], free: &mut Vec<(u64, u64, u64)>) {
        let mut since = start;
        let inside =
            placed.iter().filter(|p| p.since_ns >= start && p.since_ns < end.max(start.saturating_add(1)));
        for piece in inside {
            let gap = (since, piece.since_ns.max(since));
            let before = piece.weight_ns.saturating_sub(piece.length_ns).min(gap.1 - gap.0);
            self.spread(piece.part, gap, before);
            free.push((gap.0, gap.1, before));
            since = since.max(piece.since_ns.saturating_add(piece.length_ns));
        }
        if since < end {
            free.push((since, end, 0));
        }
    }

    /// `ns` of a state, evenly over a time.
    fn spread(&mut self, part: Part, (from, to): (u64, u64), ns: u64) {
        if ns == 0 || from >= to {
            return;
        }
        let whole = u128::from(to - from);
        self.each(from, to, |ns_here| (part, (u128::from(ns) * u128::from(ns_here) / whole) as u64));
    }

    fn add(&mut self, part: Part, from: u64, to: u64) {
        self.each(from, to, |ns| (part, ns));
    }

    /// For each column that a time touches: adds what `share` makes of the ns in it.
    fn each(&mut self, from: u64, to: u64, share: impl Fn(u64) -> (Part, u64)) {
        let Grid { begin_ns, column_ns, columns } = self.grid;
        let column_end = |at: u64| begin_ns.saturating_add(column_ns.saturating_mul(at));
        let end_ns = column_end(columns as u64);
        let (mut from, to) = (from.max(begin_ns), to.min(end_ns));
        while from < to {
            let at = ((from - begin_ns) / column_ns) as usize;
            let until = to.min(column_end(at as u64 + 1));
            let (part, ns) = share(until - from);
            match self.columns[at].iter_mut().find(|(other, _)| *other == part) {
                Some((_, sum)) => sum.grow(ns),
                None => self.columns[at].push((part, ns)),
            }
            from = until;
        }
    }

    fn cells(&self) -> Vec<Option<Part>> {
        let most = |parts: &Vec<(Part, u64)>| {
            parts.iter().max_by_key(|(part, ns)| (*ns, *part)).map(|(part, _)| *part)
        };
        self.columns.iter().map(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::{Reason, Source, ThreadTotals, Wait};
    use crate::profile::Task;
    use perfdata::off_cpu::State;

    fn profile_of(waits: &[(State, u64, u64, u64)], life: (u64, u64), on: u64) -> Profile {
        let mut profile = Profile::default();
        let comm = profile.strings.intern("app");
        let task = profile.push_task(Task { pid: 1, tid: 1, process: 0, comm });
        let wait = |&(state, since_ns, length_ns, weight_ns): &_| Wait {
            task,
            callsite: None,
            state,
            since_ns,
            length_ns,
            weight_ns,
            syscall: None,
            args: [0; 3],
            told: None,
            other: None,
            flags: 0,
            sums: None,
        };
        profile.off_cpu.waits = waits.iter().map(wait).collect();
        let mut total_ns = [0; 8];
        for wait in &profile.off_cpu.waits {
            total_ns[usize::from(wait.state.code())] += wait.weight_ns;
        }
        total_ns[usize::from(State::On.code())] = on;
        let (start_ns, end_ns) = life;
        profile.off_cpu.totals.push(ThreadTotals { task, start_ns, end_ns, total_ns, switches: 1 });
        profile.off_cpu.source = Some(Source::Tally);
        profile
    }

    fn letters(profile: &Profile, columns: usize, span_ns: Option<(u64, u64)>) -> String {
        let opts = TimelineOpts { columns, span_ns, ..TimelineOpts::default() };
        let timeline = timeline(profile, &opts);
        let letter = |cell: &Option<Part>| match cell {
            None => ' ',
            Some(Part::On) => '#',
            Some(Part::Blocked(Reason::Disk)) => 'd',
            Some(Part::Blocked(_)) => 'b',
            Some(Part::Preempted) => 'p',
            Some(_) => '?',
        };
        timeline.rows[0].cells.iter().map(letter).collect()
    }

    #[test]
    fn waits_lie_where_they_were_and_the_rest_is_running() {
        let profile = profile_of(
            &[(State::Disk, 1200, 300, 300), (State::Preempted, 1700, 100, 100)],
            (1000, 2000),
            600,
        );
        assert_eq!(letters(&profile, 10, None), "##ddd##p##");
        assert_eq!(letters(&profile, 6, Some((200, 500))), "dddddd");
        assert_eq!(letters(&profile, 4, Some((400, 600))), "dd##");
    }

    #[test]
    fn short_waits_fill_the_time_before_the_one_that_stands_for_them() {
        // 10 ns seen, 390 stand behind it: the thread hardly ran before it.
        let profile = profile_of(&[(State::Disk, 400, 10, 400)], (0, 1000), 600);
        assert_eq!(letters(&profile, 10, None), "dddd######");
        let sums = profile_of(&[(State::Disk, 0, 0, 900)], (0, 1000), 100);
        assert_eq!(letters(&sums, 5, None), "ddddd");
    }

    #[test]
    fn a_thread_is_drawn_only_while_it_lives() {
        let mut profile = profile_of(&[(State::Disk, 500, 100, 100)], (500, 800), 200);
        let other = profile_of(&[], (0, 1000), 1000).off_cpu.totals[0];
        let comm = profile.strings.intern("long");
        let task = profile.push_task(Task { pid: 2, tid: 2, process: 1, comm });
        profile.off_cpu.totals.push(ThreadTotals { task, ..other });
        let timeline = timeline(&profile, &TimelineOpts { columns: 10, ..TimelineOpts::default() });
        let alive: Vec<usize> =
            timeline.rows.iter().map(|row| row.cells.iter().filter(|c| c.is_some()).count()).collect();
        assert_eq!(alive, [10, 3]);
        assert!((timeline.rows[1].states[usize::from(State::Disk.code())] - 1.0 / 3.0).abs() < 1e-9);
    }
}
