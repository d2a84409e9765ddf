//! The machine with faults: small disks, limits, and a program that knows how it ought to end.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// This build.
pub const TALLY: &str = env!("CARGO_BIN_EXE_tally");
/// Seconds after which a run hangs. Busy machines take a few.
const LIMIT_S: &str = "150";

/// A folder for one test.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("faults").join(name);
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    folder
}

/// The program `unharmed`; `None` (and reported) without a compiler.
pub fn unharmed(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/unharmed.c");
    let program = folder.join("unharmed");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-pthread"]).args(flags).arg("-o").arg(&program).arg(source);
    let built = compiler.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !built {
        println!("skipped: no C compiler for {flags:?}");
    }
    built.then_some(program)
}

/// A file system of its own, gone with this value.
pub struct SmallDisk {
    pub path: PathBuf,
}

impl SmallDisk {
    /// A tmpfs of this many KiB; `None` (and reported) without the right to mount one.
    pub fn new(name: &str, kib: u64) -> Option<Self> {
        let path = folder(name);
        Self::mount(&path, &["-t", "tmpfs", "-o", &format!("size={kib}k"), "none"])
    }

    /// A file system made by `mkfs` (name and options) in a file of this many KiB.
    pub fn made_by(mkfs: &[&str], name: &str, kib: u64) -> Option<Self> {
        let path = folder(name);
        let image = path.with_extension("img");
        let file = std::fs::File::create(&image).expect("target is writable");
        file.set_len(kib << 10).expect("a sparse file");
        let (program, options) = mkfs.split_first().expect("a program");
        let made = Command::new(program).args(options).arg(&image).output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("skipped: no {program}");
            return None;
        }
        let image = image.to_string_lossy().into_owned();
        Self::mount(&path, &["-o", "loop", &image])
    }

    fn mount(path: &Path, options: &[&str]) -> Option<Self> {
        let mounted = Command::new("mount").args(options).arg(path).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            println!("skipped: no right to mount {options:?}");
            return None;
        }
        Some(Self { path: path.to_owned() })
    }

    /// Leaves no more than this many KiB free.
    pub fn fill(&self, kib: u64) {
        let script = "avail=$(df --output=avail -k \"$0\" | tail -1); [ $avail -le $1 ] || \
            dd if=/dev/zero of=\"$0/filler\" bs=1k count=$((avail - $1)) 2>/dev/null; sync -f \"$0\"";
        let filled = Command::new("sh").args(["-c", script]).arg(&self.path).arg(kib.to_string()).status();
        assert!(filled.is_ok(), "sh is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
        let _ = std::fs::remove_file(self.path.with_extension("img"));
    }
}

/// Leftovers of a run.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub out: String,
    pub notes: String,
}

impl Ran {
    /// Neither a panic, nor a signal, nor a run without end.
    pub fn assert_orderly(&self, what: &str) {
        let is_orderly = self.status.code().is_some_and(|code| ![124, 134, 137].contains(&code));
        assert!(is_orderly && !self.notes.contains("panicked"), "{what}: {self:#?}");
    }
}

/// Runs tally after `limits`, lines of a shell such as `ulimit -f 100`.
pub fn run<S: AsRef<OsStr>>(limits: &str, args: &[S]) -> Ran {
    let script = format!("{limits}\nexec \"$0\" \"$@\"");
    let mut command = Command::new("timeout");
    command.args(["-k", "10", LIMIT_S, "bash", "-c", &script, TALLY]).args(args);
    let output =
        command.current_dir(env!("CARGO_TARGET_TMPDIR")).output().expect("timeout and bash are there");
    Ran {
        status: output.status,
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        notes: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The number before a word: `12,345 lost`.
pub fn number_before(text: &str, word: &str) -> Option<u64> {
    let before = text.split(word).next().filter(|before| before.len() < text.len())?;
    before.trim_end().rsplit(|c: char| !c.is_ascii_digit() && c != ',').next()?.replace(',', "").parse().ok()
}

/// Whether this machine or user may not record so (reported).
pub fn is_refused(ran: &Ran) -> bool {
    let why = ["cannot open event", "uprobes are refused", "Operation not permitted", "Permission denied"];
    let is_refused = !ran.status.success() && why.iter().any(|why| ran.notes.contains(why));
    if is_refused {
        println!("skipped: {}", ran.notes.lines().next().unwrap_or_default());
    }
    is_refused
}
