//! All chores: `cargo xtask ci`, and each of its steps alone.
//!
//! Depends on no crate of the workspace, so that a crate that does not compile does not stop its own checker.

mod apt;
mod bench;
mod bpf;
mod cargo;
mod ci;
mod fixtures;
mod fuzz;
mod golden;
mod instructions;
mod kernels;
mod leftovers;
mod oracle;
mod package;
mod parallel;
mod process;
mod readers;
mod repo;
mod sampling_rate;
mod score;
mod setup;
mod soak;
mod tests;
mod tidy;
mod usage;
mod web;

use std::process::ExitCode;

use anyhow::Result;
use repo::Repo;
use score::Score;

const HELP: &str = "\
cargo xtask CHORE [ARGS]

  ci [--all]         every check below, timed, with a count at the end;
                     --all: with ignored tests, a minute of each fuzz target, and soak (hours)
  setup              install tools for the oracles (root and apt), list what is missing
  fmt clippy doc     the compiler's own checks
  test [TIER] [FILTER]   tests of the workspace: default, live, machine or heavy;
                     without TIER default and live. Failed live tests are tried again alone
  tidy               the house rules
  golden [--update] [CASE...]   run commands, compare their output
  fixtures [--record]   build tests/programs into target/fixtures;
                     --record: make the recordings of tests/recordings again
  fuzz [SECONDS]     every fuzz target on this compiler, SECONDS each
  fuzz --hours N [TARGET...]   all targets in turn; grows fuzz/corpus
  kernels [--arm64|--armhf] [--update] [--program=FILE] [FILE.deb...]
                     boot Debian's kernels (--arm64, --armhf: of ARM) in an emulator with this build, run checks;
                     --update: write their table to docs/kernels.md
  soak [--minutes N] record under load: memory and descriptors must stay flat
  oracle [NAME]      perf and tally over the same files
  bench [NAME]       perf and tally side by side (heavy)
  bench --setup      make Debian sid's perf in target/perf-newest (root, debootstrap): the
                     benches over files then compare with it too; TALLY_NEWEST_PERF names another
  instructions [--update]   count instructions of the hottest paths (valgrind), compare them
                     with the stored counts; --update: store them
  cross              cargo check for aarch64 and musl
  miri               the tracer's unit tests under Miri (nightly)
  man                write manual pages and completions to target/man
  package [--twice]  a static program (with musl where rustup has it), tarball, .deb and .rpm
                     in target/package, tried alone; --twice: built a second time, the bytes
                     compared; --machine=aarch64: for that one, in target/package-aarch64;
                     --program=FILE: packs that one, built before
  bpf [--check]      rebuild (or compare) the BPF object
  web [--check]      build the page's script (or compare it, and try the page in a browser)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    leftovers::adopt();
    let done = run(&args);
    leftovers::end_all();
    match done {
        Ok(score) if score.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<Score> {
    let repo = Repo::here();
    let (chore, rest) = args.split_first().map_or(("help", args), |(first, rest)| (first.as_str(), rest));
    match chore {
        "ci" => ci::run(&repo, rest),
        "setup" => Ok(setup::run(&repo)),
        "fmt" => cargo::fmt(&repo),
        "clippy" => cargo::clippy(&repo),
        "doc" => cargo::doc(&repo),
        "cross" => cargo::cross(&repo),
        "man" => cargo::man(&repo),
        "miri" => cargo::miri(&repo),
        "package" => package::run(&repo, rest),
        "test" => tests::run_args(&repo, rest),
        "tidy" => tidy::run(&repo),
        "golden" => golden::run(&repo, rest),
        "fixtures" => fixtures::run_args(&repo, rest),
        "fuzz" => fuzz::run_args(&repo, rest),
        "kernels" => kernels::run(&repo, rest),
        "soak" => soak::run(&repo, rest),
        "oracle" => oracle::run(&repo, rest.first().map(String::as_str), oracle::Effort::Whole),
        "bench" => bench::run(&repo, rest.first().map(String::as_str)),
        "instructions" => instructions::run(&repo, rest),
        "bpf" => bpf::run(&repo, rest.iter().any(|arg| arg == "--check")),
        "web" if rest.iter().any(|arg| arg == "--check") => web::check(&repo),
        "web" => web::build(&repo),
        "help" | "-h" | "--help" => {
            print!("{HELP}");
            Ok(Score::PASS)
        }
        other => anyhow::bail!("no chore '{other}'; `cargo xtask help` lists them"),
    }
}
