//! This crate's parsers as plain functions over bytes, for `cargo test` and libFuzzer alike.

use crate::check::baseline::Baseline;
use crate::export::folded::to_text;
use crate::import::{folded, gather, perf_config, perf_script};
use crate::mcp::{self, CommandOutput, McpStep, RunRights};
use perfdata::appendix::summed_stacks::SummedStacks;

/// Every fuzz target with its name.
#[expect(clippy::type_complexity, reason = "every crate with parsers offers this same type")]
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("perf_script_text", perf_script_text),
    ("folded_text", folded_text),
    ("perf_config_text", perf_config_text),
    ("check_baseline", check_baseline),
    ("mcp_messages", mcp_messages),
    ("other_profilers_files", other_profilers_files),
];

/// Reads any bytes as another profiler's file: the recording it becomes has all of it.
fn other_profilers_files(data: &[u8]) {
    if let Ok(Some(gathered)) = gather(data) {
        let bytes = gathered.to_perf_data().expect("a recording in memory");
        let file = perfdata::PerfData::open(&bytes).expect("a recording of ours");
        let appendix = file.appendix().expect("its sums");
        let stacks = SummedStacks::read(appendix, file.endian()).expect("sums of ours");
        assert!(stacks.stacks.iter().all(|stack| stack.event < file.events().len()));
    }
}

/// Reads any bytes as an assistant's message: each reply is one line of JSON.
fn mcp_messages(data: &[u8]) {
    let _ = mcp::parse_message(data);
    match mcp::handle(data, RunRights::MayRun) {
        McpStep::Reply(reply) => {
            assert!(!reply.contains('\n'), "{reply}");
            assert!(serde_json::from_str::<serde_json::Value>(&reply).is_ok(), "{reply}");
        }
        McpStep::Call(_, call) => {
            // The rest of a folded text, a JSON text and a listing go through the answers.
            let stdout = String::from_utf8_lossy(data).into_owned();
            let _ =
                mcp::answer(&call, &CommandOutput { stdout, status: Some(0), ..CommandOutput::default() });
        }
        McpStep::Silence => {}
    }
}

/// Reads any bytes as a baseline; what was read, written and read again must be the same.
fn check_baseline(data: &[u8]) {
    if let Ok(once) = Baseline::parse(data) {
        let again = Baseline::parse(once.to_text().as_bytes()).expect("a baseline that was written");
        assert_eq!(once, again, "a baseline changed by a round trip");
    }
}

/// Reads any bytes as perf's settings: every name has a section.
fn perf_config_text(data: &[u8]) {
    if let Ok(settings) = perf_config::parse_settings(&String::from_utf8_lossy(data)) {
        assert!(settings.iter().all(|(name, _)| name.contains('.')), "{settings:?}");
    }
}

/// Reads any bytes as `perf script` text in every mode.
fn perf_script_text(data: &[u8]) {
    let all =
        perf_script::CollapseOpts { pid: true, tid: true, kernel: true, jit: true, addrs: true, event: None };
    let plain = perf_script::CollapseOpts::default();
    for opts in [all, plain] {
        let _ = to_text(&perf_script::read(data, &opts).tree);
    }
}

/// Reads any bytes as folded text; what was read, written and read again must be the same.
fn folded_text(data: &[u8]) {
    let _ = folded::parse_line(&String::from_utf8_lossy(data));
    let once = to_text(&folded::read(data).tree);
    let twice = to_text(&folded::read(once.as_bytes()).tree);
    assert_eq!(once, twice, "folded text changed by a round trip");
}
