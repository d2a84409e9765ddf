//! Runtimes that tally asks to name their code: functions with known shares of CPU time.

use super::TALLY;
use record::scratch::ScratchFolder;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Shares of a known split are accepted within so many percent of the whole: some hundred samples of a busy machine.
const WITHIN: f64 = 12.0;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/runtimes").join(name)
}

/// A compiler's run; false if it isn't there.
fn compiled(compiler: &str, args: &[&str], folder: &Path) -> bool {
    let built = Command::new(compiler).args(args).current_dir(folder).stdout(Stdio::null()).status();
    built.is_ok_and(|status| status.success())
}

/// Compiles this program; false, with the reason printed, without a Java compiler.
fn compiles_java(name: &str, folder: &Path) -> bool {
    let java = source(name);
    let compiles = compiled("javac", &["-d", ".", java.to_str().expect("plain")], folder);
    if !compiles {
        println!("skipped: no Java compiler");
    }
    compiles
}

/// Report of a recording of this command; `None` if nothing can be recorded here.
fn record(folder: &Path, args: &[&str]) -> Option<String> {
    let args = [&["record", "-F", "499", "-o", "r.data"], args].concat();
    let run = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
    folder.join("r.data").is_file().then(|| String::from_utf8_lossy(&run.stderr).into_owned())
}

/// Numbers of stacks with each function, and of all stacks with one of them, by parts of the functions' names.
fn shares(folder: &Path, functions: &[&str]) -> Vec<f64> {
    let args = ["script", "-i", "r.data", "-F", "ip,sym"];
    let run = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let counts = functions.iter().map(|name| text.split("\n\n").filter(|stack| stack.contains(name)).count());
    let counts: Vec<usize> = counts.collect();
    let all: usize = counts.iter().sum();
    assert!(all > 50, "{functions:?} in {counts:?} stacks");
    counts.iter().map(|&count| count as f64 * 100.0 / all as f64).collect()
}

fn assert_split(found: &[f64], expected: &[f64]) {
    let is_near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < WITHIN);
    assert!(is_near, "{found:?} for {expected:?}");
}

fn maps_in_tmp(pid: u32) -> bool {
    Path::new(&format!("/tmp/perf-{pid}.map")).exists()
}

const JAVA: [&str; 3] = [" Split.alpha(long)", " Split.beta(long)", " Split.gamma(long)"];

/// Ends a program with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn java_methods_have_their_shares_from_the_start_and_while_it_runs() {
    let folder = ScratchFolder::private("java").expect("a folder");
    let folder = folder.path();
    if !compiles_java("Split.java", folder) {
        return;
    }
    let Some(printed) = record(folder, &["--", "java", "Split", "3000"]) else {
        return println!("skipped: can't record here");
    };
    assert!(printed.contains("for Java's frames in stacks"), "{printed}");
    assert_split(&shares(folder, &JAVA), &[50.0, 30.0, 20.0]);
    let Some(printed) = record(folder, &["--no-runtimes", "--", "java", "Split", "500"]) else { return };
    assert!(!printed.contains("added by tally"), "{printed}");

    // It would refuse to write a map.
    let args = ["-XX:+DisableAttachMechanism", "Split", "60000"];
    let java = Command::new("java").args(args).current_dir(folder).stdout(Stdio::null()).spawn();
    let java = Ended(java.expect("it ran before"));
    let pid = java.0.id();
    // Its functions are compiled after some thousand calls.
    std::thread::sleep(Duration::from_secs(2));
    let Some(printed) = record(folder, &["-p", &pid.to_string(), "--", "sleep", "2"]) else { return };
    if printed.contains("Compiler.perfmap") {
        return println!("skipped: the memory of a JVM can't be read here, so it is asked");
    }
    assert_split(&shares(folder, &JAVA), &[50.0, 30.0, 20.0]);
    assert!(!maps_in_tmp(pid), "it writes no map");
}

#[test]
#[ignore = "live: records on this machine"]
fn java_methods_that_were_inlined_have_their_lines() {
    let folder = ScratchFolder::private("java-inlined").expect("a folder");
    let folder = folder.path();
    if !compiles_java("Inlined.java", folder) {
        return;
    }
    let Some(_) = record(folder, &["--", "java", "Inlined", "3000"]) else {
        return println!("skipped: can't record here");
    };
    let args = ["report", "-i", "r.data", "--no-children", "-g", "none", "--sort", "srcline"];
    let run = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let share = |lines: &[&str]| -> f64 {
        let rows = text.lines().filter_map(|row| row.trim().split_once('%'));
        rows.filter(|(_, line)| lines.contains(&line.trim()))
            .filter_map(|(share, _)| share.parse::<f64>().ok())
            .sum()
    };
    let found = [share(&["Inlined.java:5", "Inlined.java:6"]), share(&["Inlined.java:10"])];
    let all = found[0] + found[1];
    assert!(all > 60.0, "{text}");
    assert_split(&found.map(|share| share * 100.0 / all), &[66.7, 33.3]);
}

#[test]
#[ignore = "live: records on this machine"]
fn interpreted_java_methods_have_their_names() {
    let folder = ScratchFolder::private("java-int").expect("a folder");
    let folder = folder.path();
    if !compiles_java("Split.java", folder) {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: interpreted methods are found on x86-64 only");
    }
    // With and without a map of the JVM's.
    for options in [&["--"][..], &["--no-runtimes", "--"]] {
        let Some(_) = record(folder, &[options, &["java", "-Xint", "Split", "3000"]].concat()) else {
            return println!("skipped: can't record here");
        };
        assert_split(&shares(folder, &JAVA), &[50.0, 30.0, 20.0]);
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn mono_code_without_frame_pointers_has_its_callers() {
    let folder = ScratchFolder::private("mono").expect("a folder");
    let folder = folder.path();
    let program = source("split.cs");
    if !compiled("mcs", &["-out:split.exe", program.to_str().expect("plain")], folder) {
        return println!("skipped: no Mono");
    }
    let Some(printed) = record(folder, &["--", "mono", "split.exe"]) else {
        return println!("skipped: can't record here");
    };
    assert!(printed.contains("for names of Mono's functions"), "{printed}");
    assert_split(&shares(folder, &["Split:Alpha (", "Split:Beta ("]), &[70.0, 30.0]);
}

#[test]
#[ignore = "live: records on this machine"]
fn node_functions_have_their_shares() {
    let folder = ScratchFolder::private("node").expect("a folder");
    let folder = folder.path();
    let has_node = Command::new("node").arg("--version").stdout(Stdio::null()).status();
    if !has_node.is_ok_and(|status| status.success()) {
        return println!("skipped: no Node");
    }
    let program = source("split.js");
    let Some(_) = record(folder, &["--", "node", program.to_str().expect("plain")]) else {
        return println!("skipped: can't record here");
    };
    assert_split(&shares(folder, &["alpha ", "beta ", "gamma "]), &[50.0, 30.0, 20.0]);
    let left = std::fs::read_dir(folder).expect("ours").flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name != "r.data").collect();
    assert!(left.is_empty(), "{left:?} is left in the folder");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_node_that_runs_already_has_its_functions_without_a_map() {
    let folder = ScratchFolder::private("node-p").expect("a folder");
    let folder = folder.path();
    let node = Command::new("node").arg(source("split.js")).arg("1000").stdout(Stdio::null()).spawn();
    let Ok(node) = node else { return println!("skipped: no Node") };
    let node = Ended(node);
    let pid = node.0.id();
    std::thread::sleep(Duration::from_secs(1));
    let Some(_) = record(folder, &["-p", &pid.to_string(), "--", "sleep", "2"]) else {
        return println!("skipped: can't record here");
    };
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: JavaScript functions are found on x86-64 only");
    }
    assert_split(&shares(folder, &["JS:alpha ", "JS:beta ", "JS:gamma "]), &[50.0, 30.0, 20.0]);
    assert!(!maps_in_tmp(pid), "it writes no map");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_regular_expression_of_a_running_node_has_its_pattern() {
    let folder = ScratchFolder::private("node-regexp").expect("a folder");
    let folder = folder.path();
    let node = Command::new("node").arg(source("regexp.js")).arg("60").stdout(Stdio::null()).spawn();
    let Ok(node) = node else { return println!("skipped: no Node") };
    let node = Ended(node);
    std::thread::sleep(Duration::from_secs(1));
    let Some(_) = record(folder, &["-p", &node.0.id().to_string(), "--", "sleep", "2"]) else {
        return println!("skipped: can't record here");
    };
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: regular expressions are found on x86-64 only");
    }
    // Each stack with the expression has the function, too; the rest prepares the text.
    assert_split(&shares(folder, &["JS:slow ", " RegExp:^(a+)+$"]), &[50.0, 50.0]);
}

/// Seconds that all threads were blocked for this reason.
fn blocked_s(folder: &Path, reason: &str) -> f64 {
    let args = ["report", "-i", "r.data", "--wall", "--json", "--idle"];
    let run = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    json["times"]["blocked_ns"][reason].as_f64().unwrap_or_default() / 1e9
}

#[test]
#[ignore = "live: records on this machine"]
fn threads_of_ruby_wait_for_its_global_lock_and_sleep() {
    if !cfg!(target_arch = "x86_64") || !compiled("ruby", &["-e", ""], Path::new("/")) {
        return println!("skipped: no Ruby for x86-64");
    }
    let folder = ScratchFolder::private("ruby").expect("a folder");
    let folder = folder.path();
    let program = source("waits.rb");
    let args = ["record", "--off-cpu", "-o", "r.data", "--", "ruby", program.to_str().expect("plain"), "3"];
    let run = Command::new(TALLY).args(args).current_dir(folder).stdout(Stdio::null()).output();
    assert!(run.expect("tally runs").status.success());
    let [gil, sleeps, polls, futex] = ["GIL", "timer", "poll", "futex"].map(|name| blocked_s(folder, name));
    if gil + sleeps + polls + futex == 0.0 {
        return println!("skipped: can't record time off the CPU here");
    }
    let found = format!("GIL {gil} s, timer {sleeps} s, poll {polls} s, futex {futex} s");
    // Two of three threads that compute wait at any time; the main thread and one more sleep.
    assert!(gil > 1.0 && gil > 3.0 * futex, "{found}");
    assert!(sleeps > 0.5 && sleeps > 3.0 * polls, "{found}");
}

/// A stand-in for a running .NET writes a map of its code if it is asked for; one that refuses has its code without names,
/// and nothing is left in /tmp.
#[test]
#[ignore = "live: records on this machine"]
fn a_dotnet_that_runs_already_is_asked_for_its_map() {
    let folder = ScratchFolder::private("dotnet").expect("a folder");
    let folder = folder.path();
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: the stand-in has code for x86-64");
    }
    for (answer, has_names) in [("0", true), ("255", false)] {
        let mut python = Command::new("python3");
        let started = python.arg(source("dotnet.py")).args(["60", answer]).spawn();
        let Ok(mut process) = started.map(Ended) else { return println!("skipped: no python3") };
        let pid = process.0.id();
        let socket = format!("/tmp/dotnet-diagnostic-{pid}-1-socket");
        let is_there = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            Path::new(&socket).exists()
        });
        let text = record(folder, &["-p", &pid.to_string(), "--", "sleep", "3"]);
        let is_running = process.0.try_wait().is_ok_and(|ended| ended.is_none());
        drop(process);
        let _ = std::fs::remove_file(&socket);
        assert!(is_there && is_running, "the stand-in has its socket, and goes on: {text:?}");
        let Some(text) = text else { return println!("skipped: can't record here") };
        assert!(
            text.contains("for names of .NET's functions: EnablePerfMap, asked for at the end"),
            "{text}"
        );
        let args = ["report", "-i", "r.data", "--stdio", "--no-children", "-g", "none", "--sort", "sym"];
        let report = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
        let report = String::from_utf8_lossy(&report.stdout);
        let named: f64 = report
            .lines()
            .find(|line| line.contains("Billing::Total"))
            .and_then(|line| line.trim().split('%').next()?.parse().ok())
            .unwrap_or(0.0);
        assert_eq!(named > 80.0, has_names, "{answer}: {report}");
        assert!(!maps_in_tmp(pid));
    }
}
