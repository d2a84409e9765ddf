//! The rows of the list of threads: one for each thread, or one for many of the same name.

use profile::view::ranking::RankRows as _;
use record::summary::ThreadUse;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// From this many threads of one name on they share a row.
const MANY: usize = 4;

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadRow {
    /// The process's title where several processes have its name, else the thread's name.
    name: String,
    /// `None` for several threads.
    pub tid: Option<u32>,
    /// How many threads.
    pub threads: u64,
    /// The longest life, in ns.
    pub life_ns: u64,
    /// All lives, in ns.
    pub all_life_ns: u64,
    /// CPU time, in ns.
    pub on_ns: u64,
    /// Times they left a CPU.
    pub switches: u64,
}

impl ThreadRow {
    /// `worker ×16`.
    pub(crate) fn label(&self) -> String {
        if self.threads == 1 { self.name.clone() } else { format!("{} ×{}", self.name, self.threads) }
    }

    fn of(threads: &[&ThreadUse]) -> Self {
        let mut row = Self::default();
        for thread in threads {
            row.threads += 1;
            row.life_ns = row.life_ns.max(thread.life_ns);
            row.all_life_ns = row.all_life_ns.saturating_add(thread.life_ns);
            row.on_ns = row.on_ns.saturating_add(thread.on_ns);
            row.switches += thread.voluntary_switches + thread.involuntary_switches;
        }
        if let [first, rest @ ..] = threads {
            row.name = name_of(first).to_owned();
            row.tid = rest.is_empty().then_some(first.tid);
        }
        row
    }
}

/// Rows by descending CPU time.
pub(crate) fn rows(threads: &[ThreadUse]) -> Vec<ThreadRow> {
    let mut by_name: BTreeMap<&str, Vec<&ThreadUse>> = BTreeMap::new();
    for thread in threads {
        by_name.entry(name_of(thread)).or_default().push(thread);
    }
    let mut rows = Vec::new();
    for of_name in by_name.values() {
        match of_name.len() {
            0..MANY => rows.extend(of_name.iter().map(|thread| ThreadRow::of(&[thread]))),
            _ => rows.push(ThreadRow::of(of_name)),
        }
    }
    rows.rank_by_key(|row| (Reverse(row.on_ns), row.tid));
    rows
}

fn name_of(thread: &ThreadUse) -> &str {
    thread.title.as_deref().unwrap_or(&thread.comm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(comm: &str, tid: u32, on_ns: u64) -> ThreadUse {
        let comm = comm.to_owned();
        ThreadUse { comm, tid, on_ns, life_ns: 100, voluntary_switches: 2, ..ThreadUse::default() }
    }

    #[test]
    fn many_threads_of_one_name_share_a_row_and_few_do_not() {
        let mut threads = vec![thread("main", 1, 50), thread("io", 2, 7), thread("io", 3, 9)];
        threads.extend((10..15).map(|tid| thread("worker", tid, 20)));
        let rows = rows(&threads);
        let shown: Vec<_> = rows.iter().map(|row| (row.label(), row.tid, row.on_ns, row.switches)).collect();
        let row = |label: &str, tid, on, switches| (label.to_owned(), tid, on, switches);
        let expected = [
            row("worker ×5", None, 100, 10),
            row("main", Some(1), 50, 2),
            row("io", Some(3), 9, 2),
            row("io", Some(2), 7, 2),
        ];
        assert_eq!(shown, expected);
        assert_eq!((rows[0].life_ns, rows[0].all_life_ns), (100, 500));
        let all: u64 = threads.iter().map(|thread| thread.on_ns).sum();
        assert_eq!(rows.iter().map(|row| row.on_ns).sum::<u64>(), all);
    }

    #[test]
    fn processes_of_one_name_are_told_apart_by_their_titles() {
        let titled =
            |tid, title: &str| ThreadUse { title: Some(title.to_owned()), ..thread("postgres", tid, 1) };
        let mut threads = vec![titled(1, "postgres: checkpointer"), titled(2, "postgres: walwriter")];
        threads.extend((3..8).map(|tid| titled(tid, "postgres: bench [local] SELECT")));
        let labels: Vec<String> = rows(&threads).iter().map(ThreadRow::label).collect();
        let expected = ["postgres: bench [local] SELECT ×5", "postgres: checkpointer", "postgres: walwriter"];
        assert_eq!(labels, expected);
    }
}
