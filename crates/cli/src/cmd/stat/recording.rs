//! `tally stat record` and `tally stat report`: counts in a perf.data file.

use super::Args;
use crate::reading::damage;
use crate::reading::load;
use crate::stat::outcome::{CountedCommand, Total};
use crate::stat::run::{Outcome, RunOpts};
use anyhow::{Context as _, bail, ensure};
use counts::{Aggregation, CountFileOpts, CountWriter, reread};
use record::opts::{FileOpts, RecordOpts};
use record::{features, output_file};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags that [`spelled_out`] makes of the two words.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct FileArgs {
    /// Write the counts to the file of -o, too
    #[arg(long = "record-counts", hide = true)]
    pub record: bool,
    /// Show the counts of a file
    #[arg(long = "report-counts", hide = true)]
    pub report: bool,
    /// The file to show
    #[arg(long = "input", value_name = "FILE", hide = true, requires = "report")]
    input: Option<PathBuf>,
}

/// `stat record …` and `stat report -i FILE` as flags, for a word among flags would be a command to count.
pub fn spelled_out(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_none_or(|command| command != "stat") {
        return args;
    }
    match args.get(2).and_then(|word| word.to_str()) {
        Some("record") => args[2] = "--record-counts".into(),
        Some("report") => {
            args[2] = "--report-counts".into();
            // For a command to be counted -i has another meaning.
            args.iter_mut().skip(3).filter(|arg| *arg == "-i").for_each(|arg| *arg = "--input".into());
        }
        _ => {}
    }
    args
}

/// perf takes the words `record` and `report` for commands of its own wherever they are.
///
/// # Errors
/// The command to run begins with one of them.
pub fn refuse_words(command: &[OsString]) -> anyhow::Result<()> {
    match command.first().and_then(|word| word.to_str()) {
        Some(word @ ("record" | "report")) => {
            bail!(
                "{word} must be the first word after stat: tally stat {word} … (a program of that name is run by ./{word})"
            )
        }
        _ => Ok(()),
    }
}

/// A file that begins with the first counts; or none.
pub struct ToFile<'a> {
    opts: &'a RunOpts,
    path: Option<PathBuf>,
    writer: Option<CountWriter>,
}

impl ToFile<'_> {
    /// As [`CountWriter::push`]; an existing file becomes FILE.old.
    pub fn push(&mut self, outcome: &Outcome, is_end: bool) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let file = output_file::create_recording(path)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                none.insert(CountWriter::new(file, file_opts(self.opts), &outcome.run)?)
            }
        };
        Ok(writer.push(&outcome.run, is_end)?)
    }

    /// As [`CountWriter::finish`].
    pub fn finish(self) -> anyhow::Result<()> {
        let Some(writer) = self.writer else { return Ok(()) };
        let command_line = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let about =
            RecordOpts { file: FileOpts { command_line, ..FileOpts::default() }, ..RecordOpts::default() };
        Ok(writer.finish(|events| features::of_machine(&about, events))?)
    }
}

/// Tool events are counted by tally itself and aren't in the file.
fn file_opts(opts: &RunOpts) -> CountFileOpts {
    let events = opts.events.iter().enumerate().filter(|(_, event)| event.tool.is_none());
    CountFileOpts {
        attrs: events.map(|(at, event)| (at, event.attr)).collect(),
        interval_ms: opts.interval.map_or(0, |interval| interval.as_millis() as u64),
        unscaled: opts.unscaled,
    }
}

impl Args {
    /// Where counts go besides the screen.
    pub(super) fn to_file<'a>(&self, opts: &'a RunOpts) -> anyhow::Result<ToFile<'a>> {
        if !self.file.record {
            return Ok(ToFile { opts, path: None, writer: None });
        }
        ensure!(self.repeat == 1, "stat record keeps one run: leave out -r");
        ensure!(self.vs.is_none(), "stat record keeps one run: leave out --vs");
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from("perf.data"));
        ensure!(path.as_os_str() != "-", "stat record writes a file: name one by -o FILE");
        Ok(ToFile { opts, path: Some(path), writer: None })
    }

    /// `stat report`.
    pub(super) fn report(&self) -> anyhow::Result<ExitCode> {
        let path = self.file.input.clone().unwrap_or_else(|| PathBuf::from("perf.data"));
        let map = load::open(&path)?;
        let file = load::parse(&path, &map)?;
        if !file.features().is_stat {
            damage::warn_of_records(&path, &file);
            let record = "they are kept by tally stat record (samples are shown by tally report)";
            return Err(damage::lacks(&path, "no counts in it", record));
        }
        let by = self.aggregation();
        let counts = reread(&file, (by != Aggregation::Global).then_some(by));
        damage::warn(&path, &counts.problems);
        let mut total = Total::new(self.style(), false, false);
        let mut out = self.open_output(None)?;
        if let Some(first) = counts.runs.first().filter(|_| counts.has_intervals) {
            total.style.interval_header(first.grouping.by(), &mut out)?;
        }
        for run in counts.runs {
            if counts.has_intervals {
                total.print_interval(&run, &mut out)?;
            } else {
                total = self.new_total();
                total.push(Outcome { run, used: None, exit: None, interrupted: None });
            }
        }
        if !counts.has_intervals {
            let command = file.features().cmdline.clone().unwrap_or_default();
            total.print(&CountedCommand::recorded(&command), &mut out)?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
