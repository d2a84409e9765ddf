//! The wall clock of a recording: flags shared by the commands that show it, and reading it.

use crate::damage;
use crate::load::{self, LoadOpts, Progress, Recording};
use crate::name_args::NameArgs;
use crate::text::wall::{self as text, WallTextOpts};
use crate::unnamed::UnnamedCode;
use crate::{out, term};
use dso::Mmap;
use perfdata::PerfData;
use profile::session::SessionOpts;
use profile::source::Want;
use profile::view::wall::{WallOpts, wall};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Whose waits, and which.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Wall clock")]
pub struct WaitArgs {
    /// Only threads of this name, or this thread id
    #[arg(long, value_name = "NAME|TID")]
    pub thread: Option<String>,
    /// Only waits at least this long: 500us, 1ms, 2s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub min_block: Option<u64>,
    /// Count idle waits (threads waiting for work) like all others
    #[arg(long)]
    pub idle: bool,
}

/// Which part of the wall clock, as text.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Wall clock")]
pub struct WallArgs {
    /// Which waits.
    #[command(flatten)]
    pub waits: WaitArgs,
    /// Rows per list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
}

impl WaitArgs {
    /// What the view is asked for; `longest` of the longest waits.
    #[must_use]
    pub fn opts(&self, longest: usize) -> WallOpts {
        WallOpts {
            thread: self.thread.clone(),
            min_block_ns: self.min_block.unwrap_or(0),
            with_idle: self.idle,
            longest,
        }
    }
}

/// Prints the wall clock of an open recording.
///
/// # Errors
/// If it can't be read, or says nothing about time off the CPU.
pub fn report(path: &Path, map: &Mmap, file: &PerfData<'_>, args: &WallArgs) -> anyhow::Result<ExitCode> {
    let recording = read(path, map, file)?;
    let view = wall(&recording.profile, &args.waits.opts(args.rows.min(10)));
    if view.source.is_none() {
        let record = "record with tally record --off-cpu (or -e sched:sched_switch)";
        return Err(damage::lacks(path, "nothing about time off the CPU in it", record));
    }
    let mut out = out::stdout();
    let opts = WallTextOpts {
        width: term::width(),
        colour: term::colours_stdout(),
        rows: args.rows,
        with_idle: args.waits.idle,
        min_block_ns: args.waits.min_block.unwrap_or(0),
    };
    text::write(&mut out, &recording.profile, &view, opts)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a recording with all that waits need.
///
/// # Errors
/// If it can't be read.
pub fn read(path: &Path, map: &Mmap, file: &PerfData<'_>) -> anyhow::Result<Recording> {
    load::load_file((path, file), load_opts(), &mut Progress::on_stderr(path, map))
}

/// All that waits need.
pub fn load_opts() -> LoadOpts {
    LoadOpts {
        session: SessionOpts::default(),
        want: Want::Lines,
        names: NameArgs::default(),
        unnamed: UnnamedCode::Functions,
    }
}

/// `500us`, `1ms`, `2s`; plain numbers are ms.
///
/// # Errors
/// Text that is no such time.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "" | "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(format!("unknown unit '{unit}': want ns, us, ms or s")),
    };
    let value: f64 = number.parse().map_err(|_| format!("'{text}' is no time: want 500us, 1ms, 2s"))?;
    Ok((value * scale) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_default_to_ms() {
        assert_eq!(
            ["500us", "1ms", "2s", "3", "1.5ms"].map(parse_duration).map(Result::unwrap),
            [500_000, 1_000_000, 2_000_000_000, 3_000_000, 1_500_000]
        );
        assert!(parse_duration("5 parsecs").is_err() && parse_duration("").is_err());
    }
}
