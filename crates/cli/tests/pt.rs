//! Intel PT without the hardware: programs stepped instruction by instruction, encoded as a processor would,
//! decoded by `tally calls branches`. The list of calls and returns must be the one that really happened, and
//! perf's, where there is a perf.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls and returns by thread, in order: kind, from, to.
type Lists = BTreeMap<u32, Vec<(String, u64, u64)>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// The stepper, built with the tests of the workspace.
fn stepper() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_tally")).with_file_name("examples").join("pt_step");
    if !path.is_file() {
        println!("skipped: the stepper is not built; `cargo build -p record --example pt_step` does");
        return None;
    }
    Some(path)
}

/// Builds a program of tests/programs; `None` (and reported) where that is not possible.
fn build(source: &str) -> Option<PathBuf> {
    let dir = root().join("target/tmp/pt");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let program = dir.join(Path::new(source).file_stem().expect("a source has a name"));
    let compiler = if source.ends_with(".cpp") { "g++" } else { "gcc" };
    let built = Command::new(compiler)
        .args(["-O2", "-g", "-o"])
        .arg(&program)
        .arg(root().join("tests/programs").join(source))
        .arg("-lpthread")
        .output();
    if built.is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    println!("skipped: {compiler} can't build {source}");
    None
}

/// Lines `TID NS KIND FROM TO`.
fn lists(text: &str) -> Lists {
    let mut lists = Lists::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [tid, _, kind @ ("call" | "return"), from, to] = words[..] else { continue };
        let hex = |text| u64::from_str_radix(text, 16).expect("an address");
        let entry = (kind.to_owned(), hex(from), hex(to));
        lists.entry(tid.parse().expect("a thread id")).or_default().push(entry);
    }
    lists
}

/// perf's output for the recording; `None` without a perf that can decode.
fn lists_of_perf(data: &Path) -> Option<Lists> {
    let fields = "-F-event,-period,+addr,-comm,+flags,-dso,-sym,-symoff";
    let output =
        Command::new("perf").args(["script", "--itrace=cr", "--ns", fields, "-i"]).arg(data).output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let mut lists = Lists::new();
    for line in text.lines() {
        // TID [CPU] TIME: FLAGS FROM [symbol] => TO [symbol]
        let (head, to) = line.split_once("=>")?;
        let to = to.split_whitespace().next()?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let kind = words.iter().find(|word| matches!(**word, "call" | "return"));
        let from = words.iter().skip_while(|word| !matches!(**word, "call" | "return")).nth(1);
        let (Some(kind), Some(from)) = (kind, from) else { continue };
        let hex = |text| u64::from_str_radix(text, 16).ok();
        lists.entry(words[0].parse().ok()?).or_default().push(((*kind).to_owned(), hex(from)?, hex(to)?));
    }
    (!lists.is_empty()).then_some(lists)
}

/// Steps a program, decodes what was encoded, compares.
fn check(name: &str, options: &[&str], program: &Path) {
    let Some(stepper) = stepper() else { return };
    let dir = root().join("target/tmp/pt");
    let (data, truth) = (dir.join(format!("{name}.data")), dir.join(format!("{name}.truth")));
    let mut command = Command::new(stepper);
    command.args(options).arg("-o").arg(&data).arg("--truth").arg(&truth).arg("--").arg(program);
    let stepped = command.output().expect("the stepper starts");
    if !stepped.status.success() {
        // No ptrace here (a container's policy).
        println!("skipped: {}", String::from_utf8_lossy(&stepped.stderr).trim());
        return;
    }
    let truth = lists(&std::fs::read_to_string(&truth).expect("the stepper wrote it"));
    let tally =
        Command::new(env!("CARGO_BIN_EXE_tally")).args(["calls", "branches", "-i"]).arg(&data).output();
    let ours = lists(&String::from_utf8_lossy(&tally.expect("tally starts").stdout));
    assert!(!truth.is_empty());
    for (tid, wanted) in &truth {
        let got = ours.get(tid).map_or(&[][..], Vec::as_slice);
        let differs = wanted.iter().zip(got).position(|(a, b)| a != b);
        assert!(
            got.len() == wanted.len() && differs.is_none(),
            "{name}, thread {tid}: {} calls and returns instead of {}, the first that differs: {differs:?}",
            got.len(),
            wanted.len()
        );
    }
    let table = |cores: &str| {
        let mut tally = Command::new(env!("CARGO_BIN_EXE_tally"));
        tally.args(["calls", "report", "-i"]).arg(&data).env("RAYON_NUM_THREADS", cores);
        String::from_utf8_lossy(&tally.output().expect("tally starts").stdout).into_owned()
    };
    assert!(table("1").contains("decoded"), "{}", table("1"));
    assert_eq!(table("1"), table("5"), "{name}: the same whatever the number of cores");
    match lists_of_perf(&data) {
        Some(perf) => assert!(perf == ours, "{name}: perf's list is another than ours"),
        None => println!("skipped: no perf that decodes this"),
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn threads_on_two_cpus_with_signals_and_longjmp_decode_to_what_happened() {
    let Some(program) = build("calls.c") else { return };
    check("threads", &["--cpus", "2", "--quantum", "300"], &program);
}

#[test]
#[ignore = "live: records on this machine"]
fn every_timing_and_every_kind_of_branch_bits_decodes_alike() {
    let program = Path::new("/bin/true");
    let ways: [(&str, &[&str]); 5] = [
        ("cycles", &[]),
        ("uncompressed", &["--noretcomp", "--psb", "256"]),
        ("crystal", &["--nocyc"]),
        ("tsc", &["--nocyc", "--nomtc", "--tnt", "47"]),
        ("per_thread", &["--per-thread"]),
    ];
    for (name, options) in ways {
        check(name, options, program);
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn what_was_not_lost_decodes_around_overflows() {
    let Some(stepper) = stepper() else { return };
    let data = root().join("target/tmp/pt/overflow.data");
    std::fs::create_dir_all(data.parent().expect("it has one")).expect("target is writable");
    let stepped = Command::new(stepper)
        .args(["--ovf", "3", "--psb", "512", "-o"])
        .arg(&data)
        .args(["--truth"])
        .arg(data.with_extension("truth"))
        .args(["--", "/bin/true"])
        .output()
        .expect("the stepper starts");
    if !stepped.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&stepped.stderr).trim());
        return;
    }
    let truth = lists(&std::fs::read_to_string(data.with_extension("truth")).expect("it was written"));
    let tally = |what: &str| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_tally")).args(["calls", what, "-i"]).arg(&data).output();
        String::from_utf8_lossy(&output.expect("tally starts").stdout).into_owned()
    };
    assert_eq!(lists(&tally("branches")), truth);
    let report = tally("report");
    assert!(
        report.contains("holes in the trace") && report.contains("the processor lost packets"),
        "{report}"
    );
}

#[test]
#[ignore = "live: records on this machine"]
fn damaged_bytes_are_a_hole_with_its_reason_and_the_rest_is_right() {
    let Some(stepper) = stepper() else { return };
    let data = root().join("target/tmp/pt/damaged.data");
    std::fs::create_dir_all(data.parent().expect("it has one")).expect("target is writable");
    let mut command = Command::new(stepper);
    command.args(["--psb", "512", "-o"]).arg(&data).arg("--truth").arg(data.with_extension("truth"));
    let stepped = command.args(["--", "/bin/true"]).output().expect("the stepper starts");
    if !stepped.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&stepped.stderr).trim());
        return;
    }
    let whole = std::fs::read(&data).expect("the stepper wrote it");
    let truth = lists(&std::fs::read_to_string(data.with_extension("truth")).expect("it was written"));
    // Nearly all of the file is the trace. Some places hold no call: which, differs from one C library to another.
    let costs = [3, 4, 5, 6].map(|eighths| {
        let mut bytes = whole.clone();
        let at = bytes.len() / 8 * eighths;
        bytes[at..at + 32].fill(0xff);
        std::fs::write(&data, &bytes).expect("target is writable");
        calls_lost(&data, &truth)
    });
    assert!(costs.iter().any(|lost| *lost > 0), "{costs:?}");
}

/// How many calls and returns the hole in the trace costs; those around it are right.
fn calls_lost(data: &Path, truth: &Lists) -> usize {
    let tally = |what: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_tally")).args(["calls", what, "-i"]).arg(data).output();
        String::from_utf8_lossy(&output.expect("tally starts").stdout).into_owned()
    };
    let ours = lists(&tally("branches"));
    let mut lost = 0;
    for (tid, wanted) in truth {
        let got = &ours[tid];
        let before = wanted.iter().zip(got).take_while(|(a, b)| a == b).count();
        let behind = wanted.iter().rev().zip(got.iter().rev()).take_while(|(a, b)| a == b).count();
        assert!(before > 0 && behind > 0, "{before} and {behind} of {} are right", got.len());
        // Errors are at most what the damaged bytes themselves could mean.
        assert!(before + behind + 100 >= got.len(), "{before} and {behind} of {} are right", got.len());
        lost += wanted.len().saturating_sub(got.len());
    }
    let report = tally("report");
    assert!(report.contains("holes in the trace"), "{report}");
    lost
}
