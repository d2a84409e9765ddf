//! The flags of every command that records, and what they mean to `record`.

mod events;
mod process_arg;
mod sampling;
mod spans;
mod target;
pub mod value;

pub use events::parse as requests;
pub use process_arg::ProcessArg;
pub use sampling::SamplingArgs;
pub use spans::SpanArgs;
pub use target::TargetArgs;
pub use value::{RingSizes, fuzz_values, parse_bytes, parse_delay, parse_seconds, parse_switch_output};

use std::process::ExitCode;

use profile::verdict::quoted;
use record::packed::PackedBytes;
use record::summary::RunSummary;

/// The library that samples by timers where the kernel gives no events, as the build script made it; empty where there
/// is none for the processor.
pub const TIMERS: PackedBytes =
    PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/libtally_timers.so.deflate")));

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
    let hint = match error {
        record::Error::Exec { command, source } if source.kind() == std::io::ErrorKind::NotFound => {
            hint_of_words(command)
        }
        _ => None,
    };
    crate::terminal::out::complain(&format!(
        "{error}{}",
        hint.map_or_else(String::new, |hint| format!("; {hint}"))
    ));
    ExitCode::from(error.exit_code())
}

/// Likely intention of a command that does not exist.
fn hint_of_words(command: &str) -> Option<String> {
    const SHELL: &[char] = &[' ', ';', '|', '&', '>', '<', '$', '*'];
    if !command.is_empty() && command.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(format!("a running process is recorded with -p {command}"));
    }
    command.contains(SHELL).then(|| format!("a line for the shell: sh -c {}", quoted(command)))
}

/// Prints each second how much is still to be unwound after the end.
pub fn on_catch_up(bytes: u64) {
    let mib = bytes.div_ceil(1 << 20);
    crate::terminal::out::note(&format!(
        "tally: unwinding {mib} MiB of stacks that waited; Ctrl-C leaves them at their leaf"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_a_shell_line_in_place_of_a_command_gets_a_hint() {
        assert!(hint_of_words("1234").expect("a number").ends_with("-p 1234"));
        assert!(hint_of_words("sleep 1; ls").expect("a line").ends_with("sh -c 'sleep 1; ls'"));
        assert!(hint_of_words("nosuch").is_none());
    }
}
