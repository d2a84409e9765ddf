//! Requests by OpenTelemetry's thread context against a program that knows its own: routes, lengths, states, and records
//! that can't be read.

use super::{ONE, TALLY, folder, has_bpf, output_of, outputs_of};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the program offers the variable.
#[derive(Clone, Copy, Debug)]
enum Offered {
    /// By itself: at a fixed place.
    ByProgram,
    /// By a library that is loaded while it runs, with code of this dialect.
    ByLibrary(&'static str),
}

/// The program, and the library if it has one. `None` without a compiler.
fn built(offered: Offered, folder: &Path) -> Option<(PathBuf, Option<PathBuf>)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/routes.c");
    let cc = |options: &[&str], to: &Path| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-g", "-pthread"]).args(options).arg("-o").arg(to).arg(&source);
        cc.status().is_ok_and(|status| status.success())
    };
    let (program, library) = (folder.join("routes"), folder.join("libroutes.so"));
    let is_built = match offered {
        Offered::ByProgram => cc(&["-DINSIDE", "-rdynamic"], &program),
        Offered::ByLibrary(dialect) => {
            let options = ["-DLIBRARY", "-shared", "-fPIC", dialect];
            cc(&[], &program) && cc(&options, &library)
        }
    };
    if !is_built {
        println!("skipped: no C compiler");
        return None;
    }
    Some((program, matches!(offered, Offered::ByLibrary(_)).then_some(library)))
}

/// Numbers that the program measured of a route: requests, and ns of wall clock, on the CPU and asleep.
type Measured = [u64; 4];

struct Recorded {
    own: [(String, Measured); 2],
    report: Value,
    text: String,
}

impl Recorded {
    fn of(name: &str, offered: Offered, args: &[&str]) -> Option<Self> {
        let folder = folder(name);
        let (program, library) =
            built(offered, &folder).filter(|_| has_bpf() && cfg!(target_arch = "x86_64"))?;
        let file = folder.join("perf.data");
        let mut record = Command::new(TALLY);
        record.args(["record", "--span", "otel", "-o"]).arg(&file).arg("--").arg(program);
        record.args(&args[..2]).args(library).args(&args[2..]);
        let (printed, _) = outputs_of(record);
        let route = |line: &str| {
            let (route, numbers) = line.split_once(' ').expect("a route and numbers");
            let mut numbers = numbers.split(' ').map(|number| number.parse().expect("a number"));
            (route.to_owned(), std::array::from_fn(|_| numbers.next().expect("four numbers")))
        };
        let lines: Vec<(String, Measured)> = printed.lines().map(route).collect();
        let report = |args: &[&str]| {
            let mut report = Command::new(TALLY);
            report.args(["report", "--span", "-i"]).arg(&file).args(args);
            output_of(report)
        };
        let json = serde_json::from_str(&report(&["--json"])).expect("JSON");
        Some(Self { own: lines.try_into().expect("two routes"), report: json, text: report(&[]) })
    }

    fn route(&self, name: &str) -> &Value {
        let all = self.report["functions"].as_array().expect("routes");
        all.iter().find(|of| of["function"] == name).unwrap_or_else(|| panic!("no {name}: {:#}", self.report))
    }

    /// ns of a route in these states.
    fn ns_of(&self, name: &str, states: &[&str]) -> u64 {
        let rows = self.route(name)["states"]["rows"].as_array().expect("rows").iter();
        let rows = rows.filter(|row| states.iter().any(|state| row["state"] == *state));
        rows.map(|row| row["ns"].as_u64().expect("ns")).sum()
    }
}

#[test]
#[ignore = "live: records with BPF"]
fn states_of_routes_are_those_that_the_program_measured() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let offered = Offered::ByLibrary("-mtls-dialect=gnu2");
    let Some(found) = Recorded::of("routes-truth", offered, &["3", "15"]) else { return };
    for (name, [requests, wall, on, asleep]) in &found.own {
        let route = found.route(name);
        assert_eq!(route["calls"].as_u64(), Some(*requests), "{route:#}");
        let total = route["total_ns"].as_u64().expect("ns");
        let terms = [
            ("wall clock", *wall, total),
            ("on CPU", *on, found.ns_of(name, &["on CPU"])),
            ("off CPU", wall - on, found.ns_of(name, &["timer", "runnable", "preempted"])),
            // Until it ran again.
            ("asleep", *asleep, found.ns_of(name, &["timer", "runnable"])),
        ];
        for (what, own, seen) in terms {
            let apart = (seen as f64 - own as f64).abs() * 100.0 / *wall as f64;
            println!("{name} {what}: measured {own} ns, found {seen} ns, {apart:.2} points");
            assert!(apart < 3.0, "{name} {what}: measured {own}, found {seen} of {wall}: {route:#}");
        }
        // Begin and end are between two looks, and the text has both.
        let unsure = route["unsure_ns"].as_u64().expect("ns");
        assert!(unsure > 0 && unsure < 2_000_000, "{unsure}");
        let slow = &route["slowest"][0];
        assert!(
            slow["seen"]["trace"].as_str().is_some_and(|trace| trace.ends_with("01") && trace.len() == 32)
        );
        let length = slow["length_ns"].as_u64().expect("ns");
        let seen =
            slow["seen"]["to_ns"].as_u64().expect("ns") - slow["seen"]["from_ns"].as_u64().expect("ns");
        assert!(seen <= length, "{slow:#}");
    }
    assert!(found.text.contains("seen from ") && found.text.contains("between two looks"), "{}", found.text);
}

#[test]
#[ignore = "live: records with BPF"]
fn the_variable_is_found_wherever_the_loader_put_it() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    for (name, offered) in [
        ("routes-program", Offered::ByProgram),
        ("routes-gnu", Offered::ByLibrary("-mtls-dialect=gnu")),
        ("routes-gnu2", Offered::ByLibrary("-mtls-dialect=gnu2")),
    ] {
        let Some(found) = Recorded::of(name, offered, &["2", "3"]) else { return };
        for (route, [requests, ..]) in &found.own {
            assert_eq!(
                found.route(route)["calls"].as_u64(),
                Some(*requests),
                "{offered:?}: {:#}",
                found.report
            );
        }
    }
}

#[test]
#[ignore = "live: records with BPF"]
fn contexts_that_cannot_be_read_are_counted_by_reason() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some(found) = Recorded::of("routes-bad", Offered::ByProgram, &["2", "3", "bad"]) else { return };
    let counts = &found.report["contexts"];
    for reason in ["unreadable", "invalid", "cut", "damaged"] {
        assert!(counts[reason].as_u64().is_some_and(|count| count > 0), "{reason}: {counts:#}");
    }
    assert!(found.text.contains("looks at a pointer that leads nowhere"), "{}", found.text);
    for (route, [requests, ..]) in &found.own {
        assert_eq!(found.route(route)["calls"].as_u64(), Some(*requests), "{:#}", found.report);
    }
}
