//! Programs that look at their own stack, or unwind it: what they do is the same while their calls are recorded.

use super::uprobes::no_uprobes;
use super::{build, tally};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn record(program: &Path, options: &[&str]) -> Output {
    let mut command = tally();
    command
        .args(["calls", "record", "--uprobes", "--max-rate", "0"])
        .args(options)
        .arg("-o")
        .arg(program.with_extension("calls"));
    command.arg("--").arg(program).output().expect("tally starts")
}

fn texts(ran: &Output) -> (String, String) {
    (String::from_utf8_lossy(&ran.stdout).into_owned(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_program_that_unwinds_its_stack_gets_no_return_probes() {
    for (source, name, compiler, flags, what) in [
        ("ends.c", "ends-return", "gcc", &["-O2"][..], "pthread_exit"),
        ("throw.cpp", "throw-return", "g++", &["-O2"], "__cxa_throw"),
        ("throw.cpp", "throw-return-static", "g++", &["-O2", "-static"], "__cxa_throw"),
    ] {
        let Some(program) = build(source, name, compiler, flags) else { continue };
        assert_refused(&record(&program, &["--return-probes"]), &program, what);
    }
}

/// The refusal names the program itself and the function, not one of its libraries.
#[cfg(target_arch = "x86_64")]
fn assert_refused(ran: &Output, program: &Path, what: &str) {
    let notes = texts(ran).1;
    let program = program
        .parent()
        .and_then(|folder| folder.canonicalize().ok())
        .expect("it has a folder")
        .join(program.file_name().expect("it has a name"));
    let reason = format!("tally: {} uses {what}:", program.display());
    let is_told = notes.contains(&reason) && notes.contains("leave --return-probes out");
    assert!(!ran.status.success() && is_told, "{reason}\n{notes}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn the_refusal_names_the_program_wherever_it_is_and_when_it_runs_already() {
    let Some(built) = build("throw.cpp", "throw-moved", "g++", &["-O2"]) else { return };
    // Paths before and after those of the system's libraries.
    for folder in ["/tmp", "/var/tmp"] {
        let program = Path::new(folder).join(format!("tally-throw-{}", std::process::id()));
        // Not copied by this process: a child that another test makes meanwhile would have it open for writing.
        let copied = Command::new("cp").args([&built, &program]).status().expect("cp runs");
        assert!(copied.success(), "{folder} is writable");
        let mut running =
            Command::new(&program).arg("1000000").stdout(Stdio::null()).spawn().expect("it starts");
        while !is_running(running.id(), &program) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut attach = tally();
        attach.args(["calls", "record", "--uprobes", "--return-probes", "-p", &running.id().to_string()]);
        let attached = attach.arg("-o").arg(built.with_extension("calls")).output().expect("tally starts");
        running.kill().expect("it is ours");
        running.wait().expect("it is ours");
        std::fs::remove_file(&program).expect("it is ours");
        assert_refused(&attached, &program, "__cxa_throw");
    }
}

/// Whether the process has its libraries by now.
#[cfg(target_arch = "x86_64")]
fn is_running(pid: u32, program: &Path) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.contains(&*program.to_string_lossy()) && maps.contains("libgcc_s")
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_program_that_looks_at_its_stack_sees_all_of_it_but_is_told_to_see_less_with_return_probes() {
    let Some(program) = build("backtraces.c", "backtraces", "gcc", &["-O2"]) else { return };
    let alone = Command::new(&program).output().expect("it starts");
    let (printed, notes) = texts(&record(&program, &[]));
    if no_uprobes(&notes) {
        return;
    }
    assert_eq!(printed, String::from_utf8_lossy(&alone.stdout), "{notes}");
    let (_, notes) = texts(&record(&program, &["--return-probes", "-P", "middle"]));
    assert!(notes.contains("backtraces uses backtrace: while return probes are in place"), "{notes}");
}
