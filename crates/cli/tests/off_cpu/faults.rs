//! Bad luck while time off the CPU is recorded: every thread's times must add up to its life all the same, and what is
//! lost must be reported.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use perfdata::off_cpu::{OffCpuTotals, Payload, State};
use perfdata::{Order, PerfData, Record};

use super::{ONE, TALLY, denied, folder, has_bpf, program};

/// Each thread of a recording.
fn totals_of(file: &Path) -> BTreeMap<u32, OffCpuTotals> {
    let bytes = fs::read(file).expect("the file is there");
    let mut all = BTreeMap::new();
    let file = PerfData::open(&bytes).expect("our own file");
    let diagnostics = file.visit(Order::File, |item| {
        if let Record::Sample(sample) = &item.record
            && let Some(Payload::Totals(totals)) = sample.raw.and_then(Payload::parse)
            && let Some((_, tid)) = sample.pid_tid
        {
            all.insert(tid, totals);
        }
        ControlFlow::Continue(())
    });
    drop(diagnostics);
    all
}

fn ns_in(totals: &OffCpuTotals, state: State) -> u64 {
    totals.total_ns[usize::from(state.code())]
}

/// Times by state add up to each thread's life within 1 %.
fn check_sums(all: &BTreeMap<u32, OffCpuTotals>) {
    assert!(!all.is_empty(), "no thread");
    for (tid, totals) in all {
        let sum: u64 = totals.total_ns.iter().sum();
        assert!(sum.abs_diff(totals.life_ns()) * 100 <= totals.life_ns(), "{tid}: {totals:?}");
    }
}

/// A recording into `file` with these options.
fn recording(file: &Path, options: &[&str]) -> Command {
    let mut tally = Command::new(TALLY);
    tally.args(["record", "--off-cpu", "-o"]).arg(file).args(options).stdout(Stdio::null());
    tally
}

/// Lets it end; returns its output.
fn told_by(tally: Child) -> String {
    let output = tally.wait_with_output().expect("it ends");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    messages
}

/// A program that lives as long as the test.
struct Lives(Child);

impl Lives {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sleeps of 10 ms, one after another.
const NAPS: &str = "while :; do sleep 0.01; done";

/// A CPU, offline until dropped.
struct Offline(&'static str);

impl Offline {
    fn cpu1() -> Option<Self> {
        let path = "/sys/devices/system/cpu/cpu1/online";
        let may =
            fs::read_to_string(path).is_ok_and(|text| text.trim() == "1") && fs::write(path, "0").is_ok();
        may.then_some(Self(path))
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // Busy for a moment at times.
        (0..50).find(|_| {
            fs::write(self.0, "1").is_ok() || {
                std::thread::sleep(Duration::from_millis(20));
                false
            }
        });
    }
}

/// Waits until tally has started its command.
fn await_command(tally: &Child, comm: &str) {
    let children = format!("/proc/{0}/task/{0}/children", tally.id());
    let is_there = || {
        let children = fs::read_to_string(&children).unwrap_or_default();
        let comm_of = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        children.split_whitespace().any(|pid| comm_of(pid).trim() == comm)
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_there() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn across_hotplug(tier: &str) {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder(&format!("hotplug-{tier}"));
    let Some(split) = program("split", &folder).filter(|_| has_bpf()) else { return };
    let file = folder.join("perf.data");
    let mut tally = recording(&file, &["--off-cpu-tier", tier, "--"]);
    let tally = tally.arg(split).arg("2").stderr(Stdio::piped()).spawn().expect("tally runs");
    await_command(&tally, "split");
    std::thread::sleep(Duration::from_millis(700));
    let Some(offline) = Offline::cpu1() else {
        told_by(tally);
        return println!("skipped: CPU 1 can't be taken offline");
    };
    std::thread::sleep(Duration::from_millis(200));
    drop(offline);
    let messages = told_by(tally);
    let all = totals_of(&file);
    check_sums(&all);
    assert!(all.len() >= 2, "{all:?}: {messages}");
    let asleep: u64 = all.values().map(|totals| ns_in(totals, State::Sleep)).sum();
    assert!(asleep > 300_000_000, "{all:?}: {messages}");
}

#[test]
#[ignore = "machine: takes a CPU offline"]
fn times_add_up_across_a_cpu_that_goes_and_comes_back() {
    across_hotplug("a");
}

#[test]
#[ignore = "machine: takes a CPU offline"]
fn so_they_do_by_tracepoints() {
    across_hotplug("b");
}

/// A new cgroup of the hierarchy that events can be bound to; removed at the end.
struct Cgroup(PathBuf);

impl Cgroup {
    fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let root = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let is_right = words[2] == "cgroup" && words[3].split(',').any(|o| o == "perf_event");
            (is_right || words[2] == "cgroup2").then(|| PathBuf::from(words[1]))
        })?;
        let path = root.join(format!("tally-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn add(&self, pid: u32) -> bool {
        let procs = fs::OpenOptions::new().write(true).open(self.0.join("cgroup.procs"));
        procs.is_ok_and(|mut procs| write!(procs, "{pid}").is_ok())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // It is empty once the last of its processes has gone for good.
        (0..50).find(|_| {
            fs::remove_dir(&self.0).is_ok() || {
                std::thread::sleep(Duration::from_millis(20));
                false
            }
        });
    }
}

#[test]
#[ignore = "machine: makes a cgroup"]
fn of_a_cgroup_the_threads_in_it_are_told_and_no_others() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("cgroup");
    if !has_bpf() {
        return;
    }
    let Some(cgroup) = Cgroup::make() else { return println!("skipped: no cgroup can be made") };
    let inside = Lives::start(Command::new("sh").args(["-c", NAPS]));
    let outside = Lives::start(Command::new("sh").args(["-c", NAPS]));
    if !cgroup.add(inside.0.id()) {
        return println!("skipped: no process can be put into a cgroup");
    }
    let name = cgroup.0.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
    let file = folder.join("perf.data");
    let mut tally = recording(&file, &["-a", "-e", "cpu-clock", "-G", &name, "--", "sleep", "1"]);
    let messages = told_by(tally.stderr(Stdio::piped()).spawn().expect("tally runs"));
    let all = totals_of(&file);
    check_sums(&all);
    assert!(all.contains_key(&inside.0.id()), "{messages}: {all:?}");
    assert!(!all.contains_key(&outside.0.id()), "{messages}: {all:?}");
    // The shell, and its sleeps.
    assert!(all.len() > 5 && all.values().all(|of| ["sh", "sleep"].contains(&of.comm.as_str())), "{all:?}");
}

/// Two of us and perf watch the same process at the same time: each reports all of it.
#[test]
#[ignore = "live: records on this machine"]
fn several_tracers_do_not_disturb_each_other() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("tracers");
    if !has_bpf() {
        return;
    }
    let watched = Lives::start(Command::new("sh").args(["-c", NAPS]));
    let pid = watched.0.id().to_string();
    let perf = Command::new("perf")
        .args(["record", "-q", "-a", "-e", "sched:sched_switch", "-o"])
        .arg(folder.join("perfs.data"))
        .args(["--", "sleep", "2"])
        .stderr(Stdio::null())
        .spawn();
    let files = ["a", "also-a", "b"].map(|name| folder.join(name));
    let tallies: Vec<Child> = files
        .iter()
        .zip(["a", "a", "b"])
        .map(|(file, tier)| {
            let mut tally = recording(file, &["--off-cpu-tier", tier, "-p", &pid, "--", "sleep", "1"]);
            tally.stderr(Stdio::piped()).spawn().expect("tally runs")
        })
        .collect();
    let messages: Vec<String> = tallies.into_iter().map(told_by).collect();
    if let Ok(mut perf) = perf {
        assert!(perf.wait().expect("perf ends").success());
    }
    for (file, messages) in files.iter().zip(messages) {
        let all = totals_of(file);
        check_sums(&all);
        let shell = all.get(&watched.0.id()).unwrap_or_else(|| panic!("{messages}: {all:?}"));
        assert!(shell.life_ns() > 900_000_000 && shell.switches > 10, "{messages}: {shell:?}");
        // It waits for its children nearly all the time, but on a machine that is crowded.
        assert!(ns_in(shell, State::On) < shell.life_ns() / 2, "{messages}: {shell:?}");
    }
}

#[test]
#[ignore = "machine: starts 20,000 threads"]
fn of_twenty_thousand_threads_each_is_told_or_counted_as_lost() {
    const THREADS: usize = 20_000;
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("threads");
    let Some(threads) = program("threads", &folder).filter(|_| has_bpf()) else { return };
    let file = folder.join("perf.data");
    let mut tally = recording(&file, &["-F", "99", "--"]);
    tally.arg(threads).args([&THREADS.to_string(), "2000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tally.output().expect("tally runs");
    let [made, messages] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if !made.contains(&format!("{THREADS} threads")) {
        return println!("skipped: not so many threads here: {made}{messages}");
    }
    let all = totals_of(&file);
    check_sums(&all);
    let lost: usize = messages
        .lines()
        .filter(|line| line.contains("threads' totals") || line.contains("threads not followed"))
        .filter_map(|line| line.split_whitespace().find_map(|word| word.parse::<usize>().ok()))
        .sum();
    assert_eq!(all.len() + lost, THREADS + 1, "{messages}");
}

/// Switches by the hundred thousand into rings of a page: what is lost is reported, and its time is known as unknown.
#[test]
#[ignore = "live: records on this machine"]
fn by_tracepoints_what_overflows_is_told_and_its_time_is_called_unknown() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("overflow");
    let file = folder.join("perf.data");
    let script = "yes | head -c 30000000 | cat | cat >/dev/null";
    let mut tally = recording(&file, &["--off-cpu-tier", "b", "-m", "1", "--", "sh", "-c", script]);
    let messages = told_by(tally.stderr(Stdio::piped()).spawn().expect("tally runs"));
    if !messages.contains("tier B") {
        return println!("skipped: no tracepoints of CPUs here: {messages}");
    }
    let all = totals_of(&file);
    check_sums(&all);
    let unknown: u64 = all.values().map(|of| ns_in(of, State::Unknown)).sum();
    if !messages.contains("[ lost ") {
        assert_eq!(unknown, 0, "{messages}: {all:?}");
        return println!("skipped: nothing was lost");
    }
    assert!(unknown > 0, "{messages}: {all:?}");
    let mut wall = Command::new(TALLY);
    let report = super::output_of({
        wall.args(["report", "--wall", "-i"]).arg(&file);
        wall
    });
    assert!(report.contains("unknown"), "{report}");
}

/// A denied tracepoint is not left half attached: the program runs, and the recording has the reason.
#[test]
#[ignore = "live: records on this machine"]
fn where_bpf_is_denied_while_another_tracer_runs_the_command_still_runs() {
    let folder = folder("denied-beside");
    let Some(denier) = program("deny_calls", &folder) else { return };
    let file = folder.join("perf.data");
    let (works, messages) = denied(
        &denier,
        "bpf",
        &["record", "--off-cpu", "-o", file.to_str().expect("a plain path"), "--", "sh", "-c", "sleep 0.2"],
    );
    if messages.contains("cannot open event") {
        return println!("skipped: {messages}");
    }
    assert!(works && (messages.contains("tier B") || messages.contains("tier C")), "{messages}");
    check_sums(&totals_of(&file));
}

/// A tally that waits for a second one to end keeps its own programs.
#[test]
#[ignore = "live: records on this machine"]
fn a_tally_killed_beside_another_leaves_the_other_whole() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("killed-beside");
    if !has_bpf() {
        return;
    }
    let files = ["killed", "whole"].map(|name| folder.join(name));
    let mut killed =
        recording(&files[0], &["-a", "--", "sleep", "5"]).stderr(Stdio::null()).spawn().expect("tally runs");
    let whole = recording(&files[1], &["--", "sh", "-c", "sleep 1; sleep 1"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("tally runs");
    let deadline = Instant::now() + Duration::from_secs(20);
    while super::programs_of(whole.id()).len() < 6 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().expect("ours to kill");
    killed.wait().expect("ours to wait for");
    let messages = told_by(whole);
    let all = totals_of(&files[1]);
    check_sums(&all);
    let asleep: u64 = all.values().filter(|of| of.comm == "sleep").map(|of| ns_in(of, State::Sleep)).sum();
    assert!((1_950_000_000..10_000_000_000).contains(&asleep), "{messages}: {all:?}");
}
