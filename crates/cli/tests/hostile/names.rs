//! Names that steer a terminal, end an element or turn a line around, in every place a recording has for names. No view
//! may show them raw.

use super::{folder, outlived};
use perfdata::abi::*;
use perfdata::record::{Comm, FileId, Mmap};
use perfdata::{
    Attr, AttrFlags, Avma, Callchain, CpuMode, Event, Features, Record, Sample, SampleId, Writer, WriterOpts,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sets the title, clears the screen, does both in one byte each, turns the line around, ends elements, begins a line.
const HOSTILE: &str = "h\x1b]0;t\x07\x1b[2J\u{9b}31m\u{202e}\u{2028}\x7f</title><a b='\"&\nforged line";

const SOURCE: &str = "\
extern int evil(void) __asm__(\"\\\"ev\\033[2J\\302\\233\\342\\200\\256<&il\\\"\");
#line 1 \"so\\033[31murce\\342\\200\\256.c\"
__attribute__((noinline)) int evil(void) { volatile int i; for (i = 0; i < 1000; i++) ; return i; }
int main(void) { return evil() == 1; }
";

/// A program whose function and source file have hostile names, with the function's address; `None` without gcc.
fn program(dir: &Path, flags: &[&str]) -> Option<(PathBuf, u64)> {
    let (source, program) = (dir.join("e.c"), dir.join("pro\u{202e}\u{9b}gram"));
    std::fs::write(&source, SOURCE).expect("target is writable");
    let built =
        Command::new("gcc").args(["-g", "-O1"]).args(flags).arg(&source).arg("-o").arg(&program).output();
    let listed = Command::new("nm").arg(&program).output();
    let (Ok(built), Ok(listed)) = (built, listed) else {
        println!("skipped: no gcc or no nm");
        return None;
    };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("ev\x1b[2J"));
    let address = line.and_then(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok());
    if !built.status.success() || address.is_none() {
        println!("skipped: this compiler takes no such names");
    }
    Some((program, address?))
}

/// A recording of it, with hostile names of the event, the thread and the machine.
fn recording(dir: &Path, program: &Path, address: u64) -> PathBuf {
    let path = dir.join("perf.data");
    let bits = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
    let attr = Attr {
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: 1000,
        sample_type: bits | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN,
        read_format: PERF_FORMAT_ID,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::MMAP2 | AttrFlags::COMM,
        ..Attr::default()
    };
    let events =
        vec![7, 8].into_iter().map(|id| Event { attr, ids: vec![id], name: format!("{HOSTILE}{id}") });
    let hostile = || Some(HOSTILE.to_owned());
    let features = Features {
        hostname: hostile(),
        os_release: hostile(),
        version: hostile(),
        arch: Some("x86_64".to_owned()),
        cpu_desc: hostile(),
        cpu_id: hostile(),
        cmdline: Some(vec![HOSTILE.to_owned(), HOSTILE.to_owned()]),
        pmu_mappings: vec![(1, HOSTILE.to_owned())],
        ..Features::default()
    };
    let file = std::fs::File::create(&path).expect("target is writable");
    let opts = WriterOpts { events: events.collect(), ..WriterOpts::default() };
    let mut writer = Writer::file(file, opts).expect("a file");
    write_session(&mut writer, program, address);
    writer.finish(&features, b"").expect("a file");
    path
}

fn write_session(writer: &mut Writer<'_>, program: &Path, address: u64) {
    const START: u64 = 0x40_0000;
    let id = |time_ns| SampleId {
        pid_tid: Some((100, 100)),
        time_ns: Some(time_ns),
        cpu: Some(0),
        identifier: Some(7),
        ..SampleId::default()
    };
    let comm = Comm { pid: 100, tid: 100, comm: HOSTILE.as_bytes(), exec: true };
    writer.write_record(0, &Record::Comm(comm), &id(1)).expect("a file");
    let path = program.to_str().expect("UTF-8").as_bytes();
    for (at, filename) in [(START, path), (2 * START, HOSTILE.as_bytes())] {
        let map = Mmap {
            pid: 100,
            tid: 100,
            addr: Avma(at),
            len: 0x1000,
            pgoff: address & !0xfff,
            filename,
            file_id: FileId::Inode { major: 8, minor: 1, inode: 42, generation: 1 },
            prot_flags: Some((5, 2)),
            cpu_mode: CpuMode::User,
            is_data: false,
            parse_timeout: false,
        };
        writer.write_record(0, &Record::Mmap(map), &id(2)).expect("a file");
    }
    let ip = START + (address & 0xfff) + 4;
    for (number, identifier) in [7, 8, 7, 8].into_iter().enumerate() {
        let chain = [PERF_CONTEXT_USER, ip, 2 * START + 0x10];
        let sample = Sample {
            misc: PERF_RECORD_MISC_USER,
            identifier: Some(identifier),
            ip: Some(Avma(ip)),
            pid_tid: Some((100, 100)),
            time_ns: Some(10 + number as u64),
            cpu: Some(0),
            period: Some(1000),
            callchain: Some(Callchain(chain.as_slice().into())),
            ..Sample::default()
        };
        let event = usize::from(identifier == 8);
        writer.write_record(event, &Record::Sample(sample), &SampleId::default()).expect("a file");
    }
}

/// Fails if `text` could steer a terminal.
fn assert_harmless(of: &[&str], text: &str) {
    let is_raw = |c: char| {
        let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || c.is_control() && c != '\n' && c != '\t'
    };
    if let Some(line) = text.lines().find(|line| line.chars().any(is_raw)) {
        panic!("tally {of:?} shows raw: {line:?}");
    }
    if let Some(line) = text.lines().find(|line| line.trim_start().starts_with("forged line")) {
        panic!("tally {of:?} lets a name begin a line: {line:?}");
    }
}

fn assert_xml(path: &Path) {
    const PARSE: &str = "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])";
    match Command::new("python3").args(["-c", PARSE]).arg(path).output() {
        Ok(parsed) => {
            let notes = String::from_utf8_lossy(&parsed.stderr).into_owned();
            assert!(parsed.status.success(), "{} is not well-formed: {notes}", path.display());
        }
        Err(_) => println!("skipped: no python3 to read {}", path.display()),
    }
}

/// Runs each view on `input` and looks at both of its outputs.
fn look_at(views: &[&[&str]], input: &str) -> String {
    let mut all = String::new();
    for view in views {
        let args = [view, &["-i", input][..]].concat();
        let (shown, notes) = outlived(&args);
        assert_harmless(&args, &shown);
        assert_harmless(&args, &notes);
        if view.contains(&"--json") {
            let lines = shown.lines().filter(|line| line.starts_with('{'));
            lines.for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).expect("JSON")));
        }
        all.push_str(&shown);
    }
    all
}

#[test]
fn no_view_of_a_recording_shows_a_hostile_name_raw() {
    let dir = folder("names");
    let Some((program, address)) = program(&dir, &[]) else { return };
    let recording = recording(&dir, &program, address);
    let (input, svg, html) = (recording.to_str().expect("UTF-8"), dir.join("f.svg"), dir.join("r.html"));
    let views: &[&[&str]] = &[
        &["report", "--stdio", "-v"],
        &["report", "--stdio", "-s", "comm,dso,sym,srcline,srcfile", "-g"],
        &["report", "--stdio", "--hierarchy", "-s", "comm,dso,sym"],
        &["report", "--header-only"],
        &["report", "--tasks"],
        &["report", "--mmaps"],
        &["report", "--stats"],
        &["report", "--wall"],
        &["script"],
        &["script", "-F", "comm,pid,tid,cpu,time,event,ip,sym,symoff,dso,srcline,period"],
        &["script", "--json"],
        &["script", "--show-mmap-events", "--show-task-events"],
        &["script", "--header"],
        &["script", "--per-event-dump"],
        &["annotate", "--stdio"],
        &["annotate", "--stdio", "-l"],
        &["flame"],
        &["flame", "--folded"],
        &["evlist", "-v"],
        &["buildid-list"],
        &["dump"],
        &["timeline"],
        &["locks"],
        &["io"],
        &["calls", "report"],
    ];
    let shown = look_at(views, input);
    assert!(shown.contains("ev\\x1b[2J"), "the function is named:\n{shown}");
    for (view, file) in [(&["flame", "-o"][..], &svg), (&["report", "--html"], &html)] {
        let args = [view, &[file.to_str().expect("ASCII"), "-i", input]].concat();
        outlived(&args);
        let text = std::fs::read_to_string(file).expect("it was written");
        assert_harmless(&args, &text);
    }
    assert_xml(&svg);
    let (shown, notes) = outlived(&["diff", input, input]);
    assert_harmless(&["diff"], &(shown + &notes));
}

#[test]
fn no_view_of_traced_calls_shows_a_hostile_name_raw() {
    let dir = folder("calls");
    let Some((program, _)) = program(&dir, &["-finstrument-functions"]) else { return };
    let recorded = dir.join("recorded");
    let (input, run) = (recorded.to_str().expect("ASCII"), program.to_str().expect("UTF-8"));
    let (_, notes) = outlived(&["calls", "record", "-o", input, "--", run]);
    assert_harmless(&["calls record"], &notes);
    if !recorded.is_dir() {
        return println!("skipped: calls can't be recorded here: {notes}");
    }
    let views: &[&[&str]] = &[
        &["calls", "report"],
        &["calls", "report", "--slowest", "3"],
        &["calls", "graph"],
        &["calls", "replay"],
        &["calls", "flame"],
        &["calls", "flame", "--folded"],
        &["calls", "info"],
        &["export", "--chrome"],
    ];
    let shown = look_at(views, input);
    assert!(shown.contains("ev\\x1b[2J"), "the function is named:\n{shown}");
    let svg = dir.join("c.svg");
    outlived(&["calls", "flame", "-o", svg.to_str().expect("ASCII"), "-i", input]);
    assert_xml(&svg);
}
