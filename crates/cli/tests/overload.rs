//! Recordings that come faster than they go: a slow reader of the output.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use perfdata::{Order, PerfData, Record};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");

/// A shell that works for about half a second.
/// At 3,000 samples a second that is some 100 MB of stacks, and the pipe holds 64 KiB.
const BURN: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

#[test]
#[ignore = "live: records on this machine"]
fn a_slow_reader_of_the_pipe_gets_every_sample_with_its_stack() {
    let mut tally = Command::new(TALLY)
        .args(["record", "-v", "-F", "3000", "-o", "-", "--", "sh", "-c", BURN])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("our own program");
    // The pipe holds 64 KiB; all else waits in the recorder.
    std::thread::sleep(Duration::from_millis(1500));
    let mut bytes = Vec::new();
    tally.stdout.take().expect("piped").read_to_end(&mut bytes).expect("readable");
    let output = tally.wait_with_output().expect("ends");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && messages.contains("cannot open event") {
        return println!("skipped: {messages}");
    }
    assert!(output.status.success(), "{messages}");
    let file = PerfData::open(&bytes).expect("a whole stream");
    let (mut samples, mut lost) = (0u64, 0);
    let diagnostics = file.visit(Order::File, |item| {
        match &item.record {
            Record::Sample(_) => samples += 1,
            Record::Lost(of) => lost += of.lost,
            _ => {}
        }
        std::ops::ControlFlow::Continue(())
    });
    drop(diagnostics);
    let notes = messages.split(": ").find_map(|t| t.split(" samples of").next()?.parse::<u64>().ok());
    assert_eq!(notes, Some(samples), "{messages}");
    assert!(samples > 100, "{messages}");
    assert!(!messages.contains("left out"), "{messages}");
    // Losses on a busy machine are reported.
    assert_eq!(lost > 0, messages.contains("[ lost "), "{messages}");
}
