//! Recording where the kernel gives no events: under docker's filter of system calls, with timers inside the program,
//! or by short stops of threads that can have none.

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
        let alone = start(&undisturbed).arg(mode).output().expect("it starts");
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
    let output = denied_tally(
        &filter,
        &folder,
        &["record", "-o", "perf.data", "--", &undisturbed.to_string_lossy(), "raw"],
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("block the timers' signal"), "{output:?}");
    // Much of its time is in the clock that it asks.
    let (share, samples) = (share_with_callees("compute", &folder), share_of("compute", &folder).1);
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

/// Share of time in `function` and all that it calls, percent, of the first event of `perf.data`.
fn share_with_callees(function: &str, folder: &Path) -> f64 {
    let text = output_of(folder, &["report", "--stdio", "--children", "-g", "none", "--sort", "sym"]);
    let is_row =
        |line: &&str| line.split_whitespace().skip_while(|word| *word != "[.]").nth(1) == Some(function);
    let row = text.lines().find(is_row);
    let share = row.and_then(|row| row.split_whitespace().next());
    share.map_or(0.0, |share| share.trim_end_matches('%').parse().expect("a share"))
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn python_functions_have_their_shares_where_timers_take_the_samples() {
    let folder = folder("python");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    let python = Path::new("/usr/bin/python3");
    if cfg!(not(target_arch = "x86_64")) || !python.exists() {
        println!("skipped: no {} on x86-64", python.display());
        return;
    }
    let split = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/runtimes/split.py");
    for kind in ["plain", "threads", "generators"] {
        let split = split.to_string_lossy();
        let command = ["record", "-o", "perf.data", "--", "/usr/bin/python3", &split, kind, "2"];
        assert!(denied_tally(&filter, &folder, &command).status.success());
        for (function, share) in [("alpha", 50.0), ("beta", 30.0), ("gamma", 20.0)] {
            let shown = share_with_callees(function, &folder);
            assert!((shown - share).abs() < 6.0, "{kind}: {function} {shown} %, and {share} % are true");
        }
    }
}

#[test]
#[ignore = "live: records under a filter of system calls"]
fn a_python_thread_waits_in_the_function_that_sleeps() {
    let folder = folder("python-waits");
    let Some(filter) = program("as_in_docker", &folder, &[]) else { return };
    if cfg!(not(target_arch = "x86_64")) || !Path::new("/usr/bin/python3").exists() {
        println!("skipped: no /usr/bin/python3 on x86-64");
        return;
    }
    let script = "import time\ndef rest(): time.sleep(0.6)\ndef nap(): time.sleep(0.3)\nrest(); nap()\n";
    std::fs::write(folder.join("waits.py"), script).expect("a file below target/");
    let command = ["record", "--off-cpu", "-o", "perf.data", "--", "/usr/bin/python3", "waits.py"];
    assert!(denied_tally(&filter, &folder, &command).status.success());
    let folded = output_of(&folder, &["flame", "--off-cpu", "--folded"]);
    let time_of = |function: &str| -> u64 {
        let lines = folded.lines().filter(|line| line.contains(&format!(";{function} (")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let (rest, nap) = (time_of("rest"), time_of("nap"));
    assert!(rest > 0 && nap > 0, "{folded}");
    let part = rest as f64 / (rest + nap) as f64;
    assert!((part - 2.0 / 3.0).abs() < 0.08, "{part} of {rest} and {nap}: {folded}");
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
