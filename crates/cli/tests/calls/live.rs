//! `tally calls live`: its last table, and the last slow call.

use super::uprobes::no_uprobes;
use super::{Counts, build, counts_of_program, counts_of_report, report_of, tally};
use std::path::Path;

/// Has `live` look at a program; what the program counted, what the last table does, and all that was printed. `None`
/// where uprobes are refused.
fn look_at(program: &Path, options: &[&str]) -> Option<(Counts, Counts, String)> {
    let mut command = tally();
    command.args(["calls", "live", "--interval", "0.1", "--max-rate", "0", "--no-libcall"]).args(options);
    let ran = command.arg("--").arg(program).output().expect("it starts");
    let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
    if no_uprobes(&notes) {
        return None;
    }
    let text = format!("\n{}", String::from_utf8_lossy(&ran.stdout));
    let last = text.rsplit_once("\nafter ").expect(&notes).1;
    let last = last.split_once('\n').expect("its head").1;
    let mut got = counts_of_report(last);
    got.remove("main");
    Some((counts_of_program(&text), got, last.to_owned()))
}

/// The last table of `live` is that of a recording, however the program is recorded.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn the_table_while_it_runs_ends_with_the_counts_of_the_program() {
    for (name, flags) in [("live-pg", &["-pg"][..]), ("live-uprobes", &["-O2"])] {
        let Some(program) = build("calls.c", name, "gcc", flags) else { continue };
        let options = ["-P", "/^(leaf|fib|jumper|compare|handler|work|sink)$/"];
        let Some((wanted, got, text)) = look_at(&program, &options) else { return };
        assert_eq!(got, wanted, "{name}: {text}");
    }
}

/// Whoever sees the calls: the table is of all, and of the last request that took long all steps are kept.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn the_last_slow_call_is_shown_and_kept_whole() {
    for (name, flags) in
        [("live-slow", &["-O2", "-fpatchable-function-entry=5"][..]), ("live-slow-uprobes", &["-O2"])]
    {
        let Some(program) = build("slow.c", name, "gcc", flags) else { continue };
        let folder = program.with_extension("slow");
        let kept = folder.display().to_string();
        let options =
            ["-P", "step", "-P", "outside", "-P", "request", "-T", "request@slow=40ms", "-o", &kept];
        let Some((mut wanted, got, text)) = look_at(&program, &options) else { return };
        let slow = wanted.remove("slow").expect("it counts them");
        assert_eq!(got, wanted, "{name}: {text}");
        let head = text.lines().find(|line| line.starts_with("last slow call of ")).expect(&text);
        let seen: u64 = head.split([' ', ':']).nth(4).and_then(|n| n.parse().ok()).expect(head);
        // A loaded machine makes others slow, too.
        assert!(seen >= slow && head.contains("request took "), "{name}: {head}");
        assert!(text.contains("100.00%  request\n") && text.contains("└─ step\n"), "{name}: {text}");
        let counts = counts_of_report(&report_of(&folder));
        assert_eq!((counts["request"], counts["step"], counts.len()), (1, 40, 2), "{name}");
    }
}
