//! `report --stats`, `--tasks`, `--mmaps`: what the recording consists of, in perf's form.

use crate::reading::damage;
use crate::{reading::load, terminal::out};
use perfdata::record::{FileId, Mmap, TaskRecord, type_name};
use perfdata::{Order, PerfData, Record};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

// Source: linux v7.2 include/uapi/asm-generic/mman-common.h
const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;
const MAP_PRIVATE: u32 = 2;

/// The name of record type `kind`; its number if it has no name.
fn name_of(kind: u32) -> String {
    type_name(kind).map_or_else(|| format!("type {kind}"), str::to_owned)
}

/// Records by type, then those of each event that has any.
///
/// # Errors
/// If standard output can't be written.
pub fn print_stats(path: &Path, file: &PerfData<'_>) -> anyhow::Result<()> {
    let mut of_events: Vec<[u64; 2]> = vec![[0; 2]; file.events().len()];
    let found = file.visit(Order::File, |item| {
        let column = match item.record {
            Record::Sample(_) => 0,
            Record::LostSamples(_) => 1,
            _ => return ControlFlow::Continue(()),
        };
        if let Some(counts) = item.event.and_then(|event| of_events.get_mut(event)) {
            counts[column] += 1;
        }
        ControlFlow::Continue(())
    });
    damage::warn(path, &found.problems);
    let total = found.record_count();
    let mut text = String::from("\nAggregated stats:\n");
    let _ = writeln!(text, "{:>16} events: {total:10}", "TOTAL");
    for (&kind, &count) in &found.records {
        let percent = count as f64 * 100.0 / total.max(1) as f64;
        let _ = writeln!(text, "{:>16} events: {count:10}  ({percent:4.1}%)", name_of(kind));
    }
    for (event, counts) in file.events().iter().zip(&of_events) {
        if counts.iter().all(|&count| count == 0) {
            continue;
        }
        let _ = writeln!(text, "{} stats:", out::harmless(&event.name));
        for (name, &count) in ["SAMPLE", "LOST_SAMPLES"].iter().zip(counts).filter(|(_, count)| **count > 0) {
            let _ = writeln!(text, "{name:>16} events: {count:10}");
        }
    }
    out::text(&text)
}

/// A thread of the recording.
#[derive(Default)]
struct NamedTask {
    pid: u32,
    /// Process that made this one; `None` if the recording doesn't have it.
    parent: Option<u32>,
    comm: String,
}

/// Threads and mappings at the end of the recording.
#[derive(Default)]
struct Tasks {
    by_tid: BTreeMap<u32, NamedTask>,
    /// By pid, in the order of their records: a line each.
    maps: BTreeMap<u32, Vec<String>>,
}

impl Tasks {
    fn read(path: &Path, file: &PerfData<'_>) -> Self {
        let mut tasks = Self::default();
        tasks.by_tid.insert(0, NamedTask { comm: "swapper".to_owned(), ..NamedTask::default() });
        let found = file.visit(Order::Time, |item| {
            match &item.record {
                Record::Comm(comm) => {
                    let task = tasks.by_tid.entry(comm.tid).or_default();
                    task.pid = comm.pid;
                    task.comm = String::from_utf8_lossy(comm.comm).into_owned();
                }
                Record::Fork(fork) => tasks.fork(fork),
                Record::Mmap(map) if map.pid != u32::MAX => tasks.map(map),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        damage::warn(path, &found.problems);
        tasks
    }

    fn fork(&mut self, fork: &TaskRecord) {
        let comm = self.by_tid.get(&fork.ptid).map(|parent| parent.comm.clone()).unwrap_or_default();
        let parent = (fork.pid != fork.ppid).then_some(fork.ppid);
        self.by_tid.insert(fork.tid, NamedTask { pid: fork.pid, parent, comm });
    }

    fn map(&mut self, map: &Mmap<'_>) {
        // The older record has only one bit: code or data.
        let (prot, flags) = map.prot_flags.unwrap_or((if map.is_data { 0 } else { PROT_EXEC }, MAP_PRIVATE));
        let bit = |mask: u32, letter: char| if prot & mask != 0 { letter } else { '-' };
        let rights: String =
            [bit(PROT_READ, 'r'), bit(PROT_WRITE, 'w'), bit(PROT_EXEC, 'x')].iter().collect();
        let shared = if flags & MAP_PRIVATE != 0 { 'p' } else { 's' };
        let inode = if let FileId::Inode { inode, .. } = map.file_id { inode } else { 0 };
        let (start, end) = (map.addr.0, map.addr.0.saturating_add(map.len));
        let name = String::from_utf8_lossy(map.filename);
        let line = format!("{start:x}-{end:x} {rights}{shared} {:08x} {inode} {name}", map.pgoff);
        self.maps.entry(map.pid).or_default().push(line);
    }

    /// How many ancestors of `pid` the recording knows; no more than it has tasks, should they go round.
    fn depth(&self, pid: u32) -> usize {
        let parent = |pid: &u32| self.by_tid.get(pid).and_then(|task| task.parent);
        std::iter::successors(parent(&pid), parent).take(self.by_tid.len()).count()
    }
}

/// The threads, children set in below their parents' column; with `maps` what each process has mapped.
///
/// # Errors
/// If standard output can't be written.
pub fn print_tasks(path: &Path, file: &PerfData<'_>, with_maps: bool) -> anyhow::Result<()> {
    let tasks = Tasks::read(path, file);
    let mut text = format!("# {:>8} {:>8} {:>8}  comm\n", "pid", "tid", "ppid");
    for (tid, task) in &tasks.by_tid {
        let ppid = task.parent.map_or_else(|| "-1".to_owned(), |parent| parent.to_string());
        let indent = tasks.depth(task.pid);
        let _ = writeln!(
            text,
            "{:>10} {tid:>8} {ppid:>8} {:indent$}|{}",
            task.pid,
            "",
            out::harmless(&task.comm)
        );
        if with_maps && task.pid == *tid {
            for line in tasks.maps.get(tid).into_iter().flatten() {
                let _ = writeln!(text, "{:indent$}{:32}{}", "", "", out::harmless(line));
            }
        }
    }
    out::text(&text)
}

/// Message for `report -D`: the records have a command of their own.
pub const NO_DUMP: &str = "report has no raw dump: `tally dump FILE` prints every record, one a line";

/// Prints what `--stats`, `--tasks` or `--mmaps` asks for.
///
/// # Errors
/// If the recording can't be read or standard output not be written.
pub fn print(path: &Path, stats: bool, maps: bool) -> anyhow::Result<()> {
    let map = load::open(path)?;
    let file = load::parse(path, &map)?;
    if stats { print_stats(path, &file) } else { print_tasks(path, &file, maps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_types_have_perfs_names() {
        assert_eq!(name_of(perfdata::abi::PERF_RECORD_SAMPLE), "SAMPLE");
        assert_eq!(name_of(perfdata::abi::PERF_RECORD_AUX_OUTPUT_HW_ID), "AUX_OUTPUT_HW_ID");
        assert_eq!(name_of(perfdata::abi::PERF_RECORD_FINISHED_INIT), "FINISHED_INIT");
        assert_eq!(name_of(4000), "type 4000");
    }

    #[test]
    fn ancestors_that_go_round_end() {
        let task = |parent| NamedTask { parent: Some(parent), ..NamedTask::default() };
        let by_tid = BTreeMap::from([(1, task(2)), (2, task(1))]);
        assert_eq!(Tasks { by_tid, ..Tasks::default() }.depth(1), 2);
    }
}
