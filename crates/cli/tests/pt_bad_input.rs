//! Intel PT recordings that lack something or were damaged: what is missing is reported with its reason, the rest is
//! decoded, and no list of calls holds what did not happen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Calls and returns by thread, in order.
type Lists = BTreeMap<String, Vec<String>>;

/// `AUXTRACE_INFO`'s number; its fields begin this many bytes into the record.
const INFO: u32 = 70;
const INFO_FIELDS: usize = 16;

struct Recording {
    bytes: Vec<u8>,
    truth: Lists,
    path: PathBuf,
}

/// A run of `program`, stepped and encoded; `None` (and reported) where that can't be.
fn recording(name: &str, program: &Path) -> Option<Recording> {
    recording_with(&["--psb", "512"], name, program)
}

fn recording_with(options: &[&str], name: &str, program: &Path) -> Option<Recording> {
    let stepper = Path::new(env!("CARGO_BIN_EXE_tally")).with_file_name("examples").join("pt_step");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tmp/pt");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let path = dir.join(format!("bad-{name}.data"));
    let truth = path.with_extension("truth");
    let mut command = Command::new(stepper);
    command.args(options).arg("-o").arg(&path).arg("--truth").arg(&truth).arg("--").arg(program);
    if !command.output().is_ok_and(|output| output.status.success()) {
        println!(
            "skipped: the stepper is not built (cargo build -p record --example pt_step), or can't step here"
        );
        return None;
    }
    let bytes = std::fs::read(&path).expect("the stepper wrote it");
    Some(Recording { bytes, truth: lists(&std::fs::read_to_string(truth).expect("it, too")), path })
}

fn lists(text: &str) -> Lists {
    let mut lists = Lists::new();
    for line in text.lines() {
        if let [tid, _, kind @ ("call" | "return"), from, to] = line.split(' ').collect::<Vec<_>>()[..] {
            lists.entry(tid.to_owned()).or_default().push(format!("{kind} {from} {to}"));
        }
    }
    lists
}

impl Recording {
    /// Offset in the file of the AUXTRACE_INFO record, the first of the data section.
    fn info(&self) -> usize {
        const DATA_OFFSET: usize = 40;
        let word =
            |at: usize| self.bytes[at..at + 8].iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
        let at = word(DATA_OFFSET);
        assert_eq!(self.bytes[at], INFO as u8);
        at
    }

    fn set_field(&mut self, number: usize, value: u64) {
        let at = self.info() + INFO_FIELDS + 8 * number;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Leaves this many fields; what was after them is a record of a kind nobody knows.
    fn keep_fields(&mut self, count: usize) {
        let at = self.info();
        let size = u16::from(self.bytes[at + 6]) | u16::from(self.bytes[at + 7]) << 8;
        let kept = (INFO_FIELDS + 8 * count) as u16;
        self.bytes[at + 6..at + 8].copy_from_slice(&kept.to_le_bytes());
        let rest = at + usize::from(kept);
        self.bytes[rest..rest + 8].copy_from_slice(&[0xee, 0, 0, 0, 0, 0, 0, 0]);
        self.bytes[rest + 6..rest + 8].copy_from_slice(&(size - kept).to_le_bytes());
    }

    fn tally(&self, what: &str) -> Output {
        std::fs::write(&self.path, &self.bytes).expect("target is writable");
        let mut tally = Command::new(env!("CARGO_BIN_EXE_tally"));
        tally.args(["calls", what, "-i"]).arg(&self.path).output().expect("tally starts")
    }

    fn decoded(&self) -> Lists {
        lists(&String::from_utf8_lossy(&self.tally("branches").stdout))
    }

    fn report(&self) -> String {
        String::from_utf8_lossy(&self.tally("report").stdout).into_owned()
    }

    fn refusal(&self) -> String {
        let output = self.tally("report");
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// Whether all that was decoded happened, in that order, and how much of it was.
fn share(recording: &Recording) -> f64 {
    let decoded = recording.decoded();
    let (mut got, mut all) = (0, 0);
    for (tid, truth) in &recording.truth {
        let mut happened = truth.iter();
        let list = decoded.get(tid).map_or(&[][..], Vec::as_slice);
        assert!(
            list.iter().all(|entry| happened.any(|one| one == entry)),
            "thread {tid}: something did not happen"
        );
        (got, all) = (got + list.len(), all + truth.len());
    }
    f64::from(got as u32) / f64::from(all as u32)
}

#[test]
#[ignore = "live: records on this machine"]
fn fields_that_old_recorders_did_not_write_are_not_needed_and_too_few_are_refused() {
    let Some(whole) = recording("info", Path::new("/bin/true")) else { return };
    for count in [16, 15, 14, 11] {
        let mut old =
            Recording { bytes: whole.bytes.clone(), truth: whole.truth.clone(), path: whole.path.clone() };
        old.keep_fields(count);
        assert!(old.decoded() == old.truth, "{count} fields");
    }
    let mut short = whole;
    short.keep_fields(10);
    assert!(short.refusal().contains("has 10 fields; at least 11 are needed"), "{}", short.refusal());
}

#[test]
#[ignore = "live: records on this machine"]
fn another_kind_of_trace_is_named() {
    let Some(mut other) = recording("kind", Path::new("/bin/true")) else { return };
    let at = other.info() + 8;
    other.bytes[at] = 9;
    assert!(other.refusal().contains("of kind 9, not Intel PT"), "{}", other.refusal());
}

#[test]
#[ignore = "live: records on this machine"]
fn without_the_clocks_relation_calls_are_right_and_no_time_off_the_cpu_is_told() {
    let Some(mut recording) = recording("clock", Path::new("/bin/true")) else { return };
    (1..=4).for_each(|field| recording.set_field(field, 0));
    assert!(recording.decoded() == recording.truth);
    let report = recording.report();
    assert!(
        report.contains("the recording has no relation between its clocks: no time off the CPU"),
        "{report}"
    );
}

#[test]
#[ignore = "live: records on this machine"]
fn a_file_cut_anywhere_gives_what_happened_until_there() {
    let Some(mut recording) = recording("cut", Path::new("/bin/true")) else { return };
    let whole = recording.bytes.clone();
    for tenth in [9, 7, 5] {
        recording.bytes = whole[..whole.len() * tenth / 10].to_vec();
        let share = share(&recording);
        assert!((0.1..1.0).contains(&share), "{tenth} tenths: {share}");
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn code_of_a_file_that_is_gone_is_a_hole_and_the_rest_is_decoded() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tmp/pt");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let program = dir.join("bad-gone");
    std::fs::copy("/bin/true", &program).expect("target is writable");
    let Some(recording) = recording("gone", &program) else { return };
    std::fs::remove_file(&program).expect("it is there");
    let share = share(&recording);
    assert!((0.5..1.0).contains(&share), "{share}");
    let report = recording.report();
    assert!(report.contains("code of a file that can't be read") && report.contains("bad-gone"), "{report}");
}

#[test]
#[ignore = "live: records on this machine"]
fn another_build_of_a_file_without_build_id_is_told_by_how_often_packets_do_not_fit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf();
    let program = root.join("target/tmp/pt/bad-build");
    let build = |optimised: &str| {
        let source = root.join("tests/programs/tails.c");
        let built = Command::new("gcc").args([optimised, "-o"]).arg(&program).arg(source).output();
        built.is_ok_and(|built| built.status.success())
    };
    if !build("-O2") {
        println!("skipped: gcc can't build tails.c");
        return;
    }
    let Some(recording) = recording("build", &program) else { return };
    assert!(!recording.report().contains("another build"));
    assert!(build("-O1"));
    let report = recording.report();
    assert!(report.contains("bad-build: the trace does not fit its code"), "{report}");
    assert!(report.contains("packets that do not fit the code"), "{report}");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_trace_without_times_gives_the_calls_of_one_thread_and_says_that_durations_mean_nothing() {
    let options = ["--psb", "512", "--notiming"];
    let Some(recording) = recording_with(&options, "timeless", Path::new("/bin/true")) else { return };
    assert!(recording.decoded() == recording.truth);
    let report = recording.report();
    assert!(report.contains("recorded without times: ignore the durations"), "{report}");
    assert!(!report.contains("holes"), "{report}");
}
