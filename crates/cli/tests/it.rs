//! The program as a whole: through a terminal, pipes and signals. What this machine can't do is skipped, visibly.

#[path = "it/autofdo.rs"]
mod autofdo;
#[path = "it/check.rs"]
mod check;
#[path = "it/debuginfod.rs"]
mod debuginfod;
#[path = "it/export.rs"]
mod export;
#[path = "it/go.rs"]
mod go;
#[path = "it/go_machine.rs"]
mod go_machine;
#[path = "it/jit.rs"]
mod jit;
#[path = "it/mcp.rs"]
mod mcp;
#[path = "it/python.rs"]
mod python;
#[path = "it/runtimes.rs"]
mod runtimes;
#[path = "it/stacks.rs"]
mod stacks;
#[path = "it/unnamed.rs"]
mod unnamed;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");

/// A recorded file, if the folder of recordings is there.
fn fixture(name: &str) -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures");
    let folder = std::env::var_os("TALLY_FIXTURES").map_or(beside, PathBuf::from);
    let file = folder.join("perfdata").join(name);
    if !file.is_file() {
        println!("skipped: no recording {name}");
        return None;
    }
    file.canonicalize().ok()
}

/// A tmux server of its own with one window; ends with the test.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// Starts `command` in 80×24; `None` without tmux.
    fn start(name: &str, command: &str) -> Option<Self> {
        let tmux = Self { socket: format!("tally-test-{name}-{}", std::process::id()) };
        let started = tmux.run(&["new-session", "-d", "-x", "80", "-y", "24", command]);
        if !started.is_some_and(|output| output.status.success()) {
            println!("skipped: tmux is not there, or can't start");
            return None;
        }
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> Option<Output> {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null"]).args(args).env_remove("TMUX");
        command.env("LC_ALL", "C.UTF-8").stderr(Stdio::null()).output().ok()
    }

    fn keys(&self, keys: &[&str]) {
        let args: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        let _ = self.run(&args);
    }

    /// The screen as soon as `test` likes it, else as it is after a while.
    fn screen(&self, test: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let output = self.run(&["capture-pane", "-p"]);
            let screen = output.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
            if test(&screen) || Instant::now() > deadline {
                return screen;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn pid(&self) -> Option<u32> {
        let output = self.run(&["list-panes", "-F", "#{pane_pid}"])?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.run(&["kill-server"]);
    }
}

fn report_in_tmux(name: &str) -> Option<Tmux> {
    let file = fixture("with-callchain.perf.data")?;
    let line = format!("exec {TALLY} report --tui --symfs /nonexistent -i {}", file.display());
    Tmux::start(name, &line)
}

#[test]
fn a_report_is_browsed_through_a_terminal() {
    let Some(tmux) = report_in_tmux("browse") else { return };
    // The view opens at once and fills while the file is read.
    let table = tmux.screen(|screen| screen.contains("Children") && !screen.contains("[reading"));
    assert!(table.contains("48,399 samples of cpu-clock"), "{table}");
    tmux.keys(&["f"]);
    let flame = tmux.screen(|screen| screen.contains("flame graph"));
    assert!(flame.contains("all"), "{flame}");
    tmux.keys(&["Escape", "?"]);
    let help = tmux.screen(|screen| screen.contains("Everywhere"));
    assert!(help.contains("callers and callees"), "{help}");
}

#[test]
fn a_report_ends_when_its_terminal_goes_away() {
    let Some(tmux) = report_in_tmux("gone") else { return };
    tmux.screen(|screen| screen.contains("Children"));
    let Some(pid) = tmux.pid() else { return println!("skipped: tmux does not report the pid") };
    drop(tmux);
    let deadline = Instant::now() + Duration::from_secs(20);
    while is_running(pid) {
        assert!(Instant::now() < deadline, "process {pid} still runs without its terminal");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Is it there, and no zombie?
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(TALLY)
        .args(["flame", "--folded", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tally starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("piped");
    for i in 0..10_000 {
        writeln!(input, "root;frame{i} 1").expect("tally reads all");
    }
    drop(input);
    let output = child.wait_with_output().expect("tally ends");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_version_is_one_line() {
    let output = Command::new(TALLY).arg("--version").output().expect("tally starts");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(line.starts_with(concat!("tally ", env!("CARGO_PKG_VERSION"), " ")), "{line}");
    assert!(line.ends_with(" +bpf +calls +timers\n") && line.lines().count() == 1, "{line}");
    let output = Command::new(TALLY).args(["version", "--build-options"]).output().expect("tally starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), line);
}
