//! Ends of a recording from outside: for each recorder and each signal the file is good, the command is ended,
//! processes that tally attached to live on, and no process or temporary file is left.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");
const MARK: &str = "TALLY_SIGNALS_TEST";
/// The signals, and how the shell shows a program that they ended.
const SIGNALS: [(&str, i32); 4] = [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)];
const PATIENCE: Duration = Duration::from_secs(90);

/// Calls a function for ever; its first argument is a file to make when it has done so for a while, its second may be a
/// set of signals to ignore.
const SOURCE: &str = "#include <fcntl.h>\n#include <signal.h>\n#include <string.h>\n#include <unistd.h>\n\
    __attribute__((noinline)) int step(int n) { usleep(1000); return n + 1; }\n\
    int main(int count, char **args) {\n\
      if (count > 2 && strchr(args[2], 'i')) signal(SIGINT, SIG_IGN);\n\
      if (count > 2 && strchr(args[2], 't')) signal(SIGTERM, SIG_IGN);\n\
      for (int n = 0;; n = step(n)) if (n == 20 && count > 1) close(open(args[1], O_CREAT | O_RDWR, 0600));\n\
    }\n";

/// A folder with the programs, for one test.
struct TestFolder {
    dir: PathBuf,
}

impl TestFolder {
    /// `None`, and reported, without gcc or the right to record by `probe`.
    fn new(name: &str, probe: &[&str]) -> Option<Self> {
        let dir = std::env::temp_dir().join(format!("tally-signals-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("tmp")).expect("a folder");
        let folder = Self { dir };
        fs::write(folder.path("program.c"), SOURCE).expect("ours");
        for (program, flags) in [("plain", "-g"), ("traced", "-finstrument-functions")] {
            let built = Command::new("gcc")
                .args(["-O1", flags, "-o"])
                .args([folder.path(program), folder.path("program.c")])
                .status();
            if !built.is_ok_and(|built| built.success()) {
                println!("skipped: no gcc");
                return None;
            }
        }
        let mut tried = folder.tally(probe, 0);
        let tried = tried.stderr(Stdio::piped()).output().expect("tally runs");
        if !tried.status.success() {
            println!(
                "skipped: {}",
                String::from_utf8_lossy(&tried.stderr).lines().next().unwrap_or_default()
            );
            return None;
        }
        Some(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// `tally` with `args`, in which `DIR` is replaced by the folder and `PID` by a process.
    fn tally(&self, args: &[&str], pid: u32) -> Command {
        let dir = self.dir.display().to_string();
        let mut command = Command::new("env");
        // Tests in the background of a script, or under nohup, inherit ignored signals.
        command.args(["--default-signal=INT,TERM,HUP,QUIT", TALLY]);
        command.args(args.iter().map(|arg| arg.replace("DIR", &dir).replace("PID", &pid.to_string())));
        command.env("TMPDIR", self.path("tmp")).env(MARK, &self.dir).current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn clear(&self) {
        let _ = fs::remove_dir_all(self.path("out"));
        let _ = fs::remove_file(self.path("out"));
        let _ = fs::remove_file(self.path("ready"));
    }

    /// Whether a thread's calls are in the folder.
    fn has_calls(&self) -> bool {
        let files = fs::read_dir(self.path("out")).into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|path| path.extension().is_some_and(|end| end == "calls"))
    }

    /// Nothing of a recording may be left but its output.
    fn assert_nothing_left(&self, what: &str) {
        // A process that was sent KILL may not be gone yet.
        let begin = Instant::now();
        while !marked(&self.dir).is_empty() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(marked(&self.dir), Vec::<String>::new(), "{what}: processes are left");
        let files: Vec<_> = fs::read_dir(self.path("tmp")).expect("ours").flatten().collect();
        assert!(files.is_empty(), "{what}: {files:?}");
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A process that was running before; it has no mark.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Commands of processes that tally of this test has started.
fn marked(dir: &Path) -> Vec<String> {
    let mark = format!("{MARK}={}", dir.display());
    let processes = fs::read_dir("/proc").expect("it is mounted").flatten();
    let is_marked = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let ours = processes.map(|entry| entry.path()).filter(|path| is_marked(path));
    ours.map(|path| fs::read_to_string(path.join("cmdline")).unwrap_or_default().replace('\0', " ")).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the process waits for signals.
fn reads_signals(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|link| link.ends_with("anon_inode:[signalfd]"))
}

fn send(signal: &str, pid: u32) {
    // It may have ended meanwhile.
    let _ =
        Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).stderr(Stdio::null()).status();
}

fn end_of(child: &mut Child, what: &str) -> ExitStatus {
    let mut end = None;
    wait_until(&format!("{what}: it goes on"), || {
        end = child.try_wait().expect("our child");
        end.is_some()
    });
    end.expect("waited for")
}

/// Runs the recorder once for each signal. Commands that attach end with 0; `None` is the code of a shell.
fn end_by_signals(folder: &TestFolder, args: &[&str], code: Option<i32>, check: &dyn Fn(&str)) {
    for (signal, shell_code) in SIGNALS {
        folder.clear();
        let what = format!("{} and SIG{signal}", args.join(" "));
        let attaches = args.contains(&"PID");
        let mut victim = attaches.then(|| {
            let mut command = Command::new(folder.path("plain"));
            Victim(command.arg(folder.path("ready")).spawn().expect("it runs"))
        });
        let mut tally =
            folder.tally(args, victim.as_ref().map_or(0, |victim| victim.0.id())).spawn().expect("it runs");
        let has_command = args.iter().any(|arg| arg.ends_with("ready"));
        let keeps_calls = args.starts_with(&["calls", "record"]);
        wait_until(&format!("{what}: it does not begin"), || {
            reads_signals(tally.id())
                && (!has_command && !attaches || folder.path("ready").exists())
                && (!keeps_calls || folder.has_calls())
        });
        send(signal, tally.id());
        let end = end_of(&mut tally, &what);
        assert_eq!((end.code(), end.signal()), (Some(code.unwrap_or(shell_code)), None), "{what}");
        folder.assert_nothing_left(&what);
        let is_alive = victim.as_mut().is_none_or(|victim| victim.0.try_wait().expect("ours").is_none());
        assert!(is_alive, "{what}: the process was not ours to end");
        check(&what);
    }
}

/// Checks that tally reads what it wrote.
fn reads<'p>(folder: &'p TestFolder, args: &'p [&'p str], wanted: &'p str) -> impl Fn(&str) + 'p {
    move |what| {
        let mut reader = folder.tally(args, 0);
        let read = reader.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("tally runs");
        let (text, why) = (String::from_utf8_lossy(&read.stdout), String::from_utf8_lossy(&read.stderr));
        assert!(read.status.success() && text.contains(wanted), "{what}: {text}{why}");
    }
}

const SAMPLES: [&str; 4] = ["report", "--stdio", "-i", "DIR/out"];
const CALLS: [&str; 3] = ["calls", "-i", "DIR/out"];
const COUNTS: [&str; 5] = ["stat", "-e", "task-clock", "-o", "DIR/out"];

#[test]
#[ignore = "live: records on this machine"]
fn record_ends_with_its_command_or_leaves_the_process_alone() {
    let Some(folder) = TestFolder::new("record", &["record", "-o", "DIR/out", "true"]) else { return };
    let record = ["record", "-e", "task-clock", "-o", "DIR/out"];
    let check = reads(&folder, &SAMPLES, "");
    end_by_signals(&folder, &[&record[..], &["--", "DIR/plain", "DIR/ready"]].concat(), None, &check);
    end_by_signals(&folder, &[&record[..], &["-p", "PID"]].concat(), Some(0), &check);
}

#[test]
#[ignore = "live: records on this machine"]
fn a_command_that_is_a_stopwatch_is_ended_by_term() {
    let Some(folder) = TestFolder::new("watch", &["record", "-a", "-o", "DIR/out", "true"]) else { return };
    let args = ["record", "-a", "-e", "task-clock", "-o", "DIR/out", "--", "DIR/plain", "DIR/ready"];
    end_by_signals(&folder, &args, Some(143), &reads(&folder, &SAMPLES, ""));
}

#[test]
#[ignore = "live: records on this machine"]
fn run_shows_its_screen() {
    let Some(folder) = TestFolder::new("run", &["record", "-o", "DIR/out", "true"]) else { return };
    let args = ["run", "-o", "DIR/out", "--", "DIR/plain", "DIR/ready"];
    end_by_signals(&folder, &args, None, &reads(&folder, &SAMPLES, ""));
}

#[test]
#[ignore = "live: records on this machine"]
fn stat_prints_its_counts() {
    let Some(folder) = TestFolder::new("stat", &["stat", "-e", "task-clock", "true"]) else { return };
    let check = |what: &str| {
        let text = fs::read_to_string(folder.path("out")).unwrap_or_default();
        assert!(text.contains("seconds time elapsed"), "{what}: {text}");
    };
    end_by_signals(&folder, &[&COUNTS[..], &["--", "DIR/plain", "DIR/ready"]].concat(), None, &check);
    end_by_signals(&folder, &[&COUNTS[..], &["-p", "PID"]].concat(), Some(0), &check);
}

#[test]
#[ignore = "live: records on this machine"]
fn calls_of_a_preloaded_program_are_kept() {
    let Some(folder) = TestFolder::new("preload", &["stat", "-e", "task-clock", "true"]) else { return };
    let check = reads(&folder, &CALLS, "step");
    for more in [&[][..], &["--no-switches"]] {
        let args = [&["calls", "record", "-o", "DIR/out"], more, &["--", "DIR/traced", "DIR/ready"]].concat();
        end_by_signals(&folder, &args, None, &check);
    }
    end_by_signals(&folder, &["calls", "live", "--", "DIR/traced", "DIR/ready"], None, &|_| ());
}

#[test]
#[ignore = "live: records on this machine"]
fn calls_by_uprobes_are_kept() {
    let by_uprobes = ["-o", "DIR/out", "-P", "step"];
    let probe = [&["calls", "record"], &by_uprobes[..], &["-d", "0.1", "--", "DIR/plain"]].concat();
    let Some(folder) = TestFolder::new("uprobes", &probe) else { return };
    let record = [&["calls", "record"], &by_uprobes[..]].concat();
    let live = ["calls", "live", "-P", "step"];
    let check = reads(&folder, &CALLS, "");
    end_by_signals(&folder, &[&record[..], &["--", "DIR/plain", "DIR/ready"]].concat(), None, &check);
    end_by_signals(&folder, &[&record[..], &["-p", "PID"]].concat(), Some(0), &check);
    end_by_signals(&folder, &[&live[..], &["--", "DIR/plain", "DIR/ready"]].concat(), None, &|_| ());
    end_by_signals(&folder, &[&live[..], &["-p", "PID"]].concat(), Some(0), &|_| ());
}

#[test]
#[ignore = "live: records on this machine"]
fn top_ends_at_once() {
    let Some(folder) = TestFolder::new("top", &["record", "-a", "-o", "DIR/out", "true"]) else { return };
    end_by_signals(&folder, &["top", "--stdio", "-d", "60"], None, &|_| ());
    end_by_signals(&folder, &["top", "--stdio", "-d", "60", "-p", "PID"], None, &|_| ());
}

#[test]
#[ignore = "live: records on this machine"]
fn io_shows_what_it_has() {
    let Some(folder) = TestFolder::new("io", &["io", "-a", "-o", "DIR/out", "true"]) else { return };
    for more in [&[][..], &["--trace"]] {
        let args = [&["io", "-a", "-o", "DIR/out"], more, &["--", "DIR/plain", "DIR/ready"]].concat();
        end_by_signals(&folder, &args, Some(143), &|_| ());
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn a_reader_that_goes_away_ends_the_recording_and_its_command() {
    let Some(folder) = TestFolder::new("pipe", &["record", "-a", "-o", "DIR/out", "true"]) else { return };
    let cases: [&[&str]; 4] = [
        &["record", "-o", "-", "--", "DIR/plain", "DIR/ready"],
        &["calls", "live", "--interval", "60", "--", "DIR/traced", "DIR/ready"],
        &["calls", "live", "--interval", "0.1", "--", "DIR/traced", "DIR/ready"],
        &["top", "--stdio", "-d", "60"],
    ];
    for args in cases {
        folder.clear();
        let what = args.join(" ");
        let mut tally = folder.tally(args, 0);
        let mut tally = tally.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let has_command = args.iter().any(|arg| arg.ends_with("ready"));
        wait_until(&what, || reads_signals(tally.id()) && (!has_command || folder.path("ready").exists()));
        drop(tally.stdout.take());
        end_of(&mut tally, &what);
        let mut text = String::new();
        tally.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
        assert!(!text.contains("Broken pipe"), "{what}: {text}");
        folder.assert_nothing_left(&what);
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn nohup_keeps_a_recording_going() {
    let Some(folder) = TestFolder::new("nohup", &["record", "-o", "DIR/out", "true"]) else { return };
    let tally = folder.tally(&["record", "-o", "DIR/out", "--", "DIR/plain", "DIR/ready"], 0);
    let mut nohup = Command::new("env");
    nohup.args(["--default-signal=INT,TERM,QUIT", "nohup"]);
    nohup.args(tally.get_args().skip(1)).env(MARK, &folder.dir).env("TMPDIR", folder.path("tmp"));
    let mut tally = nohup.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    wait_until("it begins", || reads_signals(tally.id()) && folder.path("ready").exists());
    send("HUP", tally.id());
    send("TERM", tally.id());
    assert_eq!(end_of(&mut tally, "nohup").code(), Some(143), "HUP would have been first");
    folder.assert_nothing_left("nohup");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_command_that_ignores_signals_is_ended_all_the_same() {
    let Some(folder) = TestFolder::new("stubborn", &["record", "-o", "DIR/out", "true"]) else { return };
    let record = ["record", "-o", "DIR/out", "--", "DIR/plain", "DIR/ready"];
    let calls = ["calls", "record", "-o", "DIR/out", "--", "DIR/traced", "DIR/ready"];
    for (args, ignored, code) in [(&record[..], "i", 143), (&record[..], "it", 137), (&calls[..], "it", 137)]
    {
        folder.clear();
        let what = format!("{} {ignored}", args.join(" "));
        let mut command = folder.tally(args, 0);
        // Not the group of this test: a shell would send them to all of its own.
        let mut tally = command.arg(ignored).process_group(0).spawn().expect("it runs");
        wait_until(&what, || reads_signals(tally.id()) && folder.path("ready").exists());
        let begin = Instant::now();
        while tally.try_wait().expect("our child").is_none() {
            assert!(begin.elapsed() < PATIENCE, "{what}: it goes on");
            if marked(&folder.dir)
                .iter()
                .any(|command| command.starts_with(&folder.dir.display().to_string()))
            {
                send("INT", tally.id());
            }
            // Signals of one moment are one request.
            std::thread::sleep(Duration::from_millis(400));
        }
        assert_eq!(tally.wait().expect("our child").code(), Some(code), "{what}");
        folder.assert_nothing_left(&what);
    }
}
