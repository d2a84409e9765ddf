//! The recorder for aarch64, on programs of that machine under an emulator: the same counts as the programs' own.

use super::compilers::{XRAY, clang, dialect, first_error};
use super::{Counts, assert_storms, build_library, build_plugin, counted, root, tally};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const MACHINE: &str = "aarch64-linux-gnu";
const EMULATOR: &str = "qemu-aarch64";

/// Ways to instrument; return addresses may also be signed, by either key. XRay is clang's, the others are gcc's.
const WAYS: [(&str, &[&str]); 9] = [
    ("pg", &["-pg"]),
    ("instrument", &["-finstrument-functions"]),
    ("patchable", &["-fpatchable-function-entry=2"]),
    ("pg-signed", &["-pg", "-mbranch-protection=standard"]),
    ("patchable-signed", &["-fpatchable-function-entry=2", "-mbranch-protection=standard"]),
    ("xray", XRAY),
    ("instrument-signed", &["-finstrument-functions", "-mbranch-protection=standard"]),
    ("pg-other-key", &["-pg", "-mbranch-protection=pac-ret+leaf+b-key"]),
    ("patchable-other-key", &["-fpatchable-function-entry=2", "-mbranch-protection=pac-ret+b-key"]),
];
/// Number of these that are different enough for slow checks.
const FIRST_WAYS: usize = 6;

fn dir() -> PathBuf {
    let dir = root().join("target/tmp/calls/aarch64");
    std::fs::create_dir_all(&dir).expect("target is writable");
    dir
}

/// Runs a tool; `None` (and reported) where it can't do that.
fn run(command: &mut Command, what: &str) -> Option<()> {
    match command.output() {
        Ok(output) if output.status.success() => Some(()),
        Ok(output) => {
            println!("skipped: {what} can't be built: {}", first_error(&output.stderr));
            None
        }
        Err(error) => {
            println!("skipped: {what} can't be built, no {}: {error}", command.get_program().display());
            None
        }
    }
}

/// The recorder for aarch64, and the program that starts others under the emulator; built once.
fn tools() -> Option<&'static (PathBuf, PathBuf)> {
    static TOOLS: OnceLock<Option<(PathBuf, PathBuf)>> = OnceLock::new();
    let build = || {
        let (recorder, starter) = (dir().join("recorder.so"), dir().join("under_qemu"));
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc
            .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "tally_calls"])
            .args(["--cfg", "tally_preload", "--target", "aarch64-unknown-linux-gnu"])
            .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "force-unwind-tables=yes"])
            .args(["-C", "force-frame-pointers=yes", "-A", "missing_docs"])
            .args(["-C", &format!("linker={MACHINE}-gcc"), "-o"])
            .arg(&recorder)
            .arg(root().join("crates/tracer/src/lib.rs"));
        run(&mut rustc, "the tracer for aarch64")?;
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-fpatchable-function-entry=5", "-o"]).arg(&starter);
        run(gcc.arg(root().join("tests/programs/under_qemu.c")), "under_qemu")?;
        let emulator = Command::new(EMULATOR).arg("--version").output();
        if emulator.is_err() {
            println!("skipped: no {EMULATOR} to run programs for aarch64");
        }
        emulator.ok().map(|_| (recorder, starter))
    };
    TOOLS.get_or_init(build).as_ref()
}

/// Builds from C or C++; clang's objects are linked as gcc does it: the tracer needs nothing of clang's runtime.
fn build(source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let (program, unit) = (dir().join(name), dir().join(format!("{name}.o")));
    let is_cpp = source.ends_with(".cpp");
    let gnu = format!("{MACHINE}-{}", if is_cpp { "g++" } else { "gcc" });
    let mut compiler = if flags.starts_with(XRAY) {
        let mut clang = Command::new(clang(is_cpp));
        clang.arg(format!("--target={MACHINE}")).args(dialect("clang"));
        clang
    } else {
        Command::new(&gnu)
    };
    compiler.args(["-g", "-c", "-o"]).arg(&unit).args(flags).arg(root().join("tests/programs").join(source));
    run(&mut compiler, name)?;
    let mut linker = Command::new(&gnu);
    let for_linker = flags.iter().filter(|flag| flag.starts_with("-Wl,") || **flag == "-pg");
    linker.arg("-o").arg(&program).args(for_linker).arg(&unit);
    run(linker.args(["-lpthread", "-lm", "-ldl"]), name).map(|()| program)
}

/// Records the program with options; its own counts, those of the report, and the report. `words` are the program's.
fn record(program: &Path, words: &[&str], options: &[&str]) -> Option<(Counts, Counts, String)> {
    let (recorder, starter) = tools()?;
    let mut command = tally();
    command
        .args(["calls", "record", "--no-switches", "-o"])
        .arg(program.with_extension("calls"))
        .args(options);
    command.arg("--").args([starter.as_os_str(), EMULATOR.as_ref(), format!("/usr/{MACHINE}").as_ref()]);
    Some(counted(program, command.arg(recorder).arg(program).args(words)))
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "heavy: many builds and recordings"]
fn every_way_of_instrumenting_for_aarch64_counts_what_the_program_counts() {
    for (name, flags) in WAYS {
        for level in ["-O0", "-O2"] {
            let flags = [flags, &[level, "-fexceptions"]].concat();
            for (source, left) in [("calls.c", 8), ("ends.c", 250)] {
                let Some(program) = build(source, &format!("{source}-{name}{level}"), &flags) else {
                    continue;
                };
                let Some((wanted, got, text)) = record(&program, &[], &["--no-libcall"]) else { return };
                assert_eq!(got, wanted, "{source} {name} {level}:\n{text}");
                // Functions that report their own ends do so on the way of an exception, too.
                let left = if name.starts_with("instrument") && source == "ends.c" { 60 } else { left };
                let left = format!("{left} left by longjmp or exception");
                assert!(text.contains(&left), "{source} {name} {level}:\n{text}");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "heavy: many builds and recordings"]
fn signals_exceptions_jumps_and_coroutines_on_aarch64_are_counted_right() {
    for (name, flags) in &WAYS[..FIRST_WAYS] {
        for level in ["-O0", "-O2"] {
            let flags = [*flags, &[level]].concat();
            let Some(program) = build("storms.cpp", &format!("storms-{name}{level}"), &flags) else {
                continue;
            };
            // The emulator makes the rounds long.
            let Some(recorded) = record(&program, &["30000"], &["--no-libcall"]) else { return };
            assert_storms(&format!("{name}{level}"), recorded);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn libraries_that_the_program_opens_are_recorded_on_aarch64() {
    let folder = dir().join("own");
    let sleds = "-fpatchable-function-entry=2";
    if !build_plugin(&format!("{MACHINE}-gcc"), sleds, &folder) {
        return;
    }
    // Asked for by its bare name: only the program's own RUNPATH has its place.
    let flags = ["-O2", sleds, "-Wl,-rpath,$ORIGIN/own"];
    let Some(program) = build("opens.c", "opens", &flags) else { return };
    let Some((wanted, mut got, text)) = record(&program, &[], &["--libcall"]) else { return };
    got.retain(|function, _| wanted.contains_key(function));
    assert_eq!(got, wanted, "{text}");
}

/// Each jump of a handler may leave one call unrecorded, or recorded and not begun.
pub fn assert_escapes(name: &str, (wanted, got, text): (Counts, Counts, String)) {
    let number = |part: &str| part.trim_end().strip_suffix(" lost")?.replace(',', "").parse().ok();
    let lost: u64 = text.split("; ").find_map(number).unwrap_or_default();
    for function in ["small", "middle"] {
        let (wanted, got) = (wanted[function], got.get(function).copied().unwrap_or_default());
        let jumps = 200;
        assert!(got <= wanted + jumps && got + lost + jumps >= wanted, "{name}: {function} {wanted}\n{text}");
    }
    assert!(lost < 2000, "{name}\n{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "heavy: many builds and recordings"]
fn handlers_that_jump_out_of_the_recorder_end_no_recording_on_aarch64() {
    for (name, flags) in &WAYS[..3] {
        let flags = [*flags, &["-O2"]].concat();
        let Some(program) = build("escapes.c", &format!("escapes-{name}"), &flags) else { continue };
        let Some(recorded) = record(&program, &[], &["--no-libcall"]) else { return };
        assert_escapes(name, recorded);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "heavy: many builds and recordings"]
fn constructors_of_libraries_that_the_program_opens_are_recorded_on_aarch64() {
    let ways = [
        ("patchable", "-fpatchable-function-entry=2"),
        ("pg", "-pg"),
        ("instrument", "-finstrument-functions"),
    ];
    for (way, flag) in ways {
        let library = dir().join(format!("early-{way}/libearly.so"));
        if !build_library(&format!("{MACHINE}-gcc"), &[flag], "early.c", &library) {
            return;
        }
        let flags = ["-O2", flag, &format!("-Wl,-rpath,$ORIGIN/early-{way}")];
        let Some(program) = build("early.c", &format!("early-{way}-program"), &flags) else { return };
        let Some((wanted, mut got, text)) = record(&program, &[], &["--no-libcall"]) else { return };
        got.retain(|function, _| wanted.contains_key(function));
        assert_eq!(got, wanted, "{way}:\n{text}");
    }
}

/// Functions that report themselves: rules hold there as elsewhere.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "heavy: many builds and recordings"]
fn filters_hold_for_functions_that_report_themselves_on_aarch64() {
    for level in ["-O0", "-O2"] {
        let flags = ["-finstrument-functions", level];
        let Some(program) = build("calls.c", &format!("reported{level}"), &flags) else { return };
        let run = |options: &[&str]| record(&program, &[], &[&["--no-libcall"], options].concat());
        let Some((wanted, got, text)) = run(&["-N", "fib"]) else { return };
        let without_fib: u64 = wanted["leaf"] - wanted["fib"].div_ceil(2);
        assert_eq!((got.get("fib"), got["leaf"]), (None, without_fib), "{text}");
        for (options, count) in
            [(&["-F", "jumper"][..], 8), (&["-P", "jumper"], 8), (&["-F", "jumper", "-D", "3"], 3)]
        {
            let Some((_, got, text)) = run(options) else { return };
            assert_eq!(got, BTreeMap::from([("jumper".to_owned(), count)]), "{options:?}\n{text}");
        }
    }
}

/// A call of `_mcount` comes when arguments have been moved: none are reported then. Results are reported for all.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn values_on_aarch64_are_told_where_they_are_known() {
    let ways = [
        ("patchable", "-fpatchable-function-entry=2", "fib(16) {", "fib(1);"),
        ("pg", "-pg", "fib() {", "fib();"),
    ];
    for (name, flag, outer, inner) in ways {
        let Some(program) = build("calls.c", &format!("valued-{name}"), &["-O2", flag]) else { return };
        let options = ["--no-libcall", "-A", "fib@arg1", "-R", "fib"];
        if record(&program, &[], &options).is_none() {
            return;
        }
        let folder = program.with_extension("calls");
        let replay = tally().args(["calls", "replay", "-i"]).arg(&folder).output().expect("tally starts");
        let replay = String::from_utf8_lossy(&replay.stdout).into_owned();
        let shows = |text: &str| replay.lines().any(|line| line.contains(text));
        assert!(
            shows(outer) && shows(inner) && shows("} = 5; /* fib() */"),
            "{name}: {}",
            &replay[..replay.len().min(2000)]
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn filters_and_library_calls_on_aarch64_do_what_they_say() {
    let Some(program) = build("calls.c", "filtered", &["-O2", "-fpatchable-function-entry=2"]) else {
        return;
    };
    let Some((wanted, got, text)) = record(&program, &[], &["--no-libcall", "-N", "fib"]) else { return };
    let without_fib: u64 = wanted["leaf"] - wanted["fib"].div_ceil(2);
    assert_eq!((got.get("fib"), got["leaf"]), (None, without_fib), "{text}");
    let Some(program) = build("calls.c", "filtered-pg", &["-O2", "-pg"]) else { return };
    let Some((_, got, text)) = record(&program, &[], &["--no-libcall", "-P", "jumper"]) else { return };
    assert_eq!(got, BTreeMap::from([("jumper".to_owned(), 8)]), "{text}");
    // The emulator is slow; calls that hold many are kept, and short ones dropped.
    let Some((wanted, got, text)) = record(&program, &[], &["--no-libcall", "-t", "100us"]) else { return };
    assert!(got["fib"] > 0 && got["fib"] < wanted["fib"] / 2, "{text}");
    for binding in ["-Wl,-z,lazy", "-Wl,-z,now", "-fno-plt"] {
        let flags = ["-O2", "-fpatchable-function-entry=2", binding];
        let Some(program) = build("imports.c", "imports", &flags) else { return };
        let Some((mut wanted, mut got, text)) = record(&program, &[], &["--libcall"]) else { return };
        if binding == "-fno-plt" {
            // Its address is kept on the stack in a loop: a pointer, which is left alone.
            wanted.remove("qsort");
        }
        got.retain(|function, _| wanted.contains_key(function));
        assert_eq!(got, wanted, "{binding}:\n{text}");
    }
}
