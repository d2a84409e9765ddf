//! A thread that has ended, and still waits for the CPU that it leaves.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use perfdata::off_cpu::Payload;
use perfdata::{Order, PerfData, Record};

use super::{ONE, TALLY, folder, has_bpf, output_of, program};

/// Threads of this name that have totals.
fn with_totals(file: &Path, name: &str) -> BTreeSet<u32> {
    let bytes = fs::read(file).expect("the file is there");
    let file = PerfData::open(&bytes).expect("our own file");
    let mut threads = BTreeSet::new();
    let diagnostics = file.visit(Order::File, |item| {
        if let Record::Sample(sample) = &item.record
            && let Some((_, tid)) = sample.pid_tid
            && let Some(Payload::Totals(totals)) = sample.raw.and_then(Payload::parse)
            && totals.comm == name
        {
            threads.insert(tid);
        }
        ControlFlow::Continue(())
    });
    drop(diagnostics);
    threads
}

#[test]
#[ignore = "live: records on this machine"]
fn a_thread_whose_last_switch_comes_after_the_recordings_end_has_its_totals() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("last-switch");
    let Some(leaves) = program("leaves", &folder).filter(|_| has_bpf()) else { return };
    let file = folder.join("perf.data");
    let mut record = Command::new("taskset");
    record.args(["-c", "0", TALLY, "record", "-q", "--off-cpu", "-o"]).arg(&file).arg("--").arg(leaves);
    output_of(record);
    // The thread, and the process that it forks to keep the CPU busy.
    assert_eq!(with_totals(&file, "last").len(), 2);
}
