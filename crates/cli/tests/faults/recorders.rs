//! The recorders, as the tests of faults run them.

use std::path::{Path, PathBuf};

use super::machine::{Ran, run, unharmed};

/// Calls and naps of the recorded program: so few that uprobes on each cost little.
pub const WORK: [&str; 2] = ["3000", "150"];

/// Last line of the recorded program.
pub const LAST_WORDS: &str = "child exited with 5";

/// A way to record a program.
pub struct Recorder {
    pub name: &'static str,
    /// Arguments of the command line; `OUT` is where it writes.
    words: &'static [&'static str],
    /// Prints what was recorded, likewise; empty where nothing is kept.
    view: &'static [&'static str],
    /// Whether it takes a program to run.
    pub runs: bool,
}

/// All of them, in the order of this list: what they do, and what reads it.
pub const RECORDERS: [Recorder; 10] = [
    of("record", &["record", "-F", "2000", "-o", "OUT", "--"], &["report", "--stdio", "-i", "OUT"]),
    of("off-cpu", &["record", "--off-cpu", "-o", "OUT", "--"], &["report", "--wall", "-i", "OUT"]),
    of("run", &["run", "-o", "OUT", "--"], &["report", "--stdio", "-i", "OUT"]),
    of("stat", &["stat", "-o", "OUT", "--"], &[]),
    of("preload", &["calls", "record", "--no-libcall", "-o", "OUT", "--"], &["calls", "report", "-i", "OUT"]),
    of("uprobes", &["calls", "record", "--uprobes", "-o", "OUT", "--"], &["calls", "report", "-i", "OUT"]),
    of("live", &["calls", "live", "-i", "0.2", "--"], &[]),
    of("live-uprobes", &["calls", "live", "--uprobes", "-i", "0.2", "--"], &[]),
    of("io", &["io", "-o", "OUT", "--"], &["io", "-I", "OUT"]),
    Recorder {
        name: "top",
        words: &["top", "--stdio", "-d", "1", "--iterations", "1"],
        view: &[],
        runs: false,
    },
];

const fn of(name: &'static str, words: &'static [&'static str], view: &'static [&'static str]) -> Recorder {
    Recorder { name, words, view, runs: true }
}

/// The recorder of that name.
pub fn recorder(name: &str) -> &'static Recorder {
    RECORDERS.iter().find(|recorder| recorder.name == name).expect("one of the list")
}

/// The program that is recorded; `None` (and reported) without a compiler.
pub fn program(here: &Path) -> Option<String> {
    Some(unharmed(here, &["-fpatchable-function-entry=5"])?.display().to_string())
}

/// Where a recorder writes: nothing is there yet.
pub fn output(here: &Path) -> PathBuf {
    let out = here.join("out");
    if out.is_dir() {
        std::fs::remove_dir_all(&out).expect("ours");
    } else {
        // Mostly there is none.
        let _ = std::fs::remove_file(&out);
    }
    out
}

fn with_output(words: &[&str], out: &Path) -> Vec<String> {
    let out = out.display().to_string();
    words.iter().map(|word| if *word == "OUT" { out.clone() } else { (*word).to_owned() }).collect()
}

impl Recorder {
    /// The arguments of tally that record `program` into `out`.
    pub fn arguments(&self, program: &str, out: &Path) -> Vec<String> {
        let mut words = with_output(self.words, out);
        if self.runs {
            words.push(program.to_owned());
            words.extend(WORK.map(ToOwned::to_owned));
        }
        words
    }

    /// The recording can be read, or a line reports why not.
    pub fn assert_readable(&self, out: &Path, what: &str) {
        if self.view.is_empty() || !out.exists() {
            return;
        }
        let shown = run("ulimit -v 8000000", &with_output(self.view, out));
        shown.assert_orderly(&format!("{} after {what}", self.name));
        assert!(shown.status.code() != Some(101), "{} after {what}: {shown:#?}", self.name);
        assert!(shown.status.success() || !shown.notes.is_empty(), "{} after {what}: {shown:#?}", self.name);
    }

    /// Whether the program ran, to the end that it always has. Anything between this and no begin at all is harm.
    pub fn ran_unharmed(&self, ran: &Ran, what: &str) -> bool {
        let what = format!("{} under {what}", self.name);
        ran.assert_orderly(&what);
        assert!(ran.status.code() != Some(101), "{what}: {ran:#?}");
        if !self.runs {
            return ran.status.success();
        }
        let began = ran.out.contains("child ") || ran.out.contains("parent ");
        assert!(!began || ran.out.contains(LAST_WORDS), "{what}: {ran:#?}");
        assert!(!began || ran.status.code() == Some(7), "{what}: not the program's status: {ran:#?}");
        began
    }
}

/// Gives a macro the list of all recorders: a module's name, and the recorder's.
macro_rules! for_each_recorder {
    ($tests_of:ident) => {
        $tests_of! {
            record "record"
            off_cpu "off-cpu"
            wall_clock "run"
            stat "stat"
            preload "preload"
            uprobes "uprobes"
            live "live"
            live_uprobes "live-uprobes"
            io "io"
            top "top"
        }
    };
}

pub(crate) use for_each_recorder;
