//! Whoever refuses events, stops and timers is named, with what the user can do about it.

use std::path::Path;
use std::process::Command;

use super::{Running, TALLY, as_nobody, open_folder, program, running};

/// tally under a filter that denies `calls`, in a mount namespace in which the kernel shows `label` as its profile;
/// `None` where there can be no such namespace.
fn confined_tally(calls: &str, label: &str, command: &str) -> Option<String> {
    let folder = open_folder("confined");
    let filter = program("deny_calls", &folder, &[])?;
    std::fs::write(folder.join("label"), label).expect("a file below target/");
    let script = format!(
        "mount --bind {}/label /proc/$$/attr/current && exec {} {calls} {TALLY} {command}",
        folder.display(),
        filter.display()
    );
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", &script]).current_dir(&folder);
    let output = shell.output().expect("util-linux is there");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("unshare:") || errors.contains("mount:") {
        println!("skipped: {errors}");
        return None;
    }
    Some(errors)
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn whoever_refuses_events_and_stops_of_a_running_process_is_named_with_the_remedy() {
    let Some(Running { target, .. }) = running("nothing-allowed", "60") else { return };
    let run = format!("run -p {}", target.0.id());
    let free = "unconfined\n";
    for (calls, label, parts) in [
        ("perf,ptrace", free, ["perf_event_open is blocked by seccomp", "ptrace is blocked by seccomp"]),
        // The file of a profile does not make it the reason where a filter is.
        ("perf,ptrace", "snap.x (enforce)\n", ["is blocked by seccomp (rem", "ptrace is blocked by seccomp"]),
        ("module:perf,ptrace", free, ["a security module forbids perf", "a security module forbids ptrace"]),
        (
            "module:perf,ptrace",
            "snap.x (complain)\n",
            ["security module forbids perf", "module forbids ptrace"],
        ),
        (
            "module:perf,ptrace",
            "snap.x (enforce)\n",
            ["the AppArmor profile snap.x forbids perf_event_open", "profile snap.x forbids ptrace"],
        ),
    ] {
        let Some(errors) = confined_tally(calls, label, &run) else { return };
        assert!(errors.contains("cannot sample a running process"), "{calls} {label}: {errors}");
        assert!(parts.iter().all(|part| errors.contains(part)), "{calls} {label}: {errors}");
        assert!(!errors.contains("perf_event_paranoid"), "{calls} {label}: {errors}");
        assert_eq!(errors.matches("(remedy: ").count(), 2, "{errors}");
    }
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn timers_that_the_kernel_refuses_are_not_what_samples() {
    let folder = open_folder("untimed");
    let Some(filter) = program("deny_calls", &folder, &[]) else { return };
    let Some(ticks) = program("ticks", &folder, &[]) else { return };
    for (calls, limit, headline, reason) in [
        (
            "perf",
            "0",
            "sampling by short stops of running threads",
            "ulimit -i limits timers): they were stopped",
        ),
        ("perf,ptrace", "0", "the kernel refused timers as well", "they were left without CPU samples"),
        ("perf", "1000", "sampling with timers inside the program", ""),
    ] {
        let mut recorded = as_nobody(Path::new("prlimit"));
        recorded.arg(format!("--sigpending={limit}")).arg(&filter).args([calls, TALLY, "run", "-v", "--"]);
        let output = recorded.arg(&ticks).arg("2").current_dir(&folder).output().expect("the filter runs");
        // Sentences are wrapped.
        let printed =
            String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(printed.contains(headline) && printed.contains(reason), "{calls} {limit}: {printed}");
        assert_eq!(printed.contains("timers inside the program"), limit == "1000", "{printed}");
    }
}
