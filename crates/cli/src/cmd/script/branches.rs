//! `tally script --itrace`: the branches of a processor's trace.

use super::flags::Args;
use crate::calls::open::open_trace;
use crate::cmd::report::values::{parse_cpus, parse_time};
use crate::terminal::out;
use anyhow::ensure;
use calls::pt::lines::{LineSelection, TimeDigits};
use perfdata::PerfData;
use std::io::Write;
use std::process::ExitCode;

/// Prints those that the letters choose.
///
/// # Errors
/// If letters or fields are unknown, the file holds no such trace, or writing fails.
pub fn print(args: &Args, file: &PerfData<'_>, letters: &str) -> anyhow::Result<ExitCode> {
    ensure!(!args.json, "--json and --itrace exclude each other");
    let mut wanted = LineSelection::new(letters, &args.fields, TimeDigits::of_flag(args.ns))?;
    wanted.name_width = file.events().iter().map(|event| event.name.len()).max().unwrap_or(0);
    (wanted.pids, wanted.tids, wanted.comms) = (args.pid.clone(), args.tid.clone(), args.comms.clone());
    wanted.cpus = args.cpu.as_deref().map(parse_cpus).transpose()?;
    wanted.times = args.time.as_deref().map(parse_time).transpose()?;
    let trace = open_trace(&args.input, file)?;
    let mut out = out::stdout();
    trace.write_lines(&mut out, &wanted)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
