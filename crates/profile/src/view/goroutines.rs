//! Goroutines of Go programs by what they wait for, and where: averages over all looks at them.

use crate::view::ranking::RankRows as _;
use std::collections::BTreeMap;

use perfdata::appendix::go_waits::GoWaitKind;

use crate::machine::file_name;
use crate::profile::Profile;

/// Goroutines that wait for the same in one line of code.
#[derive(Clone, Debug, PartialEq)]
pub struct GoroutineRow {
    /// Reason of their waits.
    pub kind: GoWaitKind,
    /// Innermost function that is not of the standard library.
    pub function: String,
    /// As `main.go:12`; empty if it is not known.
    pub line: String,
    /// Their number on average.
    pub average: f64,
    /// The longest of these waits took at least so long, ns.
    pub longest_ns: u64,
}

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
        let mut rows: BTreeMap<(GoWaitKind, &str, &str, u32), (f64, u64)> = BTreeMap::new();
        for process in profile.off_cpu.go_waits.0.iter().filter(|process| process.looks > 0) {
            let average = |sum: u64| sum as f64 / f64::from(process.looks);
            all.average += average(process.goroutines);
            all.torn += average(process.torn);
            all.looks = all.looks.max(u64::from(process.looks));
            for place in &process.places {
                let key = (place.kind, place.function.as_str(), place.file.as_str(), place.line);
                let (sum, longest_ns) = rows.entry(key).or_default();
                *sum += average(place.seen);
                *longest_ns = place.longest_ns.max(*longest_ns);
            }
        }
        all.rows = rows
            .into_iter()
            .map(|((kind, function, file, line), (average, longest_ns))| {
                let line = if line == 0 { String::new() } else { format!("{}:{line}", file_name(file)) };
                GoroutineRow { kind, function: function.to_owned(), line, average, longest_ns }
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

impl GoroutineRow {
    /// `main.handler (main.go:12)`.
    #[must_use]
    pub fn place(&self) -> String {
        match self.line.as_str() {
            "" => self.function.clone(),
            line => format!("{} ({line})", self.function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    }
}
