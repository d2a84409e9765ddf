//! `tally calls record`, whose recorder runs inside the program: a fault of its files must not become one of the
//! program.

use super::machine::{Ran, SmallDisk, folder, number_before, run, unharmed};
use std::path::Path;

/// The ways a program can record itself that differ in how a call gets into the tracer.
const WAYS: [(&str, &[&str]); 3] = [
    ("patchable", &["-fpatchable-function-entry=5"]),
    ("pg", &["-pg"]),
    ("instrument", &["-finstrument-functions"]),
];
/// Calls of each of the four threads, and naps.
const CALLS: u64 = 200_000;
const NAPS: u64 = 10;

fn record(limits: &str, program: &Path, to: &Path) -> (Ran, u64) {
    record_with(limits, program, to, &[])
}

/// Records the program into `to` and looks at what it did; the calls it made.
fn record_with(limits: &str, program: &Path, to: &Path, more: &[&str]) -> (Ran, u64) {
    let (calls, naps) = (CALLS.to_string(), NAPS.to_string());
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let (to, program) = (path(to), path(program));
    let words = ["calls", "record", "--no-libcall", "-o", &to, "--", &program, &calls, &naps];
    let ran = run(limits, &[&words, more].concat());
    ran.assert_orderly(limits);
    let made = CALLS + NAPS;
    let wanted = format!("child {}\nparent {}, child exited with 5\n", 2 * made, 2 * made);
    assert_eq!((ran.status.code(), ran.out.as_str()), (Some(7), wanted.as_str()), "{limits}: {}", ran.notes);
    (ran, 4 * made)
}

/// Recorded and lost calls together are all the calls; the recorded ones can be read.
fn assert_accounted(ran: &Ran, folder: &Path, made: u64, why: &str) {
    let recorded = number_before(&ran.notes, "calls in").unwrap_or(0);
    let lost = number_before(&ran.notes, "lost").expect("lost calls are reported");
    assert_eq!(recorded + lost, made, "{}", ran.notes);
    assert!(ran.notes.contains(why), "{}", ran.notes);
    if recorded > 0 {
        let report = run("", &["calls", "report", "-i", &folder.to_string_lossy()]);
        assert!(report.status.success(), "{report:#?}");
        assert_eq!(number_before(&report.out, "lost"), Some(lost), "{}", report.out);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn on_a_full_disk_the_program_goes_on_and_lost_calls_are_counted() {
    let here = folder("calls-full-disk");
    for (way, flags) in WAYS {
        let Some(program) = unharmed(&here, flags) else { continue };
        // Room for the tracer and little more; for a few chunks; for one thread's file and not the next ones'.
        for kib in [300, 1_000, 2_500] {
            let Some(disk) = SmallDisk::new(&format!("calls-full-disk-{way}-{kib}"), kib) else { return };
            let to = disk.path.join("calls");
            let (ran, made) = record("", &program, &to);
            assert_accounted(&ran, &to, made, "No space left on device");
        }
    }
}

/// Where space can't be allocated beforehand (ext2), zeros are written.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn on_a_full_disk_without_allocation_the_program_goes_on() {
    let here = folder("calls-ext2");
    let Some(program) = unharmed(&here, WAYS[0].1) else { return };
    let Some(disk) = SmallDisk::made_by(&["mkfs.ext2", "-q", "-F"], "calls-ext2-disk", 4_000) else { return };
    disk.fill(1_500);
    let to = disk.path.join("calls");
    let (ran, made) = record("", &program, &to);
    assert_accounted(&ran, &to, made, "No space left on device");
}

/// btrfs writes every page to a new place, also one that was allocated.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "heavy: a file system of 310 MB"]
fn on_a_full_disk_that_copies_on_write_the_program_goes_on() {
    let here = folder("calls-btrfs");
    let Some(program) = unharmed(&here, WAYS[0].1) else { return };
    let Some(disk) = SmallDisk::made_by(&["mkfs.btrfs", "-q", "-f"], "calls-btrfs-disk", 310 << 10) else {
        return;
    };
    let to = disk.path.join("calls");
    let words = [&program.to_string_lossy(), "3000", "3000"].map(ToString::to_string);
    let recording = std::thread::spawn({
        let to = to.to_string_lossy().into_owned();
        move || {
            run("", &["calls", "record", "--no-libcall", "-o", &to, "--", &words[0], &words[1], &words[2]])
        }
    });
    for _ in 0..40 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        disk.fill(0);
    }
    let ran = recording.join().expect("no panic");
    assert_eq!((ran.status.code(), ran.out.lines().count()), (Some(7), 2), "{}", ran.notes);
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn at_the_limit_of_file_sizes_the_program_goes_on_and_lost_calls_are_counted() {
    let here = folder("calls-file-size");
    for (way, flags) in WAYS {
        let Some(program) = unharmed(&here, flags) else { continue };
        let to = here.join(way);
        // The recorder itself has some 80 KiB.
        for kib in [100, 700] {
            let (ran, made) = record(&format!("ulimit -f {kib}"), &program, &to);
            assert_accounted(&ran, &to, made, "File too large");
        }
    }
}

/// A program that sets a limit of its own, below what its files have already.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_limit_of_the_program_s_own_ends_only_the_recording() {
    let here = folder("calls-own-limit");
    let Some(program) = unharmed(&here, WAYS[0].1) else { return };
    let to = here.join("calls");
    let (ran, made) = record_with("", &program, &to, &["0"]);
    assert_accounted(&ran, &to, made, "File too large");
}
