//! One row per thread: its life, divided.

use super::{Classes, Part, Times};
use crate::grow::Grow as _;
use crate::profile::{Profile, TaskId};
use crate::view::ranking::RankRows as _;
use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// One thread's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Last name.
    pub comm: String,
    /// The title of its process, of the first thread: its own or its name with what it is for, `git gc`.
    pub title: Option<String>,
    /// The program's first function on it, where other threads of its process have its name.
    pub start: Option<String>,
    /// From its first to its last moment.
    pub life_ns: u64,
    /// Times by state; they add up to `life_ns` where the source is complete.
    pub times: Times,
    /// Times it left a CPU.
    pub switches: u64,
    /// Part of its idle time in the state of a CPU's idle kernel thread, ns.
    pub kernel_idle_ns: u64,
    /// First moment, ns of the recording's clock.
    pub start_ns: u64,
    /// The tasks (thread under a name) of this row.
    pub tasks: Vec<TaskId>,
}

impl ThreadRow {
    /// How it is called among others: the title of its process, its name, or its name and first function.
    #[must_use]
    pub fn label(&self) -> String {
        self.title.clone().unwrap_or_else(|| self.own_name())
    }

    /// The same without the title of its process.
    #[must_use]
    pub fn own_name(&self) -> String {
        self.begun_in().map_or_else(|| self.comm.clone(), |start| format!("{} {start}", self.comm))
    }

    /// The same where there is little room: the function without the thread's name.
    #[must_use]
    pub fn short_label(&self) -> String {
        self.begun_in().unwrap_or_else(|| self.comm.clone())
    }

    /// Its first function as in a sentence: `App.main()`, without the parameters that names of Java and C++ have.
    fn begun_in(&self) -> Option<String> {
        self.start.as_ref().map(|start| format!("{}()", dso::without_parameters(start)))
    }

    /// At least nine tenths of its life idle.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.times.idle_ns.saturating_mul(10) >= self.life_ns.saturating_mul(9) && self.life_ns > 0
    }
}

/// Rows of the threads shown, most active time first.
pub(super) fn rows(profile: &Profile, classes: &Classes) -> Vec<ThreadRow> {
    let mut rows: Vec<ThreadRow> = Vec::new();
    let mut index: FxHashMap<(u32, i32), usize> = FxHashMap::default();
    let mut row_of = |task: TaskId, rows: &mut Vec<ThreadRow>| {
        let of = profile.task(task);
        let at = *index.entry((of.process, of.tid)).or_insert_with(|| {
            rows.push(ThreadRow {
                pid: of.pid,
                tid: of.tid,
                comm: profile.strings.of(profile.last_comm(task)).to_owned(),
                title: profile.off_cpu.titles.get(&of.tid).cloned(),
                start: None,
                life_ns: 0,
                times: Times::default(),
                switches: 0,
                kernel_idle_ns: 0,
                start_ns: u64::MAX,
                tasks: Vec::new(),
            });
            rows.len() - 1
        });
        if !rows[at].tasks.contains(&task) {
            rows[at].tasks.push(task);
        }
        at
    };
    for totals in profile.off_cpu.totals.iter().filter(|t| classes.shows(t.task)) {
        let at = row_of(totals.task, &mut rows);
        let row = &mut rows[at];
        row.life_ns.grow(totals.life_ns());
        row.switches.grow(totals.switches);
        row.start_ns = row.start_ns.min(totals.start_ns);
        row.times.add_part(Part::On, totals.of(State::On));
        row.times.add_part(Part::Idle, totals.of(State::Idle));
        row.kernel_idle_ns.grow(totals.of(State::Idle));
    }
    let mut told_ns: FxHashMap<usize, u64> = FxHashMap::default();
    for class in classes.iter(profile).filter(|c| c.wait.state != State::Idle) {
        let at = row_of(class.wait.task, &mut rows);
        rows[at].times.add_part(class.part, class.wait.weight_ns);
        if class.wait.state == State::Unknown {
            told_ns.entry(at).or_default().grow(class.wait.weight_ns);
        }
    }
    // Time without any record: a lost event.
    for totals in profile.off_cpu.totals.iter().filter(|t| classes.shows(t.task)) {
        let at = row_of(totals.task, &mut rows);
        let told_ns = told_ns.entry(at).or_default();
        let untold_ns = totals.of(State::Unknown).saturating_sub(*told_ns);
        *told_ns = told_ns.saturating_sub(totals.of(State::Unknown));
        rows[at].times.add_part(Part::Blocked(crate::off_cpu::WaitReason::Unknown), untold_ns);
    }
    for row in &mut rows {
        row.times.blocked_ns.retain(|_, ns| *ns > 0);
        row.life_ns = row.life_ns.max(if row.life_ns == 0 { row.times.total_ns() } else { 0 });
    }
    rows.rank_by_key(|row| (Reverse(row.times.active_ns()), row.start_ns, row.tid));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_called_by_its_first_function_without_parameters() {
        let row = ThreadRow {
            pid: 1,
            tid: 1,
            comm: "java".to_owned(),
            title: None,
            start: Some("App.main(java.lang.String[])".to_owned()),
            life_ns: 0,
            times: Times::default(),
            switches: 0,
            kernel_idle_ns: 0,
            start_ns: 0,
            tasks: Vec::new(),
        };
        assert_eq!(row.short_label(), "App.main()");
        assert_eq!(row.label(), "java App.main()");
        let alone = ThreadRow { start: None, ..row };
        assert_eq!((alone.label().as_str(), alone.short_label().as_str()), ("java", "java"));
    }
}
