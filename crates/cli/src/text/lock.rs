//! Waits for the kernel's locks as a table, in the form of perf lock contention.

use crate::reading::tracepoints::{Hit, HitSink, function, name_and_pid};
use crate::script::own_name;
use crate::terminal::out;
use display::number::count_of;
use profile::profile::Profile;
use profile::session::Session;
use profile::table::FrameId;
use profile::tracepoints::lock_events::{LockKind, LockWaiter, LockWaits, OpenWaits};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::io::Write;

/// Subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockUnit {
    /// The function that takes the lock.
    Caller,
    /// The thread that waits.
    Thread,
    /// The lock.
    Address,
}

/// Sort key of the lines; largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum LockKey {
    /// How many waits
    Contended,
    /// All waits together
    WaitTotal,
    /// Longest wait
    #[value(alias = "max")]
    WaitMax,
    /// Shortest wait
    WaitMin,
    /// Mean wait
    AvgWait,
}

impl LockKey {
    fn of(self, waits: &LockWaits) -> u64 {
        match self {
            Self::Contended => waits.count,
            Self::WaitTotal => waits.total_ns,
            Self::WaitMax => waits.longest_ns,
            Self::WaitMin => waits.shortest_ns,
            Self::AvgWait => waits.mean_ns(),
        }
    }
}

/// Collects while the recording is read.
pub struct LockTable {
    unit: LockUnit,
    types: Vec<String>,
    open: OpenWaits<(LockKind, Vec<FrameId>)>,
    /// Waits whose functions have no names yet.
    unnamed: Vec<(LockKind, Vec<FrameId>, u64)>,
    lines: FxHashMap<(String, String), LockWaits>,
}

impl LockTable {
    /// Show locks of these types only; all if there is none.
    pub fn new(unit: LockUnit, types: Vec<String>) -> Self {
        let (open, unnamed, lines) = (OpenWaits::default(), Vec::new(), FxHashMap::default());
        Self { unit, types, open, unnamed, lines }
    }

    /// `rwsem` selects `rwsem:R` and `rwsem:W`.
    fn is_selected(&self, kind: LockKind) -> bool {
        let is = |name: &String| kind.name() == name || kind.name().split(':').next() == Some(name);
        self.types.is_empty() || self.types.iter().any(is)
    }

    /// Prints the table, up to `entries` lines.
    ///
    /// # Errors
    /// If printing fails.
    pub fn print(&self, key: LockKey, entries: Option<usize>) -> anyhow::Result<()> {
        let mut lines: Vec<_> = self.lines.iter().collect();
        lines.rank_by_key(|(name, waits)| (std::cmp::Reverse(key.of(waits)), *name));
        lines.truncate(entries.unwrap_or(usize::MAX));
        let (width, first, second) = match self.unit {
            LockUnit::Caller => (12, "type", "caller"),
            LockUnit::Thread => (12, "pid", "comm"),
            LockUnit::Address => (18, "address", "type"),
        };
        let mut out = out::stdout();
        writeln!(
            out,
            " {:>9} {:>12} {:>12} {:>12} {first:>width$}   {second}\n",
            "contended", "total wait", "max wait", "avg wait"
        )?;
        for ((first, second), waits) in lines {
            let [total, longest, mean] = [waits.total_ns, waits.longest_ns, waits.mean_ns()].map(perf_time);
            writeln!(
                out,
                " {:>9} {total:>12} {longest:>12} {mean:>12} {first:>width$}   {}",
                waits.count,
                out::harmless(second)
            )?;
        }
        out.flush()?;
        let open = self.open.still_open() as u64;
        if self.open.unmatched > 0 || open > 0 {
            let begun = count_of(self.open.unmatched, "wait", "waits");
            out::note(&format!(
                "not counted: {begun} that began before the recording, {open} that ended after it"
            ));
        }
        Ok(())
    }
}

/// `2.51 ms`, as perf prints times.
fn perf_time(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

impl HitSink for LockTable {
    fn hit(&mut self, hit: Hit<'_>, session: &mut Session) -> anyhow::Result<()> {
        let Some(lock) = hit.number("lock_addr") else { return Ok(()) };
        let wait = LockWaiter { tid: hit.tid, lock };
        if hit.format.name == "contention_begin" {
            let kind = LockKind::of(hit.number("flags").unwrap_or(u64::MAX));
            self.open.begin(wait, hit.time_ns, (kind, hit.frames));
            return Ok(());
        }
        if hit.format.name != "contention_end" {
            return Ok(());
        }
        let Some((wait_ns, (kind, frames))) = self.open.end(wait, hit.time_ns) else { return Ok(()) };
        if !self.is_selected(kind) {
            return Ok(());
        }
        let name = match self.unit {
            LockUnit::Caller => {
                self.unnamed.push((kind, frames, wait_ns));
                return Ok(());
            }
            LockUnit::Thread => (hit.tid.to_string(), name_and_pid(session, hit.tid).0),
            LockUnit::Address => (format!("{lock:#x}"), kind.name().to_owned()),
        };
        self.lines.entry(name).or_default().add(wait_ns);
        Ok(())
    }

    fn named(&mut self, profile: &Profile) -> anyhow::Result<()> {
        for (kind, frames, wait_ns) in self.unnamed.drain(..) {
            let name = (kind.name().to_owned(), caller(profile, &frames));
            self.lines.entry(name).or_default().add(wait_ns);
        }
        Ok(())
    }
}

/// `function+0x12`: the first one that is not part of the lock itself.
fn caller(profile: &Profile, frames: &[FrameId]) -> String {
    let Some(&frame) = frames.iter().find(|&&frame| !is_lock_function(function(profile, frame))) else {
        return "[unknown]".to_owned();
    };
    let start = own_name(profile, frame).map(|name| profile.symbols.of(name.symbol).start);
    let offset = start.map_or(0, |start| profile.frames.of(frame).addr.wrapping_sub(start));
    format!("{}+{offset:#x}", function(profile, frame))
}

/// Functions with which the kernel takes locks: of the tracepoint, the slow paths, and the entries that everyone calls.
fn is_lock_function(name: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "__traceiter_",
        "trace_contention",
        "native_queued_",
        "queued_",
        "pv_queued_",
        "__pv_queued_",
        "_raw_spin_",
        "_raw_read_",
        "_raw_write_",
        "__raw_spin_",
        "raw_spin_",
        "do_raw_",
        "mutex_",
        "__mutex_",
        "ww_mutex_",
        "__ww_mutex_",
        "rwsem_",
        "down_",
        "__down",
        "up_",
        "rt_mutex_",
        "rt_spin_",
        "rt_read_",
        "rt_write_",
        "percpu_down_",
        "__percpu_down_",
        "percpu_rwsem_",
        "osq_",
        "rwbase_",
        "__rt_mutex_",
    ];
    name == "down" || BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_locks_are_not_their_callers() {
        for name in [
            "native_queued_spin_lock_slowpath",
            "_raw_spin_lock_irqsave",
            "down_read",
            "__mutex_lock.constprop.0",
        ] {
            assert!(is_lock_function(name), "{name}");
        }
        for name in ["downgrade_file", "tcp_recvmsg", "do_exit", "lock_sock_nested"] {
            assert!(!is_lock_function(name), "{name}");
        }
    }

    #[test]
    fn times_have_perfs_units() {
        let texts = [999, 1_000, 46_930, 2_510_000, 3_000_000_000].map(perf_time);
        assert_eq!(texts, ["999 ns", "1.00 us", "46.93 us", "2.51 ms", "3.00 s"]);
    }

    #[test]
    fn a_type_selects_both_uses_of_a_lock() {
        let table = LockTable::new(LockUnit::Caller, vec!["rwsem".to_owned(), "rwlock:R".to_owned()]);
        let selected = [2, 4, 3, 5, 1].map(|flags| table.is_selected(LockKind::of(flags)));
        assert_eq!(selected, [true, true, true, false, false]);
    }
}
