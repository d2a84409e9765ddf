//! Recording where the kernel gives no events: under docker's filter of system calls, with timers inside the program, or
//! by short stops of threads that can have none.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("denied-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    folder
}

/// A test program; `None` without a compiler, or where it can't be linked so.
fn program(name: &str, folder: &Path, more: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let built = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-pthread"]).args(more).arg("-o").arg(&built).arg(source);
    if !compiler.status().is_ok_and(|status| status.success()) {
        println!("skipped: {name} can't be built here");
        return None;
    }
    Some(built)
}

/// tally under docker's filter.
fn denied_tally(filter: &Path, folder: &Path, args: &[&str]) -> Output {
    let output =
        Command::new(filter).arg(TALLY).args(args).current_dir(folder).output().expect("the filter runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("blocked by seccomp"), "{errors}");
    output
}

/// Share of CPU time in `function`, percent, and the number of samples.
fn share_of(function: &str, folder: &Path) -> (f64, u64) {
    let report = Command::new(TALLY)
        .args(["report", "--stdio", "--no-children", "-g", "none", "-n", "--sort", "sym"])
        .current_dir(folder)
        .output()
        .expect("tally runs");
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let (mut share, mut samples) = (0.0, 0);
    for row in rows {
        let words: Vec<&str> = row.split_whitespace().collect();
        samples += words.get(1).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        if words.last() == Some(&function) {
            share += words[0].trim_end_matches('%').parse::<f64>().expect("a share");
        }
    }
    (share, samples)
}

/// Waits until a process has threads, and is killed with its test.
struct Target(Child);

impl Target {
    fn start(program: &Path, args: &[&str]) -> Self {
        let child = Command::new(program).args(args).stdout(Stdio::piped()).spawn().expect("it starts");
        let begin = Instant::now();
        let threads = format!("/proc/{}/task", child.id());
        while std::fs::read_dir(&threads).map_or(0, Iterator::count) < 5 {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        Self(child)
    }

    /// What it printed, and its exit status.
    fn finish(mut self) -> (String, Option<i32>) {
        let mut printed = String::new();
        let mut stdout = self.0.stdout.take().expect("piped");
        std::io::Read::read_to_string(&mut stdout, &mut printed).expect("text");
        let code = self.0.wait().expect("ours to wait for").code();
        (printed, code)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_static_program_is_sampled_by_stops_and_keeps_its_status() {
    let folder = folder("static");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let Some(ticks) = program("ticks", &folder, &["-static"]) else { return };
    let output =
        denied_tally(&filter, &folder, &["record", "-o", "perf.data", "--", &ticks.to_string_lossy(), "3"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted 0"), "{output:?}");
    let (share, samples) = share_of("compute", &folder);
    assert!(share > 70.0 && samples >= 5, "{share} % of {samples}");
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_running_process_is_sampled_by_stops_that_it_does_not_notice() {
    let folder = folder("attached");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let Some(ticks) = program("ticks", &folder, &[]) else { return };
    let target = Target::start(&ticks, &["6"]);
    let pid = target.0.id().to_string();
    denied_tally(&filter, &folder, &["record", "-o", "perf.data", "-p", &pid, "--", "sleep", "3"]);
    let (printed, code) = target.finish();
    assert_eq!(code, Some(7));
    assert!(printed.contains("interrupted 0"), "{printed}");
    let ticks: u64 = printed.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a count");
    assert!(ticks > 50, "signals came all the time: {printed}");
    let (share, samples) = share_of("compute", &folder);
    assert!(share > 70.0 && samples >= 5, "{share} % of {samples}");
}

#[test]
#[ignore = "live: records under a filter of system calls, kills tally"]
fn a_killed_tally_leaves_no_thread_stopped() {
    let folder = folder("killed");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let Some(ticks) = program("ticks", &folder, &[]) else { return };
    let target = Target::start(&ticks, &["8"]);
    let pid = target.0.id();
    for round in 0..10u32 {
        let mut tally = Command::new(&filter);
        tally.args([TALLY, "record", "-o", "perf.data", "-p", &pid.to_string()]);
        let mut tally = tally.current_dir(&folder).stderr(Stdio::null()).spawn().expect("the filter runs");
        std::thread::sleep(Duration::from_millis(u64::from(150 + round * 37)));
        tally.kill().expect("ours to kill");
        tally.wait().expect("ours to wait for");
        std::thread::sleep(Duration::from_millis(20));
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            assert!(!status.contains("State:\tt") && !status.contains("State:\tT"), "{status}");
            assert!(!status.contains("TracerPid:\t") || status.contains("TracerPid:\t0\n"), "{status}");
        }
    }
    let (printed, code) = target.finish();
    assert_eq!(code, Some(7));
    assert!(printed.contains("interrupted 0"), "{printed}");
}
