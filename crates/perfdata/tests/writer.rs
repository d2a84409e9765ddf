//! Files written here, judged by this crate's reader and by stock perf where it is installed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use perfdata::abi::*;
use perfdata::record::{Comm, FileId, Mmap, TaskRecord};
use perfdata::{
    Attr, AttrFlags, Avma, Callchain, CpuMode, Event, Features, Order, PerfData, ReadMode, Record, Sample,
    SampleId, Writer, WriterOpts,
};

fn event() -> Event {
    let bits = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    let flags = AttrFlags::SAMPLE_ID_ALL
        | AttrFlags::MMAP2
        | AttrFlags::COMM
        | AttrFlags::FREQ
        | AttrFlags::EXCLUDE_GUEST;
    let attr = Attr {
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: 997,
        sample_type: bits | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN,
        read_format: PERF_FORMAT_ID,
        flags,
        ..Attr::default()
    };
    Event { attr, ids: vec![7, 8], name: "cpu-clock".into() }
}

fn features() -> Features {
    Features {
        hostname: Some("host".into()),
        os_release: Some("6.1.0".into()),
        version: Some("0.1.0".into()),
        arch: Some("x86_64".into()),
        nr_cpus: Some(perfdata::file::features::NrCpus { available: 2, online: 2 }),
        cpu_desc: Some("A CPU".into()),
        cpu_id: Some("GenuineIntel,6,1,1".into()),
        total_mem_kib: Some(4096),
        cmdline: Some(vec!["tally".into(), "record".into()]),
        ..Features::default()
    }
}

/// One process, one mapping, samples at 10, 20, 30 … in the given order of times.
fn write_session(w: &mut Writer<'_>, times: &[u64]) {
    let id = |time_ns| SampleId {
        pid_tid: Some((100, 100)),
        time_ns: Some(time_ns),
        cpu: Some(0),
        identifier: Some(7),
        ..SampleId::default()
    };
    let comm = Comm { pid: 100, tid: 100, comm: b"app", exec: true };
    let kernel = Mmap {
        pid: u32::MAX,
        tid: 0,
        addr: Avma(0xffff_ffff_8100_0000),
        len: 0x100_0000,
        pgoff: 0xffff_ffff_8100_0000,
        filename: b"[kernel.kallsyms]_text",
        file_id: FileId::None,
        prot_flags: None,
        cpu_mode: CpuMode::Kernel,
        is_data: false,
        parse_timeout: false,
    };
    w.write_record(0, &Record::Mmap(kernel), &id(0)).unwrap();
    w.write_record(0, &Record::Comm(comm), &id(1)).unwrap();
    let map = Mmap {
        pid: 100,
        tid: 100,
        addr: Avma(0x40_0000),
        len: 0x1000,
        pgoff: 0,
        filename: b"/bin/app-that-is-not-there",
        file_id: FileId::Inode { major: 8, minor: 1, inode: 42, generation: 1 },
        prot_flags: Some((5, 2)),
        cpu_mode: CpuMode::User,
        is_data: false,
        parse_timeout: false,
    };
    w.write_record(0, &Record::Mmap(map), &id(2)).unwrap();
    for (n, time) in times.iter().enumerate() {
        let chain = [PERF_CONTEXT_USER, 0x40_0010, 0x40_0020];
        let sample = Sample {
            misc: PERF_RECORD_MISC_USER,
            identifier: Some(7),
            ip: Some(Avma(0x40_0010)),
            pid_tid: Some((100, 100)),
            time_ns: Some(*time),
            cpu: Some(0),
            period: Some(1000),
            callchain: Some(Callchain(chain.as_slice().into())),
            ..Sample::default()
        };
        w.write_record(0, &Record::Sample(sample), &SampleId::default()).unwrap();
        if n % 3 == 2 {
            w.finish_round().unwrap();
        }
    }
    let end = TaskRecord { pid: 100, ppid: 1, tid: 100, ptid: 1, time_ns: 1000 };
    w.write_record(0, &Record::Exit(end), &id(1000)).unwrap();
}

const TIMES: [u64; 9] = [10, 30, 20, 40, 60, 50, 70, 90, 80];

fn written(zstd_level: Option<i32>, mode: ReadMode, appendix: &[u8]) -> Vec<u8> {
    written_with(zstd_level, mode, appendix, &[99])
}

fn written_with(zstd_level: Option<i32>, mode: ReadMode, appendix: &[u8], late_ids: &[u64]) -> Vec<u8> {
    let opts =
        WriterOpts { events: vec![event()], zstd_level, early_names: false, pipe_features: features() };
    let mut file = Cursor::new(Vec::new());
    let mut w = match mode {
        ReadMode::File => Writer::file(&mut file, opts).unwrap(),
        ReadMode::Pipe => Writer::pipe(&mut file, opts).unwrap(),
    };
    write_session(&mut w, &TIMES);
    w.add_ids(0, late_ids).unwrap();
    w.finish(&features(), appendix).unwrap();
    file.into_inner()
}

fn sample_times(bytes: &[u8]) -> Vec<u64> {
    let mut times = Vec::new();
    let d = PerfData::open(bytes).unwrap().visit(Order::Time, |item| {
        if let Record::Sample(s) = &item.record {
            times.extend(s.time_ns);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(d.problem_count, 0, "{:?}", d.problems);
    times
}

#[test]
fn what_is_written_is_read_back_in_time_order() {
    for (level, mode) in
        [(None, ReadMode::File), (Some(3), ReadMode::File), (None, ReadMode::Pipe), (Some(1), ReadMode::Pipe)]
    {
        let bytes = written(level, mode, b"");
        let file = PerfData::open(&bytes).unwrap();
        assert_eq!(file.problems(), &[], "{mode:?} {level:?}");
        assert_eq!(file.events()[0].name, "cpu-clock");
        assert_eq!(file.features().hostname.as_deref(), Some("host"));
        assert_eq!(sample_times(&bytes), [10, 20, 30, 40, 50, 60, 70, 80, 90]);
    }
}

/// All records with their offsets, and the findings.
fn read_in_batches(bytes: &[u8], batch: usize) -> (Vec<String>, String) {
    let (mut items, mut longest) = (Vec::new(), 0);
    let file = PerfData::open(bytes).unwrap();
    let diagnostics = file.visit_batches(Order::Time, batch, |batch| {
        longest = longest.max(batch.len());
        items.extend(batch.iter().map(|item| format!("{item:?}")));
        ControlFlow::Continue(())
    });
    assert!(longest <= batch && (batch == 1 || longest > 1), "{longest} records at once");
    (items, format!("{diagnostics:?}"))
}

#[test]
fn batches_read_ahead_hold_what_is_read_one_by_one() {
    let plain = written(None, ReadMode::File, b"");
    let mut cut = plain.clone();
    cut.truncate(cut.len() * 2 / 3);
    let mut damaged = plain.clone();
    // The size of a record of the second round.
    let at = PerfData::open(&plain).unwrap().header().data.offset as usize;
    let sizes = |at: &usize| Some(at + usize::from(u16::from_le_bytes([plain[at + 6], plain[at + 7]])));
    let tenth = std::iter::successors(Some(at), sizes).nth(10).unwrap();
    damaged[tenth + 6..tenth + 8].fill(0);
    for bytes in [plain, written(Some(3), ReadMode::File, b""), cut, damaged] {
        let one_by_one = read_in_batches(&bytes, 1);
        for batch in [2, 3, 7, 100] {
            assert_eq!(read_in_batches(&bytes, batch), one_by_one, "batches of {batch}");
        }
    }
}

#[test]
fn ids_added_while_recording_and_the_appendix_are_in_the_finished_file() {
    let bytes = written(None, ReadMode::File, b"how it ended");
    let file = PerfData::open(&bytes).unwrap();
    assert_eq!(file.events()[0].ids, [7, 8, 99]);
    assert_eq!(file.appendix(), Some(b"how it ended".as_slice()));
    assert_eq!(file.features().sample_time_ns, Some((10, 90)));
    assert_eq!(PerfData::open(&written(None, ReadMode::File, b"")).unwrap().appendix(), None);
}

#[test]
fn a_killed_recorder_leaves_what_was_flushed() {
    let mut file = Cursor::new(Vec::new());
    let opts = WriterOpts { events: vec![event()], ..WriterOpts::default() };
    let mut w = Writer::file(&mut file, opts).unwrap();
    write_session(&mut w, &TIMES);
    drop(w);
    let bytes = file.into_inner();
    assert_eq!(sample_times(&bytes), [10, 20, 30, 40, 50, 60, 70, 80, 90]);
}

#[test]
fn a_recorder_killed_in_a_long_round_leaves_the_records_before() {
    let mut file = Cursor::new(Vec::new());
    let opts = WriterOpts { events: vec![event()], ..WriterOpts::default() };
    let mut w = Writer::file(&mut file, opts).unwrap();
    let record = Record::Sample(Sample {
        ip: Some(Avma(1)),
        pid_tid: Some((1, 1)),
        time_ns: Some(10),
        ..Sample::default()
    });
    let bytes = perfdata::record_to_bytes(&event(), &record, &SampleId::default()).unwrap();
    let many = 4 * (256 << 10) / bytes.len();
    w.finish_round().unwrap();
    (0..many).for_each(|_| w.write_raw(&bytes).unwrap());
    drop(w);
    let bytes = file.into_inner();
    assert!(sample_times(&bytes).len() > many / 2);
}

#[test]
fn a_file_whose_data_size_was_never_written_is_read_to_its_end() {
    let mut bytes = written_with(None, ReadMode::File, b"", &[]);
    let file = PerfData::open(&bytes).unwrap();
    let end = (file.header().data.offset + file.header().data.size) as usize;
    bytes.truncate(end);
    bytes[48..56].fill(0);
    assert_eq!(sample_times(&bytes).len(), 9);
}

fn perf() -> bool {
    let there = Command::new("perf").arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        println!("skipped: perf is not installed");
    }
    there
}

fn temp(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tally-writer-{}-{name}", std::process::id()))
}

/// Output of a perf command over a file, on stdout and stderr.
fn perf_says(args: &[&str], file: &Path) -> (String, String) {
    let output = Command::new("perf").args(args).arg("-i").arg(file).output().unwrap();
    assert!(output.status.success(), "perf {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn stock_perf_reads_what_is_written_without_a_warning() {
    if !perf() {
        return;
    }
    let options = Command::new("perf").args(["version", "--build-options"]).output().unwrap();
    let zstd = String::from_utf8_lossy(&options.stdout).contains("zstd: [ on");
    let cases = [
        (None, ReadMode::File),
        (None, ReadMode::Pipe),
        (Some(3), ReadMode::File),
        (Some(1), ReadMode::Pipe),
    ];
    for (n, (level, mode)) in cases.into_iter().enumerate().filter(|(_, c)| zstd || c.0.is_none()) {
        let path = temp(&format!("stock{n}"));
        std::fs::write(&path, written(level, mode, b"appendix")).unwrap();
        let (events, warnings) = perf_says(&["evlist"], &path);
        assert_eq!((events.trim(), warnings.as_str()), ("cpu-clock", ""), "{mode:?}");
        let (script, warnings) = perf_says(&["script", "-F", "comm,pid,time,ip,sym"], &path);
        assert_eq!(warnings, "", "{mode:?}");
        assert_eq!(script.lines().filter(|l| l.starts_with("app")).count(), 9, "{script}");
        let (report, warnings) = perf_says(&["report", "--stdio", "--header"], &path);
        assert_eq!(warnings, "", "{mode:?}");
        assert!(report.contains("# hostname : host"), "{report}");
        assert!(report.contains("100.00%"), "{report}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_file_whose_recorder_was_killed_has_the_names_of_its_events() {
    let named = |name: &str, id: u64| {
        let attr = Attr { config: PERF_COUNT_SW_BPF_OUTPUT, ..event().attr };
        Event { attr, ids: vec![id], name: name.into() }
    };
    let events = vec![event(), named("offcpu-time", 20), named("oncpu-time", 30)];
    let names = |file: &PerfData<'_>| file.events().iter().map(|e| e.name.clone()).collect::<Vec<_>>();
    let mut whole = Cursor::new(Vec::new());
    let opts = WriterOpts { events, early_names: true, ..WriterOpts::default() };
    let mut writer = Writer::file(&mut whole, opts.clone()).unwrap();
    write_session(&mut writer, &TIMES);
    writer.finish(&features(), b"").unwrap();
    let whole = whole.into_inner();
    let file = PerfData::open(&whole).unwrap();
    assert!(!file.is_unfinished());
    let wanted = ["cpu-clock", "offcpu-time", "oncpu-time"];
    assert_eq!(names(&file), wanted);

    let mut killed = Cursor::new(Vec::new());
    let mut writer = Writer::file(&mut killed, opts).unwrap();
    write_session(&mut writer, &TIMES);
    drop(writer);
    let killed = killed.into_inner();
    let file = PerfData::open(&killed).unwrap();
    assert!(file.is_unfinished());
    assert_eq!(names(&file)[1..], wanted[1..]);
    let mut samples = 0;
    let diagnostics = file.visit(Order::Time, |item| {
        samples += usize::from(matches!(item.record, Record::Sample(_)));
        ControlFlow::Continue(())
    });
    assert_eq!((samples, diagnostics.problem_count), (TIMES.len(), 0));
}
