//! Waits for a CPU, a line for each program.

use crate::events::sched::{SeenEvent, Watcher};
use crate::reading::tracepoints::name_and_pid;
use crate::terminal::out;
use display::number::seconds;
use profile::grow::GrownSum as _;
use profile::session::Session;
use profile::tracepoints::sched_events::IDLE;
use profile::tracepoints::sched_events::latency::{Latency, SchedLatencies};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::io::Write;

/// Sort key of the lines; largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LatencyKey {
    /// CPU time
    Runtime,
    /// How often they got a CPU
    Switch,
    /// Mean wait
    Avg,
    /// Longest wait
    Max,
}

/// Collects while the recording is read.
pub struct LatencyTable {
    cpus: Vec<i32>,
    latencies: SchedLatencies,
    names: FxHashMap<i32, String>,
}

/// Subject of each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyRows {
    /// A program: threads of one name.
    Programs,
    /// A thread.
    Threads,
}

/// One line.
struct Line {
    name: String,
    tid: i32,
    threads: usize,
    latency: Latency,
}

impl LatencyTable {
    /// Show these CPUs only; all if there is none.
    pub fn new(cpus: Vec<i32>) -> Self {
        Self { cpus, latencies: SchedLatencies::default(), names: FxHashMap::default() }
    }

    fn lines(&self, rows: LatencyRows) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut by_name: FxHashMap<&str, usize> = FxHashMap::default();
        // A thread whose switches were not seen ran all the same: its time belongs to its program.
        let is_known = |latency: &Latency| latency.count > 0 || latency.ran_ns > 0;
        let mut threads: Vec<(i32, Latency)> =
            self.latencies.threads().filter(|(tid, latency)| *tid != IDLE && is_known(latency)).collect();
        threads.rank_by_key(|(tid, _)| *tid);
        for (tid, latency) in threads {
            let name = self.names.get(&tid).map_or("", String::as_str);
            match by_name.get(name).filter(|_| rows == LatencyRows::Programs) {
                Some(&at) => {
                    lines[at].threads += 1;
                    lines[at].latency.merge(&latency);
                }
                None => {
                    by_name.insert(name, lines.len());
                    lines.push(Line { name: name.to_owned(), tid, threads: 1, latency });
                }
            }
        }
        lines
    }

    /// Prints the table.
    ///
    /// # Errors
    /// If printing fails.
    pub fn print(&self, rows: LatencyRows, keys: &[LatencyKey]) -> anyhow::Result<()> {
        let mut lines = self.lines(rows);
        let value = |line: &Line, key: LatencyKey| match key {
            LatencyKey::Runtime => line.latency.ran_ns,
            LatencyKey::Switch => line.latency.count,
            LatencyKey::Avg => line.latency.mean_ns(),
            LatencyKey::Max => line.latency.longest_ns,
        };
        lines.rank_by_key(|line| {
            keys.iter().map(|&key| std::cmp::Reverse(value(line, key))).collect::<Vec<_>>()
        });
        let mut out = out::stdout();
        writeln!(out, "\n {}", "-".repeat(139))?;
        writeln!(out, "{HEADING}\n {}", "-".repeat(139))?;
        lines.iter().try_for_each(|line| writeln!(out, "{}", line.text()))?;
        let ran_ns = lines.iter().map(|line| line.latency.ran_ns).grown_sum();
        let count = lines.iter().map(|line| line.latency.count).grown_sum();
        writeln!(out, " {}", "-".repeat(113))?;
        writeln!(out, "  TOTAL:                |{:11.3} ms |{count:9} |", ran_ns as f64 / 1e6)?;
        writeln!(out, " {}\n", "-".repeat(51))?;
        out.flush()?;
        Ok(())
    }
}

const HEADING: &str = "  Task                  |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    \
                       | Max delay start           | Max delay end          |";

impl Line {
    fn text(&self) -> String {
        let (name, latency) = (out::harmless(&self.name), &self.latency);
        let task = match self.threads {
            1 => format!("  {name}:{} ", self.tid),
            many => format!("  {name}:({many}) "),
        };
        let millis = |ns: u64| ns as f64 / 1e6;
        let (begin, end) = latency.longest_at_ns;
        format!(
            "{task:24}|{:11.3} ms |{:9} | avg:{:8.3} ms | max:{:8.3} ms | max start: {:>12} s | max end: {:>12} s",
            millis(latency.ran_ns),
            latency.count,
            latency.waited_ns as f64 / latency.count.max(1) as f64 / 1e6,
            millis(latency.longest_ns),
            seconds(begin),
            seconds(end),
        )
    }
}

impl Watcher for LatencyTable {
    fn seen(&mut self, seen: SeenEvent, session: &mut Session) -> anyhow::Result<()> {
        if !self.cpus.is_empty() && !self.cpus.contains(&seen.event.cpu.cast_signed()) {
            return Ok(());
        }
        self.latencies.push(&seen.event);
        // The last name of a thread is the one that counts; it has it while it runs.
        let (name, _) = name_and_pid(session, seen.tid);
        self.names.insert(seen.tid, name);
        if let Some(tid) = seen.event.action.other().filter(|tid| !self.names.contains_key(tid)) {
            let (name, _) = name_and_pid(session, tid);
            self.names.insert(tid, name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::tracepoints::sched_events::{SchedAction, SchedEvent, TaskState};

    #[test]
    fn threads_of_one_name_are_one_line_unless_asked_for() {
        let mut table = LatencyTable::new(Vec::new());
        for (time_ns, prev, next) in [(1_000, 0, 7), (2_000, 7, 8), (5_000, 8, 7)] {
            let action = SchedAction::Switch { prev, state: TaskState('R'), next };
            table.latencies.push(&SchedEvent { time_ns, cpu: 0, action });
        }
        table.names.extend([(7, "worker".to_owned()), (8, "worker".to_owned()), (0, "swapper".to_owned())]);
        let lines = table.lines(LatencyRows::Programs);
        assert_eq!((lines.len(), lines[0].threads, lines[0].latency.count), (1, 2, 3));
        assert_eq!(table.lines(LatencyRows::Threads).len(), 2);
        let text = lines[0].text();
        assert!(
            text.starts_with("  worker:(2)            |      0.000 ms |        3 | avg:   0.001 ms |"),
            "{text}"
        );
    }

    #[test]
    fn a_thread_whose_switches_were_not_seen_adds_its_cpu_time_to_its_program() {
        let mut table = LatencyTable::new(Vec::new());
        let switch = SchedAction::Switch { prev: 0, state: TaskState('R'), next: 7 };
        for action in [switch, SchedAction::Ran { tid: 7, ns: 40 }, SchedAction::Ran { tid: 8, ns: 2 }] {
            table.latencies.push(&SchedEvent { time_ns: 1_000, cpu: 0, action });
        }
        table.names.extend([(7, "sleep".to_owned()), (8, "sleep".to_owned())]);
        let lines = table.lines(LatencyRows::Programs);
        assert_eq!((lines.len(), lines[0].threads, lines[0].latency.ran_ns), (1, 2, 42));
    }
}
