//! libFuzzer's entry point: runs the target that `FUZZ_TARGET` names.
//!
//! `FUZZ_TARGET=perfdata-perf_data_file_order cargo +nightly fuzz run --features libfuzzer any CORPUS`
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = fuzz::targets().find(|(name, _)| *name == wanted);
    found.map(|(_, call)| call).expect("FUZZ_TARGET names a target of `fuzz-smoke --list`")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
