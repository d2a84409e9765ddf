//! System calls by the function that makes them: counts from every 29th call, with its stack; time off the CPU exactly.

use crate::flags::event_args::EventArgs;
use crate::reading::load::{self, Progress};
use crate::reading::tracepoints::{Hit, HitSink, NeededTracepoint, TracepointReader, function};
use crate::terminal::out;
use display::number::{count_of, grouped};
use perfdata::PerfData;
use profile::grow::{Grow as _, GrownSum as _};
use profile::profile::Profile;
use profile::session::{Session, SessionOpts};
use profile::source::Want;
use profile::table::FrameId;
use profile::view::ranking::RankRows as _;
use profile::view::wall::is_c_library;
use record::opts::{CallGraph, FileOpts, KeepFiles, Output, RecordOpts, StackOpts};
use record::{Target, off_cpu};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use symbols::{LoadOpts, NameOpts, UnnamedCode};
use syscalls::filter::CallFilter;
use syscalls::table::CallTable;

/// One call in this many is taken, with its stack. A prime number doesn't keep step with loops of a program.
const EVERY: u64 = 29;
const EVENT: &str = "raw_syscalls:sys_enter";
/// Frames of a stack that are looked at for the calling function.
const FRAMES: usize = 64;
/// Calls named in a row.
const NAMES: usize = 3;

/// How calls of a target are recorded into `path`.
///
/// # Errors
/// If the kernel has no such event (for this user).
pub fn options(target: Target, path: &Path) -> anyhow::Result<RecordOpts> {
    let event = format!("{EVENT}/period={EVERY}/");
    let mut opts = RecordOpts {
        target,
        events: crate::flags::recording::requests(&EventArgs::of(&[&event]))?,
        stacks: StackOpts { call_graph: CallGraph::Live, ..StackOpts::default() },
        off_cpu: Some(off_cpu::OffCpuOpts::default()),
        file: FileOpts {
            output: Output::File(path.to_path_buf()),
            keep_files: KeepFiles::None,
            command_line: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            ..FileOpts::default()
        },
        ..RecordOpts::default()
    };
    opts.observers.on_notice = |line| out::note(line);
    Ok(opts)
}

/// The calling function, and the number of a system call.
type CallerKey = (String, u32);

/// Calls and waits of one function in one system call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CallerSum {
    /// Estimated number of calls.
    calls: u64,
    /// Time off the CPU in them, ns.
    off_ns: u64,
}

/// Sums by calling function and system call.
#[derive(Debug, Default)]
pub struct CallerSums {
    sums: BTreeMap<CallerKey, CallerSum>,
    samples: u64,
}

/// One function: its sums, and those of each system call.
struct CallerRow<'a> {
    caller: &'a str,
    sum: CallerSum,
    calls: Vec<(u32, CallerSum)>,
}

/// Reads samples of calls. A stack has its names only after its batch.
struct CallerReader<'a> {
    sums: &'a mut CallerSums,
    filter: &'a CallFilter,
    unnamed: HashMap<(Vec<FrameId>, u32), u64>,
}

impl HitSink for CallerReader<'_> {
    fn hit(&mut self, hit: Hit<'_>, _: &mut Session) -> anyhow::Result<()> {
        let Some(nr) = hit.number("id").and_then(|nr| u32::try_from(nr).ok()) else { return Ok(()) };
        if is_wanted(self.filter, nr) {
            self.sums.samples += 1;
            self.unnamed.entry((hit.frames, nr)).or_default().grow(EVERY);
        }
        Ok(())
    }

    fn named(&mut self, profile: &Profile) -> anyhow::Result<()> {
        for ((frames, nr), calls) in self.unnamed.drain() {
            let caller = caller(profile, frames.into_iter());
            self.sums.sums.entry((caller, nr)).or_default().calls.grow(calls);
        }
        Ok(())
    }
}

fn is_wanted(filter: &CallFilter, nr: u32) -> bool {
    u16::try_from(nr).map_or(filter.wants_all(), |nr| filter.wants(nr))
}

/// The innermost function outside the C library, with its file; of calls that the library makes for itself, its own.
fn caller(profile: &Profile, leaf_first: impl Iterator<Item = FrameId>) -> String {
    let dso = |frame: FrameId| profile.dsos.of(profile.frames.of(frame).dso);
    let user: Vec<FrameId> = leaf_first.filter(|&frame| !dso(frame).kind.is_kernel()).collect();
    let outside = user.iter().find(|&&frame| !is_c_library(&dso(frame).short_name));
    outside.or(user.first()).map_or_else(
        || "[no stack]".to_owned(),
        |&frame| {
            out::harmless(&format!("{} ({})", function(profile, frame), dso(frame).short_name)).into_owned()
        },
    )
}

impl CallerSums {
    /// Reads a recording that was made with [`options`].
    ///
    /// # Errors
    /// If it can't be read.
    pub fn read(path: &Path, filter: &CallFilter) -> anyhow::Result<Self> {
        let map = load::open(path)?;
        let file = load::parse(path, &map)?;
        let mut sums = Self::default();
        let needed = NeededTracepoint { name: EVENT, record: "tally trace -s --by function" };
        let reader = TracepointReader::new(path, &file, needed)?.with_unnamed(UnnamedCode::Functions);
        reader.read(&map, FRAMES, &mut CallerReader { sums: &mut sums, filter, unnamed: HashMap::new() })?;
        sums.add_waits(path, &file, filter)?;
        Ok(sums)
    }

    fn add_waits(&mut self, path: &Path, file: &PerfData<'_>, filter: &CallFilter) -> anyhow::Result<()> {
        let opts = LoadOpts {
            session: SessionOpts::default(),
            want: Want::Names,
            names: NameOpts::from_env(),
            unnamed: UnnamedCode::Functions,
        };
        let recording = load::load_file(path, file, opts, &mut Progress::silent())?;
        let profile = &recording.profile;
        for wait in &profile.off_cpu.waits {
            let Some(nr) = wait.syscall.filter(|&nr| is_wanted(filter, nr)) else { continue };
            let caller = match wait.callsite {
                Some(callsite) => caller(profile, profile.callsites.leaf_first(callsite)),
                None => caller(profile, std::iter::empty()),
            };
            self.sums.entry((caller, nr)).or_default().off_ns.grow(wait.weight_ns);
        }
        Ok(())
    }

    /// Functions with their calls, most time off the CPU first, then most calls.
    fn by_function(&self) -> Vec<CallerRow<'_>> {
        let mut functions: BTreeMap<&str, Vec<(u32, CallerSum)>> = BTreeMap::new();
        for ((caller, nr), sum) in &self.sums {
            functions.entry(caller).or_default().push((*nr, *sum));
        }
        let whole = |calls: &[(u32, CallerSum)]| CallerSum {
            calls: calls.iter().map(|(_, sum)| sum.calls).grown_sum(),
            off_ns: calls.iter().map(|(_, sum)| sum.off_ns).grown_sum(),
        };
        let mut rows: Vec<_> = functions
            .into_iter()
            .map(|(caller, mut calls)| {
                calls.rank_by_key(|(nr, sum)| (Reverse((sum.off_ns, sum.calls)), *nr));
                CallerRow { caller, sum: whole(&calls), calls }
            })
            .collect();
        rows.rank_by_key(|row| (Reverse((row.sum.off_ns, row.sum.calls)), row.caller));
        rows
    }

    /// A table of the first `most` functions.
    #[must_use]
    pub fn text(&self, table: &CallTable, most: usize) -> String {
        let rows = self.by_function();
        let calls: u64 = rows.iter().map(|row| row.sum.calls).grown_sum();
        let mut text = format!(
            "by calling function: about {}, estimated from {}; time off the CPU is exact\n",
            count_of(calls, "system call", "system calls"),
            count_of(self.samples, "stack", "stacks")
        );
        let _ =
            writeln!(text, "  {:>12}  {:>12}  function (file): system calls", "calls (est.)", "off CPU ms");
        for CallerRow { caller, sum, calls } in rows.iter().take(most) {
            let names: Vec<String> = calls.iter().take(NAMES).map(|(nr, _)| name(table, *nr)).collect();
            let more = if calls.len() > NAMES { " …" } else { "" };
            let off_ms = sum.off_ns as f64 / 1e6;
            let about = if sum.calls == 0 { "·".to_owned() } else { grouped(sum.calls) };
            let _ = writeln!(text, "  {about:>12}  {off_ms:>12.3}  {caller}: {}{more}", names.join(" "));
        }
        if rows.len() > most {
            let more = count_of((rows.len() - most) as u64, "function", "functions");
            let _ = writeln!(text, "\n{more} more; --rows N shows more");
        }
        text
    }

    /// The same for scripts.
    #[must_use]
    pub fn json(&self, table: &CallTable) -> Value {
        let row = |((caller, nr), sum): (&CallerKey, &CallerSum)| {
            json!({
                "function": caller, "syscall": name(table, *nr), "calls_estimate": sum.calls,
                "off_cpu_ns": sum.off_ns,
            })
        };
        json!({ "callers": self.sums.iter().map(row).collect::<Vec<_>>(), "stacks": self.samples })
    }
}

fn name(table: &CallTable, nr: u32) -> String {
    let signature = u16::try_from(nr).ok().and_then(|nr| table.of(nr));
    signature.map_or_else(|| format!("syscall_{nr}"), |signature| signature.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_most_time_off_the_cpu_come_first_with_their_calls() {
        let table = CallTable::of_this_processor();
        let nr = |name: &str| u32::from(table.names().find(|(_, known)| *known == name).expect("a call").0);
        let mut sums = CallerSums { samples: 3, ..CallerSums::default() };
        for (caller, call, calls, off_ns) in [
            ("log (app)", "write", 58, 1_000_000),
            ("load (app)", "read", 29, 7_000_000),
            ("load (app)", "openat", 0, 8_000_000),
        ] {
            sums.sums.insert((caller.to_owned(), nr(call)), CallerSum { calls, off_ns });
        }
        let text = sums.text(&table, 1);
        assert!(
            text.starts_with("by calling function: about 87 system calls, estimated from 3 stacks"),
            "{text}"
        );
        assert!(text.contains("            29        15.000  load (app): openat read\n"), "{text}");
        assert!(!text.contains("log") && text.contains("1 function more"), "{text}");
        let rows = sums.json(&table);
        assert_eq!(rows["callers"].as_array().map(Vec::len), Some(3));
    }
}
