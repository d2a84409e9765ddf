//! Goroutines of Go programs by what they wait for, and where: averages over all looks at them.

use crate::view::ranking::RankRows as _;
use std::collections::BTreeMap;

use perfdata::appendix::go_waits::GoWaitKind;

use crate::machine::file_name;
use crate::profile::{Profile, TaskId};

/// Goroutines that wait for the same in one line of code.
#[derive(Clone, Debug, PartialEq)]
pub struct GoroutineRow {
    /// Reason of their waits.
    pub kind: GoWaitKind,
    /// Innermost function that is not of the standard library.
    pub function: String,
    /// As `main.go:12`; empty if it is not known.
    pub line: String,
    /// The program, where there are several.
    pub program: String,
    /// Their number on average.
    pub average: f64,
    /// The longest of these waits took at least so long, ns.
    pub longest_ns: u64,
}

/// Kind, function, file, line and program.
type Place<'p> = (GoWaitKind, &'p str, &'p str, u32, &'p str);

/// The goroutines of all Go programs in a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goroutines {
    /// Living ones on average, without the runtime's own.
    pub average: f64,
    /// Number of looks, of the process with most of them.
    pub looks: u64,
    /// Those on average that went on while they were read, which are in no row.
    pub torn: f64,
    /// By place, most goroutines first.
    pub rows: Vec<GoroutineRow>,
}

impl Goroutines {
    /// `None` without Go programs.
    #[must_use]
    pub fn of(profile: &Profile) -> Option<Self> {
        let mut all = Self::default();
        let mut rows: BTreeMap<Place<'_>, (f64, u64)> = BTreeMap::new();
        let processes = || profile.off_cpu.go_waits.0.iter().filter(|process| process.looks > 0);
        let names: Vec<String> = processes().map(|process| program_of(profile, process.pid)).collect();
        let has_several = names.iter().any(|name| *name != names[0]);
        for (process, name) in processes().zip(&names) {
            let program = if has_several { name.as_str() } else { "" };
            let average = |sum: u64| sum as f64 / f64::from(process.looks);
            all.average += average(process.goroutines);
            all.torn += average(process.torn);
            all.looks = all.looks.max(u64::from(process.looks));
            for place in &process.places {
                let key = (place.kind, place.function.as_str(), place.file.as_str(), place.line, program);
                let (sum, longest_ns) = rows.entry(key).or_default();
                *sum += average(place.seen);
                *longest_ns = place.longest_ns.max(*longest_ns);
            }
        }
        all.rows = rows
            .into_iter()
            .map(|((kind, function, file, line, program), (average, longest_ns))| {
                let line = if line == 0 { String::new() } else { format!("{}:{line}", file_name(file)) };
                let (function, program) = (function.to_owned(), program.to_owned());
                GoroutineRow { kind, function, line, program, average, longest_ns }
            })
            .collect();
        all.rows.rank_by(|a, b| b.average.total_cmp(&a.average));
        (all.looks > 0).then_some(all)
    }

    /// How many wait for this on average.
    #[must_use]
    pub fn waiting(&self, kind: GoWaitKind) -> f64 {
        self.rows.iter().filter(|row| row.kind == kind).map(|row| row.average).sum()
    }
}

/// Name of a process: of its first thread, else its number.
fn program_of(profile: &Profile, pid: u32) -> String {
    let first =
        profile.tasks().iter().position(|task| task.tid == task.pid && u32::try_from(task.pid) == Ok(pid));
    let name = first.map(|at| profile.strings.of(profile.last_comm(TaskId::from_index(at))).to_owned());
    name.unwrap_or_else(|| format!("process {pid}"))
}

impl GoroutineRow {
    /// `main.handler (main.go:12)`, with ` of shop` if there are several programs.
    #[must_use]
    pub fn place(&self) -> String {
        let line = if self.line.is_empty() { String::new() } else { format!(" ({})", self.line) };
        let program = if self.program.is_empty() { String::new() } else { format!(" of {}", self.program) };
        format!("{}{line}{program}", self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Task;
    use perfdata::appendix::go_waits::{GoProcessWaits, GoWaitPlace, GoWaits};

    #[test]
    fn processes_are_averaged_each_by_its_own_looks_and_added() {
        let place = |kind, seen, longest_ns| GoWaitPlace {
            kind,
            function: "main.f".to_owned(),
            file: "/srv/main.go".to_owned(),
            line: 12,
            seen,
            longest_ns,
        };
        let process =
            |looks, goroutines, places| GoProcessWaits { pid: 7, looks, goroutines, torn: 5, places };
        let mut profile = Profile::default();
        assert_eq!(Goroutines::of(&profile), None);
        profile.off_cpu.go_waits = GoWaits(vec![
            process(10, 520, vec![place(GoWaitKind::Io, 100, 5), place(GoWaitKind::Mutex, 400, 9)]),
            process(5, 50, vec![place(GoWaitKind::Mutex, 25, 30)]),
            process(0, 0, Vec::new()),
        ]);
        let found = Goroutines::of(&profile).expect("two with looks");
        assert_eq!((found.average, found.torn, found.looks), (62.0, 1.5, 10));
        let rows: Vec<_> = found.rows.iter().map(|row| (row.kind, row.average, row.longest_ns)).collect();
        assert_eq!(rows, [(GoWaitKind::Mutex, 45.0, 30), (GoWaitKind::Io, 10.0, 5)]);
        assert_eq!(found.rows[0].place(), "main.f (main.go:12)");
        assert_eq!(found.waiting(GoWaitKind::Mutex), 45.0);

        let comm = profile.strings.intern("shop");
        profile.intern_task(Task { pid: 7, tid: 7, process: 1, comm });
        profile.off_cpu.go_waits.0[1].pid = 8;
        let found = Goroutines::of(&profile).expect("two with looks");
        let places: Vec<_> = found.rows.iter().map(|row| (row.place(), row.average)).collect();
        let place = |program: &str, average| (format!("main.f (main.go:12) of {program}"), average);
        assert_eq!(places, [place("shop", 40.0), place("shop", 10.0), place("process 8", 5.0)]);
    }
}
