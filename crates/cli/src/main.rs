//! The `tally` program. Everything is in the library next to it, so that tests and fuzzers reach it.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
