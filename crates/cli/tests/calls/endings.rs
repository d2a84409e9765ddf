//! Programs that end badly, or become others: what they called up to then is there.

use super::{
    Counts, build, builds, counts_of_program, counts_of_report, each_build, record, report_of, tally,
};
use std::path::Path;

/// Records the program with arguments; its exit code, what it counted, what the report counts, and what was reported.
fn record_to_its_end(
    program: &Path,
    words: &[&str],
    options: &[&str],
) -> (Option<i32>, Counts, Counts, String) {
    let folder = program.with_extension("calls");
    let mut command = tally();
    command.args(["calls", "record", "--no-libcall", "-o"]).arg(&folder).args(options).arg("--").arg(program);
    let ran = command.args(words).output().expect("tally starts");
    let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
    let wanted = counts_of_program(&String::from_utf8_lossy(&ran.stdout));
    let mut got = counts_of_report(&report_of(&folder));
    got.remove("main");
    (ran.status.code(), wanted, got, notes)
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn of_a_program_that_crashes_or_is_killed_all_calls_are_there() {
    let ways: [(&str, &[&str]); 3] =
        [("pg", &["-pg"]), ("patchable", &["-fpatchable-function-entry=5"]), ("uprobes", &[])];
    for (way, flags) in ways {
        let flags = [flags, &["-O2"]].concat();
        let Some(program) = build("crash.c", &format!("crash-{way}"), "gcc", &flags) else { return };
        for (how, code) in [("segv", 128 + 11), ("kill", 128 + 9), ("abort", 128 + 6)] {
            let options: &[&str] = if way == "uprobes" {
                &["--max-rate", "0", "-P", "inner", "-P", "outer", "-P", "last"]
            } else {
                &[]
            };
            let (status, wanted, got, notes) = record_to_its_end(&program, &[how], options);
            if super::uprobes::no_uprobes(&notes) {
                return;
            }
            assert_eq!((status, &got), (Some(code), &wanted), "{way} {how}: {notes}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_program_that_becomes_another_is_recorded_before_and_after() {
    let (patchable, pg) = (["-O2", "-fpatchable-function-entry=5"], ["-O2", "-pg"]);
    let Some(first) = build("crash.c", "exec-first", "gcc", &patchable) else { return };
    let Some(second) = build("crash.c", "exec-second", "gcc", &pg) else { return };
    let other = second.to_string_lossy().into_owned();
    let (status, _, got, notes) = record_to_its_end(&first, &["exec", &other, "kill"], &[]);
    let each = Counts::from([("inner".into(), 2 * 19_900), ("outer".into(), 2 * 200), ("last".into(), 2)]);
    assert_eq!(status, Some(128 + 9), "{notes}");
    // Rows of the two files are separate in the report only if their names do; the counts add up in the graph's roots.
    let both = notes.contains("calls in");
    assert!(both && got.keys().all(|name| each.contains_key(name)), "{got:?} {notes}");
    let before = notes.split(" calls in ").next().and_then(|before| before.rsplit(' ').next());
    let calls = before.map(|n| n.replace(',', ""));
    let calls: u64 = calls.and_then(|n| n.parse().ok()).expect("a number of calls");
    // `main` of the patchable one is recorded, too.
    assert_eq!(calls, each.values().sum::<u64>() + 1, "{notes}");
}

/// Threads that end by themselves or are cancelled, handlers that run then, backtraces, jumps out of signal handlers.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn functions_left_without_a_return_are_counted_right() {
    for (name, compiler, flags) in each_build(false) {
        let flags = [&flags[..], &["-fexceptions"]].concat();
        let Some(program) = build("ends.c", &format!("ends-{name}"), compiler, &flags) else { continue };
        let (wanted, got, text) = record(&program, &[]);
        assert_eq!(got, wanted, "{name}:\n{text}");
    }
}

/// Rare behaviour: threads that end or begin unnoticed by the C library, a stack of signals' own, children that
/// become others, ends deep inside, another root, all files closed.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "heavy: many builds and recordings"]
fn programs_that_do_odd_things_are_counted_right() {
    let ways: [(&str, &[&str]); 3] = [
        ("pg", &["-pg"]),
        ("patchable", &["-fpatchable-function-entry=5"]),
        ("instrument", &["-finstrument-functions"]),
    ];
    let things = [
        "raw_exit",
        "raw_clone",
        "pool",
        "alt_stack",
        "vfork",
        "spawn",
        "deep_exit",
        "deep_quick_exit",
        "close_all",
    ];
    for (way, flags) in ways {
        let flags = [flags, &["-O1"]].concat();
        let Some(program) = build("odd.c", &format!("odd-{way}"), "gcc", &flags) else { return };
        for what in things {
            let (status, mut wanted, got, notes) = record_to_its_end(&program, &[what], &[]);
            wanted.retain(|_, count| *count > 0);
            let code = match what {
                "deep_exit" => 7,
                "deep_quick_exit" => 8,
                _ => 0,
            };
            assert_eq!((status, &got), (Some(code), &wanted), "{way} {what}: {notes}");
        }
        let (status, wanted, got, notes) = record_to_its_end(&program, &["new_root"], &[]);
        if status != Some(5) {
            assert_eq!(got["inner"], wanted["inner"], "{way} new_root: {notes}");
        }
        // As another user a thread can make no file: its calls are reported as lost.
        let (status, wanted, got, notes) = record_to_its_end(&program, &["set_user"], &[]);
        if status != Some(4) {
            assert_eq!(
                (wanted["inner"] - got["inner"], wanted["outer"] - got["outer"]),
                (7, 1),
                "{way}: {notes}"
            );
            assert!(notes.contains(" 8 lost,") && notes.contains(" 8 of the lost calls"), "{way}: {notes}");
        }
    }
}

/// A signal handler that never returns leaves the tracer usable: later calls are recorded all the same.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "heavy: many builds and recordings"]
fn handlers_that_jump_out_of_the_recorder_end_no_recording() {
    for (name, compiler, flags) in builds(false) {
        let Some(program) = build("escapes.c", &format!("escapes-{name}"), compiler, &flags) else {
            continue;
        };
        for options in [&[][..], &["-A", "small@arg1"]] {
            let (wanted, got, text) = record(&program, options);
            super::aarch64::assert_escapes(&format!("{name} {options:?}"), (wanted, got, text));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_program_with_the_address_sanitizer_is_recorded() {
    let Some(program) = build("odd.c", "odd-asan", "gcc", &["-O1", "-pg", "-fsanitize=address"]) else {
        return;
    };
    let (status, mut wanted, got, notes) = record_to_its_end(&program, &["alt_stack"], &[]);
    wanted.retain(|_, count| *count > 0);
    assert_eq!((status, &got), (Some(0), &wanted), "{notes}");
}
