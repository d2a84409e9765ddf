//! Limits of the process (`ulimit`) under every recorder.

use super::machine::{folder, is_refused, run, unharmed};

/// Last words of the programs of these tests.
const END: &str = "child exited with 5";

#[test]
#[ignore = "live: records on this machine"]
fn a_command_has_the_descriptor_limit_that_tally_was_started_with() {
    let here = folder("descriptor-limit");
    let data = here.join("perf.data").display().to_string();
    let ways: [&[&str]; 5] = [
        &["record", "-o", &data, "--"],
        &["record", "--off-cpu", "-o", &data, "--"],
        &["run", "-o", &data, "--"],
        &["stat", "--"],
        &["io", "-o", &data, "--"],
    ];
    for way in ways {
        let ran = run("ulimit -Sn 333", &[way, &["sh", "-c", "echo limit $(ulimit -Sn)"]].concat());
        if is_refused(&ran) {
            continue;
        }
        assert!(ran.out.contains("limit 333\n"), "{way:?}: {ran:#?}");
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn too_little_memory_is_told_by_the_name_of_its_limit() {
    let here = folder("memory-limit");
    let Some(program) = unharmed(&here, &[]) else { return };
    let (data, program) = (here.join("perf.data").display().to_string(), program.display().to_string());
    let work: [&str; 4] = ["--", &program, "1000", "10"];
    let ways: [(&[&str], [u32; 3]); 4] = [
        (&["record", "-o", &data], [66, 100, 140]),
        (&["record", "--off-cpu", "-o", &data], [160, 200, 240]),
        (&["run", "-o", &data], [120, 200, 300]),
        (&["io", "-o", &data], [80, 110, 150]),
    ];
    for (way, limits) in ways {
        for mib in limits {
            let limit = format!("ulimit -v {}", mib << 10);
            let ran = run(&limit, &[way, &work].concat());
            if is_refused(&ran) {
                break;
            }
            ran.assert_orderly(&limit);
            let is_own = ran.status.code() == Some(7) && ran.out.contains(END);
            let is_told = ran.notes.contains("ulimit -v") && !ran.out.contains(END);
            assert!(is_own || is_told, "{way:?} {limit}: {ran:#?}");
        }
    }
    // Without optimizations the program itself takes 56 MiB, and cannot even start with little more.
    for mib in [66, 74, 100] {
        let limit = format!("ulimit -v {}", mib << 10);
        let ran = run(&limit, &["report", "--stdio", "-i", &data]);
        ran.assert_orderly(&limit);
        assert!(ran.status.success() || ran.notes.contains("ulimit -v"), "{limit}: {ran:#?}");
    }
}

/// Values at the borders of the numbers that flags are kept in.
#[test]
#[ignore = "live: records on this machine"]
fn a_huge_number_is_refused_or_harmless() {
    const HUGE: [&str; 3] = ["4294967295", "18446744073709551615", "1e300"];
    let here = folder("huge-numbers");
    let path = |name: &str| here.join(name).display().to_string();
    let (data, calls) = (path("perf.data"), path("calls"));
    if is_refused(&run("", &["record", "-q", "-o", &data, "--", "true"])) {
        return;
    }
    let ways: [(&[&str], &[&str]); 6] = [
        (&["report", "--stdio", "-i", &data, "-w"], &[]),
        (&["record", "-q", "-o", &data, "--max-size"], &["--", "true"]),
        (&["stat", "-I"], &["--", "true"]),
        (&["stat", "--timeout"], &["--", "true"]),
        (&["calls", "record", "-o", &calls, "-P", "main", "-d"], &["--", "true"]),
        (&["calls", "live", "-i"], &["--", "true"]),
    ];
    for (way, rest) in ways {
        for number in HUGE {
            let words = [way, &[number], rest].concat();
            let ran = run("ulimit -v 4000000", &words);
            // An abort would be reported as this by now.
            assert!(!ran.notes.contains("out of memory"), "{words:?}: {ran:#?}");
            ran.assert_orderly(&format!("{words:?}"));
            // A panic's status.
            assert_ne!(ran.status.code(), Some(101), "{words:?}: {ran:#?}");
        }
    }
}
