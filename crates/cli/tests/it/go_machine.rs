//! Goroutines of the whole machine's Go programs.

use super::TALLY;
use super::go::builds_waits;
use record::scratch::ScratchFolder;
use std::process::Command;

#[test]
#[ignore = "live: records on this machine"]
fn goroutines_of_the_whole_machine_are_counted_by_program() {
    let folder = ScratchFolder::private("go-machine").expect("a folder");
    let folder = folder.path();
    if !builds_waits(folder, "") {
        return;
    }
    // Tests that run meanwhile have the program under its own name.
    std::fs::rename(folder.join("waits"), folder.join("waits-all")).expect("ours");
    let mut waits = Command::new(folder.join("waits-all"));
    let mut running = waits.args(["60", "40", "3", "5"]).spawn().expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let recorded = Command::new(TALLY).args(["run", "-a", "--", "sleep", "4"]).current_dir(folder).output();
    let recorded = recorded.expect("tally runs");
    running.kill().and_then(|()| running.wait()).expect("ours");
    if !folder.join("perf.data").is_file() {
        return println!("skipped: can't record: {}", String::from_utf8_lossy(&recorded.stderr));
    }
    let mut report = Command::new(TALLY);
    report.args(["report", "--wall", "--stdio", "--rows", "200"]).current_dir(folder);
    let wall = String::from_utf8_lossy(&report.output().expect("tally runs").stdout).into_owned();
    for (count, place) in [
        (40.0, "wait for a mutex in main.locked "),
        (3.0, "wait for an RWMutex in main.reads "),
        (5.0, "wait to receive from a channel in main.receives "),
    ] {
        // Several programs have their names.
        let is_own = |line: &&str| !line.contains(" of ") || line.contains(" of waits-all");
        let line = wall.lines().filter(|line| line.contains(place)).find(is_own).unwrap_or_default();
        let average = line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        // All waited before the recording began.
        assert!(average.is_some_and(|found| (found / count - 1.0).abs() < 0.05), "{place}: {line}: {wall}");
    }
}
