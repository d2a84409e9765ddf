//! Stacks of Go programs, whose threads change between a goroutine's stack and their own.

use super::TALLY;
use record::scratch::ScratchFolder;
use std::path::Path;
use std::process::{Command, Output};

const SOURCE: &str = r#"
package main

import "runtime"

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

//go:noinline
func collect() {
	for i := 0; i < 200; i++ {
		runtime.GC()
	}
}

func main() {
	root := tree(16)
	collect()
	runtime.KeepAlive(root)
}
"#;

fn output(folder: &Path, args: &[&str]) -> Output {
    Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs")
}

/// The garbage collector's work is done on the thread's stack, for a goroutine that has another: with debug info, and
/// in a stripped program.
#[test]
#[ignore = "live: records on this machine"]
fn calls_of_go_s_runtime_are_followed_to_the_goroutine() {
    let folder = ScratchFolder::private("go").expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("t.go"), SOURCE).expect("written");
    for flags in ["", "-s -w"] {
        let args = ["build", "-ldflags", flags, "-o", "app", "t.go"];
        let built = Command::new("go").args(args).env("GOCACHE", folder).current_dir(folder).status();
        if !built.is_ok_and(|status| status.success()) {
            return println!("skipped: no go that builds");
        }
        if !output(folder, &["record", "--", "./app"]).status.success() {
            return println!("skipped: can't record here");
        }
        let script = output(folder, &["script", "-F", "ip,sym"]);
        let script = String::from_utf8_lossy(&script.stdout);
        let stacks: Vec<&str> = script.split("\n\n").filter(|stack| stack.contains("systemstack")).collect();
        let reach = |stack: &&&str| stack.contains("runtime.goexit") && !stack.contains("[unknown]");
        let whole = stacks.iter().filter(reach).count();
        assert!(!stacks.is_empty() && whole * 10 >= stacks.len() * 9, "{flags}: {whole} of {}", stacks.len());
    }
}

/// Stacks are moved while their thread is on its own stack: which functions let them grow is on the goroutine's.
#[test]
#[ignore = "live: records on this machine"]
fn stacks_that_grow_have_the_callers_of_what_made_them_grow() {
    let folder = ScratchFolder::private("go-growing").expect("a folder");
    let folder = folder.path();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/growing.go");
    std::fs::copy(source, folder.join("t.go")).expect("copied");
    for flags in ["", "-s -w"] {
        let args = ["build", "-ldflags", flags, "-o", "app", "t.go"];
        let built = Command::new("go").args(args).env("GOCACHE", folder).current_dir(folder).status();
        if !built.is_ok_and(|status| status.success()) {
            return println!("skipped: no go that builds");
        }
        let recorded = output(folder, &["record", "--", "./app"]);
        if !recorded.status.success() || !record::runtimes::python::is_possible() {
            return println!("skipped: can't record here with BPF");
        }
        let script = output(folder, &["script", "-F", "ip,sym"]);
        let script = String::from_utf8_lossy(&script.stdout);
        let growing: Vec<&str> = script.split("\n\n").filter(|stack| stack.contains("copystack")).collect();
        // `descend` grows, called by one of three, called by a goroutine's first function.
        let callers = ["main.descend", "main.spawn.func1", "runtime.goexit"];
        let is_whole = |stack: &&&str| callers.iter().all(|name| stack.contains(name));
        let whole = growing.iter().filter(is_whole).count();
        let share = |name: &str| growing.iter().filter(|stack| stack.contains(name)).count();
        let each = ["main.shallow", "main.middle", "main.deep"].map(share);
        assert!(growing.len() >= 100 && whole * 100 >= growing.len() * 98, "{whole} of {}", growing.len());
        assert!(
            each.iter().all(|count| *count > 0) && each.iter().sum::<usize>() * 100 >= whole * 98,
            "{each:?}"
        );
    }
}
