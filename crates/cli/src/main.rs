//! The `tally` program. Everything is in the library next to it, so that tests and fuzzers reach it.
#![forbid(unsafe_code)]

/// Reading a recording allocates on all cores at once, where musl's own allocator takes turns.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
