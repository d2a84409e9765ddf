//! Targets as people name them: containers, units, programs, pid files and users, in real cgroups and namespaces.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("containers-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    folder
}

/// `ticks` under a name of its own; `None` without a compiler.
fn program(name: &str, folder: &Path) -> Option<PathBuf> {
    compiled("ticks", name, folder)
}

/// A test program as `name`.
fn compiled(source: &str, name: &str, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{source}.c"));
    let built = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-pthread", "-o"]).arg(&built).arg(source);
    if !compiler.status().is_ok_and(|status| status.success()) {
        println!("skipped: there is no C compiler");
        return None;
    }
    Some(built)
}

fn tally(folder: &Path, args: &[&str]) -> Output {
    let output = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally starts");
    assert!(output.status.success(), "{args:?}: {output:?}");
    output
}

/// The words after the share, of each row of a report of all its events, each once.
fn rows(folder: &Path, keys: &str) -> Vec<String> {
    let args = ["report", "--stdio", "--no-children", "-g", "none", "--sort", keys];
    let text = String::from_utf8_lossy(&tally(folder, &args).stdout).into_owned();
    let mut found = Vec::new();
    for row in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let row = row.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
        if !found.contains(&row) {
            found.push(row);
        }
    }
    found
}

/// A process that is killed with its test.
struct Target(Child);

impl Target {
    fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(500));
        Self(child)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cgroup of the second version, removed with its test.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None` if none may be made here.
    fn make(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let path = words.next()?;
            (words.next() == Some("cgroup2")).then(|| path.to_owned())
        });
        let made =
            mount.map(|mount| Path::new(&mount).join(name)).filter(|path| std::fs::create_dir(path).is_ok());
        if made.is_none() {
            println!("skipped: no cgroup can be made here");
        }
        made.map(Self)
    }

    fn take(&self, target: &Target) {
        std::fs::write(self.0.join("cgroup.procs"), target.0.id().to_string()).expect("ours");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let begin = Instant::now();
        while std::fs::remove_dir(&self.0).is_err() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The names of the threads that a recording has times of.
fn threads(folder: &Path) -> Vec<String> {
    let wall = tally(folder, &["report", "--wall", "--stdio", "--idle"]);
    let text = String::from_utf8_lossy(&wall.stdout).into_owned();
    let rows = text.lines().skip_while(|line| !line.starts_with("THREADS")).skip(2);
    let rows = rows.take_while(|line| !line.trim().is_empty());
    rows.filter_map(|row| row.split_whitespace().rev().nth(1).map(str::to_owned)).collect()
}

#[test]
#[ignore = "machine: makes a cgroup"]
fn a_container_is_recorded_by_its_id_without_threads_of_others() {
    let folder = folder("by-id");
    let id = format!("{:08x}{}", std::process::id(), "0123456789abcdef".repeat(4))[..64].to_owned();
    let Some(program) = program("inside", &folder) else { return };
    let Some(cgroup) = Cgroup::make(&format!("docker-{id}.scope")) else { return };
    let target = Target::start(Command::new(&program).arg("60"));
    cgroup.take(&target);
    for tier in ["a", "b", "c"] {
        let tier = format!("--off-cpu-tier={tier}");
        let container = &id[..12];
        tally(&folder, &["record", "--off-cpu", &tier, "--container", container, "--", "sleep", "1"]);
        assert_eq!(rows(&folder, "comm"), ["inside"], "{tier}");
        assert_eq!(rows(&folder, "container"), [container], "{tier}: also its waits before the first sample");
        let threads = threads(&folder);
        assert!(
            !threads.is_empty() && threads.iter().all(|name| name.starts_with("inside") || name == "work()"),
            "{tier}: {threads:?}"
        );
    }
    drop(target);
}

#[test]
#[ignore = "machine: makes cgroups"]
fn a_unit_is_recorded_by_its_name_without_threads_of_others() {
    let folder = folder("by-unit");
    let (unit, slice) =
        (format!("ticks-{}", std::process::id()), format!("tally-{}.slice", std::process::id()));
    let path = format!("{slice}/{unit}.service");
    let Some(program) = program("inside", &folder) else { return };
    let Some(_slice) = Cgroup::make(&slice) else { return };
    let Some(cgroup) = Cgroup::make(&path) else { return };
    let target = Target::start(Command::new(&program).arg("60"));
    cgroup.take(&target);
    for name in [unit.clone(), format!("{unit}.service")] {
        tally(&folder, &["record", "--unit", &name, "--", "sleep", "1"]);
        assert_eq!(rows(&folder, "comm"), ["inside"], "{name}");
        assert_eq!(rows(&folder, "cgroup"), [format!("/{path}")], "{name}");
    }
    let other = ["record", "--unit", "no-such-unit", "--", "true"];
    let refused = Command::new(TALLY).args(other).current_dir(&folder).output().expect("tally starts");
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && errors.contains("; known: "), "{errors}");
    drop(target);
}

#[test]
#[ignore = "machine: makes a cgroup"]
fn a_report_groups_the_machine_by_container_and_cgroup() {
    let folder = folder("grouped");
    let id =
        format!("{:08x}{}", std::process::id() ^ 0x7f00_0000, "fedcba9876543210".repeat(4))[..64].to_owned();
    let Some(program) = program("inside", &folder) else { return };
    let Some(cgroup) = Cgroup::make(&format!("libpod-{id}.scope")) else { return };
    let target = Target::start(Command::new(&program).arg("60"));
    cgroup.take(&target);
    tally(&folder, &["record", "-a", "--all-cgroups", "--", "sleep", "1"]);
    let pairs = rows(&folder, "container,comm");
    assert!(pairs.contains(&format!("{} inside", &id[..12])), "{pairs:?}");
    assert!(rows(&folder, "cgroup").contains(&format!("/libpod-{id}.scope")));
    let containers = rows(&folder, "container");
    assert!(containers.iter().any(|name| name == "[no container]"), "{containers:?}");
    drop(target);
}

#[test]
#[ignore = "machine: makes a cgroup"]
fn samples_of_timers_have_their_cgroup_and_so_have_waits() {
    let folder = folder("timers");
    let name = format!("tally-timers-{}", std::process::id());
    let Some(program) = program("inside", &folder) else { return };
    let Some(filter) = compiled("as_in_docker", "as_in_docker", &folder) else { return };
    let Some(cgroup) = Cgroup::make(&name) else { return };
    let script = format!(
        "echo 0 > {}/cgroup.procs && exec {} {TALLY} record --off-cpu --all-cgroups -- {} 1",
        cgroup.0.display(),
        filter.display(),
        program.display()
    );
    let output = Command::new("sh").args(["-c", &script]).current_dir(&folder).output().expect("sh starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("timers sample the program"), "{errors}");
    assert_eq!(rows(&folder, "cgroup,comm"), [format!("/{name} inside")]);
    assert_eq!(rows(&folder, "container"), ["[no container]"]);
}

#[test]
#[ignore = "live: records, makes namespaces"]
fn a_program_that_only_its_mount_namespace_sees_has_its_names() {
    let folder = folder("namespaces");
    let Some(program) = program("hidden", &folder) else { return };
    let script = format!(
        "mount -t tmpfs none /mnt && cp {} /mnt/tally-hidden && exec /mnt/tally-hidden 60",
        program.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", &script]);
    let target = Target::start(&mut command);
    if Path::new("/mnt/tally-hidden").exists() || !names_a_process("tally-hidden") {
        println!("skipped: no namespaces can be made here");
        return;
    }
    tally(&folder, &["record", "-p", "tally-hidden", "--", "sleep", "1"]);
    let functions = rows(&folder, "dso,sym");
    assert_eq!(functions.first().map(String::as_str), Some("tally-hidden [.] compute"), "{functions:?}");
    drop(target);
}

fn names_a_process(name: &str) -> bool {
    let comm = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("comm")).ok();
    let mut names = std::fs::read_dir("/proc").expect("there is a /proc").flatten().filter_map(comm);
    names.any(|comm| comm.trim_end() == name)
}

#[test]
#[ignore = "live: records processes by name, file and user"]
fn processes_are_recorded_by_name_by_pid_file_and_by_user() {
    let folder = folder("named");
    let (Some(one), Some(two)) = (program("first-one", &folder), program("second-one", &folder)) else {
        return;
    };
    let _first = Target::start(Command::new(&one).arg("60"));
    let second = Target::start(Command::new(&two).arg("60"));
    tally(&folder, &["record", "-p", "first-one", "--", "sleep", "1"]);
    assert_eq!(rows(&folder, "comm"), ["first-one"]);
    std::fs::write(folder.join("second.pid"), format!("{}\n", second.0.id())).expect("ours");
    let file = folder.join("second.pid");
    tally(&folder, &["record", "-p", &file.to_string_lossy(), "--", "sleep", "1"]);
    assert_eq!(rows(&folder, "comm"), ["second-one"]);
    tally(&folder, &["record", "-p", "first-one,second-one", "--", "sleep", "1"]);
    let mut both = rows(&folder, "comm");
    both.sort();
    assert_eq!(both, ["first-one", "second-one"]);
    const USER: u32 = 54_321;
    let mut command = Command::new(&one);
    let Ok(child) = command.arg("60").uid(USER).stdout(Stdio::null()).spawn() else {
        println!("skipped: only root can start programs of other users");
        return;
    };
    let _other = Target(child);
    std::thread::sleep(Duration::from_millis(300));
    tally(&folder, &["record", "-u", &USER.to_string(), "--", "sleep", "1"]);
    assert_eq!(rows(&folder, "comm"), ["first-one"]);
}
