//! Recordings as hardware counters make them, written by code: no machine of the tests has such counters.

use perfdata::abi::*;
use perfdata::file::features::GroupDesc;
use perfdata::record::{Comm, FileId, Mmap};
use perfdata::{
    Attr, AttrFlags, Avma, BranchStack, Callchain, CpuMode, Event, Features, Record, Sample, SampleId,
    Weight, Writer, WriterOpts,
};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

const CODE: u64 = 0x40_0010;

/// A file of `events` (name, additional `sample_type`) with their `samples`.
fn recording(
    name: &str,
    events: &[(&str, u64)],
    features: Features,
    samples: &[(usize, Sample<'_>)],
) -> PathBuf {
    let sample_type =
        PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD;
    let event = |(index, (name, more)): (usize, &(&str, u64))| {
        let attr = Attr {
            type_: PERF_TYPE_HARDWARE,
            config: index as u64,
            sample_period: 1000,
            sample_type: sample_type | more,
            branch_sample_type: PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK,
            flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::COMM,
            ..Attr::default()
        };
        Event { attr, ids: vec![index as u64 + 1], name: (*name).into() }
    };
    let events: Vec<Event> = events.iter().enumerate().map(event).collect();
    let mut file = Cursor::new(Vec::new());
    let mut writer =
        Writer::file(&mut file, WriterOpts { events, ..WriterOpts::default() }).expect("a header");
    let id = SampleId { pid_tid: Some((9, 9)), time_ns: Some(1), identifier: Some(1), ..SampleId::default() };
    let comm = Record::Comm(Comm { pid: 9, tid: 9, comm: b"app", exec: true });
    let code = Record::Mmap(Mmap {
        pid: 9,
        tid: 9,
        addr: Avma(0x40_0000),
        len: 0x1000,
        pgoff: 0,
        filename: b"/nonexistent/app",
        file_id: FileId::None,
        prot_flags: None,
        cpu_mode: CpuMode::User,
        is_data: false,
        parse_timeout: false,
    });
    for record in [comm, code] {
        writer.write_record(0, &record, &id).expect("written");
    }
    for (at, (event, sample)) in samples.iter().enumerate() {
        let sample = Sample {
            misc: PERF_RECORD_MISC_USER,
            identifier: Some(*event as u64 + 1),
            pid_tid: Some((9, 9)),
            time_ns: Some(2 + at as u64),
            ..*sample
        };
        writer.write_record(*event, &Record::Sample(sample), &SampleId::default()).expect("written");
    }
    let features = Features { arch: Some("x86_64".into()), ..features };
    writer.finish(&features, &[]).expect("written");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tmp/pmu");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let path = dir.join(name);
    std::fs::write(&path, file.into_inner()).expect("target is writable");
    path
}

/// Output of `tally` about a recording, without blanks at the ends of lines.
fn printed(args: &[&str], path: &Path) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    let output = command.args(args).arg("-i").arg(path).env("TERM", "dumb").output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The table's rows, each column's text joined by one blank.
fn rows(args: &[&str], path: &Path) -> Vec<String> {
    let lines = printed(args, path).into_iter().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn sample(period: u64) -> Sample<'static> {
    Sample { ip: Some(Avma(CODE)), period: Some(period), ..Sample::default() }
}

/// Loads answered by the first-level cache (cheap) and by memory (dear).
fn loads(name: &str, sample_type: u64, weight: fn(u32) -> Weight) -> PathBuf {
    const L1_HIT: u64 = 0x6810_0142;
    const RAM_HIT: u64 = 0x6810_1042;
    let load = |cost: u32, data_src: u64| {
        (0, Sample { weight: Some(weight(cost)), data_src: Some(data_src), ..sample(1000) })
    };
    let samples = [load(7, L1_HIT), load(0, L1_HIT), load(92, RAM_HIT)];
    let events = [("cpu/mem-loads,ldlat=30/P", sample_type | PERF_SAMPLE_DATA_SRC)];
    recording(name, &events, Features::default(), &samples)
}

#[test]
fn memory_mode_weighs_samples_by_what_the_access_cost() {
    let whole = loads("weight.data", PERF_SAMPLE_WEIGHT, |cost| Weight::Full(cost.into()));
    let parts = loads("weight_struct.data", PERF_SAMPLE_WEIGHT_STRUCT, |cost| Weight::Struct {
        var1: cost,
        var2: 3,
        var3: 9,
    });
    for path in [whole, parts] {
        let args = ["report", "--stdio", "--mem-mode", "--sort", "mem"];
        // An access without a cost counts as 1, as in perf.
        assert_eq!(rows(&args, &path), ["92.00% Local RAM hit", "8.00% L1 hit"], "{}", path.display());
        assert!(printed(&args, &path).contains(&"# Total weight : 100".to_owned()));
        assert_eq!(
            rows(&["report", "--stdio", "--sort", "mem"], &path),
            ["66.67% L1 hit", "33.33% Local RAM hit"]
        );
    }
}

fn two_events(name: &str, features: Features) -> PathBuf {
    let samples = [(0, sample(100)), (1, sample(5)), (0, sample(200))];
    recording(name, &[("cycles", 0), ("instructions", 0)], features, &samples)
}

#[test]
fn events_counted_apart_share_a_table_only_if_asked_to() {
    let path = two_events("apart.data", Features::default());
    let args = ["report", "--stdio", "--sort", "comm", "--group"];
    assert_eq!(rows(&args, &path), ["100.00% 100.00% app"]);
    let head = "# Samples: 3  of events 'cycles, instructions'".to_owned();
    assert!(printed(&args, &path).contains(&head), "no word of a group: there was none");
    assert_eq!(rows(&args[..4], &path), ["100.00% app", "100.00% app"]);
}

#[test]
fn a_group_is_shown_under_the_name_it_was_given() {
    for (given, shown) in [("{anon_group}", "anon group"), ("memory", "memory")] {
        let groups = vec![GroupDesc { name: given.to_owned(), leader: 0, members: 2 }];
        let path = two_events("group.data", Features { groups, ..Features::default() });
        let head = format!("# Samples: 3  of events '{shown} {{ cycles, instructions }}'");
        assert!(printed(&["report", "--stdio"], &path).contains(&head), "{shown}");
    }
}

#[test]
fn branches_of_a_call_stack_are_shown_if_asked_for() {
    let branches = [0x40_0158, 0x40_0106, 0x2, 0x40_017c, 0x40_0154, 0x2];
    let chain = [0xffff_ffff_ffff_fe00, CODE];
    let sample = Sample {
        branches: Some(BranchStack::from_words(None, &branches, None)),
        callchain: Some(Callchain(chain.as_slice().into())),
        ..sample(1000)
    };
    let events = [("cycles", PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_BRANCH_STACK)];
    let path = recording("call_stack.data", &events, Features::default(), &[(0, sample)]);
    let keys = ["--sort", "symbol_from,symbol_to"];
    assert_eq!(
        rows(&[&["report", "--stdio", "-b"], &keys[..]].concat(), &path),
        [
            "50.00% [.] 0x0000000000000158 [.] 0x0000000000000106",
            "50.00% [.] 0x000000000000017c [.] 0x0000000000000154"
        ]
    );
    let chain = rows(&["report", "--stdio", "--no-children", "-g", "none", "--sort", "comm"], &path);
    assert_eq!(chain, ["100.00% app"], "one sample by its call chain without -b");
}

#[test]
fn columns_of_numbers_can_be_added_and_placed() {
    let path = two_events("columns.data", Features::default());
    let columns = |args: &[&str]| {
        let lines = printed(&[&["report", "--stdio", "--group"], args].concat(), &path);
        let heading = lines.into_iter().find(|line| line.contains("Overhead")).expect("a heading");
        heading
            .trim_start_matches('#')
            .split("  ")
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join("|")
    };
    assert_eq!(columns(&["--sort", "comm,sample,dso"]), "Overhead|Command|Samples|Shared Object");
    assert_eq!(columns(&["--sort", "comm,dso", "-F", "+period"]), "Overhead|Period|Command|Shared Object");
    assert_eq!(columns(&["--sort", "comm,dso", "-F", "overhead,dso"]), "Overhead|Shared Object|Command");
}

#[test]
fn asking_for_a_cpu_needs_samples_that_have_one() {
    let path = two_events("no_cpu.data", Features::default());
    for command in [&["report", "--stdio"][..], &["script"], &["annotate", "--stdio"]] {
        let mut tally = Command::new(env!("CARGO_BIN_EXE_tally"));
        let output = tally.args(command).args(["-C", "0", "-i"]).arg(&path).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("no CPU numbers"), "{command:?}: {errors}");
    }
    assert_eq!(rows(&["report", "--stdio", "--group", "--sort", "cpu"], &path), ["100.00% 100.00% -001"]);
}

#[test]
fn files_hit_are_listed_without_a_table_of_build_ids() {
    let path = two_events("no_table.data", Features::default());
    let id = " ".repeat(40);
    assert_eq!(printed(&["buildid-list"], &path), [format!("{id} /nonexistent/app")]);
}

#[test]
fn files_of_the_first_layout_are_read() {
    let path = two_events("first_layout.data", Features::default());
    let mut bytes = std::fs::read(&path).expect("just written");
    bytes[..8].copy_from_slice(b"PERFFILE");
    std::fs::write(&path, bytes).expect("target is writable");
    assert_eq!(rows(&["report", "--stdio", "--group", "--sort", "comm"], &path), ["100.00% 100.00% app"]);
}
