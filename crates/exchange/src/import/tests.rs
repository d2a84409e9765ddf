//! Small files of each format, and damaged ones.

use super::{ImportError, gather};
use perfdata::PerfData;
use perfdata::appendix::summed_stacks::{CodeKind, SummedStacks};
use std::collections::BTreeMap;

/// Events with their sums and stacks (leaf first), of the recording that a file becomes.
fn read(file: &[u8]) -> BTreeMap<String, Vec<(String, u64, u64)>> {
    let gathered = gather(file).expect("a file that is read").expect("a known format");
    let bytes = gathered.to_perf_data().expect("written to memory");
    let recording = PerfData::open(&bytes).expect("a recording");
    assert!(recording.problems().is_empty(), "{:?}", recording.problems());
    let appendix = recording.appendix().expect("the sums");
    let stacks = SummedStacks::read(appendix, recording.endian()).expect("readable sums");
    let mut found: BTreeMap<String, Vec<(String, u64, u64)>> = BTreeMap::new();
    for stack in &stacks.stacks {
        let frames = stacks.paths[stack.path].iter().flat_map(|&frame| &stacks.frames[frame].lines);
        let names: Vec<&str> = frames.map(|line| line.function.as_str()).collect();
        let path = format!("{}: {}", stacks.threads[stack.thread].name, names.join(" < "));
        let event = recording.events()[stack.event].name.clone();
        found.entry(event).or_default().push((path, stack.samples, stack.value));
    }
    found
}

fn row(path: &str, samples: u64, value: u64) -> (String, u64, u64) {
    (path.to_owned(), samples, value)
}

fn error(file: &str) -> String {
    gather(file.as_bytes()).err().map_or("no error".to_owned(), |why: ImportError| why.to_string())
}

/// A message of protocol buffers: fields with bytes.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let field = |(number, bytes): &(u8, &[u8])| [&[number << 3 | 2, bytes.len() as u8], *bytes].concat();
    fields.iter().flat_map(field).collect()
}

#[test]
fn pprof_pairs_numbers_of_samples_with_what_they_measure() {
    let file = message(&[
        (1, &[0x08, 1, 0x10, 2]),
        (1, &[0x08, 3, 0x10, 4]),
        (2, &[0x0a, 1, 1, 0x12, 2, 3, 30]),
        (4, &[0x08, 1, 0x22, 4, 0x08, 1, 0x10, 9, 0x22, 2, 0x08, 2]),
        (5, &[0x08, 1, 0x10, 5]),
        (5, &[0x08, 2, 0x10, 6]),
        (6, b""),
        (6, b"samples"),
        (6, b"count"),
        (6, b"cpu"),
        (6, b"nanoseconds"),
        (6, b"leaf"),
        (6, b"main"),
    ]);
    assert_eq!(read(&file), BTreeMap::from([("cpu".to_owned(), vec![row(": leaf < main", 3, 30)])]));
    for len in 16..file.len() {
        // Every cut is an error, or leaves whole fields.
        if let Err(why) = gather(&file[..len]) {
            assert!(why.to_string().starts_with("pprof: "), "{why}");
        }
    }
    assert_eq!(
        gather(&file[..file.len() - 1]).err().map(|why| why.to_string()),
        Some("pprof: a field ends after the file at byte 91".to_owned())
    );
}

#[test]
fn a_location_that_is_nowhere_is_an_error_with_its_byte() {
    let file = message(&[(1, &[0x08, 1]), (2, &[0x0a, 1, 7, 0x12, 1, 1]), (6, b""), (6, b"cpu")]);
    let why = gather(&file).err().map(|why| why.to_string());
    assert_eq!(why.as_deref(), Some("pprof: a location that is not in the table at byte 6"));
}

#[test]
fn speedscope_has_sampled_and_evented_profiles() {
    let file = r#"{"shared":{"frames":[{"name":"main"},{"name":"leaf","file":"a.c","line":3}]},"profiles":[
        {"type":"sampled","name":"one","unit":"milliseconds","samples":[[0,1],[0]],"weights":[1.5,2]},
        {"type":"evented","name":"two","unit":"none","events":[
            {"type":"O","at":0,"frame":0},{"type":"O","at":2,"frame":1},
            {"type":"C","at":7,"frame":1},{"type":"C","at":8,"frame":0}]}]}"#;
    let found = read(file.as_bytes());
    assert_eq!(found["time"], [row("one: leaf < main", 1, 1_500_000), row("one: main", 1, 2_000_000)]);
    assert_eq!(
        found["samples"],
        [row("two: main", 1, 2), row("two: leaf < main", 1, 5), row("two: main", 1, 1)]
    );
    let wrong = file.replace("[[0,1],[0]]", "[[0,9],[0]]");
    assert_eq!(error(&wrong), "speedscope: a frame that is not in the table at profiles[0].samples[0][1]");
    let wrong = file.replace(r#""at":7,"frame":1"#, r#""at":7,"frame":0"#);
    assert_eq!(
        error(&wrong),
        "speedscope: a frame is closed that was not the last to be opened at profiles[1].events[2]"
    );
    assert_eq!(error(&file[..40]), "JSON: the text is cut off at byte 39");
}

#[test]
fn firefox_tables_are_in_the_thread_or_shared() {
    let tables = r#""stringArray":["main","leaf","app"],"funcTable":{"name":[0,1],"resource":[0,-1]},
        "resourceTable":{"name":[2],"lib":[null]},
        "frameTable":{"func":[0,1],"line":[null,4],"inlineDepth":[0,0]},
        "stackTable":{"prefix":[null,0],"frame":[0,1]}"#;
    let samples = r#""name":"T","pid":"7","tid":8,"samples":{"stack":[1,null],"weight":[2,1],"weightType":"samples",
        "timeDeltas":[1,1],"threadCPUDelta":[900,null]}"#;
    let meta =
        r#""meta":{"preprocessedProfileVersion":56,"product":"p","sampleUnits":{"threadCPUDelta":"µs"}}"#;
    let own = format!("{{{meta},\"threads\":[{{{samples},{tables}}}]}}");
    let shared = format!("{{{meta},\"shared\":{{{tables}}},\"threads\":[{{{samples}}}]}}");
    for file in [&own, &shared] {
        let found = read(file.as_bytes());
        assert_eq!(found["samples"], [row("T: leaf < main", 2, 2), row("T: [no stack]", 1, 1)]);
        assert_eq!(found["cpu"], [row("T: leaf < main", 1, 900_000)]);
    }
    let circle = own.replace(r#""prefix":[null,0]"#, r#""prefix":[null,1]"#);
    assert_eq!(
        error(&circle),
        "Firefox profile: a caller that is not before its callee at threads[0].stackTable.prefix[1]"
    );
    assert_eq!(
        error(r#"{"meta":{},"threads":[]}"#),
        "a raw profile of Firefox: open it in profiler.firefox.com and save it there"
    );
}

#[test]
fn addresses_that_samply_has_not_named_are_kept_with_their_file() {
    let file = r#"{"meta":{"preprocessedProfileVersion":49,"product":"app"},
        "libs":[{"name":"app","path":"/opt/app","codeId":"0aff"}],
        "threads":[{"name":"T","pid":"7","tid":8,"samples":{"stack":[1],"weight":[1],"weightType":"samples"},
        "stringArray":["0x1a2b","app","main"],"funcTable":{"name":[0,2],"resource":[0,0]},
        "resourceTable":{"name":[1],"lib":[0]},"frameTable":{"func":[0,1],"address":[6700,6800]},
        "stackTable":{"prefix":[null,0],"frame":[1,0]}}]}"#;
    let bytes = gather(file.as_bytes()).expect("read").expect("known").to_perf_data().expect("in memory");
    let recording = PerfData::open(&bytes).expect("a recording");
    let stacks = SummedStacks::read(recording.appendix().expect("sums"), recording.endian()).expect("sums");
    assert_eq!(
        (stacks.files[0].kind, stacks.files[0].build_id.as_slice()),
        (CodeKind::Image, &[0x0a, 0xff][..])
    );
    let frames: Vec<_> = stacks.frames.iter().map(|frame| (frame.address, frame.lines.len())).collect();
    assert_eq!(frames, [(Some(6700), 0), (None, 1)]);
}

#[test]
fn a_sample_of_chrome_lasts_until_the_next_one() {
    let nodes = r#""nodes":[{"id":1,"callFrame":{"functionName":"(root)"},"children":[2,4]},
        {"id":2,"callFrame":{"functionName":"main","url":"a.js","lineNumber":0},"children":[3]},
        {"id":3,"callFrame":{"functionName":""}},{"id":4,"callFrame":{"functionName":"(idle)"}}]"#;
    let file =
        format!("{{{nodes},\"startTime\":100,\"endTime\":170,\"samples\":[3,4,2],\"timeDeltas\":[5,10,20]}}");
    let found = read(file.as_bytes());
    assert_eq!(found["cpu"], [row("main: (anonymous) < main", 1, 10_000), row("main: main", 1, 35_000)]);
    assert_eq!(found["idle"], [row("main: (idle)", 1, 20_000)]);
    let circle = file.replace(r#""functionName":""}"#, r#""functionName":""},"children":[2]"#);
    assert_eq!(error(&circle), "Chrome trace: a node that is its own caller at nodes");

    let trace = r#"{"traceEvents":[
        {"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"Renderer"}},
        {"name":"Profile","ph":"P","id":"0x1","pid":1,"tid":2,"args":{"data":{"startTime":100}}},
        {"name":"ProfileChunk","ph":"P","id":"0x1","pid":1,"tid":9,"args":{"data":{"cpuProfile":{
            "nodes":[{"id":1,"callFrame":{"functionName":"(root)"}},
                {"id":2,"parent":1,"callFrame":{"functionName":"f"}}],"samples":[2]},"timeDeltas":[4]}}},
        {"name":"ProfileChunk","ph":"P","id":"0x1","pid":1,"tid":9,"args":{"data":{"cpuProfile":{
            "samples":[2,2]},"timeDeltas":[6,7]}}}]}"#;
    let found = read(trace.as_bytes());
    let sum: u64 = found["cpu"].iter().map(|(_, _, value)| value).sum();
    assert_eq!((found["cpu"][0].0.as_str(), sum), ("Renderer: f", 13_000));
    assert!(error(r#"{"traceEvents":[]}"#).starts_with("a trace without CPU samples"));
}

#[test]
fn the_first_frame_of_folded_stacks_is_the_process() {
    let found = read(b"# comment\napp;main;leaf 3\napp;main;do_sys_read_[k] 4\napp 2\n");
    let rows =
        [row("app: [no stack]", 2, 2), row("app: leaf < main", 3, 3), row("app: do_sys_read < main", 4, 4)];
    let mut samples = found["samples"].clone();
    samples.sort_by_key(|(_, _, value)| *value);
    assert_eq!(samples, rows);
}

#[test]
fn other_files_are_left_to_others() {
    for text in
        [b"hello world\n".as_slice(), b"PERFILE2 and so on", b"", b"count 5\n", b"\x7fELF\x02\x01\x01"]
    {
        assert!(matches!(gather(text), Ok(None)), "{text:?}");
    }
    assert!(error("{\"a\":1}").starts_with("JSON of no known profiler"));
}

#[test]
fn spans_of_a_chrome_trace_are_the_time_of_their_stacks() {
    let span = |phase: &str, name: &str, ts: u64| {
        format!(
            r#"{{"ph":"{phase}","name":"{name}","pid":7,"tid":140660898376576,"ts":{ts},"args":{{"line":3}}}}"#
        )
    };
    let events =
        [span("B", "main", 10), span("B", "heavy", 10), span("E", "heavy", 40), span("E", "main", 50)];
    let gathered = gather(format!("[{}]", events.join(",")).as_bytes()).expect("a trace").expect("spans");
    let bytes = gathered.to_perf_data().expect("in memory");
    let file = PerfData::open(&bytes).expect("a recording of ours");
    let stacks = SummedStacks::read(file.appendix().expect("sums"), file.endian()).expect("of ours");
    let sums: Vec<(usize, u64)> =
        stacks.stacks.iter().map(|stack| (stacks.paths[stack.path].len(), stack.value)).collect();
    assert_eq!(sums, [(2, 30_000), (1, 10_000)]);
    assert_eq!(stacks.threads[0].name, "thread 140660898376576");
}

#[test]
fn a_file_without_a_row_is_no_recording_that_broke_off() {
    let sums = super::RowSums::default().finish().expect("no sums");
    let bytes = sums.to_perf_data().expect("in memory");
    let file = PerfData::open(&bytes).expect("of ours");
    assert!(!file.is_unfinished());
}
