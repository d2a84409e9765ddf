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
