//! Runs one fuzz target on the stable compiler, with mutated copies of recorded files, for some seconds.
//!
//! A failing input is in `KEEP/TARGET.input`, its fault in `KEEP/TARGET.why`, and the number of inputs run in
//! `KEEP/TARGET.ran`. Standard output and error belong to the target, which may be the whole program.
#![deny(unsafe_code)]

mod corpus;
#[expect(unsafe_code, reason = "the compiler's counters are raw memory")]
mod coverage;
#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
mod memory;
mod minimize;
mod mutate;
mod pack;
mod reduce;
mod watch;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use corpus::{CorpusPlaces, Seeds};
use coverage::Coverage;
use mutate::Mutator;
use watch::Watch;

const USAGE: &str = "\
fuzz-smoke --list                                  names of the targets
fuzz-smoke TARGET SECONDS KEEP [--recorded DIR] [--grow DIR] [--seed N]
fuzz-smoke TARGET --input FILE                     one input
fuzz-smoke TARGET --minimize FILE KEEP             the smallest input that fails as FILE does
fuzz-smoke TARGET --reduce FOUND KEEP              what FOUND adds to fuzz/corpus/TARGET, in a build that counts
fuzz-smoke --pack OUT NAME=FILE...                 files as one input of a program- target
fuzz-smoke --unpack FILE DIR                       and back";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if std::env::var_os("TALLY_CACHE").is_none_or(|cache| cache != "off") {
        return alone();
    }
    let done = match args[..] {
        ["--list"] => {
            fuzz::targets().for_each(|(name, _)| println!("{name}"));
            Some(())
        }
        ["--pack", out, ..] => pack::pack(Path::new(out), &args[2..]).ok(),
        ["--unpack", file, folder] => pack::unpack(Path::new(file), Path::new(folder)).ok(),
        [name, "--input", file] => once(name, Path::new(file)),
        [name, "--minimize", file, keep] => find(name).and_then(|_| {
            minimize::minimize(name, Path::new(file), Path::new(keep))
                .map_err(|error| eprintln!("{error}"))
                .ok()
        }),
        [name, "--reduce", found, keep] => reduce_found(name, Path::new(found), Path::new(keep)),
        [name, seconds, keep, ..] => run(name, seconds, Path::new(keep), &args[3..]),
        _ => {
            eprintln!("{USAGE}");
            None
        }
    };
    if done.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// This program again, without caches, home folder and debuginfod servers that would make two runs differ.
fn alone() -> ExitCode {
    let Ok(own) = std::env::current_exe() else { return ExitCode::FAILURE };
    let mut command = Command::new(own);
    command.args(std::env::args_os().skip(1)).env("TALLY_CACHE", "off").env("HOME", "/nonexistent");
    for name in ["DEBUGINFOD_URLS", "DEBUGINFOD_CACHE_PATH", "XDG_CACHE_HOME", "PERF_BUILDID_DIR"] {
        command.env_remove(name);
    }
    eprintln!("{}", command.exec());
    ExitCode::FAILURE
}

fn find(name: &str) -> Option<fn(&[u8])> {
    let found = fuzz::targets().find(|(known, _)| known == name).map(|(_, call)| call);
    if found.is_none() {
        eprintln!("no target '{name}'");
    }
    found
}

fn once(name: &str, file: &Path) -> Option<()> {
    let (call, input) = (find(name)?, std::fs::read(file).ok()?);
    // A folder that a minimizer named, or one that is removed when we end.
    let keep = std::env::var_os("FUZZ_KEEP").map_or_else(std::env::temp_dir, PathBuf::from);
    Watch::start(name, &keep).ok()?.run(call, &input);
    eprintln!("no fault");
    Some(())
}

/// Writes the number of inputs kept to `KEEP/TARGET.kept`.
fn reduce_found(name: &str, found: &Path, keep: &Path) -> Option<()> {
    let (call, watch) = (find(name)?, Watch::start(name, keep).ok()?);
    let kept = reduce::reduce(name, call, found, &watch).map_err(|error| eprintln!("{error}")).ok()?;
    // The output belongs to the target.
    std::fs::write(keep.join(format!("{name}.kept")), format!("{kept}\n")).ok()
}

/// Options of [`run`] besides the target.
struct RunOptions {
    recorded: Option<PathBuf>,
    grown: Option<PathBuf>,
    seed: u64,
}

impl RunOptions {
    fn parse(args: &[&str]) -> Option<Self> {
        let mut options = Self { recorded: None, grown: None, seed: 1 };
        for pair in args.chunks(2) {
            match pair {
                ["--recorded", folder] => options.recorded = Some(folder.into()),
                ["--grow", folder] => options.grown = Some(folder.into()),
                ["--seed", number] => options.seed = number.parse().ok()?,
                _ => return None,
            }
        }
        Some(options)
    }
}

fn run(name: &str, seconds: &str, keep: &Path, args: &[&str]) -> Option<()> {
    let (call, seconds) = (find(name)?, seconds.parse().ok()?);
    let options = RunOptions::parse(args)?;
    fuzz::scratch::remove_abandoned();
    let watch = Watch::start(name, keep).ok()?;
    let places = CorpusPlaces { recorded: options.recorded.as_deref(), grown: options.grown.as_deref() };
    let Seeds { inputs: mut seeds, own } = Seeds::read(name, &places);
    let first_grown = seeds.len();
    let mut mutator = Mutator::new(options.seed.wrapping_mul(0x7A11).wrapping_add(name.len() as u64));
    let mut coverage = Coverage::new();
    let (start, end) = (Instant::now(), Duration::from_secs(seconds));
    let ran = keep.join(format!("{name}.ran"));
    let mut runs = 0_u64;
    for (at, seed) in seeds.iter().enumerate() {
        // The inputs of this machine may be many and large.
        if at >= own && start.elapsed() > end / 3 {
            break;
        }
        watch.run(call, seed);
        coverage.take();
        runs += 1;
    }
    let mut told = 0;
    while start.elapsed() < end {
        let input = mutator.next(&seeds);
        watch.run(call, &input);
        runs += 1;
        let grown = seeds.len() - first_grown;
        if coverage.is_counted()
            && coverage.take()
            && let Some(folder) = &options.grown
            && corpus::keep_found(folder, &input, grown)
        {
            seeds.push(input);
        }
        if start.elapsed().as_secs() > told {
            told = start.elapsed().as_secs();
            tell(&ran, runs, &seeds, &coverage);
        }
    }
    tell(&ran, runs, &seeds, &coverage);
    Some(())
}

/// Progress, for the process that started this one.
fn tell(ran: &Path, runs: u64, seeds: &[Vec<u8>], coverage: &Coverage) {
    // Without the file the run counts as one with no inputs.
    let _ = std::fs::write(ran, format!("{runs} {} {}\n", seeds.len(), coverage.edges));
}
