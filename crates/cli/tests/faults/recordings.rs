//! `tally record` and `tally run` with faults of the machine.

use super::machine::{Ran, SmallDisk, TALLY, folder, is_refused, number_before, run, unharmed};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Calls and naps of the program: a second or two, much of it asleep.
const WORK: [&str; 2] = ["30000000", "300"];

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Whether the program printed and ended as always.
fn assert_unharmed(ran: &Ran, what: &str) {
    ran.assert_orderly(what);
    let is_own = ran.status.code() == Some(7) && ran.out.contains("child exited with 5");
    assert!(is_own, "{what}: {ran:#?}");
}

/// The number of samples that a view finds.
fn samples_in(file: &str) -> u64 {
    let script = run("", &["script", "-F", "comm,event", "-i", file]);
    assert!(script.status.success(), "{script:#?}");
    let is_main = |line: &&str| line.contains("cpu-clock") || line.contains("cycles");
    script.out.lines().filter(is_main).count() as u64
}

/// ns in words such as `2.882 s`, `193.1 ms`.
fn ns_of(number: &str, unit: &str) -> f64 {
    let scale = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "µs" => 1e3,
        _ => 1.0,
    };
    number.parse::<f64>().expect("a number") * scale
}

#[test]
#[ignore = "live: records on this machine"]
fn a_recording_on_a_full_disk_is_readable_and_its_samples_are_those_told() {
    let here = folder("recording-full-disk");
    let Some(program) = unharmed(&here, &[]) else { return };
    let options: [&[&str]; 3] = [&[], &["--call-graph", "dwarf"], &["--off-cpu"]];
    for (number, options) in options.iter().enumerate() {
        let Some(disk) = SmallDisk::new(&format!("recording-full-disk-{number}"), 32) else { return };
        let data = path(&disk.path.join("perf.data"));
        let program = path(&program);
        let ran =
            run("", &[&["record", "-F", "4000", "-o", &data], *options, &["--", &program], &WORK].concat());
        if is_refused(&ran) {
            return;
        }
        assert_unharmed(&ran, "a full disk");
        assert!(ran.notes.contains("recording stopped early: No space left on device"), "{}", ran.notes);
        let messages = number_before(&ran.notes, "samples of").expect("the number of samples");
        assert_eq!(samples_in(&data), messages, "{options:?}: {}", ran.notes);
        let report = run("", &["report", "--stdio", "-i", &data]);
        assert!(report.status.success() && report.notes.contains("is unfinished"), "{report:#?}");
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn a_recording_at_the_limit_of_file_sizes_ends_with_a_message_and_a_status() {
    let here = folder("recording-file-size");
    let Some(program) = unharmed(&here, &[]) else { return };
    let (data, program) = (path(&here.join("perf.data")), path(&program));
    let of =
        [&["record", "-F", "4000", "--call-graph", "dwarf", "-o", &data, "--", &program][..], &WORK].concat();
    let ran = run("ulimit -f 64", &of);
    if is_refused(&ran) {
        return;
    }
    assert_unharmed(&ran, "a limit");
    assert!(ran.notes.contains("recording stopped early: File too large"), "{}", ran.notes);
    assert_eq!(Some(samples_in(&data)), number_before(&ran.notes, "samples of"), "{}", ran.notes);
    // Where the program has no status of its own to give, this is one.
    let ran = run(
        "ulimit -f 8",
        &[
            "record",
            "-F",
            "4000",
            "--call-graph",
            "dwarf",
            "-o",
            &data,
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done",
        ],
    );
    ran.assert_orderly("a limit");
    assert!(!ran.status.success() && ran.notes.contains("File too large"), "{ran:#?}");
}

/// perf is asked, too: whatever these views print, it is no warning and no failure.
fn assert_perf_reads(data: &str) {
    let Ok(perf) = Command::new("perf").args(["script", "-F", "comm,event", "-i", data]).output() else {
        return println!("skipped: no perf");
    };
    let (names, notes) = (String::from_utf8_lossy(&perf.stdout), String::from_utf8_lossy(&perf.stderr));
    assert!(perf.status.success() && notes.is_empty(), "{}: {notes}", perf.status);
    assert!(names.contains("offcpu-time"), "{names}");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_killed_recording_of_time_off_the_cpu_has_its_waits_and_says_that_it_is_unfinished() {
    let here = folder("recording-killed");
    let Some(program) = unharmed(&here, &[]) else { return };
    let data = path(&here.join("perf.data"));
    for tier in ["a", "b"] {
        let mut tally = Command::new(TALLY);
        tally.args(["record", "--off-cpu", "--off-cpu-tier", tier, "-o", &data, "--"]).arg(&program);
        let mut tally = tally
            .args(["9000000", "9000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        // Until the program has run for a while: by then there is a file, if there ever is.
        let is_large = || std::fs::metadata(&data).is_ok_and(|file| file.len() > 30_000);
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(50));
            if is_large() {
                // Sums of waits are written once a second: a killed recording lacks the last of them.
                std::thread::sleep(Duration::from_millis(5500));
                break;
            }
        }
        tally.kill().expect("it is there");
        tally.wait().expect("it ends");
        if !is_large() {
            return println!("skipped: nothing is recorded here");
        }
        let report = run("", &["report", "--wall", "-i", &data]);
        assert!(report.status.success() && report.notes.contains("is unfinished"), "{report:#?}");
        // Where the kernel loses switches (some lose those of an idle CPU), tier B has time of unknown states. It is
        // written at a thread's end, which a killed recording lacks.
        let may_lack = if tier == "a" { 0.3 } else { 1.0 };
        assert_sums((&report.out, &data), may_lack);
        assert_perf_reads(&data);
        std::fs::remove_file(&data).expect("ours");
    }
}

/// The view's sum fits the times of the file's own samples; at most this share is missing.
fn assert_sums((wall, data): (&str, &str), may_lack: f64) {
    let words: Vec<&str> = wall.lines().next().expect("a headline").split_whitespace().collect();
    let at = words.iter().position(|word| *word == "in").expect("`… of thread time in …`");
    let span_ns = ns_of(words[at + 1], words[at + 2]);
    let script = run("", &["script", "-F", "time", "--ns", "-i", data]);
    let times: Vec<f64> =
        script.out.split_whitespace().filter_map(|word| word.trim_end_matches(':').parse().ok()).collect();
    let (first, last) = times.iter().fold((f64::MAX, 0.0f64), |(a, b), time| (a.min(*time), b.max(*time)));
    let wanted_ns = (last - first) * 1e9;
    let missing_ns = wanted_ns - span_ns;
    assert!(span_ns > 0.0 && missing_ns > -0.1 * wanted_ns, "{span_ns} of {wanted_ns}:\n{wall}");
    assert!(missing_ns < may_lack * wanted_ns, "{span_ns} of {wanted_ns}:\n{wall}");
    assert!(!wall.contains("on CPU 0.0 %"), "{wall}");
}
