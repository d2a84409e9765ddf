//! An agent whose disk is full or read-only, and one that is killed while it stores.

use super::machine::{SmallDisk, TALLY, folder, run};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rounds of a second, one after the other, on a machine that other tests use as well.
const ROUNDS: [&str; 8] = ["agent", "--every", "1s", "--for", "1s", "--max-cpu", "400", "--no-off-cpu"];
const PATIENCE: Duration = Duration::from_secs(120);

/// An agent with its messages in a file.
struct RunningAgent {
    agent: Child,
    notes: PathBuf,
}

impl RunningAgent {
    fn start(to: &Path, name: &str) -> Self {
        let notes = folder("agent").join(format!("{name}.notes"));
        let file = std::fs::File::create(&notes).expect("target is writable");
        let mut command = Command::new(TALLY);
        command.args(ROUNDS).args(["--host", "web1", "--to"]).arg(to).stdout(Stdio::null()).stderr(file);
        Self { agent: command.spawn().expect("tally runs"), notes }
    }

    fn read(&self) -> String {
        std::fs::read_to_string(&self.notes).expect("its messages")
    }

    fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_there(&self.read()) {
            assert!(began.elapsed() < PATIENCE, "no {what}: {}", self.read());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends it by SIGTERM; its messages.
    fn end(mut self) -> String {
        let id = self.agent.id().to_string();
        assert!(Command::new("kill").arg(&id).status().is_ok_and(|sent| sent.success()));
        assert_eq!(self.agent.wait().expect("it ends").code(), Some(0));
        self.read()
    }
}

/// Files of both tables below a folder.
fn stored(root: &Path) -> Vec<PathBuf> {
    let list = Command::new("find").arg(root).args(["-name", "*.parquet"]).output().expect("find is there");
    String::from_utf8_lossy(&list.stdout).lines().map(PathBuf::from).collect()
}

fn can_record(at: &str) -> bool {
    let place = folder(at);
    let _ = std::fs::remove_dir_all(&place);
    let place = place.to_string_lossy().into_owned();
    let ran = run("", &[&ROUNDS[..], &["--rounds", "1", "--to", &place]].concat());
    let recorded = !stored(Path::new(&place)).is_empty();
    if !recorded {
        println!("skipped: can't record: {}", ran.notes);
    }
    recorded
}

fn assert_whole(root: &Path) {
    let root = root.to_string_lossy().into_owned();
    let hosts = run("", &["fleet", "hosts", "--from", &root]);
    assert!(hosts.status.success() && hosts.out.contains("web1"), "{hosts:#?}");
    assert!(!hosts.out.contains("NOT WHOLE") && hosts.notes.is_empty(), "{hosts:#?}");
}

/// The agent reports once what `break_it` does to its disk, and stores again after `mend_it`.
fn survives(name: &str, reason: &str, break_it: impl Fn(&SmallDisk), mend_it: impl Fn(&SmallDisk)) {
    if !can_record(&format!("agent-{name}-try")) {
        return;
    }
    let Some(disk) = SmallDisk::new(&format!("agent-{name}"), 4_000) else { return };
    break_it(&disk);
    let agent = RunningAgent::start(&disk.path, name);
    agent.wait_for(reason, |notes| notes.contains(reason));
    // Some more rounds that fail alike.
    std::thread::sleep(Duration::from_secs(5));
    mend_it(&disk);
    agent.wait_for("message that it stores again", |notes| notes.contains("stores again, after "));
    let notes = agent.end();
    // A busy machine may give another reason as well.
    let is_reported = |line: &&str| line.contains("left out, as all") && line.contains(reason);
    assert_eq!(notes.lines().filter(is_reported).count(), 1, "{notes}");
    assert_whole(&disk.path);
}

#[test]
#[ignore = "live: records on this machine"]
fn an_agent_reports_a_full_disk_once_and_stores_when_there_is_room() {
    let mend = |disk: &SmallDisk| std::fs::remove_file(disk.path.join("filler")).expect("it was full");
    survives("full", "No space left on device", |disk| disk.fill(0), mend);
}

#[test]
#[ignore = "live: records on this machine"]
fn an_agent_reports_a_read_only_disk_once_and_stores_when_it_may() {
    let remount = |disk: &SmallDisk, how: &str| {
        let mount = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&disk.path).status();
        assert!(mount.is_ok_and(|mount| mount.success()), "mounted before");
    };
    let reason = "Read-only file system";
    survives("read-only", reason, |disk| remount(disk, "ro"), |disk| remount(disk, "rw"));
}

#[test]
#[ignore = "live: records on this machine"]
fn an_agent_keeps_what_fits_and_the_newest_of_it() {
    if !can_record("agent-size-try") {
        return;
    }
    let place = folder("agent-size");
    let _ = std::fs::remove_dir_all(&place);
    let path = place.to_string_lossy().into_owned();
    let to = ["--to", &path, "--host", "web1"];
    let sizes =
        |files: &[PathBuf]| files.iter().map(|file| file.metadata().map_or(0, |m| m.len())).sum::<u64>();
    run("", &[&ROUNDS[..], &["--rounds", "2"], &to[..]].concat());
    let (before, bytes) = (stored(&place), sizes(&stored(&place)));
    assert_eq!(before.len(), 4);
    // Room for two rounds and a half of about that size.
    let most = (bytes + bytes / 4).to_string();
    run("", &[&ROUNDS[..], &["--rounds", "3", "--keep-size", &most], &to[..]].concat());
    let after = stored(&place);
    assert!(sizes(&after) <= bytes + bytes / 4 && !after.is_empty(), "{after:?}");
    assert!(before.iter().min().is_some_and(|oldest| !after.contains(oldest)), "{before:?} {after:?}");
    assert_whole(&place);
}

#[test]
#[ignore = "live: records on this machine"]
fn a_kill_while_an_agent_stores_leaves_no_half_file() {
    if !can_record("agent-killed-try") {
        return;
    }
    let place = folder("agent-killed");
    let _ = std::fs::remove_dir_all(&place);
    for tenths in [10, 12, 14, 16, 20, 30] {
        let mut agent = RunningAgent::start(&place, "killed").agent;
        std::thread::sleep(Duration::from_millis(tenths * 100));
        agent.kill().expect("it runs");
        agent.wait().expect("it ends");
    }
    // The commands of a killed agent may still be storing.
    std::thread::sleep(Duration::from_secs(5));
    let left = place.join("samples/date=2026-01-01/host=web1");
    std::fs::create_dir_all(&left).expect("target is writable");
    let half = left.join(".030500.parquet.unfinished");
    std::fs::write(&half, "PAR1").expect("target is writable");
    let path = place.to_string_lossy().into_owned();
    run("", &[&ROUNDS[..], &["--rounds", "1", "--host", "web1", "--to", &path]].concat());
    assert!(!half.exists(), "it was left by an agent before");
    let top = run("", &["fleet", "top", "--from", &path]);
    assert!(top.status.success() && top.notes.is_empty(), "{top:#?}");
}
