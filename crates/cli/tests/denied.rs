//! Recording where the kernel gives no events: under docker's filter of system calls, with timers inside the program,
//! or by short stops of threads that can have none.

#[path = "support/measure.rs"]
mod measure;
#[path = "denied/python.rs"]
mod python;
#[path = "denied/refusals.rs"]
mod refusals;
#[path = "denied/undisturbed.rs"]
mod undisturbed;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
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
    program_by("cc", name, folder, more)
}

/// The same by another compiler.
fn program_by(compiler: &str, name: &str, folder: &Path, more: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let built = folder.join(name);
    let mut compiler = Command::new(compiler);
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

/// A user without rights; ourselves unless we are root.
fn as_nobody(program: &Path) -> Command {
    const NOBODY: u32 = 65_534;
    let mut command = Command::new(program);
    if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// A folder that any user may write to.
fn open_folder(name: &str) -> PathBuf {
    let folder = folder(name);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).expect("ours");
    folder
}

/// Output of tally about the folder's recording.
fn output_of(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Share of CPU time in `function`, percent, and the number of samples.
fn share_of(function: &str, folder: &Path) -> (f64, u64) {
    let text =
        output_of(folder, &["report", "--stdio", "--no-children", "-g", "none", "-n", "--sort", "sym"]);
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

/// Share of time in `function` and all that it calls, percent, of the first event of `perf.data`.
fn share_with_callees(function: &str, folder: &Path) -> f64 {
    let text = output_of(folder, &["report", "--stdio", "--children", "-g", "none", "--sort", "sym"]);
    let is_row =
        |line: &&str| line.split_whitespace().skip_while(|word| *word != "[.]").nth(1) == Some(function);
    let row = text.lines().find(is_row);
    let share = row.and_then(|row| row.split_whitespace().next());
    share.map_or(0.0, |share| share.trim_end_matches('%').parse().expect("a share"))
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

    /// Output, and its exit status.
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

/// A program that runs for a while, and what is needed to record it.
struct Running {
    folder: PathBuf,
    filter: PathBuf,
    target: Target,
}

/// `ticks` for so many seconds; `None` without a compiler.
fn running(name: &str, seconds: &str) -> Option<Running> {
    let folder = folder(name);
    let (filter, ticks) = (program("as_in_docker", &folder, &[])?, program("ticks", &folder, &[])?);
    let target = Target::start(&ticks, &[seconds]);
    Some(Running { folder, filter, target })
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_static_program_is_sampled_by_stops_and_keeps_its_status() {
    for (compiler, how) in [("cc", "-static"), ("cc", "-static-pie"), ("musl-gcc", "-static")] {
        let folder = open_folder(&format!("{compiler}{how}"));
        let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
        let Some(ticks) = program_by(compiler, "ticks", &folder, &[how]) else { continue };
        let command = ["record", "-o", "perf.data", "--", &ticks.to_string_lossy(), "3"];
        let output = denied_tally(&filter, &folder, &command);
        assert_eq!(output.status.code(), Some(7));
        assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted 0"), "{output:?}");
        let (share, samples) = share_of("compute", &folder);
        assert!(share > 70.0 && samples >= 5, "{compiler} {how}: {share} % of {samples}");
    }
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn timers_are_inside_a_program_of_musl_and_stops_sample_one_of_go() {
    let folder = open_folder("libraries");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    if let Some(ticks) = program_by("musl-gcc", "ticks", &folder, &[]) {
        let command = ["record", "-o", "perf.data", "--", &ticks.to_string_lossy(), "3"];
        let output = denied_tally(&filter, &folder, &command);
        assert_eq!(output.status.code(), Some(7));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("timers sample the program"), "{errors}");
        assert!(errors.contains("stacks: 100.0 % complete"), "{errors}");
        let (share, samples) = share_of("compute", &folder);
        assert!(share > 70.0 && samples >= 5, "{share} % of {samples}");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/primes.go");
    let (built, mut go) = (folder.join("primes"), Command::new("go"));
    go.args(["build", "-o"]).arg(&built).arg(source).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
    if !go.status().is_ok_and(|status| status.success()) {
        println!("skipped: there is no Go");
        return;
    }
    let command = ["record", "-o", "perf.data", "--", &built.to_string_lossy(), "4000000"];
    let output = denied_tally(&filter, &folder, &command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("running threads are stopped"), "{errors}");
    assert!(errors.contains("stacks: 100.0 % complete"), "{errors}");
    let share = share_with_callees("main.countRange", &folder);
    assert!(share > 70.0, "{share} %");
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_program_without_environment_has_its_own_name_and_whole_stacks() {
    let folder = open_folder("env");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let Some(ticks) = program("ticks", &folder, &[]) else { return };
    let ticks = ticks.to_string_lossy();
    // The library with the timers is in `env`, and no more in the program that replaces it.
    let command = ["record", "--off-cpu", "-o", "perf.data", "--", "env", "-i", &ticks, "4"];
    let output = denied_tally(&filter, &folder, &command);
    assert_eq!(output.status.code(), Some(7));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("1 process has not loaded the timers"), "{errors}");
    let names = output_of(&folder, &["report", "--stdio", "--no-children", "-g", "none", "--sort", "comm"]);
    assert!(names.lines().any(|line| line.trim_end().ends_with(" ticks")), "{names}");
    let (share, samples) = share_of("compute", &folder);
    assert!(share > 70.0 && samples >= 5, "{share} % of {samples}");
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_filter_that_kills_ends_neither_tally_nor_its_program() {
    let folder = open_folder("kills");
    let Some(filter) = program("deny_calls", &folder, &[]) else { return };
    let still = Command::new(&filter).args(["kill:bpf,ptrace,perf,timers", "true"]).status();
    assert!(still.is_ok_and(|status| status.success()), "the filter itself works");
    let computes = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; exit 7";
    for (calls, remark) in [
        ("kill:perf", "timers sample the program"),
        ("kill:bpf", "a seccomp filter forbids bpf(2)"),
        ("kill:both,timers", "running threads are stopped"),
        ("kill:both,timers,ptrace", "ptrace is blocked by seccomp"),
    ] {
        let mut recorded = as_nobody(&filter);
        recorded.args([calls, TALLY, "record", "--off-cpu", "-o", "perf.data", "--", "sh", "-c", computes]);
        let output = recorded.current_dir(&folder).output().expect("the filter runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{calls}: {errors}");
        assert!(errors.contains(remark), "{calls}: {errors}");
    }
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_running_process_is_sampled_by_stops_that_it_does_not_notice() {
    let Some(Running { folder, filter, target }) = running("attached", "6") else { return };
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
    let Some(Running { folder, filter, target }) = running("killed", "60") else { return };
    let pid = target.0.id();
    for round in 0..100u64 {
        let mut tally = Command::new(&filter);
        tally.args([TALLY, "record", "-o", "perf.data", "-p", &pid.to_string()]);
        let mut tally = tally.current_dir(&folder).stderr(Stdio::null()).spawn().expect("the filter runs");
        // Spread over its start and some rounds of stops, at moments in no step with either.
        std::thread::sleep(Duration::from_micros(20_000 + round.wrapping_mul(0x9e37_79b9) % 400_000));
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
    // A kill within the tens of microseconds of a stop leaves nobody to make the interrupted epoll_wait again.
    let interrupted = printed.split_whitespace().nth(3).and_then(|word| word.parse::<u32>().ok());
    assert!(interrupted.is_some_and(|calls| calls <= 2), "{printed}");
}

/// Lines of the text of a recording.
fn records(folder: &Path) -> Vec<String> {
    let dump = Command::new(TALLY).args(["dump", "-i", "perf.data"]).current_dir(folder).output();
    String::from_utf8_lossy(&dump.expect("tally runs").stdout).lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn each_process_of_a_storm_is_counted_once_with_its_cpu_time() {
    let folder = open_folder("storm");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let Some(forks) = program("forks", &folder, &[]) else { return };
    denied_tally(
        &filter,
        &folder,
        &["record", "-o", "perf.data", "--", &forks.to_string_lossy(), "500", "8"],
    );
    let records = records(&folder);
    let begun = records.iter().filter(|line| line.starts_with("fork ")).count();
    assert_eq!(begun, 501, "the command and its children");
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_thread_that_blocks_the_timers_signal_is_sampled_by_stops() {
    let folder = open_folder("blocks");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let Some(undisturbed) = program("undisturbed", &folder, &[]) else { return };
    let args = ["record", "-o", "perf.data", "--", &undisturbed.to_string_lossy(), "raw"];
    let record = || {
        let output = denied_tally(&filter, &folder, &args);
        assert!(String::from_utf8_lossy(&output.stderr).contains("block the timers' signal"), "{output:?}");
        // Much of its time is in the clock that it asks.
        (share_with_callees("compute", &folder), share_of("compute", &folder).1)
    };
    // On a machine that is busy with others it gets so little of it that a few samples mean nothing.
    const ENOUGH: u64 = 20;
    let (share, samples) = measure::measure_until(record, |(_, samples)| *samples >= ENOUGH);
    assert!(share > 40.0 && samples >= 3, "{share} % of {samples}");
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_process_that_a_debugger_has_is_sampled_after_the_debugger_lets_it_go() {
    let Some(Running { folder, filter, target }) = running("debugged", "12") else { return };
    let pid = target.0.id().to_string();
    let mut debugger = Command::new("gdb");
    debugger.args(["-q", "-batch", "-p", &pid, "-ex", "shell sleep 2", "-ex", "detach"]);
    let Ok(mut debugger) = debugger.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        println!("skipped: there is no gdb");
        return;
    };
    let status = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let begin = Instant::now();
    while status().contains("TracerPid:\t0\n") && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let output =
        denied_tally(&filter, &folder, &["record", "-o", "perf.data", "-p", &pid, "--", "sleep", "9"]);
    debugger.wait().expect("ours to wait for");
    assert!(String::from_utf8_lossy(&output.stderr).contains("gdb (process "), "{output:?}");
    assert_eq!(target.finish().1, Some(7));
    assert!(share_of("compute", &folder).1 >= 1);
}
