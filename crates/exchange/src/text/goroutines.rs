//! Where goroutines of Go programs wait, as text.

use std::io::{self, Write};

use crate::foreign::harmless;
use display::number::{count_of, duration_ns};
use profile::Profile;
use profile::view::goroutines::{GoroutineRow, Goroutines};

/// Prints a heading and a line for each place, at most `rows`; nothing without Go programs.
///
/// # Errors
/// The output can't be written.
pub fn write(out: &mut dyn Write, profile: &Profile, rows: usize) -> io::Result<()> {
    let Some(all) = Goroutines::of(profile) else { return Ok(()) };
    writeln!(out, "\n{}", heading(&all))?;
    all.rows.iter().take(rows).try_for_each(|row| writeln!(out, "{}", harmless(&line(row))))?;
    match all.rows.len().saturating_sub(rows) {
        0 => Ok(()),
        more => writeln!(out, "({} more)", count_of(more as u64, "place", "places")),
    }
}

fn heading(all: &Goroutines) -> String {
    let waiting: f64 = all.rows.iter().map(|row| row.average).sum();
    let torn = match all.torn {
        none if none < 0.05 => String::new(),
        torn => format!("; {torn:.1} went on while they were read"),
    };
    let looks = count_of(all.looks, "look", "looks");
    format!("GOROUTINES   {:.1} on average, {waiting:.1} of them wait ({looks}{torn})", all.average)
}

fn line(row: &GoroutineRow) -> String {
    let longest = match row.longest_ns {
        0 => String::new(),
        ns => format!("  longest at least {}", duration_ns(ns)),
    };
    format!("{:>9.1}  {} in {}{longest}", row.average, row.kind.words(), row.place())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::appendix::go_waits::{GoProcessWaits, GoWaitKind, GoWaitPlace, GoWaits};

    #[test]
    fn each_place_has_a_line_with_its_average_and_its_longest_wait() {
        let place = |kind, seen, longest_ns| GoWaitPlace {
            kind,
            function: "main.f\u{1b}".to_owned(),
            file: "main.go".to_owned(),
            line: 12,
            seen,
            longest_ns,
        };
        let places = vec![place(GoWaitKind::Mutex, 400, 3_200_000_000), place(GoWaitKind::Io, 20, 0)];
        let mut profile = Profile::default();
        let text = |profile: &Profile, rows| {
            let mut out = Vec::new();
            write(&mut out, profile, rows).expect("memory");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(text(&profile, 9), "");
        profile.off_cpu.go_waits =
            GoWaits(vec![GoProcessWaits { pid: 7, looks: 10, goroutines: 520, torn: 3, places }]);
        let all = text(&profile, 9);
        assert!(
            all.starts_with("\nGOROUTINES   52.0 on average, 42.0 of them wait (10 looks; 0.3 went on"),
            "{all}"
        );
        assert!(all.contains("     40.0  wait for a mutex in main.f"), "{all}");
        assert!(all.contains("(main.go:12)  longest at least 3.2") && !all.contains('\u{1b}'), "{all}");
        assert!(text(&profile, 1).ends_with("(1 place more)\n"));
    }
}
