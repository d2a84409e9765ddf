//! This crate's parsers as plain functions over bytes, for `cargo test` and libFuzzer alike.

use crate::{parse_cpu_list, reread};

/// Every fuzz target with its name.
#[expect(clippy::type_complexity, reason = "every crate with parsers offers this same type")]
pub const TARGETS: &[(&str, fn(&[u8]))] = &[("cpu_list", cpu_list), ("recorded_counts", recorded_counts)];

fn cpu_list(data: &[u8]) {
    let _ = parse_cpu_list(&String::from_utf8_lossy(data));
}

/// The counts in a file of any bytes, summed up as recorded.
fn recorded_counts(data: &[u8]) {
    let Ok(file) = perfdata::PerfData::open(data) else { return };
    for run in reread(&file, None).runs {
        let _ = run.grouping.blocks(&run.readings);
    }
}
