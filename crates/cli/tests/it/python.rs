//! Functions of a Python program: running under callbacks and deep recursion, and waiting.

use super::TALLY;
use record::scratch::ScratchFolder;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `hot` runs under `sorted`, a generator and 600 calls of `deep`; `asleep` waits in another thread.
const PROGRAM: &str = "\
import sys, threading, time
sys.setrecursionlimit(5000)
def hot(item):
    return sum(range(2000)) + item
def numbers(count):
    for number in range(count):
        yield hot(number)
def deep(depth):
    return deep(depth - 1) if depth else sum(numbers(100))
def asleep():
    time.sleep(1.2)
def work():
    end = time.time() + 1
    while time.time() < end:
        sorted(range(50), key=hot)
        deep(600)
thread = threading.Thread(target=asleep)
thread.start()
work()
thread.join()
";

/// The interpreters here that can be read.
fn interpreters() -> Vec<PathBuf> {
    let at = |version: u32| {
        ["/usr/bin", "/usr/local/bin"].map(|at| PathBuf::from(format!("{at}/python3.{version}")))
    };
    (8..=13).flat_map(at).filter(|path| path.exists()).collect()
}

fn tally(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(TALLY).args(arguments).current_dir(folder).env("HOME", folder).output();
    let output = output.expect("tally runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Recursion so deep that its native frames do not fit into a record with Python's: each of CPython 3.10's functions has
/// three or four.
const DEEP: &str = "\
import sys, time, threading
sys.setrecursionlimit(9000)
threading.stack_size(64 << 20)
def spin():
    end = time.thread_time() + 1
    while time.thread_time() < end:
        pass
def down(depth):
    return down(depth - 1) if depth else spin()
thread = threading.Thread(target=down, args=(2500,))
thread.start()
thread.join()
";

/// Threads with names of the program's that spin or sleep; one of them makes another one, which has none.
const NAMED: &str = "\
import threading, time
def spin(seconds):
    end = time.time() + seconds
    while time.time() < end:
        sum(range(3000))
def parent():
    child = threading.Thread(target=spin, args=(1,))
    child.start()
    child.join()
threads = [threading.Thread(target=parent, name='parent'), threading.Thread(target=spin, args=(1,), name='alpha')]
threads.append(threading.Thread(target=time.sleep, args=(1,), name='sleeper'))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
";

#[test]
fn threads_have_the_names_that_python_gave_them() {
    let interpreters = interpreters();
    if interpreters.is_empty() || !is_readable() {
        return println!("skipped: no CPython 3.8 to 3.14 in its usual place, or no right to read it");
    }
    let folder = ScratchFolder::private("named").expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("named.py"), NAMED).expect("the program");
    for python in interpreters {
        let python = python.to_str().expect("plain");
        tally(folder, &["run", "-o", "p.data", "--", python, "named.py"]);
        let threads = tally(folder, &["report", "--wall", "--stdio", "--idle", "-i", "p.data"]);
        for name in [" alpha ", " sleeper ", " parent ", " spin() "] {
            assert!(threads.contains(name), "{python} {name}: {threads}");
        }
        assert!(!threads.contains("parent spin()"), "{python}: {threads}");
    }
}

#[test]
fn deep_recursion_keeps_all_python_functions() {
    let interpreters = interpreters();
    if interpreters.is_empty() || !is_readable() {
        return println!("skipped: no CPython 3.8 to 3.14 in its usual place, or no right to read it");
    }
    let folder = ScratchFolder::private("deep").expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("deep.py"), DEEP).expect("the program");
    for python in interpreters {
        let python = python.to_str().expect("plain");
        tally(folder, &["record", "-F", "99", "-o", "p.data", "--", python, "deep.py"]);
        let stacks = tally(folder, &["script", "-i", "p.data", "-F", "ip,sym"]);
        let spinning: Vec<_> =
            stacks.split("\n\n").filter(|stack| stack.contains("spin (deep.py)")).collect();
        let is_whole = |stack: &&&str| stack.matches("down (deep.py)").count() == 2501;
        let whole = spinning.iter().filter(is_whole).count();
        // A sample between two instructions of a call may lack a frame.
        let is_enough = spinning.len() > 20 && whole * 100 >= spinning.len() * 95;
        assert!(is_enough, "{python}: {whole} of {}", spinning.len());
    }
}

/// Whether programs may be loaded that read the interpreter.
fn is_readable() -> bool {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    cfg!(target_arch = "x86_64") && is_root && Path::new("/sys/kernel/btf/vmlinux").exists()
}

#[test]
fn python_functions_are_shown_running_and_waiting_between_native_ones() {
    let interpreters = interpreters();
    if interpreters.is_empty() || !is_readable() {
        return println!("skipped: no CPython 3.8 to 3.14 in its usual place, or no right to read it");
    }
    let folder = ScratchFolder::private("python").expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("app.py"), PROGRAM).expect("the program");
    for python in interpreters {
        let python = python.to_str().expect("plain");
        tally(folder, &["record", "--off-cpu", "-o", "p.data", "--", python, "app.py"]);
        let stacks = tally(folder, &["script", "-i", "p.data", "-F", "event,ip,sym"]);
        let has = |names: &[&str]| {
            stacks.split("\n\n").any(|stack| {
                let mut lines = stack.lines();
                names.iter().all(|name| lines.any(|line| line.ends_with(name)))
            })
        };
        assert!(has(&["hot (app.py)", "work (app.py)", "<module> (app.py)"]), "{python}: a callback");
        let generator =
            [&["hot (app.py)", "numbers (app.py)"][..], &["deep (app.py)"; 601], &["work (app.py)"]].concat();
        assert!(has(&generator), "{python}: a generator under deep recursion");
        assert!(
            has(&["offcpu-time: ", "asleep (app.py)", "Thread.run (threading.py)"])
                || has(&["offcpu-time: ", "asleep (app.py)", "run (threading.py)"]),
            "{python}: a wait"
        );
        let report = |more: &[&str]| {
            let view = ["report", "-i", "p.data", "--stdio", "--children", "-g", "none", "--sort", "sym"];
            tally(folder, &[&view, more].concat())
        };
        assert!(report(&[]).contains("hot (app.py)"), "{python}");
        assert!(report(&["--runtime-frames"]).contains("PyEval_EvalFrameDefault"), "{python}");
        let lines = tally(folder, &["report", "-i", "p.data", "--stdio", "--sort", "srcline", "-g", "none"]);
        assert!(lines.contains("app.py:4"), "{python}: {lines}");
        let code = |name: &str| tally(folder, &["annotate", "-i", "p.data", "--stdio", "-s", name]);
        let hot = code("hot");
        let sum = hot.lines().find(|line| line.contains(": 4    ")).unwrap_or_default();
        assert!(sum.contains("return sum(range(2000)) + item"), "{python}: {hot}");
        let share = sum.split(':').next().and_then(|share| share.trim().parse().ok()).unwrap_or(0.0);
        assert!(share > 90.0, "{python}: {hot}");
        // No sample ends in it, and its wait is in one line.
        assert!(code("asleep").contains("100.00 : 11       time.sleep(1.2)"), "{python}: {}", code("asleep"));
    }
}

/// Four threads take turns in a lock, then the main thread waits for another that sleeps.
const TURNS: &str = "\
import threading, time
lock = threading.Lock()
def turns():
    for _ in range(60):
        with lock:
            time.sleep(0.004)
threads = [threading.Thread(target=turns) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
";

#[test]
#[ignore = "live: records on this machine"]
fn a_lock_of_a_python_program_is_one_and_a_join_is_none() {
    let interpreters = interpreters();
    if interpreters.is_empty() || !is_readable() {
        return println!("skipped: no CPython 3.8 to 3.14 in its usual place, or no right to read it");
    }
    let folder = ScratchFolder::private("turns").expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("turns.py"), TURNS).expect("the program");
    for python in interpreters {
        let python = python.to_str().expect("plain");
        tally(folder, &["record", "--off-cpu", "-o", "p.data", "--", python, "turns.py"]);
        let findings: serde_json::Value =
            serde_json::from_str(&tally(folder, &["why", "--json", "-i", "p.data"])).expect("JSON");
        let findings = findings["findings"].as_array().expect("a list");
        // On a calm machine so little CPU is used that they are a convoy.
        let is_lock = |name: &serde_json::Value| name == "lock-contention" || name == "convoy";
        let lock = findings.iter().find(|finding| is_lock(&finding["name"]));
        let claim = lock.map_or("", |finding| finding["claim"].as_str().unwrap_or_default());
        assert!(claim.contains("taken in turns()"), "{python}: {findings:#?}");
        // Four of five threads wait for three quarters of the time; the fifth joins them.
        let share = lock.and_then(|finding| finding["share"].as_f64()).unwrap_or(0.0);
        assert!((0.5..0.8).contains(&share), "{python}: {share}");
        let threads = tally(folder, &["report", "--wall", "-i", "p.data"]);
        let named = threads.lines().filter(|line| line.contains(" turns() ")).count();
        assert_eq!(named, 4, "{python}: {threads}");
    }
}
