//! Sums of system calls: of all threads, and of each.

use super::follow::TracedThreads;
use display::number::{count_of, grouped};
use profile::grow::{Grow, GrownSum};
use profile::view::ranking::RankRows as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use syscalls::layout::{CallSum, SumKey};
use syscalls::table::CallTable;

/// Sums by thread and system call.
#[derive(Debug, Default)]
pub struct CallSummary {
    sums: HashMap<SumKey, CallSum>,
    open: HashMap<SumKey, u64>,
}

/// A system call's number and ABI.
type CallKey = (u16, bool);

impl CallSummary {
    /// Adds calls.
    pub fn add(&mut self, key: SumKey, more: CallSum) {
        let sum = self.sums.entry(key).or_insert(CallSum { min_ns: u64::MAX, ..CallSum::default() });
        merge(sum, &more);
    }

    /// Adds a call that had not returned when its thread ended.
    pub fn add_open(&mut self, key: SumKey) {
        *self.open.entry(key).or_default() += 1;
    }

    /// All calls that returned.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.sums.values().map(|sum| sum.count).grown_sum()
    }

    fn by_call(&self, tid: Option<u32>) -> Vec<(CallKey, CallSum)> {
        let mut all: BTreeMap<CallKey, CallSum> = BTreeMap::new();
        for (key, sum) in self.sums.iter().filter(|(key, _)| tid.is_none_or(|tid| key.tid == tid)) {
            let new = CallSum { min_ns: u64::MAX, ..CallSum::default() };
            merge(all.entry((key.nr, key.is_compat)).or_insert(new), sum);
        }
        let mut rows: Vec<_> = all.into_iter().collect();
        rows.rank_by_key(|(key, sum)| (std::cmp::Reverse(sum.total_ns), *key));
        rows
    }

    /// Threads by their time in calls, the longest first.
    fn threads(&self) -> Vec<(u32, CallSum)> {
        let mut all: BTreeMap<u32, CallSum> = BTreeMap::new();
        for (key, sum) in &self.sums {
            merge(all.entry(key.tid).or_insert(CallSum { min_ns: u64::MAX, ..CallSum::default() }), sum);
        }
        let mut rows: Vec<_> = all.into_iter().collect();
        rows.rank_by_key(|(tid, sum)| (std::cmp::Reverse(sum.total_ns), *tid));
        rows
    }

    /// Tables: of all threads if there are several, then of the `most` threads with most time in calls.
    #[must_use]
    pub fn text(&self, table: &CallTable, threads: &mut TracedThreads, most: usize) -> String {
        let mut text = String::new();
        let rows = self.threads();
        if rows.len() != 1 {
            let title = format!("{} threads", rows.len());
            write_table(&title, &self.by_call(None), table, &mut text);
        }
        for (tid, _) in rows.iter().take(most) {
            if !text.is_empty() {
                text.push('\n');
            }
            let title = format!("{}/{tid}", threads.comm(*tid));
            write_table(&title, &self.by_call(Some(*tid)), table, &mut text);
        }
        if rows.len() > most {
            let _ = writeln!(
                text,
                "\n{} more; --rows N shows more",
                count_of((rows.len() - most) as u64, "thread", "threads")
            );
        }
        let open: u64 = self.open.values().sum();
        if open > 0 {
            let mut names: BTreeMap<String, u64> = BTreeMap::new();
            self.open.iter().for_each(|(key, count)| {
                *names.entry(name(table, (key.nr, key.is_compat))).or_default() += count
            });
            let names: Vec<String> = names.iter().map(|(name, count)| format!("{name} {count}")).collect();
            let _ = writeln!(
                text,
                "\n{} did not return, not counted: {}",
                count_of(open, "call", "calls"),
                names.join(", ")
            );
        }
        text
    }

    /// The same for scripts: an object with a list of sums by thread and call.
    #[must_use]
    pub fn json(&self, table: &CallTable, threads: &mut TracedThreads, lost: u64) -> Value {
        let mut keys: Vec<&SumKey> = self.sums.keys().collect();
        keys.sort_unstable();
        let row = |key: &SumKey, comm: &str| {
            let sum = &self.sums[key];
            json!({
                "comm": comm, "pid": key.tgid, "tid": key.tid, "syscall": name(table, (key.nr, key.is_compat)),
                "calls": sum.count, "errors": sum.errors, "total_ns": sum.total_ns, "min_ns": sum.min_ns,
                "max_ns": sum.max_ns,
            })
        };
        let rows: Vec<Value> = keys.into_iter().map(|key| row(key, &threads.comm(key.tid))).collect();
        json!({ "sums": rows, "lost": lost })
    }
}

fn merge(sum: &mut CallSum, more: &CallSum) {
    sum.count.grow(more.count);
    sum.errors.grow(more.errors);
    sum.total_ns.grow(more.total_ns);
    sum.min_ns = sum.min_ns.min(more.min_ns);
    sum.max_ns = sum.max_ns.max(more.max_ns);
}

fn name(table: &CallTable, key: CallKey) -> String {
    let (nr, is_compat) = key;
    match table.of(nr).filter(|_| !is_compat) {
        Some(signature) => signature.name.to_owned(),
        None if is_compat => format!("32-bit syscall_{nr}"),
        None => format!("syscall_{nr}"),
    }
}

fn write_table(title: &str, rows: &[(CallKey, CallSum)], table: &CallTable, to: &mut String) {
    let calls: u64 = rows.iter().map(|(_, sum)| sum.count).grown_sum();
    let errors: u64 = rows.iter().map(|(_, sum)| sum.errors).grown_sum();
    let total_ns: u64 = rows.iter().map(|(_, sum)| sum.total_ns).grown_sum();
    let _ = writeln!(
        to,
        "{title}: {}, {} failed, {:.3} ms in them",
        count_of(calls, "system call", "system calls"),
        grouped(errors),
        ms(total_ns)
    );
    let _ = writeln!(
        to,
        "  {:>6}  {:>12}  {:>11}  {:>9}  {:>10}  {:>10}  {:>12}  call",
        "time", "calls", "failed", "min us", "avg us", "max us", "total ms"
    );
    for (key, sum) in rows {
        let _ = writeln!(
            to,
            "  {:>5.1}%  {:>12}  {:>11}  {:>9.2}  {:>10.2}  {:>10.2}  {:>12.3}  {}",
            sum.total_ns as f64 * 100.0 / total_ns.max(1) as f64,
            grouped(sum.count),
            if sum.errors == 0 { String::new() } else { grouped(sum.errors) },
            us(sum.min_ns as f64),
            us(sum.total_ns as f64 / sum.count.max(1) as f64),
            us(sum.max_ns as f64),
            ms(sum.total_ns),
            name(table, *key)
        );
    }
}

fn us(ns: f64) -> f64 {
    ns / 1e3
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_threads_are_merged_and_each_is_shown() {
        let table = CallTable::of_this_processor();
        let nr_of = |name: &str| table.names().find(|(_, known)| *known == name).expect("a call").0;
        let mut summary = CallSummary::default();
        for (tid, nr, ns) in
            [(5, nr_of("read"), 2_000), (5, nr_of("read"), 4_000), (6, nr_of("write"), 1_000)]
        {
            let sum = CallSum { count: 1, errors: u64::from(tid == 6), total_ns: ns, min_ns: ns, max_ns: ns };
            summary.add(SumKey { tid, tgid: 5, nr, is_compat: false }, sum);
        }
        summary.add_open(SumKey { tid: 5, tgid: 5, nr: nr_of("exit_group"), is_compat: false });
        let text = summary.text(&table, &mut TracedThreads::default(), 1);
        assert!(text.starts_with("2 threads: 3 system calls, 1 failed, 0.007 ms in them\n"), "{text}");
        assert!(
            text.contains(
                "85.7%             2                    2.00        3.00        4.00         0.006  read"
            ),
            "{text}"
        );
        assert!(
            text.contains("1 thread more; --rows")
                && text.contains("1 call did not return, not counted: exit_group 1"),
            "{text}"
        );
        assert_eq!(summary.calls(), 3);
    }
}
