//! Session text: what is printed is what is read.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::ops::ControlFlow;
use std::path::PathBuf;

use perfdata::text::{to_perf_data, write_event, write_item};
use perfdata::{Order, PerfData};

fn dump(bytes: &[u8]) -> String {
    let file = PerfData::open(bytes).unwrap();
    let mut out = String::new();
    for event in file.events() {
        write_event(&mut out, event);
        out.push('\n');
    }
    let d = file.visit(Order::File, |item| {
        write_item(&mut out, &file, item, perfdata::text::StackText::Bytes);
        out.push('\n');
        ControlFlow::Continue(())
    });
    assert_eq!(d.problem_count, 0, "{:?}", d.problems);
    out
}

/// Reads the text, prints it, and compares all but the event lines.
fn check_same(text: &str) {
    let printed = dump(&to_perf_data(text).unwrap());
    let records =
        |t: &str| t.lines().filter(|l| !l.starts_with("event ")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(records(&printed), records(text));
}

#[test]
fn a_session_is_printed_as_it_was_written() {
    check_same(
        "comm 7/7 t=1 cpu=0 id=1 exec sh\n\
         mmap2 7/7 t=1 cpu=0 id=1 [0x1000,0x2000) off=0x1000 dev=8:1 ino=5 gen=0 prot=0x5 flags=0x2 /bin/a b\n\
         mmap2 7/7 t=1 cpu=0 id=1 [0x1000,0x2000) build_id=0102ff prot=0x5 flags=0x2 /bin/sh\n\
         mmap -1/0 t=0 cpu=0 id=1 [0xffffffff81000000,0xffffffff82000000) off=0xffffffff81000000 mode=kernel [kernel.kallsyms]_text\n\
         fork 8/8 t=2 cpu=1 id=1 parent=7/7\n\
         sample 7/7 t=3 cpu=0 id=1 period=10 mode=user ip=0x1010 chain=user,0x1010,0x1020\n\
         switch 7/7 t=4 cpu=0 id=1 out preempt next=8/8\n\
         lost 7/7 t=5 cpu=0 id=1 n=12 of=1\n\
         lost_samples 7/7 t=5 cpu=0 id=1 n=3\n\
         namespaces 7/7 t=5 cpu=0 id=1 net=0x4:0xf0000075 uts=0x4:0x1 ipc=0x4:0x2 pid=0x4:0x3 user=0x4:0x4 mnt=0x4:0x5 cgroup=0x4:0x6\n\
         cgroup 7/7 t=5 cpu=0 id=1 cgroup=12 /user.slice\n\
         comm 7/7 t=6 cpu=0 id=1 odd\\x1b[31m name\n\
         exit 8/8 t=9 cpu=0 id=1 parent=7/7\n\
         round",
    );
}

#[test]
fn a_short_session_gets_the_usual_event() {
    let bytes = to_perf_data(
        "comm 100/100 t=1 app\nmmap2 100/100 t=1 [0x400000,0x401000) /bin/app\n\
         sample 100/101 t=7 period=10 chain=0x400010,0x400020",
    )
    .unwrap();
    let text = dump(&bytes);
    assert!(text.starts_with("event cpu-clock type=1 config=0x0 period=1 "), "{text}");
    assert!(
        text.contains(
            "sample 100/101 t=7 cpu=0 id=1 period=10 mode=user ip=0x400010 chain=0x400010,0x400020"
        )
    );
}

#[test]
fn a_bad_line_is_named() {
    let error = to_perf_data("comm 1/1 t=1 a\nsample 1/1 t=x").unwrap_err();
    assert_eq!(error.to_string(), "line 2: t=x is not a number");
    assert_eq!(to_perf_data("nonsense").unwrap_err().to_string(), "line 1: nonsense is not a record type");
}

#[test]
fn dumps_of_the_fixtures_read_back_to_the_same_dump() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("TALLY_FIXTURES").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root.join("../shared/fixtures")).join("perfdata");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no fixtures folder");
        return;
    };
    let mut count = 0;
    for path in entries.map(|e| e.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // AUX and tracing data follow their records, which the generic form cannot express.
        let other = ["json", "txt"].iter().any(|e| name.ends_with(e)) || name.contains("intel_pt");
        if other || name.contains("zero_size") || path.metadata().unwrap().len() > 1_000_000 {
            continue;
        }
        let text = dump(&std::fs::read(&path).unwrap());
        let again = dump(&to_perf_data(&text).unwrap_or_else(|e| panic!("{name}: {e}")));
        let differing = text.lines().zip(again.lines()).find(|(a, b)| a != b);
        assert_eq!(differing, None, "{name}");
        assert_eq!(text.lines().count(), again.lines().count(), "{name}");
        count += 1;
    }
    println!("{count} files");
}

#[test]
fn a_group_sample_comes_once_for_each_counter_that_advanced() {
    let bytes = to_perf_data(
        "event a type=1 config=0 period=1 sample_type=0x10017 read_format=0xc ids=1\n\
         event b type=1 config=2 period=1 sample_type=0x10017 read_format=0xc ids=2\n\
         sample 7/7 t=1 id=1 ip=0x10 group=10:1,5:2\n\
         sample 7/7 t=2 id=1 ip=0x10 group=30:1,5:2\n\
         sample 7/7 t=3 id=1 ip=0x10 group=30:1,5:2\n",
    )
    .unwrap();
    let mut got = Vec::new();
    let file = PerfData::open(&bytes).unwrap();
    let d = file.visit(Order::Time, |item| {
        if let perfdata::Record::Sample(s) = &item.record {
            got.push((item.event.unwrap(), s.period.unwrap(), s.event_id().unwrap()));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(got, [(0, 10, 1), (1, 5, 2), (0, 20, 1)]);
    assert_eq!(d.idle_reads, 1);
}
