//! apt-get on a machine where other programs use it too: waits for its locks, and retries a failure once.

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::{self, Finished};

const UPDATE_LIMIT: Duration = Duration::from_secs(180);
const INSTALL_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Limit of all waits for locks of other programs together.
const LOCK_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Reasons of apt-get and dpkg failures that have a remedy.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// Another program holds a lock.
    Locked,
    /// An earlier dpkg did not finish.
    Interrupted,
    Other,
}

impl Failure {
    /// Finds the reason in the program's English output.
    fn of(text: &str) -> Self {
        const LOCKED: &[&str] =
            &["Could not get lock", "Unable to acquire the dpkg frontend lock", "locked by another process"];
        if text.contains("dpkg was interrupted") || text.contains("dpkg --configure -a") {
            Self::Interrupted
        } else if LOCKED.iter().any(|words| text.contains(words)) {
            Self::Locked
        } else {
            Self::Other
        }
    }
}

/// The machine's package manager.
pub struct Apt {
    /// The command line of apt-get, without arguments.
    apt_get: Vec<OsString>,
    dpkg: Vec<OsString>,
    pause: Duration,
    wait_until: Instant,
}

impl Apt {
    /// The programs of this machine. The time for waits begins now.
    pub fn start() -> Self {
        Self {
            apt_get: vec!["apt-get".into()],
            dpkg: vec!["dpkg".into()],
            pause: Duration::from_secs(3),
            wait_until: Instant::now() + LOCK_LIMIT,
        }
    }

    /// Fetches the package lists.
    pub fn update(&self) {
        self.run(&["update"], UPDATE_LIMIT);
    }

    /// Installs the packages; true if apt-get succeeds.
    pub fn install(&self, packages: &[&str]) -> bool {
        let args = [&["install", "--no-install-recommends"], packages].concat();
        self.run(&args, INSTALL_LIMIT)
    }

    /// Runs apt-get, waits for locks, and retries a failure once.
    fn run(&self, args: &[&str], limit: Duration) -> bool {
        let line = args.join(" ");
        let mut failures = 0;
        let mut has_waited = false;
        loop {
            println!("apt-get {line}");
            let run = match process::capture(&mut self.apt_get(args), limit) {
                Ok(run) if run.ok() => return true,
                Ok(run) => run,
                Err(error) => {
                    println!("{error:#}");
                    return false;
                }
            };
            let failure = Failure::of(&said(&run));
            if failure == Failure::Locked && Instant::now() < self.wait_until {
                if !has_waited {
                    println!("another program is using apt; waiting for it\n{}", run.tail(2));
                }
                has_waited = true;
                std::thread::sleep(self.pause);
                continue;
            }
            println!("apt-get {line} failed: {}\n{}", run.how(), run.tail(6));
            failures += 1;
            if failures == 2 || failure == Failure::Locked {
                return false;
            }
            self.repair(&failure);
        }
    }

    fn apt_get(&self, args: &[&str]) -> Command {
        let mut command = command(&self.apt_get);
        // apt-get itself waits only for dpkg's locks; the locks of lists and archives fail at once.
        let wait = self.wait_until.saturating_duration_since(Instant::now()).as_secs();
        command
            .args(["-y", "-q", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"])
            .args(["-o", &format!("DPkg::Lock::Timeout={wait}")])
            .args(args)
            .env("NEEDRESTART_SUSPEND", "1");
        command
    }

    /// Finishes the work of an interrupted dpkg.
    fn repair(&self, failure: &Failure) {
        if *failure != Failure::Interrupted {
            println!("trying once more");
            return;
        }
        println!("an earlier dpkg was interrupted: running dpkg --configure -a, then trying once more");
        let mut command = command(&self.dpkg);
        command.args(["--configure", "-a"]);
        match process::capture(&mut command, INSTALL_LIMIT) {
            Ok(run) if run.ok() => {}
            Ok(run) => println!("dpkg --configure -a failed: {}\n{}", run.how(), run.tail(6)),
            Err(error) => println!("{error:#}"),
        }
    }
}

fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn said(run: &Finished) -> String {
    run.text() + &String::from_utf8_lossy(&run.stderr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    const LISTS: &str = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)";
    const INTERRUPTED: &str = "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the \
                               problem. ";

    /// An apt-get that prints one of the texts per run and fails, and then succeeds. Runs of dpkg are noted in the log.
    fn apt(name: &str, failures: &[&str]) -> (Apt, PathBuf) {
        let folder = std::env::temp_dir().join(format!("xtask-apt-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (at, text) in failures.iter().enumerate() {
            std::fs::write(folder.join(format!("fails-{at}")), text).expect("a file");
        }
        let log = folder.join("log");
        let here = folder.display();
        let script = format!(
            "cd {here}; echo apt-get >> log; for f in fails-*; do [ -f $f ] || exit 0; cat $f >&2; rm $f; exit 100; done"
        );
        let apt_get = program(&folder.join("apt-get"), &script);
        let dpkg = program(&folder.join("dpkg"), &format!("echo dpkg \"$@\" >> {here}/log"));
        let wait_until = Instant::now() + Duration::from_secs(600);
        (Apt { apt_get, dpkg, pause: Duration::ZERO, wait_until }, log)
    }

    /// A shell reads the script, because a new file may still be open for writing in a child of another test.
    fn program(path: &Path, script: &str) -> Vec<OsString> {
        std::fs::write(path, script).expect("a file");
        vec!["sh".into(), path.into()]
    }

    fn runs(log: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(log).expect("something ran");
        std::fs::remove_dir_all(log.parent().expect("it is in a folder")).expect("it is ours");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_lock_is_waited_for_as_often_as_it_is_held() {
        let (apt, log) = apt("locked", &[LISTS, LISTS, LISTS]);
        assert!(apt.install(&["gdb"]));
        assert_eq!(runs(&log), ["apt-get"; 4]);
    }

    #[test]
    fn a_lock_is_not_waited_for_for_ever() {
        let (mut apt, log) = apt("locked-for-ever", &[LISTS, LISTS]);
        apt.wait_until = Instant::now();
        assert!(!apt.install(&["gdb"]));
        assert_eq!(runs(&log), ["apt-get"]);
    }

    #[test]
    fn an_interrupted_dpkg_is_finished_first() {
        let (apt, log) = apt("interrupted", &[INTERRUPTED]);
        assert!(apt.install(&["gdb"]));
        assert_eq!(runs(&log), ["apt-get", "dpkg --configure -a", "apt-get"]);
    }

    #[test]
    fn any_other_failure_is_tried_once_more_and_no_more() {
        const DPKG: &str = "E: Sub-process /usr/bin/dpkg returned an error code (1)";
        for (name, failures, is_installed) in [("once", &[DPKG][..], true), ("twice", &[DPKG; 3], false)] {
            let (apt, log) = apt(name, failures);
            assert_eq!(apt.install(&["gdb"]), is_installed);
            assert_eq!(runs(&log), ["apt-get"; 2]);
        }
    }

    #[test]
    fn each_of_the_locks_is_known_by_what_apt_prints() {
        for text in [
            LISTS,
            "E: Could not get lock /var/cache/apt/archives/lock. It is held by process 9 (apt-get)",
            "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
            "dpkg: error: dpkg frontend lock was locked by another process with pid 9",
        ] {
            assert_eq!(Failure::of(text), Failure::Locked, "{text}");
        }
        assert_eq!(Failure::of(INTERRUPTED), Failure::Interrupted);
        assert_eq!(Failure::of("E: Unable to locate package linux-perf"), Failure::Other);
    }
}
