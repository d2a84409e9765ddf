//! `stat`, `list` and `probe` end to end. What this machine can't do is skipped, visibly.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");

fn tally(args: &[&str]) -> Output {
    let mut command = Command::new(TALLY);
    command.args(args).env_remove("LC_ALL").env_remove("LC_NUMERIC").env_remove("LANG");
    command.output().expect("tally runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Can this machine count a software event of a child?
fn can_count() -> bool {
    let possible = tally(&["stat", "-e", "task-clock", "true"]).status.success();
    if !possible {
        println!("skipped: no software events here");
    }
    possible
}

#[test]
#[ignore = "live: records on this machine"]
fn csv_has_a_line_for_each_event_and_the_commands_status_comes_through() {
    if !can_count() {
        return;
    }
    let output = tally(&["stat", "-x,", "-e", "task-clock,page-faults,duration_time", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
    let names: Vec<&str> = rows.iter().map(|r| r[2].split(':').next().unwrap_or("")).collect();
    assert_eq!(names, ["task-clock", "page-faults", "duration_time"], "{text}");
    assert!(rows.iter().all(|r| r[0].parse::<f64>().is_ok_and(|v| v > 0.0)), "{text}");
}

#[test]
#[ignore = "live: records on this machine"]
fn json_lines_are_json() {
    if !can_count() {
        return;
    }
    let output = tally(&["stat", "-j", "-r", "3", "-e", "task-clock,cs", "true"]);
    let text = stderr(&output);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines.iter().all(|l| l["counter-value"].is_string() && l["variance"].is_number()));
}

#[test]
#[ignore = "live: records on this machine"]
fn a_command_that_is_not_there_is_127_and_a_wrong_event_2_with_a_caret() {
    let missing = tally(&["stat", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", stderr(&missing));
    let wrong = tally(&["stat", "-e", "cs,cyles", "true"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        stderr(&wrong),
        "tally: unknown event 'cyles'; did you mean cycles?\n  cs,cyles\n     ^^^^^\n"
    );
}

/// Whether it has events open and reads signals, which it then is not ended by.
fn counts_until_interrupted(pid: u32) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let links: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    ["[perf_event]", "[signalfd]"].iter().all(|kind| links.iter().any(|link| link.ends_with(kind)))
}

#[test]
#[ignore = "live: records on this machine"]
fn an_interrupted_count_is_printed() {
    if !can_count() {
        return;
    }
    let own = std::process::id().to_string();
    let mut command = Command::new(TALLY);
    command.args(["stat", "-e", "task-clock", "-p", &own]).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tally runs");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !counts_until_interrupted(child.id()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|s| s.success()));
    let mut text = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut text).expect("readable");
    assert!(text.contains(&format!("process id '{own}'")) && text.contains("seconds time elapsed"), "{text}");
    assert!(child.wait().is_ok());
}

#[test]
#[ignore = "live: records on this machine"]
fn two_commands_are_compared() {
    if !can_count() {
        return;
    }
    let output = tally(&["stat", "-e", "task-clock", "-r", "4", "--vs", "sleep 0.06", "--", "sleep", "0.01"]);
    let text = stderr(&output);
    assert!(output.status.success() && text.contains("4 runs each, alternately"), "{text}");
    assert!(text.contains("seconds elapsed") && text.contains("B / A"), "{text}");
}

#[test]
#[ignore = "live: records on this machine"]
fn list_names_software_events_as_perf_does() {
    let output = tally(&["list", "sw"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("context-switches OR cs                             [Software event]"), "{text}");
    let json = tally(&["list", "--json", "cs"]);
    let all: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert!(all.as_array().is_some_and(|a| a.iter().any(|e| e["alias"] == "cs")));
}

const SOURCE: &str = "
int value = 42;
__attribute__((noinline)) int twice(int n) { value += n; return 2 * n; }
int main(void) { return twice(21) == 42 ? 0 : 1; }
";

#[test]
#[ignore = "live: records on this machine"]
fn a_probe_is_added_hit_listed_and_removed() {
    let events = ["/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"];
    if !events.iter().any(|path| OpenOptions::new().append(true).open(path).is_ok()) {
        return println!("skipped: uprobes need root and tracefs");
    }
    let folder = std::env::temp_dir().join(format!("tally-probe-live-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    std::fs::write(folder.join("p.c"), SOURCE).expect("writable");
    let built = Command::new("gcc").args(["-g", "-O1", "-o", "p", "p.c"]).current_dir(&folder).status();
    if !built.is_ok_and(|s| s.success()) {
        return println!("skipped: no working C compiler");
    }
    let program = folder.join("p").to_string_lossy().into_owned();
    let group = format!("tally_test_{}", std::process::id());
    let added = tally(&["probe", "-x", &program, "--add", &format!("{group}:hit=twice n value")]);
    assert!(added.status.success(), "{}", stderr(&added));
    let listed = String::from_utf8_lossy(&tally(&["probe", "--list"]).stdout).into_owned();
    let counted = tally(&["stat", "-x,", "-e", &format!("{group}:hit"), &program]);
    let removed = tally(&["probe", "--del", &format!("{group}:*")]);
    assert!(listed.contains(&format!("{group}:hit")) && listed.contains("with n value"), "{listed}");
    assert!(stderr(&counted).starts_with("1,,"), "{}", stderr(&counted));
    assert!(removed.status.success(), "{}", stderr(&removed));
    std::fs::remove_dir_all(&folder).expect("our own folder");
}

#[test]
#[ignore = "live: records on this machine"]
fn top_prints_a_table_for_each_time_slice() {
    let own = std::process::id().to_string();
    let output = tally(&["top", "--stdio", "--iterations", "2", "-d", "1", "-e", "cpu-clock:u", "-p", &own]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return println!("skipped: cannot record here: {}", stderr(&output));
    }
    assert_eq!(
        text.matches(" samples of cpu-clock:u").count() + text.matches("no samples").count(),
        2,
        "{text}"
    );
}
