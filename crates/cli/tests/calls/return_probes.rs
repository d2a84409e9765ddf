//! Programs that look at their own stack, or unwind it: what they do is the same while their calls are recorded.

use super::uprobes::no_uprobes;
use super::{build, tally};
use std::path::Path;
use std::process::{Command, Output};

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
fn a_program_that_unwinds_its_stack_gets_no_return_probes() {
    for (source, name, compiler, flags, what) in [
        ("ends.c", "ends-return", "gcc", &["-O2"][..], "pthread_exit"),
        ("throw.cpp", "throw-return", "g++", &["-O2"], "__cxa_throw"),
        ("throw.cpp", "throw-return-static", "g++", &["-O2", "-static"], "__cxa_throw"),
    ] {
        let Some(program) = build(source, name, compiler, flags) else { continue };
        let refused = record(&program, &["--return-probes"]);
        let said = texts(&refused).1;
        let told =
            said.contains(&format!("{name} uses {what}:")) && said.contains("leave --return-probes out");
        assert!(!refused.status.success() && told, "{said}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_program_that_looks_at_its_stack_sees_all_of_it_but_is_told_to_see_less_with_return_probes() {
    let Some(program) = build("backtraces.c", "backtraces", "gcc", &["-O2"]) else { return };
    let alone = Command::new(&program).output().expect("it starts");
    let (printed, said) = texts(&record(&program, &[]));
    if no_uprobes(&said) {
        return;
    }
    assert_eq!(printed, String::from_utf8_lossy(&alone.stdout), "{said}");
    let (_, said) = texts(&record(&program, &["--return-probes", "-P", "middle"]));
    assert!(said.contains("backtraces uses backtrace: while return probes are in place"), "{said}");
}
