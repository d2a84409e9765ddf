//! Threads over time: a strip for each, cut into columns, each with its time by state.

mod balance;
mod column;
mod path_strip;
mod strip;
mod targets;

pub use column::Column;
pub use path_strip::{PathStrip, path_strip};
pub use targets::TimelineTarget;

use self::strip::{Activity, Grid, Piece, Strip, ThreadTime};
use self::targets::{TargetNames, targets_of};
use super::wall::{Classes, ThreadRow, WallOpts, wall};
use crate::grow::Grow as _;
use crate::profile::{Profile, TaskId};
use rustc_hash::FxHashMap;

/// Threads, times and columns to show.
#[derive(Clone, Debug, Default)]
pub struct TimelineOpts {
    /// Which threads, and whether idle waits are shown separately.
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
    /// Last name.
    pub comm: String,
    /// How it is called among others ([`ThreadRow::short_label`]).
    pub label: String,
    /// At least nine tenths of its life idle.
    pub is_idle: bool,
    /// Time by state, by column.
    pub columns: Vec<Column>,
    /// Targets of its waits in the time shown, most time first.
    pub targets: Vec<TimelineTarget>,
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
    let mut names = TargetNames::new(profile);
    let times = times_by_thread(&mut names, opts, &view.threads);
    let states = states_by_thread(profile, &view.threads);
    let strip = |time| {
        let mut strip = Strip::new(grid);
        strip.fill(time);
        strip
    };
    let mut strips: Vec<Strip> = times.into_iter().map(strip).collect();
    if !profile.cpu_sockets.is_empty() {
        balance::balance(&mut strips, column_ns, profile.cpu_sockets.len());
    }
    let row = |((thread, strip), states): ((&ThreadRow, Strip), [f64; 8])| {
        let columns = strip.into_columns();
        TimelineRow {
            pid: thread.pid,
            tid: thread.tid,
            comm: thread.comm.clone(),
            label: thread.short_label(),
            is_idle: thread.is_idle(),
            targets: targets_of(&columns, &names),
            columns,
            life_ns: thread.life_ns,
            states,
        }
    };
    let rows = view.threads.iter().zip(strips).zip(states).map(row).collect();
    Timeline { column_ns, span_ns: (from, to), rows }
}

fn index_of(threads: &[ThreadRow]) -> FxHashMap<TaskId, usize> {
    let tasks =
        threads.iter().enumerate().flat_map(|(at, row)| row.tasks.iter().map(move |&task| (task, at)));
    tasks.collect()
}

/// All that is known of when each thread did what.
fn times_by_thread(
    names: &mut TargetNames<'_>,
    opts: &TimelineOpts,
    threads: &[ThreadRow],
) -> Vec<ThreadTime> {
    let profile = names.profile;
    let index = index_of(threads);
    let classes = Classes::of(profile, &opts.wall);
    let mut times = vec![ThreadTime::default(); threads.len()];
    for class in classes.iter(profile) {
        let (part, wait) = (class.part, class.wait);
        if let Some(&at) = index.get(&wait.task) {
            let (since_ns, length_ns, weight_ns) = (wait.since_ns, wait.length_ns, wait.weight_ns);
            let of = Activity { part, target: names.target(wait, part) };
            times[at].pieces.push(Piece { of, since_ns, length_ns, weight_ns });
        }
    }
    for totals in &profile.off_cpu.totals {
        if let Some(&at) = index.get(&totals.task) {
            times[at].lives.push(totals.start_ns..totals.end_ns);
        }
    }
    for seen in &profile.off_cpu.seen_running {
        if let Some(&at) = index.get(&seen.task) {
            times[at].seen_running.push(seen.time_ns);
        }
    }
    for (time, thread) in times.iter_mut().zip(threads) {
        (time.on_ns, time.idle_ns) = (thread.times.on_ns, thread.kernel_idle_ns);
        time.pieces.sort_by_key(|piece| piece.since_ns);
        time.seen_running.sort_unstable();
    }
    times
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::{OffCpuSource, RunSample, ThreadTotals, Wait, WaitReason};
    use crate::profile::Task;
    use crate::view::wall::Part;
    use perfdata::off_cpu::State;

    fn profile_of(waits: &[(State, u64, u64, u64)], life: (u64, u64), on: u64) -> Profile {
        let mut profile = Profile::default();
        let comm = profile.strings.intern("app");
        let task = profile.push_task(Task { pid: 1, tid: 1, process: 0, comm });
        let wait = |&(state, since_ns, length_ns, weight_ns): &_| Wait {
            state,
            since_ns,
            length_ns,
            weight_ns,
            ..Wait::of(task)
        };
        profile.off_cpu.waits = waits.iter().map(wait).collect();
        let mut total_ns = [0; 8];
        for wait in &profile.off_cpu.waits {
            total_ns[usize::from(wait.state.code())] += wait.weight_ns;
        }
        total_ns[usize::from(State::On.code())] = on;
        let (start_ns, end_ns) = life;
        profile.off_cpu.totals.push(ThreadTotals { task, start_ns, end_ns, total_ns, switches: 1 });
        profile.off_cpu.source = Some(OffCpuSource::Tally);
        profile
    }

    fn seen(profile: &mut Profile, task: TaskId, time_ns: u64) -> RunSample {
        let path = profile.callsites.intern_leaf_first(&[crate::table::FrameId::from_index(0)]);
        RunSample { task, time_ns, callsite: path.expect("a path of one frame"), period: 1, cpu: None }
    }

    fn letters(profile: &Profile, columns: usize, span_ns: Option<(u64, u64)>) -> String {
        let opts = TimelineOpts { columns, span_ns, ..TimelineOpts::default() };
        let timeline = timeline(profile, &opts);
        let letter = |column: &Column| match column.main() {
            None if column.is_empty() => ' ',
            None => '~',
            Some(Part::On) => '#',
            Some(Part::Blocked(WaitReason::Disk)) => 'd',
            Some(Part::Blocked(_)) => 'b',
            Some(Part::Preempted) => 'p',
            Some(_) => '?',
        };
        timeline.rows[0].columns.iter().map(letter).collect()
    }

    fn on_ns(timeline: &Timeline, row: usize) -> Vec<u64> {
        timeline.rows[row].columns.iter().map(|column| column.ns(Part::On)).collect()
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
        // 10 ns seen, 390 more are in its weight: the thread hardly ran before it.
        let profile = profile_of(&[(State::Disk, 400, 10, 400)], (0, 1000), 600);
        assert_eq!(letters(&profile, 10, None), "dddd######");
        let sums = profile_of(&[(State::Disk, 0, 0, 900)], (0, 1000), 100);
        assert_eq!(letters(&sums, 5, None), "ddddd");
    }

    #[test]
    fn the_time_after_the_last_kept_wait_is_not_taken_for_running() {
        // The thread ran for 50 of 1000 ns. One wait was kept, at the begin; all others are one sum.
        let mut profile = profile_of(&[(State::Disk, 10, 90, 90), (State::Disk, 0, 0, 860)], (0, 1000), 50);
        let even = timeline(&profile, &TimelineOpts { columns: 10, ..TimelineOpts::default() });
        assert_eq!(letters(&profile, 10, None), "dddddddddd");
        assert!(on_ns(&even, 0).iter().all(|&ns| ns < 10), "{:?}", on_ns(&even, 0));
        // Samples of the CPU clock show where it ran.
        let task = profile.off_cpu.waits[0].task;
        profile.off_cpu.seen_running = [650, 950].map(|time_ns| seen(&mut profile, task, time_ns)).to_vec();
        let seen = timeline(&profile, &TimelineOpts { columns: 10, ..TimelineOpts::default() });
        assert_eq!(on_ns(&seen, 0), [0, 0, 0, 0, 0, 0, 25, 0, 0, 25]);
    }

    /// Four threads take turns of 1 to 8 ms on two CPUs for a second. Every fourth wait is kept and has the weight of
    /// those before it. The rest at the end is a sum, and each ms of running is one sample.
    fn taking_turns() -> Profile {
        let mut profile = Profile::default();
        let mut seed = 12345u64;
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            1 + (seed >> 33) % most
        };
        let comm = profile.strings.intern("app");
        for tid in 0..4 {
            let task = profile.push_task(Task { pid: 1, tid, process: 0, comm });
            let (mut now, mut on, mut off, mut since_kept) = (0, 0, 0, 0);
            let mut turn = 0;
            while now < 1000 {
                turn += 1;
                let ran = random(8).min(1000 - now);
                for ms in now..now + ran {
                    let sample = seen(&mut profile, task, ms * 1_000_000 + 500_000);
                    profile.off_cpu.seen_running.push(sample);
                }
                (now, on) = (now + ran, on + ran);
                let waited = (ran + random(9)).min(1000 - now);
                (off, since_kept) = (off + waited, since_kept + waited);
                let is_kept = turn % 4 == 0 && waited > 0 || now + waited == 1000;
                if is_kept && since_kept > 0 {
                    let length_ns = if now + waited == 1000 { 0 } else { waited * 1_000_000 };
                    let since_ns = if length_ns == 0 { 0 } else { now * 1_000_000 };
                    let weight_ns = since_kept * 1_000_000;
                    let wait = Wait { state: State::Sleep, since_ns, length_ns, weight_ns, ..Wait::of(task) };
                    profile.off_cpu.waits.push(wait);
                    since_kept = 0;
                }
                now += waited;
            }
            let mut total_ns = [0; 8];
            total_ns[usize::from(State::On.code())] = on * 1_000_000;
            total_ns[usize::from(State::Sleep.code())] = off * 1_000_000;
            let totals = ThreadTotals { task, start_ns: 0, end_ns: 1_000_000_000, total_ns, switches: turn };
            profile.off_cpu.totals.push(totals);
        }
        profile.off_cpu.source = Some(OffCpuSource::Tally);
        profile
    }

    #[test]
    fn columns_never_hold_more_running_than_there_are_cpus_and_add_up_to_the_exact_total() {
        let profile = taking_turns();
        let view = timeline(&profile, &TimelineOpts { columns: 40, ..TimelineOpts::default() });
        for column in 0..40 {
            let on: u64 = (0..4).map(|row| on_ns(&view, row)[column]).sum();
            assert!(on <= 2 * view.column_ns, "column {column}: {on} ns of running in {} ns", view.column_ns);
        }
        for (at, row) in view.rows.iter().enumerate() {
            let on: u64 = on_ns(&view, at).iter().sum();
            let exact = row.states[usize::from(State::On.code())];
            assert!((on as f64 / row.life_ns as f64 - exact).abs() < 0.002, "{on} ns, exact share {exact}");
        }
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
            timeline.rows.iter().map(|row| row.columns.iter().filter(|c| !c.is_empty()).count()).collect();
        assert_eq!(alive, [10, 3]);
        assert!((timeline.rows[1].states[usize::from(State::Disk.code())] - 1.0 / 3.0).abs() < 1e-9);
    }
}
