//! The flags of every command that records, and what they mean to `record`.

mod events;
mod sampling;
mod target;
pub mod value;

pub use events::parse as requests;
pub use sampling::SamplingArgs;
pub use target::TargetArgs;
pub use value::{RingSizes, fuzz_values, parse_bytes, parse_delay, parse_seconds, parse_switch_output};

use std::process::ExitCode;

use record::summary::RunSummary;

/// The target's own exit status, as a shell shows it; without one, or if that is 0, whether the output is whole.
#[must_use]
pub fn exit_code(summary: &RunSummary) -> ExitCode {
    match summary.exit.map_or(0, record::sys::ExitKind::shell_code) {
        0 if summary.is_cut() => ExitCode::FAILURE,
        code => ExitCode::from(code),
    }
}

/// Shows why a recording could not be made; the status is the shell's for a command that can't run (127, 126).
#[must_use]
pub fn failed(error: &record::Error) -> ExitCode {
    crate::out::complain(&error.to_string());
    ExitCode::from(error.exit_code())
}

/// Says each second how much is still to be unwound after the end.
pub fn on_catch_up(bytes: u64) {
    let mib = bytes.div_ceil(1 << 20);
    crate::out::note(&format!(
        "tally: unwinding {mib} MiB of stacks that waited; Ctrl-C leaves them at their leaf"
    ));
}
