//! `tally trace` on live programs, against strace. What this machine can't do is skipped, visibly.

use std::collections::BTreeMap;
use std::process::{Command, Output};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");

/// `tally trace` with these arguments; `None` if BPF is refused here.
fn trace(args: &[&str]) -> Option<Output> {
    let output = Command::new(TALLY).arg("trace").args(args).output().expect("tally runs");
    let messages = String::from_utf8_lossy(&output.stderr);
    if messages.contains("can't be traced") {
        assert!(messages.lines().count() == 1 && messages.contains("strace"), "{messages}");
        println!("skipped: {messages}");
        return None;
    }
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const DD: [&str; 4] = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1"];

/// Calls and failed calls by name, as strace counts them; `None` without strace, or where it may not trace.
fn by_strace(count: &str) -> Option<BTreeMap<String, (u64, u64)>> {
    let output = Command::new("strace").args(["-f", "-c"]).args(DD).arg(count).output().ok()?;
    let mut all = BTreeMap::new();
    for line in text(&output.stderr).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = words.len() >= 5 && words[0].parse::<f64>().is_ok() && words[words.len() - 1] != "total";
        if is_row {
            let failed = if words.len() == 6 { words[4].parse().ok()? } else { 0 };
            all.insert(words[words.len() - 1].to_owned(), (words[3].parse().ok()?, failed));
        }
    }
    (!all.is_empty()).then_some(all)
}

#[test]
fn sums_are_those_of_strace_call_by_call() {
    let mut args = vec!["-s", "--json", "--"];
    args.extend(DD);
    args.push("count=20000");
    let Some(output) = trace(&args) else { return };
    let sums: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut ours = BTreeMap::new();
    for row in sums["sums"].as_array().expect("rows") {
        let number = |name: &str| row[name].as_u64().expect("a number");
        ours.insert(row["syscall"].as_str().expect("a name").to_owned(), (number("calls"), number("errors")));
    }
    assert!(ours["read"].0 >= 20_000 && ours["write"].0 >= 20_000, "{ours:?}");
    match by_strace("count=20000") {
        Some(theirs) => assert_eq!(ours, theirs),
        None => println!("skipped: no strace"),
    }
}

#[test]
fn calls_are_shown_with_paths_flags_and_errors() {
    let command = ["-e", "openat,read,close,execve", "--", "cat", "/etc/passwd", "/nosuch"];
    let Some(output) = trace(&command) else { return };
    assert_eq!(output.status.code(), Some(1), "cat's own");
    let lines = text(&output.stdout);
    for expected in [
        "execve(\"/usr/bin/cat\", [\"cat\", \"/etc/passwd\", \"/nosuch\"], ",
        "openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY) = 3</etc/passwd>",
        "read(3</etc/passwd>, \"root:",
        "close(3</etc/passwd>) = 0",
        "openat(AT_FDCWD, \"/nosuch\", O_RDONLY) = -1 ENOENT (No such file or directory)",
    ] {
        assert!(lines.contains(expected), "no {expected} in\n{lines}");
    }
    assert!(!lines.contains("mmap("), "only what is asked for: {lines}");
}

#[test]
fn sums_have_the_name_that_a_thread_gave_itself() {
    if Command::new("perl").arg("-v").output().is_err() {
        println!("skipped: no perl");
        return;
    }
    let Some(output) = trace(&["-s", "--", "perl", "-e", "$0 = 'renamed'; sleep 0"]) else { return };
    let sums = text(&output.stdout) + &text(&output.stderr);
    let has = |begin: &str| sums.lines().any(|line| line.starts_with(begin));
    assert!(has("renamed/") && !has("perl/"), "{sums}");
}

#[test]
fn children_and_slow_calls_are_seen_and_short_ones_left_out() {
    let Some(output) = trace(&["-d", "100", "--json", "--", "sh", "-c", "sleep 0.3; /bin/true"]) else {
        return;
    };
    let rows = text(&output.stdout);
    let calls: Vec<serde_json::Value> =
        rows.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let slept = calls.iter().find(|call| call["comm"] == "sleep").expect("the child's sleep");
    assert!(slept["syscall"].as_str().is_some_and(|name| name.contains("nanosleep")), "{slept}");
    let long = |call: &serde_json::Value| call["duration_ns"].as_u64().is_none_or(|ns| ns >= 100_000_000);
    assert!(calls.iter().all(long), "{rows}");
}

#[test]
fn the_call_that_a_running_process_waits_in_is_shown_at_once() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep");
    let pid = sleeper.id().to_string();
    let is_asleep =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains("(sleep) S"));
    while !is_asleep() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let traced = trace(&["-p", &pid, "--", "true"]);
    sleeper.kill().expect("it runs");
    sleeper.wait().expect("it ends");
    let Some(output) = traced else { return };
    let lines = text(&output.stdout);
    assert!(
        lines.contains(&format!("sleep/{pid} clock_nanosleep(")) && lines.trim_end().ends_with("= ?"),
        "{lines}"
    );
}

#[test]
fn sums_by_calling_function_name_the_callers_and_estimate_their_calls() {
    let folder = std::env::temp_dir().join(format!("tally-callers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = "#include <unistd.h>\n#include <time.h>\n\
        __attribute__((noinline)) void often(void) { for (int i = 0; i < 5800; i++) write(3, \"x\", 1); }\n\
        __attribute__((noinline)) void rest(void) { struct timespec t = {0, 100000000}; nanosleep(&t, 0); }\n\
        int main(void) { often(); rest(); return 0; }\n";
    std::fs::write(folder.join("callers.c"), source).expect("written");
    let program = folder.join("callers");
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(folder.join("callers.c")).status();
    if !built.is_ok_and(|status| status.success()) {
        return println!("skipped: no C compiler");
    }
    let program = program.to_string_lossy().into_owned();
    let output = trace(&["-s", "--by", "function", "--json", "--", &program]);
    std::fs::remove_dir_all(&folder).expect("removed");
    let Some(output) = output else { return };
    let Ok(sums) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else {
        return println!("skipped: {}", text(&output.stderr));
    };
    let sum = |function: &str, field: &str| {
        let rows = sums["callers"].as_array().expect("rows");
        let mine =
            rows.iter().filter(|row| row["function"].as_str().is_some_and(|name| name.starts_with(function)));
        mine.filter_map(|row| row[field].as_u64()).sum::<u64>()
    };
    // Every 29th of all calls of the process is taken: one more or less of those of this function.
    assert!((5742..=5858).contains(&sum("often", "calls_estimate")), "{sums}");
    assert!(sum("rest", "off_cpu_ns") >= 99_000_000, "{sums}");
}
