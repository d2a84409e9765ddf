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

/// Builds `waits`, whose goroutines wait for known things; false, with a line, without a Go that can.
pub(crate) fn builds_waits(folder: &Path, flags: &str) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/waits.go");
    let mut go = Command::new("go");
    go.args(["build", "-ldflags", flags, "-o", "waits"]).arg(source).env("GOCACHE", folder);
    let built = go.current_dir(folder).status().is_ok_and(|status| status.success());
    let is_possible = built && cfg!(target_arch = "x86_64");
    if !is_possible {
        println!("skipped: no go that builds for x86-64");
    }
    is_possible
}

/// A program whose goroutines wait for known things, run and attached to, with its symbols and stripped.
#[test]
#[ignore = "live: records on this machine"]
fn goroutines_are_counted_by_what_they_wait_for_and_where() {
    let folder = ScratchFolder::private("go-waits").expect("a folder");
    let folder = folder.path();
    for (flags, is_attached) in [("", false), ("-s -w", true)] {
        if !builds_waits(folder, flags) {
            return;
        }
        let counts = ["40", "3", "5", "4", "2", "6", "1", "1"];
        let recorded = if is_attached {
            let mut waits = Command::new(folder.join("waits"));
            let mut running = waits.arg("30").args(counts).spawn().expect("it starts");
            std::thread::sleep(std::time::Duration::from_millis(500));
            let recorded = output(folder, &["run", "-p", &running.id().to_string(), "--", "sleep", "5"]);
            running.kill().and_then(|()| running.wait()).expect("ours");
            recorded
        } else {
            output(folder, &[&["run", "--", "./waits", "5"][..], &counts].concat())
        };
        let errors = String::from_utf8_lossy(&recorded.stderr);
        assert!(
            errors.contains("goroutines wait for a mutex in main.locked (waits.go:"),
            "{flags}: {errors}"
        );
        let wall = output(folder, &["report", "--wall", "--stdio"]);
        let wall = String::from_utf8_lossy(&wall.stdout);
        for (count, place) in [
            (40.0, "wait for a mutex in main.locked "),
            (3.0, "wait for an RWMutex in main.reads "),
            (5.0, "wait to receive from a channel in main.receives "),
            (4.0, "wait to send to a channel in main.sends "),
            (2.0, "wait in select in main.selects "),
            (6.0, "sleep in main.sleeps "),
            (1.0, "wait for a WaitGroup in main.joins "),
            (1.0, "wait for IO in main.listens "),
        ] {
            let line = wall.lines().find(|line| line.contains(place)).unwrap_or_default();
            let average: f64 =
                line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
            // At the first looks at a command they may not have begun.
            assert!((average / count - 1.0).abs() < 0.25, "{flags} {place}: {average} of {count}: {wall}");
            // From the first look to the last; after a long first look, the pause is two seconds.
            let longest = line.split_once("longest at least ").map_or("", |(_, longest)| longest);
            let seconds: f64 = longest.split_once(" s").and_then(|(s, _)| s.parse().ok()).unwrap_or(0.0);
            assert!((1.0..10.0).contains(&seconds), "{flags} {place}: {line}");
        }
    }
}

/// Builds `labels`, whose goroutines have labels and known parts of the CPU time; false, with a line, without a Go that can.
fn builds_labels(folder: &Path, flags: &str) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/labels.go");
    let mut go = Command::new("go");
    go.args(["build", "-ldflags", flags, "-o", "labels"]).arg(source).env("GOCACHE", folder);
    let built = go.current_dir(folder).status().is_ok_and(|status| status.success());
    let is_possible = built && record::runtimes::python::is_possible();
    if !is_possible {
        println!("skipped: no go that builds, or no BPF");
    }
    is_possible
}

/// Labels of goroutines (`pprof.Do`) that share a thread's time, of a program that is started, attached to, or recorded
/// with the whole machine; with its symbols and stripped.
#[test]
#[ignore = "live: records on this machine"]
fn samples_have_the_labels_of_their_goroutine() {
    let folder = ScratchFolder::private("go-labels").expect("a folder");
    let folder = folder.path();
    for (flags, target) in [("", ""), ("-s -w", "-p"), ("", "-a")] {
        if !builds_labels(folder, flags) {
            return;
        }
        let recorded = if target.is_empty() {
            output(folder, &["record", "-F", "999", "--", "./labels", "400"])
        } else {
            let mut labels = Command::new(folder.join("labels"));
            let mut running = labels.arg("1000000").spawn().expect("it starts");
            let pid = running.id().to_string();
            let target = if target == "-a" { vec!["-a"] } else { vec!["-p", &pid] };
            // On a busy machine the program gets a small part of a CPU.
            let args = [&["record", "-F", "999"], &target[..], &["--", "sleep", "8"]].concat();
            let recorded = output(folder, &args);
            running.kill().and_then(|()| running.wait()).expect("ours");
            recorded
        };
        if !recorded.status.success() {
            return println!("skipped: can't record here");
        }
        let script = output(folder, &["script", "--json", "--comms", "labels"]);
        let script = String::from_utf8_lossy(&script.stdout);
        let samples: Vec<serde_json::Value> =
            script.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        // The work alone: the runtime's goroutines have no labels, and nor have threads without one.
        let is_work = |sample: &&serde_json::Value| sample["stack"].to_string().contains("main.serve");
        let work: Vec<_> = samples.iter().filter(is_work).collect();
        assert!(work.len() > 500, "{target}: {} of {} samples", work.len(), samples.len());
        let share = |of: &dyn Fn(&serde_json::Value) -> bool| {
            work.iter().filter(|sample| of(&sample["labels"])).count() * 100 / work.len()
        };
        let pay = share(&|labels| labels["route"] == "/pay" && labels["user"] == "7");
        let list = share(&|labels| labels["route"] == "/list" && labels["user"].is_null());
        let none = share(&|labels| labels.is_null());
        let is_near = |share: usize, wanted: usize| share.abs_diff(wanted) <= 7;
        assert!(is_near(pay, 60) && is_near(list, 30) && is_near(none, 10), "{target}: {pay} {list} {none}");
        // The stack, too, has which of the three it is: labels are those of this very sample.
        let is_wrong = |sample: &&&serde_json::Value| {
            let labelled = sample["stack"].to_string().contains("pprof.Do");
            let between = sample["stack"].to_string().contains("SetGoroutineLabels");
            !between && labelled == sample["labels"].is_null()
        };
        let wrong = work.iter().filter(is_wrong).count();
        assert!(wrong * 50 <= work.len(), "{target}: {wrong} of {}", work.len());
    }
}

/// More labels than are kept and long ones are cut, and the key of one label groups by it.
#[test]
#[ignore = "live: records on this machine"]
fn labels_are_keys_of_the_report_and_of_exports() {
    let folder = ScratchFolder::private("go-label-keys").expect("a folder");
    let folder = folder.path();
    if !builds_labels(folder, "") {
        return;
    }
    if !output(folder, &["record", "-F", "999", "--", "./labels", "200", "x"]).status.success() {
        return println!("skipped: can't record here");
    }
    let report = |key: &str| {
        let args = ["report", "--stdio", "--no-children", "-g", "none", "--sort", key];
        let report = output(folder, &args);
        String::from_utf8_lossy(&report.stdout).into_owned() + &String::from_utf8_lossy(&report.stderr)
    };
    let all = report("label");
    for row in ["  route=/pay, user=7", "  route=/list", "  [no label]", "key00=\"\", key01=vvvvvvvvvv, "] {
        assert!(all.contains(row), "{row}: {all}");
    }
    assert!(all.contains("have more labels than tally keeps"), "{all}");
    let many = all.lines().find(|line| line.contains("key00")).unwrap_or_default();
    assert!(many.contains(&format!("key15={}", "v".repeat(128))) && !many.contains("key16"), "{many}");
    let routes = report("label:route");
    let rows: Vec<&str> = routes.lines().filter(|line| line.contains('%')).collect();
    let names: Vec<&str> =
        rows.iter().filter_map(|row| row.split_once("%  ")).map(|(_, name)| name.trim()).collect();
    assert_eq!(names.len(), 3, "{routes}");
    assert!(["/pay", "/list", "[no label]"].iter().all(|name| names.contains(name)), "{routes}");
    assert!(output(folder, &["export", "--to", "pprof", "-o", "x.pb.gz"]).status.success());
    let tags = Command::new("go").args(["tool", "pprof", "-tags", "x.pb.gz"]).current_dir(folder).output();
    let tags = tags.map(|tags| String::from_utf8_lossy(&tags.stdout).into_owned()).unwrap_or_default();
    if tags.is_empty() {
        return println!("skipped: no go tool pprof");
    }
    assert!(tags.contains(": /pay") && tags.contains(": /list") && tags.contains(": 7"), "{tags}");
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

/// `heavy` is too large to be inlined, but for a profile in which it is hot.
const HOT: &str = r#"
package main

import "fmt"

func heavy(n int) int {
	s := n
	for i := 0; i < 8; i++ {
		if s%3 == 0 {
			s = s/3 + i*7
		} else if s%5 == 1 {
			s = s*2 + i ^ 5
		} else if s%7 == 2 {
			s = s + i*3 + n
		} else if s%11 == 3 {
			s = s*7 - i*5 + n
		} else if s%13 == 4 {
			s = s/2 + i*11 - n
		} else {
			s = s*3 + 1 - i
		}
		s &= 0xffffff
	}
	return s
}

//go:noinline
func caller(n int) int {
	t := 0
	for i := 0; i < n; i++ {
		t += heavy(i)
	}
	return t
}

func main() {
	t := 0
	for i := 0; i < 100; i++ {
		t += caller(100000)
	}
	fmt.Println(t)
}
"#;

/// Messages of Go's compiler about inlining with a profile; `None` where it doesn't build.
fn inlined_with(folder: &Path, profile: &str) -> Option<String> {
    let args = ["build", &format!("-pgo={profile}"), "-gcflags=-m", "-o", "app", "hot.go"];
    let mut go = Command::new("go");
    let built = go.args(args).env("GOCACHE", folder.join("cache")).current_dir(folder).output().ok()?;
    let text = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(!text.contains("preprofile: error"), "{text}");
    built.status.success().then_some(text)
}

/// Also from a program that it has optimized already: lines of inlined functions count from their own beginning.
#[test]
#[ignore = "live: records on this machine"]
fn go_s_compiler_optimizes_by_an_exported_profile() {
    const INLINED: &str = "inlining call to heavy";
    let folder = ScratchFolder::private("go-pgo").expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("hot.go"), HOT).expect("written");
    let Some(inlined) = inlined_with(folder, "off") else { return println!("skipped: no go that builds") };
    assert!(!inlined.contains(INLINED), "{inlined}");
    for _ in 0..2 {
        if !output(folder, &["record", "-F", "499", "--", "./app"]).status.success() {
            return println!("skipped: can't record here");
        }
        let exported = output(folder, &["export", "--to", "pprof", "-o", "cpu.pgo"]);
        assert!(exported.status.success(), "{exported:?}");
        let inlined = inlined_with(folder, "cpu.pgo").expect("it was built before");
        assert!(inlined.contains(INLINED), "{inlined}");
    }
}
