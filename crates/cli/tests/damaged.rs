//! Damaged and unfinished recordings: every view names them, once and in the same words.

use perfdata::abi::*;
use perfdata::record::Comm;
use perfdata::{Attr, AttrFlags, Avma, Event, Features, Record, Sample, SampleId, Writer, WriterOpts};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tracer::layout::ThreadHeader;

/// Views of a recording, each before its path.
const VIEWS: &[&[&str]] = &[
    &["report", "--stdio", "-i"],
    &["report", "--stats", "-i"],
    &["report", "--tasks", "-i"],
    &["report", "--wall", "-i"],
    &["script", "-i"],
    &["script", "--json", "-i"],
    &["flame", "--folded", "-i"],
    &["annotate", "--stdio", "-i"],
    &["timeline", "-i"],
    &["locks", "-i"],
    &["io", "-i"],
    &["buildid-list", "-H", "-i"],
    &["dump"],
    &["dump", "--pt"],
    &["diff"],
    &["calls", "-i"],
    &["calls", "branches", "-i"],
    &["calls", "graph", "-i"],
    &["calls", "replay", "-i"],
    &["calls", "info", "-i"],
    &["export", "-o", "/dev/null", "-i"],
];

/// Views that read the header only, and so see what is wrong with that.
const HEADER_VIEWS: &[&[&str]] = &[&["evlist", "-i"], &["buildid-list", "-i"], &["stat", "report", "-i"]];

fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tmp/damaged").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("target is writable");
    dir
}

fn tally(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    command.args(args).env("TERM", "dumb").output().expect("it starts")
}

/// A whole recording of 100 samples.
fn whole() -> Vec<u8> {
    with_event(PERF_COUNT_SW_CPU_CLOCK, "cpu-clock")
}

/// The same of another software event.
fn with_event(config: u64, name: &str) -> Vec<u8> {
    let attr = Attr {
        type_: PERF_TYPE_SOFTWARE,
        config,
        sample_period: 1000,
        sample_type: PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::COMM,
        ..Attr::default()
    };
    let events = vec![Event { attr, ids: vec![7], name: name.into() }];
    let mut file = Cursor::new(Vec::new());
    let mut writer =
        Writer::file(&mut file, WriterOpts { events, ..WriterOpts::default() }).expect("a header");
    let id = SampleId { pid_tid: Some((9, 9)), time_ns: Some(1), ..SampleId::default() };
    let comm = Record::Comm(Comm { pid: 9, tid: 9, comm: b"app", exec: true });
    writer.write_record(0, &comm, &id).expect("written");
    for time_ns in 2..102 {
        let sample = Sample {
            misc: PERF_RECORD_MISC_USER,
            ip: Some(Avma(0x40_0010)),
            pid_tid: Some((9, 9)),
            time_ns: Some(time_ns),
            ..Sample::default()
        };
        writer.write_record(0, &Record::Sample(sample), &SampleId::default()).expect("written");
    }
    let features = Features { arch: Some("x86_64".into()), ..Features::default() };
    writer.finish(&features, &[]).expect("written");
    file.into_inner()
}

fn word_at(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | usize::from(*byte))
}

/// The data section: where it begins, and its size. Its description is at 40 in the header.
fn data_of(bytes: &[u8]) -> (usize, usize) {
    (word_at(bytes, 40), word_at(bytes, 48))
}

/// Cut off in the middle of the samples.
fn truncated() -> Vec<u8> {
    let mut bytes = whole();
    let (offset, size) = data_of(&bytes);
    bytes.truncate(offset + size / 2 + 3);
    bytes
}

/// As a killed recorder leaves it: the header does not know the size yet, the last record is half written.
fn unfinished() -> Vec<u8> {
    let mut bytes = truncated();
    bytes[48..56].fill(0);
    bytes
}

/// A record in the middle has the size 0.
fn damaged() -> Vec<u8> {
    let mut bytes = whole();
    let (offset, size) = data_of(&bytes);
    let mut at = offset;
    while at < offset + size / 2 {
        at += usize::from(bytes[at + 6]) | usize::from(bytes[at + 7]) << 8;
    }
    bytes[at + 6..at + 8].fill(0);
    bytes
}

/// How often standard error of the view has `words` about the file.
fn times_named(view: &[&str], path: &str, words: &str) -> usize {
    let output = tally(&[view, &[path][..]].concat());
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{view:?}: {}\n{notes}", output.status);
    notes.matches(&format!("tally: {path} {words}")).count()
}

#[test]
fn every_view_names_a_recording_that_is_not_whole_once() {
    let dir = folder("views");
    let path = dir.join("perf.data");
    let name = path.to_str().expect("ASCII");
    let all: Vec<_> = VIEWS.iter().chain(HEADER_VIEWS).collect();
    for (bytes, words, views) in [
        (truncated(), "is damaged: the data section at", &all),
        (unfinished(), "is unfinished: its recorder was killed", &all),
        (damaged(), "is damaged: record of type 9 at", &VIEWS.iter().collect()),
    ] {
        std::fs::write(&path, bytes).expect("our folder");
        for view in views {
            assert_eq!(times_named(view, name, words), 1, "{view:?} of what {words}");
        }
    }
    std::fs::write(&path, whole()).expect("our folder");
    for view in &all {
        assert_eq!(times_named(view, name, "is "), 0, "{view:?} of a whole recording");
    }
}

#[test]
fn a_damaged_recording_is_not_blamed_on_the_flags_of_record() {
    let dir = folder("blame");
    let path = dir.join("perf.data");
    let name = path.to_str().expect("ASCII");
    for view in [&["timeline", "-i"][..], &["locks", "-i"], &["io", "-i"], &["report", "--wall", "-i"]] {
        let notes = || String::from_utf8_lossy(&tally(&[view, &[name]].concat()).stderr).into_owned();
        std::fs::write(&path, truncated()).expect("our folder");
        let damaged = notes();
        assert!(damaged.contains("as far as it could be read"), "{view:?}: {damaged}");
        assert!(!damaged.contains("record with"), "{view:?}: {damaged}");
        std::fs::write(&path, whole()).expect("our folder");
        let whole = notes();
        assert!(whole.contains("record with"), "{view:?}: {whole}");
    }
}

#[test]
fn fail_above_decides_nothing_about_recordings_that_are_not_whole() {
    let dir = folder("gate");
    let (good, bad) = (dir.join("good.data"), dir.join("bad.data"));
    std::fs::write(&good, whole()).expect("our folder");
    let [good, bad] = [&good, &bad].map(|path| path.to_str().expect("ASCII"));
    let exit = |args: &[&str]| tally(&[&["diff"], args].concat()).status.code();
    let gate = |a: &str, b: &str| exit(&["--fail-above", "5", good, a, ":", b, good]);
    assert_eq!(gate(good, good), Some(0));
    assert_eq!(exit(&["--fail-above", "5", good, good]), Some(4), "one run a side does not show its noise");
    for bytes in [truncated(), unfinished(), damaged()] {
        std::fs::write(bad, bytes).expect("our folder");
        assert_eq!(gate(good, bad), Some(4));
        assert_eq!(gate(bad, good), Some(4));
        assert_eq!(exit(&[good, bad]), Some(0), "without a limit nothing is decided");
    }
    std::fs::write(bad, "no recording").expect("our folder");
    assert_eq!(gate(good, bad), Some(4));
    assert_eq!(gate(good, "no such file"), Some(4));
    assert_eq!(exit(&[good, bad]), Some(1));
    std::fs::write(bad, with_event(PERF_COUNT_SW_PAGE_FAULTS, "faults")).expect("our folder");
    assert_eq!(
        exit(&["--fail-above", "5", good, good, ":", bad, bad]),
        Some(4),
        "no event of one is in the other"
    );
}

/// A thread's file cut off within an event.
fn cut_thread() -> Vec<u8> {
    let header = ThreadHeader { pid: 1, tid: 1, tsc: 1, monotonic_ns: 1, first: 0 };
    [&header.to_bytes()[..], &[0xff; 13]].concat()
}

#[test]
fn a_folder_of_calls_that_is_not_whole_is_named() {
    let dir = folder("calls");
    let calls = dir.join("calls");
    let name = calls.to_str().expect("ASCII");
    std::fs::create_dir(&calls).expect("our folder");
    std::fs::write(calls.join("sleds"), "").expect("our folder");
    std::fs::write(calls.join("info"), "command app\n").expect("our folder");
    let views: [&[&str]; 6] = [
        &["calls", "-i"],
        &["calls", "graph", "-i"],
        &["calls", "info", "-i"],
        &["calls", "replay", "-i"],
        &["calls", "flame", "--folded", "-i"],
        &["export", "-o", "/dev/null", "-i"],
    ];
    for view in views {
        assert_eq!(times_named(view, name, "is unfinished: its recorder"), 1, "{view:?}");
    }
    for events in [&b"no events"[..], &cut_thread()] {
        std::fs::write(calls.join("1-1-0.calls"), events).expect("our folder");
        for view in views {
            assert_eq!(times_named(view, name, "is damaged: "), 1, "{view:?}");
        }
    }
}
