//! `tally buildid-list`: the build-ids of the files a recording hit, or of one object file.

use crate::{load, out};
use anyhow::bail;
use perfdata::PerfData;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// List the build-ids of the files a recording hit, in perf's form
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally buildid-list                     perf.data of this folder
  tally buildid-list -i /usr/bin/bash    of one object file
  tally buildid-list --kernel            of the running kernel")]
pub struct Args {
    /// A recording, or an object file
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// The running kernel's
    #[arg(short, long)]
    pub kernel: bool,
}

/// # Errors
/// If the file can't be read, or has no build-id.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.kernel {
        let notes = std::fs::read("/sys/kernel/notes")?;
        let Some(id) = dso::build_id::parse_notes(&notes) else { bail!("/sys/kernel/notes has no build-id") };
        out::line(&hex(id.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let map = load::open(&args.input)?;
    if map.starts_with(b"\x7fELF") {
        let object = dso::ObjectFile::parse(dso::Bytes::new(map))?;
        let Some(id) = object.build_id() else { bail!("{} has no build-id", args.input.display()) };
        out::line(&hex(id.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = load::parse(&args.input, &map)?;
    out::text(&list(&file))?;
    Ok(ExitCode::SUCCESS)
}

fn list(file: &PerfData<'_>) -> String {
    let mut text = String::new();
    for entry in &file.features().build_ids {
        let name = String::from_utf8_lossy(&entry.filename);
        let _ = writeln!(text, "{} {}", hex(&entry.build_id), out::harmless(&name));
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
