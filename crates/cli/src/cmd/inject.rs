//! `tally inject`: a copy of a recording with mappings of JIT code or build-ids, for tools that don't find these.

use crate::reading::load;
use crate::terminal::out;
use anyhow::bail;
use display::number::count_of;
use record::output_file::{create_export, create_recording};
use std::path::PathBuf;
use std::process::ExitCode;
use symbols::inject::{Added, JitMappings, missing_build_ids, rewrite, write_code};

/// Copy a recording and add the names of JIT code or build-ids, for perf and other tools
#[derive(clap::Args)]
#[command(after_help = "\
tally itself needs no such copy: it reads jitdump files and build-ids along with the
recording. With -j, each function of JIT code becomes an ELF file, jitted-PID-N.so, in
the folder of its jitdump file.

Examples:
  tally inject -j -i perf.data -o perf.data.jitted   names of JIT code
  tally inject -b -i perf.data -o with-ids.data      build-ids of files that lack them
  perf report -i perf.data.jitted                    reads the copy")]
pub struct Args {
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Add mappings of the code in jitdump files (jit-PID.dump)
    #[arg(short, long)]
    pub jit: bool,
    /// Add the build-ids of files that have none in the recording
    #[arg(short, long)]
    pub build_ids: bool,
    /// perf's flag; files of others are read anyway
    #[arg(short, long, hide = true)]
    pub force: bool,
    /// perf's flag; all notes are printed anyway
    #[arg(short, long, hide = true)]
    pub verbose: bool,
}

/// # Errors
/// If the recording can't be read, or a file not written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !args.jit && !args.build_ids {
        bail!("nothing to add: name -j (JIT code) or -b (build-ids)");
    }
    if matches!((args.input.canonicalize(), args.output.canonicalize()), (Ok(a), Ok(b)) if a == b) {
        bail!("{} is the recording itself: name another file with -o", args.output.display());
    }
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    let jit = if args.jit { write_code(&file, &create_export)? } else { JitMappings::default() };
    let build_ids = if args.build_ids { missing_build_ids(&file) } else { Vec::new() };
    let added = Added { jit, build_ids };
    rewrite(&file, &added, &args.output, &create_recording)?;
    note_result(&args, &added);
    Ok(ExitCode::SUCCESS)
}

fn note_result(args: &Args, added: &Added) {
    for (path, why) in &added.jit.unreadable {
        out::note(&format!("{}: not read: {why}", path.display()));
    }
    let mut parts = Vec::new();
    if args.jit {
        let processes = count_of(added.jit.processes.len() as u64, "process", "processes");
        let mappings = count_of(added.jit.mappings.len() as u64, "function", "functions");
        parts.push(format!("{mappings} of JIT code in {processes}"));
    }
    if args.build_ids {
        parts.push(count_of(added.build_ids.len() as u64, "build-id", "build-ids"));
    }
    out::note(&format!("{}: added {}", args.output.display(), parts.join(", ")));
    if args.jit && added.jit.processes.is_empty() && added.jit.unreadable.is_empty() {
        out::note(
            "no jitdump in the recording: Node needs --perf-prof, Java an agent that writes jit-PID.dump",
        );
    } else if added.jit.is_untimed && !added.jit.mappings.is_empty() {
        out::note(
            "the recording's clock isn't CLOCK_MONOTONIC: code is mapped from the start, so that replaced code has a wrong name (record with -k mono)",
        );
    }
}

#[cfg(test)]
mod tests;
