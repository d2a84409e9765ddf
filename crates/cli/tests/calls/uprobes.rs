//! Recordings by uprobes: nothing is put into the program but breakpoints.

use super::{build, counts_of_program, counts_of_report, report_of, tally};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Whether the kernel refuses uprobes for calls here; it is reported.
pub fn no_uprobes(notes: &str) -> bool {
    let refused = notes.contains("uprobes are refused");
    if refused {
        println!("skipped: {}", notes.lines().next().unwrap_or_default());
    }
    refused
}

/// Records with these options; the program's output. `None` where uprobes are refused.
pub fn record_by_uprobes(options: &[&str], program: &Path, folder: &Path) -> Option<String> {
    let mut command = tally();
    command.args(["calls", "record", "--uprobes", "--max-rate", "0"]).args(options);
    let ran = command.arg("-o").arg(folder).arg("--").arg(program).output().expect("tally starts");
    let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
    if no_uprobes(&notes) {
        return None;
    }
    assert!(ran.status.success(), "{options:?}: {notes}");
    Some(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// ns in the calls of a function that no other one called.
fn root_ns(folder: &Path, name: &str) -> f64 {
    let folded =
        tally().args(["calls", "flame", "--folded", "-i"]).arg(folder).output().expect("tally starts");
    let folded = String::from_utf8_lossy(&folded.stdout).into_owned();
    let row = folded.lines().find(|row| row.starts_with(name)).expect("it was called");
    row.rsplit(' ').next().and_then(|ns| ns.parse().ok()).expect("ns")
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn uprobes_count_what_the_program_counts_however_it_is_linked_and_ends_are_seen() {
    let builds: [(&str, &[&str]); 3] = [("O0", &["-O0"]), ("O2", &["-O2"]), ("static", &["-O2", "-static"])];
    for (name, flags) in builds {
        let Some(program) = build("calls.c", &format!("uprobes-{name}"), "gcc", flags) else { continue };
        let folder = program.with_extension("calls");
        for options in [&[][..], &["--return-probes"], &["--counts"], &["--counts", "--return-probes"]] {
            let options = [options, &["-P", "/^(leaf|fib|jumper|compare|handler|work|sink)$/"]].concat();
            let Some(notes) = record_by_uprobes(&options, &program, &folder) else { return };
            let text = report_of(&folder);
            assert_eq!(counts_of_report(&text), counts_of_program(&notes), "{name} {options:?}:\n{text}");
            assert!(text.contains("8 left by longjmp or exception"), "{name} {options:?}:\n{text}");
        }
    }
}

/// Entries alone: as many calls as the program counts, and no times.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn entries_alone_are_as_many_as_the_program_counts_and_have_no_times() {
    let Some(program) = build("calls.c", "uprobes-entries", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    let options = ["--entries", "-P", "/^(leaf|fib|jumper|compare|handler|work|sink)$/"];
    let Some(notes) = record_by_uprobes(&options, &program, &folder) else { return };
    let text = report_of(&folder);
    assert_eq!(counts_of_report(&text), counts_of_program(&notes), "{text}");
    let fib = text.lines().find(|line| line.ends_with(" fib")).expect("it was called");
    assert_eq!(fib.split_whitespace().filter(|cell| *cell == "-").count(), 8, "{text}");
    let refused = tally().args(["calls", "record", "--entries", "-F", "fib", "--"]).arg(&program).output();
    let refused = refused.expect("tally starts");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--counts"));
}

/// A function loses its probes while others are open: these are still seen to end.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn of_a_function_called_too_often_the_probes_go_and_calls_around_it_end_as_they_do() {
    let Some(program) = build("call-cost.c", "uprobes-hot", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    for options in [&[][..], &["--return-probes"], &["--return-probes", "--counts"]] {
        let record = || {
            let mut command = tally();
            command.args(["calls", "record", "--uprobes", "--max-rate", "2000", "-o"]).arg(&folder);
            command.args(["-P", "leaf", "-P", "main", "-P", "work"]).args(options).arg("--").arg(&program);
            let ran = command.arg("100000").output().expect("tally starts");
            let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
            (!no_uprobes(&notes)).then(|| (notes, report_of(&folder)))
        };
        // The kernel may take as long to remove a busy probe as the program runs.
        let mut tries = (0..5).map_while(|_| record());
        let is_removed = |text: &str| counts_of_report(text)["leaf"] < 500_000;
        let Some(first) = tries.next() else { return };
        let last = if is_removed(&first.1) { Some(first) } else { tries.find(|(_, text)| is_removed(text)) };
        let (notes, text) = last.expect("the probes of leaf went while it was called");
        let counts = counts_of_report(&text);
        assert!(notes.contains("leaf is called too often"), "{notes}\n{text}");
        assert_eq!((counts["main"], counts["work"]), (1, 1), "{options:?}: {text}");
        assert!(
            !text.contains("left by longjmp") && !notes.contains("not seen"),
            "{options:?}: {notes}\n{text}"
        );
        for name in [" main", " work"] {
            let row = text.lines().find(|line| line.ends_with(name)).expect("it was called");
            assert!(!row.contains(" - "), "{options:?}: {name} has not ended: {text}");
        }
    }
}

/// All functions of the program at once: signals in the middle of everything, exceptions, siglongjmp, coroutines; and
/// tail calls, direct, through pointers and on conditions, none of which is a longjmp.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn all_functions_of_a_program_that_does_everything_are_counted_right_by_uprobes() {
    for (source, name, compiler, rounds) in [
        ("storms.cpp", "storms-uprobes", "g++", "1000"),
        ("tails.c", "tails-uprobes", "gcc", "300"),
        ("coroutines.c", "coroutines-uprobes", "gcc", "200"),
        ("ends.c", "ends-uprobes", "gcc", "0"),
    ] {
        let Some(program) = build(source, name, compiler, &["-O2"]) else { continue };
        for options in [&[][..], &["--counts"], &["-t", "1ns"]] {
            let folder = program.with_extension("calls");
            let mut command = tally();
            command
                .args(["calls", "record", "--uprobes", "--max-rate", "0", "-o"])
                .arg(&folder)
                .args(options);
            let ran = command.arg("--").arg(&program).arg(rounds).output().expect("tally starts");
            let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
            if no_uprobes(&notes) {
                return;
            }
            let own = counts_of_program(&String::from_utf8_lossy(&ran.stdout));
            let text = report_of(&folder);
            let got = counts_of_report(&text);
            assert!(own.len() >= 4, "{notes}");
            for (function, count) in own.iter().filter(|(_, count)| **count > 0) {
                assert_eq!(got.get(function), Some(count), "{name} {options:?} {function}: {notes}\n{text}");
            }
            // A coroutine that waits on a stack near by is not left.
            let jumps = ["storms.cpp", "ends.c"].contains(&source);
            assert_eq!(text.contains("left by longjmp"), jumps, "{name} {options:?}:\n{text}");
            assert!(!notes.contains("entry was not seen"), "{name} {options:?}: {notes}");
        }
    }
}

/// Deeper than a thread's table in the kernel: every call is counted, and has its time.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn recursion_is_counted_and_timed_however_deep() {
    let flags = ["-O1", "-fno-optimize-sibling-calls"];
    let Some(program) = build("recursion.c", "uprobes-recursion", "gcc", &flags) else { return };
    let folder = program.with_extension("calls");
    for options in [&[][..], &["--counts"], &["-t", "1ns"], &["--counts", "-C", "leaf"]] {
        let mut command = tally();
        command.args([
            "calls",
            "record",
            "--uprobes",
            "--max-rate",
            "0",
            "-P",
            "/^(down|leaf|even|odd|top)$/",
        ]);
        let ran = command.args(options).arg("-o").arg(&folder).arg("--").arg(&program).arg("3000").output();
        let ran = ran.expect("tally starts");
        let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
        if no_uprobes(&notes) {
            return;
        }
        let (text, mut own) = (report_of(&folder), counts_of_program(&String::from_utf8_lossy(&ran.stdout)));
        let leaves_all = options.contains(&"-C");
        if leaves_all {
            // Those that a longjmp left led to no leaf.
            own.insert("down".to_owned(), 3001);
        }
        assert_eq!(counts_of_report(&text), own, "{options:?}: {notes}\n{text}");
        assert_eq!(text.contains("3,001 left by longjmp"), !leaves_all, "{options:?}:\n{text}");
        assert!(
            !text.contains("open at the end") && !notes.contains("too deep"),
            "{options:?}: {notes}\n{text}"
        );
    }
}

/// A script's final program is recorded; programs on the way there are not.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_script_is_followed_to_the_program_that_it_becomes() {
    use std::os::unix::fs::PermissionsExt;
    let Some(program) = build("calls.c", "scripted", "gcc", &["-O2"]) else { return };
    let script = program.with_extension("sh");
    let text = format!("#!/bin/sh\nexec env -u NOTHING {}\n", program.display());
    std::fs::write(&script, text).expect("target is writable");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let folder = program.with_extension("calls");
    let Some(notes) =
        record_by_uprobes(&["-P", "/^(leaf|fib|jumper|compare|handler|work|sink)$/"], &script, &folder)
    else {
        return;
    };
    assert_eq!(counts_of_report(&report_of(&folder)), counts_of_program(&notes));
}

/// The new program is reported, and that none of it is recorded; earlier calls are there.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_program_that_becomes_another_is_told_to() {
    let Some(program) = build("crash.c", "uprobes-becomes", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    let mut command = tally();
    command.args(["calls", "record", "--uprobes", "--max-rate", "0", "-o"]).arg(&folder).args([
        Path::new("--"),
        &program,
        Path::new("exec"),
        Path::new("/bin/sleep"),
        Path::new("0.3"),
    ]);
    let ran = command.output().expect("tally starts");
    let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
    if no_uprobes(&notes) {
        return;
    }
    assert!(
        notes.contains("a process became ") && notes.contains("whose functions are not probed"),
        "{notes}"
    );
    let own = counts_of_program(&String::from_utf8_lossy(&ran.stdout));
    let (text, got) = (report_of(&folder), counts_of_report(&report_of(&folder)));
    assert!(!own.is_empty());
    own.iter().for_each(|(name, count)| assert_eq!(got.get(name), Some(count), "{name}: {text}"));
}

/// Probes at 13 places, with threads and a fork; the same three ways of recording as where BPF is allowed.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn where_bpf_is_denied_plain_perf_events_count_the_same() {
    let Some(denier) = build("deny_calls.c", "deny_calls", "gcc", &["-O2"]) else { return };
    let Some(program) = build("calls.c", "uprobes-plain", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    for options in [&[][..], &["--return-probes"], &["--counts"], &["-t", "1ns"]] {
        let mut command = Command::new(&denier);
        command.args(["bpf", env!("CARGO_BIN_EXE_tally"), "calls", "record", "--uprobes", "--max-rate", "0"]);
        command.args(options).args(["-P", "/^(leaf|fib|jumper|compare|handler|work|sink)$/", "-o"]);
        let ran = command.arg(&folder).arg("--").arg(&program).output().expect("it starts");
        let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
        if no_uprobes(&notes) {
            return;
        }
        assert!(notes.contains("without BPF"), "{notes}");
        let (text, own) = (report_of(&folder), String::from_utf8_lossy(&ran.stdout).into_owned());
        assert_eq!(counts_of_report(&text), counts_of_program(&own), "{options:?}: {notes}\n{text}");
        assert!(text.contains("8 left by longjmp or exception"), "{options:?}:\n{text}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn every_function_of_a_static_program_can_be_probed_and_it_runs_as_before() {
    let Some(program) = build("calls.c", "uprobes-all", "gcc", &["-O2", "-static"]) else { return };
    let folder = program.with_extension("calls");
    let Some(notes) = record_by_uprobes(&[], &program, &folder) else { return };
    let (wanted, got) = (counts_of_program(&notes), counts_of_report(&report_of(&folder)));
    assert!(got.len() > wanted.len());
    wanted.iter().for_each(|(name, count)| assert_eq!(got.get(name), Some(count), "{name}"));
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn durations_by_uprobes_are_those_the_program_measured() {
    let Some(program) = build("spans.c", "spans", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    for options in [&["-P", "nap", "-P", "spin"][..], &["-P", "nap", "-P", "spin", "--counts"]] {
        let Some(notes) = record_by_uprobes(options, &program, &folder) else { return };
        for line in notes.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (seen_ns, known_ns) = (root_ns(&folder, words[0]), words[2].parse::<f64>().expect("ns"));
            // A call takes at least the time that was asked for; around it the program also measures the probes, and waits
            // for a CPU in them.
            let least_ns = if words[0] == "nap" { 20.0 * 2e6 } else { 20.0 * 3e6 };
            assert!(seen_ns <= known_ns && seen_ns >= least_ns, "{options:?} {line}: {seen_ns}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn only_slow_calls_are_recorded_with_those_around_them() {
    let Some(program) = build("spans.c", "spans-slow", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    let chosen = ["-P", "main", "-P", "nap", "-P", "spin", "-t", "1ms"];
    if record_by_uprobes(&chosen, &program, &folder).is_none() {
        return;
    }
    let wanted = [("main", 1), ("nap", 20), ("spin", 20)];
    let wanted: BTreeMap<String, u64> = wanted.map(|(name, count)| (name.to_owned(), count)).into();
    assert_eq!(counts_of_report(&report_of(&folder)), wanted);
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn system_calls_and_waits_stand_under_the_function_that_made_them() {
    let Some(program) = build("spans.c", "spans-kernel", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    let chosen = ["-P", "nap", "-K5", "-F", "filemap_fault@kernel"];
    if record_by_uprobes(&chosen, &program, &folder).is_none() {
        return;
    }
    let replay =
        tally().args(["calls", "replay", "-k", "-D5", "-i"]).arg(&folder).output().expect("tally starts");
    let replay = String::from_utf8_lossy(&replay.stdout).into_owned();
    let lines: Vec<&str> = replay.lines().collect();
    let having = |end: &str| lines.iter().filter(|line| line.ends_with(end)).count();
    assert_eq!((having("| nap() {"), having("|   sys_clock_nanosleep();")), (20, 20), "{replay}");
}

/// Code of a running program that was linked at fixed addresses.
fn code_of(pid: u32, address: u64) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("it runs");
    let mut bytes = vec![0; 16];
    memory.read_exact_at(&mut bytes, address).expect("it is mapped");
    bytes
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_process_runs_on_unpatched_after_detach_and_after_tally_is_killed() {
    use std::time::Duration;
    let Some(program) = build("spans.c", "spans-attach", "gcc", &["-O2", "-fno-pie", "-no-pie"]) else {
        return;
    };
    let symbols = Command::new("nm").arg(&program).output().expect("nm comes with gcc");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let line = symbols.lines().find(|line| line.ends_with(" nap")).expect("nap is in it");
    let address = u64::from_str_radix(&line[..16], 16).expect("an address");
    let silent = || std::process::Stdio::null();
    let mut target = Command::new(&program).arg("60").stdout(silent()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(200));
    let before = code_of(target.id(), address);
    let folder = program.with_extension("calls");
    let pid = target.id().to_string();
    let record = |seconds: &str| {
        let mut command = tally();
        command.args(["calls", "record", "-p", &pid, "-P", "nap", "-d", seconds, "-o"]).arg(&folder);
        command
    };
    let ran = record("1").output().expect("tally starts");
    let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
    if no_uprobes(&notes) {
        target.kill().expect("it runs");
        target.wait().expect("it ends");
        return;
    }
    assert!(ran.status.success() && notes.contains("calls/s"), "{notes}");
    assert!(counts_of_report(&report_of(&folder))["nap"] > 0, "{notes}");
    assert_eq!(code_of(target.id(), address), before);
    // Killed while its probes are in place.
    let mut killed = record("60").stderr(silent()).spawn().expect("tally starts");
    let soon = |wanted: bool| {
        (0..800).any(|_| {
            std::thread::sleep(Duration::from_millis(30));
            (code_of(target.id(), address) != before) == wanted
        })
    };
    let patched = soon(true);
    let is_calls = |name: &Path| name.extension().is_some_and(|ending| ending == "calls");
    let recorded = (0..800).any(|_| {
        std::thread::sleep(Duration::from_millis(30));
        let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        files.into_iter().any(|file| is_calls(&file.path()))
    });
    killed.kill().expect("tally runs");
    killed.wait().expect("it ends");
    assert!(patched, "no probe came");
    // The recording up to then is readable.
    let text = report_of(&folder);
    assert!(recorded && counts_of_report(&text).get("nap").is_some_and(|calls| *calls > 0), "{text}");
    assert!(soon(false), "probes stayed");
    assert!(target.try_wait().expect("it can be asked").is_none(), "it runs on");
    target.kill().expect("it runs");
    target.wait().expect("it ends");
}

/// Built with sleds, they have none that loads the tracer.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn statically_linked_programs_are_told_to_need_uprobes_wherever_they_are_loaded() {
    for link in ["-static", "-static-pie"] {
        let flags = ["-O2", "-fpatchable-function-entry=5", link];
        let Some(program) = build("calls.c", &format!("sleds{link}"), "gcc", &flags) else { continue };
        let folder = program.with_extension("calls");
        let ran = tally().args(["calls", "record", "-P", "sink", "-o"]).arg(&folder).arg(&program).output();
        let notes = String::from_utf8_lossy(&ran.expect("tally starts").stderr).into_owned();
        if no_uprobes(&notes) {
            return;
        }
        assert!(notes.contains("statically linked"), "{link}: {notes}");
        assert_eq!(counts_of_report(&report_of(&folder)).get("sink"), Some(&511), "{link}");
    }
}
