//! Time off the CPU against programs that know how they spent theirs. What this machine can't do is skipped, visibly.

#[path = "off_cpu/blame_terms.rs"]
mod blame_terms;
#[path = "off_cpu/deep_stacks.rs"]
mod deep_stacks;
#[path = "off_cpu/faults.rs"]
mod faults;
#[path = "off_cpu/last_switch.rs"]
mod last_switch;
#[path = "off_cpu/longest.rs"]
mod longest;
#[path = "support/measure.rs"]
mod measure;
#[path = "off_cpu/routes.rs"]
mod routes;
#[path = "off_cpu/spans.rs"]
mod spans;
#[path = "off_cpu/stages.rs"]
mod stages;
#[path = "off_cpu/stripped_libc.rs"]
mod stripped_libc;
#[path = "off_cpu/targets.rs"]
mod targets;
#[path = "off_cpu/triggers.rs"]
mod triggers;
#[path = "off_cpu/verdicts.rs"]
mod verdicts;
#[path = "off_cpu/waits.rs"]
mod waits;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");

/// A folder for one test, that all users can write to.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("off-cpu-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    let _ = Command::new("chmod").arg("777").arg(&folder).status();
    folder
}

/// Tier A works, by what the doctor finds; it is asked once.
fn has_bpf() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    let works = *WORKS.get_or_init(|| {
        let doctor = Command::new(TALLY).arg("doctor").output().expect("tally runs");
        String::from_utf8_lossy(&doctor.stdout).contains("exact, by BPF")
    });
    if !works {
        println!("skipped: no BPF here");
    }
    works
}

/// A test program, built without frame pointers; `None` without a compiler.
fn program(name: &str, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let built = folder.join(name);
    let options = ["-O2", "-g", "-fomit-frame-pointer", "-pthread", "-o"];
    let status = Command::new("cc").args(options).arg(&built).arg(source).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return None;
    }
    Some(built)
}

/// Measures again, twice at most, where others on the machine may have disturbed what is to hold; the text is for a failure.
fn holds_in_one_of_three(measure: impl FnMut() -> (bool, String)) {
    let (holds, text) = measure::measure_until(measure, |(holds, _)| *holds);
    assert!(holds, "{text}");
}

/// Runs `command`; what it printed. Its errors are the test's.
fn output_of(command: Command) -> String {
    outputs_of(command).0
}

/// Output on both streams.
fn outputs_of(mut command: Command) -> (String, String) {
    let output = command.output().expect("it starts");
    let [printed, messages] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}: {messages}");
    (printed, messages)
}

/// The wall clock of a recording: ns by folded stack.
fn wall_of(file: &Path) -> BTreeMap<String, u64> {
    let mut flame = Command::new(TALLY);
    flame.args(["flame", "--folded", "--wall", "--idle", "-i"]).arg(file);
    let text = output_of(flame);
    let stacks = text.lines().filter_map(|line| line.rsplit_once(' '));
    stacks.map(|(stack, ns)| (stack.to_owned(), ns.parse().expect("ns"))).collect()
}

/// Time spent in this function and its callees.
fn within(wall: &BTreeMap<String, u64>, function: &str) -> u64 {
    let holds = |stack: &str| stack.split(';').any(|frame| frame == function);
    wall.iter().filter(|(stack, _)| holds(stack)).map(|(_, ns)| ns).sum()
}

/// The numbers that `split` printed about itself.
fn truth(text: &str) -> BTreeMap<String, u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.chunks_exact(2).filter_map(|pair| Some((pair[0].to_owned(), pair[1].parse().ok()?)));
    pairs.collect()
}

/// Compares with the program's own clocks: they count the waits for a CPU too, however busy the machine is. Waits that
/// end with a switch that the kernel hides belong to their call site as well.
fn check_split(wall: &BTreeMap<String, u64>, messages: &str, truth: &BTreeMap<String, u64>, percent: u64) {
    for (function, name) in [("busy", "busy_ns"), ("nap", "nap_ns"), ("wait_for_lock", "wait_ns")] {
        let (found, truth) = (within(wall, function), truth[name]);
        let is_right = found.abs_diff(truth) * 100 <= truth * percent;
        assert!(is_right, "{function}: {found} of {truth}: {messages}{wall:#?}");
    }
}

/// Busy processes, ended with the test.
struct Rivals(Vec<Child>);

impl Rivals {
    fn start(count: usize) -> Self {
        let hog = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh runs");
        Self((0..count).map(|_| hog()).collect())
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One at a time: the rivals of one test are not to be another's.
static ONE: Mutex<()> = Mutex::new(());

fn split_with_rivals(name: &str, rivals: usize) {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder(name);
    let Some(split) = program("split", &folder).filter(|_| has_bpf()) else { return };
    let _rivals = Rivals::start(rivals);
    let file = folder.join("perf.data");
    let mut record = Command::new(TALLY);
    record.args(["record", "--off-cpu", "-o"]).arg(&file).arg("--").arg(split).arg("3");
    let (printed, messages) = outputs_of(record);
    check_split(&wall_of(&file), &messages, &truth(&printed), 1);
}

#[test]
#[ignore = "live: records on this machine"]
fn busy_nap_and_lock_wait_are_within_a_percent_by_the_users_own_functions() {
    split_with_rivals("alone", 0);
}

#[test]
#[ignore = "live: records on this machine"]
fn busy_nap_and_lock_wait_are_within_a_percent_beside_four_rivals() {
    split_with_rivals("rivals", 4);
}

#[test]
#[ignore = "live: records on this machine"]
fn nobody_gets_reasons_and_stacks_of_long_waits_without_any_rights() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("nobody");
    let Some(split) = program("split", &folder) else { return };
    let file = folder.join("perf.data");
    let as_nobody = ["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--inh-caps=-all"];
    let may = Command::new("setpriv")
        .args(as_nobody)
        .args([TALLY, "record", "-q", "-o"])
        .arg(&file)
        .arg("true")
        .output();
    if !may.is_ok_and(|output| output.status.success()) {
        return println!("skipped: can't become nobody, or nobody may not record");
    }
    std::fs::remove_file(&file).expect("nobody wrote it");
    let mut record = Command::new("setpriv");
    record
        .args(as_nobody)
        .args([TALLY, "record", "--off-cpu", "-o"])
        .arg(&file)
        .arg("--")
        .arg(split)
        .arg("3");
    let truth = truth(&output_of(record));
    let wall = wall_of(&file);
    for (function, reason, name) in [("nap", "[timer]", "nap_ns"), ("wait_for_lock", "[futex]", "wait_ns")] {
        let (found, truth) = (within(&wall, function), truth[name]);
        assert!(found.abs_diff(truth) * 50 <= truth, "{function}: {found} of {truth}: {wall:#?}");
        assert!(within(&wall, reason) >= found / 100 * 99, "{reason}: {wall:#?}");
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn a_thread_killed_in_the_middle_of_a_wait_has_its_whole_wait() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("killed");
    if !has_bpf() {
        return;
    }
    let file = folder.join("perf.data");
    let mut record = Command::new(TALLY);
    record.args(["record", "-q", "--off-cpu", "-o"]).arg(&file);
    record.args(["--", "sh", "-c", "sleep 60 & sleep 0.5; kill -9 $!; wait"]);
    output_of(record);
    let wall = wall_of(&file);
    let slept: u64 = wall.iter().filter(|(stack, _)| stack.starts_with("sleep;")).map(|(_, ns)| ns).sum();
    // Twice half a second, and however long the shell waited for a CPU; never the minute that it wished for.
    assert!((900_000_000..30_000_000_000).contains(&slept), "{slept}: {wall:#?}");
}

#[test]
#[ignore = "live: records on this machine"]
fn in_a_pid_namespace_of_its_own_tally_finds_its_command() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("namespace");
    let Some(split) = program("split", &folder).filter(|_| has_bpf()) else { return };
    let file = folder.join("perf.data");
    let unshare = ["--pid", "--fork", "--mount-proc"];
    if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|status| status.success()) {
        return println!("skipped: no pid namespaces");
    }
    let mut record = Command::new("unshare");
    record.args(unshare).args([TALLY, "record", "--off-cpu", "-o"]).arg(&file).arg("--").arg(split).arg("1");
    let (printed, messages) = outputs_of(record);
    check_split(&wall_of(&file), &messages, &truth(&printed), 3);
}

/// The BPF programs that a process holds.
fn programs_of(pid: u32) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let of = |text: String| {
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:").map(|id| id.trim().to_owned()));
        id.filter(|_| text.contains("prog_tag"))
    };
    texts.filter_map(of).collect()
}

#[test]
#[ignore = "live: records on this machine"]
fn nothing_stays_attached_when_tally_is_killed() {
    let folder = folder("kill");
    if !has_bpf() {
        return;
    }
    let exists = |id: &str| {
        let mut show = Command::new("bpftool");
        show.args(["prog", "show", "id", id]).stderr(Stdio::null()).stdout(Stdio::null());
        show.status().map(|status| status.success())
    };
    let file = folder.join("perf.data");
    let mut tally = Command::new(TALLY)
        .args(["record", "-q", "--off-cpu", "-o"])
        .arg(&file)
        .args(["--", "sleep", "2"])
        .spawn()
        .expect("tally runs");
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut programs = Vec::new();
    while programs.len() < 6 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        programs = programs_of(tally.id());
    }
    tally.kill().expect("ours to kill");
    tally.wait().expect("ours to wait for");
    assert!(programs.len() >= 6, "{programs:?}");
    if exists(&programs[0]).is_err() {
        return println!("skipped: no bpftool");
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while programs.iter().any(|id| exists(id).unwrap_or(true)) {
        assert!(Instant::now() < deadline, "still loaded: {programs:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs tally where the kernel denies these calls to it; its output on both streams.
fn denied(denier: &Path, calls: &str, args: &[&str]) -> (bool, String) {
    let output = Command::new(denier).args([calls, TALLY]).args(args).output().expect("it starts");
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), texts.concat())
}

#[test]
#[ignore = "live: records on this machine"]
fn where_a_filter_denies_calls_it_is_named_before_any_right() {
    const FILTERS: [&str; 2] =
        ["a seccomp filter forbids perf_event_open(2)", "a seccomp filter forbids bpf(2)"];
    let folder = folder("denied");
    let Some(denier) = program("deny_calls", &folder) else { return };
    let file = folder.join("perf.data");
    let record = ["record", "--off-cpu", "-o", file.to_str().expect("a plain path"), "--", "true"];
    for calls in ["perf", "both"] {
        let (works, messages) = denied(&denier, calls, &record);
        assert!(
            works
                && messages.contains("perf_event_open is blocked by seccomp")
                && messages.contains("docker run"),
            "{calls}: {messages}"
        );
        let (works, messages) = denied(&denier, calls, &["stat", "--", "true"]);
        assert!(
            !works && messages.contains(FILTERS[0]) && !messages.contains("run as root"),
            "{calls}: {messages}"
        );
    }
    let (_, messages) = denied(&denier, "bpf", &record);
    assert!(messages.contains(FILTERS[1]) && !messages.contains("run as root"), "{messages}");
    let (works, messages) = denied(&denier, "both", &["doctor"]);
    assert!(
        works && FILTERS.iter().all(|filter| messages.contains(&format!("remedy: {filter}"))),
        "{messages}"
    );
}
