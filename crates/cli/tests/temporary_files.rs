//! Temporary folders: another user who makes a name first, or plants a link, gets nothing of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");

/// A folder for temporary files, as everybody may write `/tmp`; removed with the test.
struct Shared(PathBuf);

impl Shared {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tally-test-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)).expect("ours");
        fs::write(path.join("victim"), "precious").expect("ours");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs `script` here with `TMPDIR` set; `$$` in it is the process id of the `tally` it executes.
    fn run(&self, script: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&self.0);
        command.env("TMPDIR", &self.0).env("TALLY", TALLY).output().expect("sh")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("ours").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn assert_untouched(&self, victim: &str) {
        assert_eq!(fs::read(self.path(victim)).ok().as_deref(), Some(&b"precious"[..]), "{victim}");
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that records its own calls and runs its first argument in a shell; `None` (and reported) without gcc.
fn instrumented(dir: &Path) -> Option<PathBuf> {
    const SOURCE: &str = "#include <stdlib.h>\nint f(int n) { return n + 1; }\n\
        int main(int n, char **args) { return n > 1 && system(args[1]) + f(n) < 0; }\n";
    fs::write(dir.join("program.c"), SOURCE).expect("ours");
    let program = dir.join("program");
    let built = Command::new("gcc").args(["-pg", "-o"]).arg(&program).arg(dir.join("program.c")).output();
    if !built.is_ok_and(|built| built.status.success()) {
        println!("skipped: no gcc that knows -pg");
        return None;
    }
    Some(program)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "live: records on this machine"]
fn a_planted_folder_is_not_where_the_recorder_is_loaded_from() {
    let shared = Shared::new("recorder");
    if instrumented(&shared.0).is_none() {
        return;
    }
    let output = shared.run(
        "mkdir tally-recorder-$$ && ln -s $TMPDIR/victim tally-recorder-$$/libtally_calls.so
         exec $TALLY calls record -q -o 'with space' ./program 'ls -ld $TMPDIR/tally-recorder-*'",
    );
    shared.assert_untouched("victim");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let made: Vec<&str> = listed.lines().filter(|line| line.starts_with("drwx--x--x")).collect();
    assert_eq!(made.len(), 1, "{listed}{}", stderr(&output));
    let random = made[0].rsplit('-').next().unwrap_or_default();
    assert!(random.len() == 20 && random.bytes().all(|digit| digit.is_ascii_hexdigit()), "{listed}");
    let left: Vec<String> = shared.names().into_iter().filter(|name| name.ends_with(random)).collect();
    assert_eq!(left, Vec::<String>::new(), "it is removed");
    let calls = Command::new(TALLY).args(["calls", "-i"]).arg(shared.path("with space")).output();
    let calls = String::from_utf8_lossy(&calls.expect("tally").stdout).into_owned();
    assert!(calls.contains("main"), "{calls}{}", stderr(&output));
}

#[test]
#[ignore = "live: records on this machine"]
fn a_folder_that_others_may_rename_is_not_where_the_recorder_is_loaded_from() {
    let shared = Shared::new("open");
    if instrumented(&shared.0).is_none() {
        return;
    }
    let open = shared.path("open");
    fs::create_dir(&open).expect("ours");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
    let output = shared.run("exec $TALLY calls record -q -o open/calls ./program 'echo $LD_PRELOAD'");
    let preloaded = String::from_utf8_lossy(&output.stdout).into_owned();
    let apart = format!("{}/tally-recorder-", shared.0.display());
    assert!(preloaded.starts_with(&apart), "{preloaded}{}", stderr(&output));
}

#[test]
#[ignore = "live: records on this machine"]
fn a_planted_link_is_not_followed_by_top() {
    let shared = Shared::new("top");
    let output = shared.run(
        "mkdir tally-top-$$ && ln -s $TMPDIR/victim tally-top-$$/0.data
         exec $TALLY top --stdio --iterations 1 -d 1",
    );
    shared.assert_untouched("victim");
    if !output.status.success() {
        return println!("skipped: {}", stderr(&output));
    }
    let made = shared.names().into_iter().filter(|name| name.starts_with("tally-"));
    assert_eq!(made.count(), 1, "only the planted one: {:?}", shared.names());
}

#[test]
#[ignore = "live: records on this machine"]
fn a_planted_folder_is_left_alone_by_calls_live() {
    let shared = Shared::new("live");
    if instrumented(&shared.0).is_none() {
        return;
    }
    symlink(shared.path("victim"), shared.path("link")).expect("ours");
    let output = shared.run(
        "mkdir tally-live-$$ && cp -P victim link tally-live-$$ && printf tallysl1 > tally-live-$$/sleds
         echo $$ > pid
         exec $TALLY calls live ./program 'ls -d $TMPDIR/tally-live-*'",
    );
    let pid = fs::read_to_string(shared.path("pid")).expect("written");
    shared.assert_untouched(&format!("tally-live-{}/victim", pid.trim()));
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("main"), "{listed}{}", stderr(&output));
    assert_eq!(shared.names().iter().filter(|name| name.starts_with("tally-live-")).count(), 1);
}

#[test]
#[ignore = "live: records on this machine"]
fn the_recorder_follows_no_link_in_its_folder() {
    let shared = Shared::new("links");
    let program = shared.path("program");
    fs::write(shared.path("program.c"), "int f(int n) { return n + 1; }\nint main(void) { return f(-1); }\n")
        .expect("ours");
    let built = Command::new("gcc")
        .args(["-O0", "-fpatchable-function-entry=5", "-o"])
        .args([&program, &shared.path("program.c")])
        .status();
    if !built.is_ok_and(|built| built.success()) {
        return println!("skipped: no gcc that knows -fpatchable-function-entry");
    }
    // The recorder's list of functions, which is first a link and then a file.
    let output = shared.run(
        "$TALLY calls record -q --no-switches -o calls ./program || exit 1
         mv calls/sleds list && ln -s ../list calls/sleds
         for step in link file; do
           rm -f calls/*.calls
           TALLY_CALLS_DIR=$PWD/calls LD_PRELOAD=$PWD/calls/libtally_calls.so ./program
           echo $step: $(ls calls | grep -c '[.]calls$')
           mv list calls/sleds
         done",
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !shared.path("calls/libtally_calls.so").exists() {
        return println!("skipped: {}", stderr(&output));
    }
    assert_eq!(text, "link: 0\nfile: 1\n", "{}", stderr(&output));
}
