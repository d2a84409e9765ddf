//! Library calls through the table of imports, however the loader fills it.

use super::{build, build_library, build_plugin, counts_of_program, counts_of_report, record, root, tally};

/// Flags for the time at which the table is filled.
const BINDINGS: [(&str, &[&str]); 5] = [
    ("noplt", &["-fno-plt"]),
    ("noplt-static", &["-fno-plt", "-no-pie", "-fno-pie"]),
    ("lazy", &["-Wl,-z,lazy"]),
    ("now", &["-Wl,-z,now"]),
    ("fixed", &["-no-pie", "-fno-pie", "-Wl,-z,lazy"]),
];

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn library_calls_are_counted_as_the_program_counts_them() {
    for (binding, flags) in BINDINGS {
        for (way, flag) in [("patchable", "-fpatchable-function-entry=5"), ("pg", "-pg")] {
            let flags = [flags, &["-O2", flag, "-lm"]].concat();
            let Some(program) = build("imports.c", &format!("imports-{binding}-{way}"), "gcc", &flags) else {
                continue;
            };
            let (wanted, mut got, text) = record(&program, &["--libcall"]);
            got.retain(|function, _| wanted.contains_key(function));
            assert_eq!(got, wanted, "{binding} {way}\n{text}");
            let (_, got, text) = record(&program, &[]);
            assert!(!got.contains_key("strtol") && got["compare"] == wanted["compare"], "{text}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn library_calls_of_a_program_that_is_not_instrumented_are_recorded_when_asked_for() {
    let Some(program) = build("imports.c", "imports-plain", "gcc", &["-O2", "-lm"]) else { return };
    let (wanted, mut got, text) = record(&program, &["--libcall"]);
    got.retain(|function, _| wanted.contains_key(function));
    let mut wanted_here = wanted.clone();
    // Its own functions have no sleds.
    wanted_here.retain(|function, _| !["compare", "leave"].contains(&function.as_str()));
    assert_eq!(got, wanted_here, "{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn exceptions_pass_through_library_calls() {
    let Some(program) =
        build("storms.cpp", "storms-libcall", "g++", &["-O2", "-fpatchable-function-entry=5"])
    else {
        return;
    };
    let folder = program.with_extension("calls");
    let ran =
        tally().args(["calls", "record", "-o"]).arg(&folder).arg(&program).output().expect("tally starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let report = tally().args(["calls", "report", "-i"]).arg(&folder).output().expect("tally starts");
    let wanted = counts_of_program(&String::from_utf8_lossy(&ran.stdout));
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    let got = counts_of_report(&text);
    let by_handler = |name: &String| ["handler", "inner"].contains(&name.as_str());
    for (function, count) in wanted.iter().filter(|(name, _)| !by_handler(name)) {
        assert_eq!(got.get(function), Some(count), "{function}\n{text}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn libraries_are_recorded_that_the_program_opens_and_are_found_where_it_wants_them() {
    let sleds = "-fpatchable-function-entry=5";
    if !build_plugin("gcc", sleds, &root().join("target/tmp/calls/opened/own")) {
        return;
    }
    // The program asks for it by its bare name: only its own RUNPATH shows where that is.
    let flags = ["-O2", sleds, "-Wl,-rpath,$ORIGIN/opened/own"];
    let Some(program) = build("opens.c", "opens", "gcc", &flags) else { return };
    let (wanted, mut got, text) = record(&program, &["--libcall"]);
    got.retain(|function, _| wanted.contains_key(function));
    assert_eq!(got, wanted, "{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn constructors_of_libraries_that_the_program_opens_are_recorded() {
    let ways: [(&str, &[&str]); 4] = [
        ("patchable", &["-fpatchable-function-entry=5"]),
        ("pg", &["-pg"]),
        ("fentry-noplt", &["-pg", "-mfentry", "-fno-plt"]),
        ("instrument", &["-finstrument-functions"]),
    ];
    for (way, flags) in ways {
        let folder = format!("opened/{way}");
        let library = root().join("target/tmp/calls").join(&folder).join("libearly.so");
        if !build_library("gcc", flags, "early.c", &library) {
            continue;
        }
        let path = format!("-Wl,-rpath,$ORIGIN/{folder}");
        let flags = [flags, &["-O2", &path]].concat();
        let Some(program) = build("early.c", &format!("early-{way}"), "gcc", &flags) else { continue };
        for options in [&[][..], &["-A", "early_step@arg1", "--libcall", "--nest-libcall"]] {
            let (wanted, mut got, text) = record(&program, options);
            got.retain(|function, _| wanted.contains_key(function));
            assert_eq!(got, wanted, "{way} {options:?}\n{text}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_program_that_kills_itself_at_forbidden_system_calls_is_recorded_to_its_end() {
    let Some(program) = build("strict.c", "strict", "gcc", &["-O2", "-fpatchable-function-entry=5"]) else {
        return;
    };
    let (wanted, got, text) = record(&program, &[]);
    assert_eq!(got.get("step"), wanted.get("step"), "{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn signals_begin_and_stop_recording() {
    let Some(program) = build("signals.c", "signals", "gcc", &["-O2", "-fpatchable-function-entry=5"]) else {
        return;
    };
    let switches = ["--disable", "--signal", "SIGUSR1@trace_on", "--signal", "SIGUSR2@trace_off"];
    let (wanted, got, text) = record(&program, &switches);
    assert_eq!(
        (got.get("during"), got.get("before"), got.get("after")),
        (wanted.get("during"), None, None),
        "{text}"
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn only_slow_calls_of_a_function_are_kept_with_all_in_them() {
    let Some(program) = build("slow.c", "slow", "gcc", &["-O2", "-fpatchable-function-entry=5"]) else {
        return;
    };
    let (wanted, got, text) = record(&program, &["-T", "request@slow=20ms"]);
    // A loaded machine makes others slow, too.
    let slow = wanted["slow"];
    assert!(got["request"] >= slow && got["request"] < slow + 20, "{text}");
    assert_eq!(got["step"], got["request"] * wanted["step"] / wanted["request"], "{text}");
    assert_eq!(got.get("outside"), wanted.get("outside"), "{text}");
}
