//! `report -T`: what each thread counted, as `record -s` had it written at the thread's end.
//
// Source: linux v6.1 tools/perf/util/values.c prints this form.

use crate::terminal::out::harmless;
use anyhow::bail;
use perfdata::{Order, PerfData, Record};
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::ops::ControlFlow;

/// Counts of a thread by event, its events' counters on all CPUs together.
struct Thread {
    pid: u32,
    tid: u32,
    /// Counts by event, of the events that were read.
    counts: FxHashMap<usize, u64>,
}

impl Thread {
    fn count(&self, event: usize) -> u64 {
        self.counts.get(&event).copied().unwrap_or(0)
    }
}

/// The table, threads in the order in which they ended; `form` is that of `--pretty`.
///
/// # Errors
/// An unknown form.
pub fn table(file: &PerfData<'_>, form: Option<&str>) -> anyhow::Result<String> {
    let threads = threads(file);
    match form {
        None | Some("pretty" | "normal") => Ok(pretty(file, &threads)),
        Some("raw") => Ok(raw(file, &threads)),
        Some(other) => bail!("--pretty: '{other}' is neither pretty nor raw"),
    }
}

fn threads(file: &PerfData<'_>) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    let mut places: FxHashMap<(u32, u32), usize> = FxHashMap::default();
    file.visit(Order::Time, |item| {
        let Record::Read(read) = &item.record else { return ControlFlow::Continue(()) };
        let at = *places.entry((read.pid, read.tid)).or_insert_with(|| {
            threads.push(Thread { pid: read.pid, tid: read.tid, counts: FxHashMap::default() });
            threads.len() - 1
        });
        for value in read.values.iter() {
            let event = value.id.and_then(|id| file.event_of_id(id)).or(item.event);
            if let Some(event) = event.filter(|&event| event < file.events().len()) {
                let count = threads[at].counts.entry(event).or_default();
                *count = count.saturating_add(value.value);
            }
        }
        ControlFlow::Continue(())
    });
    threads
}

fn pretty(file: &PerfData<'_>, threads: &[Thread]) -> String {
    let width = |heading: usize, numbers: &mut dyn Iterator<Item = u64>| {
        numbers.map(|number| number.to_string().len()).max().unwrap_or(0).max(heading)
    };
    let pid = width(3, &mut threads.iter().map(|t| t.pid.into()));
    let tid = width(3, &mut threads.iter().map(|t| t.tid.into()));
    let names: Vec<_> = file.events().iter().map(|event| harmless(&event.name)).collect();
    let columns: Vec<usize> = names
        .iter()
        .enumerate()
        .map(|(at, name)| width(name.len(), &mut threads.iter().map(|t| t.count(at))))
        .collect();
    let mut text = format!("# {:>pid$}  {:>tid$}", "PID", "TID");
    names.iter().zip(&columns).for_each(|(name, width)| {
        let _ = write!(text, "  {name:>width$}");
    });
    text.push('\n');
    for thread in threads {
        let _ = write!(text, "  {:>pid$}  {:>tid$}", thread.pid, thread.tid);
        for (at, width) in columns.iter().enumerate() {
            let _ = write!(text, "  {:>width$}", thread.count(at));
        }
        text.push('\n');
    }
    text
}

fn raw(file: &PerfData<'_>, threads: &[Thread]) -> String {
    let name = file.events().iter().map(|event| harmless(&event.name).len()).max().unwrap_or(0).max(4);
    let mut text = format!("# {:>5}  {:>5}  {:>name$}  {:>3}  {:>5}\n", "PID", "TID", "Name", "Raw", "Count");
    for thread in threads {
        for (at, event) in file.events().iter().enumerate() {
            let (pid, tid, event, count) = (thread.pid, thread.tid, harmless(&event.name), thread.count(at));
            let _ = writeln!(text, "  {pid:>5}  {tid:>5}  {event:>name$}  {at:>3}  {count:>5}");
        }
    }
    text
}
