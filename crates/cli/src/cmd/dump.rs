//! `tally dump`: every record of a perf.data file as one line of session text.

use crate::calls::pt_packets;
use crate::{
    reading::{damage, load},
    terminal::out,
};
use anyhow::Context;
use perfdata::text::{StackText, write_event, write_item};
use perfdata::{FileDiagnostics, Order, PerfData};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print every record of a perf.data file, one a line, in the form the tests are written in
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally dump                          the perf.data here, in file order
  tally dump --time other.data        in time order
  tally dump --pt                     the packets of an Intel PT trace, one a line
  tally dump --stacks | grep ^sample  copied user stacks in full, not only their size")]
pub struct Args {
    /// The file
    #[arg(value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// The same as FILE, in perf's spelling
    #[arg(short = 'i', long = "input", value_name = "FILE", conflicts_with = "input")]
    pub perf_input: Option<PathBuf>,
    /// In time order instead of file order
    #[arg(long)]
    pub time: bool,
    /// Begin each line with the record's offset in the file
    #[arg(long)]
    pub offsets: bool,
    /// The packets of an Intel PT trace instead
    #[arg(long, conflicts_with_all = ["time", "offsets", "stacks"])]
    pub pt: bool,
    /// The bytes of copied user stacks
    #[arg(long)]
    pub stacks: bool,
}

/// # Errors
/// If the file cannot be opened or is no perf.data file.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = args.perf_input.as_ref().unwrap_or(&args.input);
    let map = dso::MappedFile::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let file = load::parse(path, &map)?;
    let mut out = out::stdout();
    if args.pt {
        pt_packets::write(&mut out, path, &file)?;
        return out.flush().map(|()| ExitCode::SUCCESS).map_err(Into::into);
    }
    let mut line = String::new();
    for event in file.events() {
        line.clear();
        write_event(&mut line, event);
        writeln!(out, "{line}")?;
    }
    let order = if args.time { Order::Time } else { Order::File };
    let stacks = if args.stacks { StackText::Bytes } else { StackText::Size };
    let mut failed = None;
    let diagnostics = file.visit(order, |item| {
        line.clear();
        if args.offsets {
            line.push_str(&format!("{:#x} ", item.offset));
        }
        write_item(&mut line, &file, item, stacks);
        line.push('\n');
        match out.write_all(line.as_bytes()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(e) = failed {
        return Err(e.into());
    }
    out.flush()?;
    damage::warn(path, &diagnostics.problems);
    complain(&file, &diagnostics);
    Ok(ExitCode::SUCCESS)
}

/// One line for each kept problem but the one for which the recording was named as damaged, and one for the rest.
fn complain(file: &PerfData<'_>, d: &FileDiagnostics) {
    let named = usize::from(!file.is_unfinished());
    file.problems().iter().chain(&d.problems).skip(named).for_each(|p| out::complain(&p.to_string()));
    let more = d.problem_count - d.problems.len() as u64;
    if more > 0 {
        out::complain(&format!("and {more} more of the kind"));
    }
    if d.problem_count > 0 {
        let read = d.record_count();
        out::complain(&format!("{read} records could be read, {} samples could not", d.unreadable_samples));
    }
}
