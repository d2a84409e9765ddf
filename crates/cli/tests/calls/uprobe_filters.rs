//! Which calls are kept by uprobes: filters, sums, the last ones.

use super::uprobes::record_by_uprobes;
use super::{build, counts_of_program, counts_of_report, report_of};
use std::collections::BTreeMap;

/// The same filters as where the program records itself, and the same counts.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn filters_by_uprobes_leave_out_what_they_say() {
    let Some(program) = build("calls.c", "uprobes-filtered", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    let record = |options: &[&str]| {
        let options = [&["-P", "/^(leaf|fib|jumper|compare|handler|work|sink)$/"], options].concat();
        let notes = record_by_uprobes(&options, &program, &folder)?;
        let text = report_of(&folder);
        Some((counts_of_program(&notes), counts_of_report(&text), text))
    };
    let Some((wanted, got, text)) = record(&["-N", "fib"]) else { return };
    let without_fib: u64 = wanted["leaf"] - wanted["fib"].div_ceil(2);
    assert_eq!((got.get("fib"), got["leaf"]), (None, without_fib), "{text}");
    let Some((_, got, text)) = record(&["-F", "jumper"]) else { return };
    assert_eq!(got, BTreeMap::from([("jumper".to_owned(), 8)]), "{text}");
    assert!(text.contains("8 left by longjmp or exception"), "{text}");
    let Some((_, got, text)) = record(&["-T", "jumper@trace_on", "--disable"]) else { return };
    assert!(!got.contains_key("fib") && got["compare"] == wanted["compare"], "{text}");
    let Some((_, got, text)) = record(&["-T", "jumper@trace_off"]) else { return };
    assert!(got["fib"] == wanted["fib"] && !got.contains_key("compare"), "{text}");
    let Some((_, got, text)) = record(&["-D", "2"]) else { return };
    assert_eq!((got["fib"], got["jumper"], got["compare"]), (3, 2, wanted["compare"]), "{text}");
    // Calls of fib are too quick, the last one of jumper is not; what is in them goes or stays with them.
    let Some((_, got, text)) = record(&["-T", "fib@slow=3s", "-T", "jumper@slow=1ns"]) else { return };
    assert_eq!((got.get("fib"), got["leaf"], got["jumper"]), (None, without_fib, 8), "{text}");
    // The functions of a source file, of a list.
    let list = program.with_extension("list");
    std::fs::write(&list, "# what is left out\nfib\nfile:nothing.c\n").expect("target is writable");
    let Some((_, got, text)) = record(&["-N", &format!("@{}", list.display())]) else { return };
    assert_eq!((got.get("fib"), got["leaf"]), (None, without_fib), "{text}");
    let Some((_, got, text)) = record(&["-F", "file:calls.c"]) else { return };
    assert_eq!(got, wanted, "{text}");
}

/// Sums made in the kernel are of the same calls as those written one by one.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn sums_by_uprobes_follow_the_filters_as_single_calls_do() {
    let Some(program) = build("calls.c", "uprobes-summed", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    let functions = ["-P", "/^(leaf|fib|jumper|compare|handler|work|sink)$/"];
    for filter in [
        &["-N", "fib"][..],
        &["-F", "jumper"],
        &["-C", "compare"],
        &["-C", "leaf"],
        &["-D", "2"],
        &["-T", "jumper@trace_on", "--disable"],
        &["-T", "jumper@trace_off"],
    ] {
        let both = [&[][..], &["--counts"]].map(|way| {
            let options = [&functions[..], filter, way].concat();
            record_by_uprobes(&options, &program, &folder).map(|_| counts_of_report(&report_of(&folder)))
        });
        let [Some(one_by_one), Some(summed)] = both else { return };
        assert!(!one_by_one.is_empty());
        assert_eq!(summed, one_by_one, "{filter:?}");
    }
}

/// The last calls are there, all of them; of the first ones most are gone.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_flight_recorder_by_uprobes_keeps_the_last_calls_in_the_space_given() {
    let Some(program) = build("calls.c", "uprobes-flight", "gcc", &["-O2"]) else { return };
    let folder = program.with_extension("calls");
    let options = ["-P", "fib", "-P", "leaf", "-P", "compare", "--max-bytes", "24k"];
    let Some(notes) = record_by_uprobes(&options, &program, &folder) else { return };
    let (wanted, got) = (counts_of_program(&notes), counts_of_report(&report_of(&folder)));
    assert_eq!(got["compare"], wanted["compare"]);
    assert!(got["fib"] < wanted["fib"] / 2, "{got:?}");
    let files = std::fs::read_dir(&folder).expect("it is there").flatten();
    let threads = files.filter(|file| file.path().extension().is_some_and(|end| end == "calls"));
    for file in threads {
        let bytes = file.metadata().expect("it is there").len();
        assert!(bytes <= 2 * (24 << 10) + 4096, "{bytes}");
    }
}
