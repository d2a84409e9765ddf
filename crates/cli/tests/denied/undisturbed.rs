//! A recorded program does what it does alone: its signals, timers and status, also where nothing is as usual.

use std::path::Path;
use std::process::{Command, Output};

use super::{TALLY, as_nobody, open_folder, program};

/// Output of `undisturbed` in each of its modes.
const MODES: [&str; 14] = [
    "prof",
    "timer",
    "wait",
    "fd",
    "blocked",
    "raw",
    "altstack",
    "vfork",
    "clone",
    "threads",
    "exec",
    "setuid",
    "interrupted",
    "sandbox",
];

/// Each mode prints and returns under docker's filter, recorded by nobody, what it does alone.
fn is_undisturbed(name: &str, more: &[&str]) {
    let folder = open_folder(name);
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let Some(undisturbed) = program("undisturbed", &folder, more) else { return };
    for mode in MODES {
        // Only root can change its user.
        let start = if mode == "setuid" { Command::new::<&Path> } else { as_nobody };
        // A busy machine disturbs it, too: then it is no measure yet.
        let measure = || start(&undisturbed).arg(mode).output().expect("it starts");
        let is_calm = |run: &Output| !String::from_utf8_lossy(&run.stdout).contains(": NO\n");
        let alone = (0..4).map(|_| measure()).find(is_calm).unwrap_or_else(measure);
        let mut recorded = start(&filter);
        recorded.args([TALLY, "record", "--off-cpu", "-o", "perf.data", "--"]).arg(&undisturbed).arg(mode);
        let recorded = recorded.current_dir(&folder).output().expect("the filter runs");
        let errors = String::from_utf8_lossy(&recorded.stderr);
        assert!(errors.contains("blocked by seccomp"), "{mode}: {errors}");
        let [printed, wanted] = [&recorded, &alone].map(|run| String::from_utf8_lossy(&run.stdout));
        assert_eq!(printed, wanted, "{mode}: {errors}");
        assert_eq!([recorded.status.code(), alone.status.code()], [Some(7); 2], "{mode}");
    }
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn timers_inside_disturb_no_program() {
    is_undisturbed("undisturbed", &[]);
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn stops_from_outside_disturb_no_program() {
    is_undisturbed("undisturbed-static", &["-static"]);
}

/// Output of `undisturbed prof` and its recorder after `before`, in a mount namespace of their own; `None` if none can
/// be made here. `$TALLY`, `$RUN` (this filter) and `$PROGRAM` are in a folder that stays visible.
fn in_namespace(name: &str, before: &str, user: &str) -> Option<Output> {
    let folder = open_folder(name);
    let (filter, program) = (program("as_in_docker", &folder, &[])?, program("undisturbed", &folder, &[])?);
    let script =
        format!("{before}; cd $PLACE; {user} $RUN $TALLY record --off-cpu -o perf.data -- $PROGRAM prof");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", &script]).env("PLACE", &folder);
    command.env("RUN", filter).env("TALLY", TALLY).env("PROGRAM", program);
    let output = command.output().ok()?;
    if String::from_utf8_lossy(&output.stderr).contains("unshare:") {
        println!("skipped: no namespaces can be made here");
        return None;
    }
    Some(output)
}

/// Each place where nothing is as usual, and what the recorder remarks about it.
const BAD_LUCK: [(&str, &str, &str); 5] = [
    ("no-proc", "while umount -l /proc 2> /dev/null; do :; done", "/proc is not mounted"),
    ("hidepid", "mount -o remount,hidepid=2 /proc", "timers sample the program"),
    ("no-home", "unset HOME; unset TMPDIR", "timers sample the program"),
    (
        "noexec",
        "for d in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o noexec none $d; done",
        "running threads are stopped",
    ),
    (
        "full",
        "for d in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o size=16k none $d; done",
        "running threads are stopped",
    ),
];

#[test]
#[ignore = "live: records under a filter of system calls, in namespaces"]
fn bad_luck_ends_neither_the_program_nor_its_recording() {
    const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    for ((name, before, remark), user) in BAD_LUCK.into_iter().flat_map(|luck| [(luck, ""), (luck, NOBODY)]) {
        let name = if user.is_empty() { name.to_owned() } else { format!("{name}-nobody") };
        let Some(output) = in_namespace(&name, before, user) else { return };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{name}: {errors}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("SIGPROF: yes"), "{name}: {output:?}");
        assert!(errors.contains(remark), "{name}: {errors}");
        let samples = errors.split(" samples of cpu-clock").next().and_then(|text| text.rsplit(' ').next());
        assert!(samples.and_then(|count| count.parse().ok()).is_some_and(|count: u64| count > 0), "{errors}");
    }
}
