//! The wall clock of a recording: flags shared by the commands that show it, and reading it.

use crate::flags::shown_names;
use crate::reading::damage;
use crate::reading::load::{self, OpenRecording, Progress};
use crate::terminal::foreign::json_lines;
use crate::terminal::{out, pager};
use crate::text::present;
use crate::text::view_form::ViewForm;
use crate::text::wall::{self as text, WallTextOpts};
use display::term;
use dso::MappedFile;
use exchange::rows;
use exchange::text::{
    FollowedTextOpts, blame as blame_text, critical, label_notes, label_times as label_text,
};
use perfdata::PerfData;
use profile::profile::Profile;
use profile::session::SessionOpts;
use profile::source::Want;
use profile::view::blame::{CriticalOpts, blame, critical_path};
use profile::view::report::SortKey;
use profile::view::wall::{ThreadRow, WallOpts, is_called, label_times, wall};
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use symbols::{LoadOpts, Recording, UnnamedCode};

/// Selection of waits: threads and lengths.
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
    /// Request of the view; `longest` of the longest waits.
    #[must_use]
    pub fn opts(&self, longest: usize) -> WallOpts {
        WallOpts {
            thread: self.thread.clone(),
            min_block_ns: self.min_block.unwrap_or(0),
            with_idle: self.idle,
            never_empty: true,
            longest,
        }
    }
}

/// Refuses a `--thread` that no recorded thread matches, with the names there are.
///
/// # Errors
/// No thread has that name or id.
pub fn check_thread(profile: &Profile, args: &WaitArgs) -> anyhow::Result<()> {
    let Some(thread) = &args.thread else { return Ok(()) };
    let all = wall(profile, &WallOpts::default()).threads;
    let is = |row: &ThreadRow| row.tasks.iter().any(|&task| is_called(profile, task, thread));
    if all.is_empty() || all.iter().any(is) {
        return Ok(());
    }
    let names = all.iter().map(|row| profile.with_purpose(row.pid, &row.comm));
    anyhow::bail!("no thread '{thread}' in the recording; there are {}", present::listed(names))
}

/// Prints the wall clock of an open recording; as JSON with at most `most` rows in each list (0: all).
///
/// # Errors
/// If it can't be read, or has nothing about time off the CPU.
pub fn report(
    input: &OpenRecording<'_>,
    args: &WallArgs,
    form: ViewForm,
    most: usize,
) -> anyhow::Result<ExitCode> {
    let recording = read(input.path, input.map, input.file)?;
    check_thread(&recording.profile, &args.waits)?;
    let view = wall(&recording.profile, &args.waits.opts(args.rows.min(10)));
    if view.source.is_none() {
        let record = "record with tally record --off-cpu (or -e sched:sched_switch)";
        return Err(damage::lacks(input.path, "nothing about time off the CPU in it", record));
    }
    if form == ViewForm::Json {
        let rows = rows::wall(&recording.profile, &view, most);
        out::rows(&rows, most)?;
        return Ok(ExitCode::SUCCESS);
    }
    let names_width = term::names_width();
    pager::start();
    let mut out = out::stdout();
    let opts = WallTextOpts {
        width: term::width(),
        names_width,
        colour: term::colours_stdout(),
        rows: args.rows,
        with_idle: args.waits.idle,
        min_block_ns: args.waits.min_block.unwrap_or(0),
    };
    text::write(&mut out, &recording.profile, &view, opts)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a recording with the times of its samples.
///
/// # Errors
/// If it can't be read.
pub fn read_with_runs(of: &OpenRecording<'_>) -> anyhow::Result<Recording> {
    load::load_file(of.path, of.file, load_opts_with_runs(), &mut Progress::on_stderr(of.path, of.map))
}

/// Prints the critical path of a recording, or of the span between two functions.
///
/// # Errors
/// If the recording can't be read, has no wall-clock times, or a function was never seen.
pub fn report_critical(
    input: &OpenRecording<'_>,
    args: &WallArgs,
    span: &CriticalOpts,
    form: ViewForm,
) -> anyhow::Result<ExitCode> {
    let recording = read_with_runs(input)?;
    let profile = &recording.profile;
    check_thread(profile, &args.waits)?;
    let found = critical_path(profile, span);
    if found.pieces.is_empty() && (span.from.is_some() || span.to.is_some()) {
        anyhow::bail!("no time between these functions: they were not seen on a stack in this order");
    }
    if found.pieces.is_empty() {
        return Err(no_times(input));
    }
    let view = FollowedView {
        json: &|| rows::critical_path(profile, &found),
        text: &|out, opts| critical::write(out, profile, &found, opts),
    };
    view.print(args, form)
}

/// Prints what the waits of a thread were for.
///
/// # Errors
/// If the recording can't be read, or has no wall-clock times.
pub fn report_blame(input: &OpenRecording<'_>, args: &WallArgs, form: ViewForm) -> anyhow::Result<ExitCode> {
    let recording = read_with_runs(input)?;
    let profile = &recording.profile;
    check_thread(profile, &args.waits)?;
    let found = blame(profile, args.waits.thread.as_deref());
    if found.paths.is_empty() {
        return Err(no_times(input));
    }
    let view = FollowedView {
        json: &|| rows::blame(profile, &found),
        text: &|out, opts| blame_text::write(out, profile, &found, opts),
    };
    view.print(args, form)
}

/// Prints the wall clock by labels of goroutines, or by the value of one label.
///
/// # Errors
/// If the recording can't be read, or has nothing about time off the CPU.
pub fn report_labels(
    input: &OpenRecording<'_>,
    args: &WallArgs,
    key: &SortKey,
    form: ViewForm,
) -> anyhow::Result<ExitCode> {
    let profile = read_with_runs(input)?.profile;
    check_thread(&profile, &args.waits)?;
    if profile.off_cpu.source.is_none() {
        return Err(no_times(input));
    }
    label_notes(&profile, std::slice::from_ref(key)).iter().for_each(|note| out::note(note));
    let value = if let SortKey::Label(value) = key { value.as_deref() } else { None };
    let rows = label_times(&profile, &args.waits.opts(0), value);
    let view = FollowedView {
        json: &|| rows::label_times(&profile, &rows, 0),
        text: &|out, opts| label_text::write(out, &profile, &rows, opts),
    };
    view.print(args, form)
}

fn no_times(input: &OpenRecording<'_>) -> anyhow::Error {
    damage::lacks(input.path, "no times of threads in it", "record with tally record --off-cpu")
}

/// A view that follows waits, in both forms.
struct FollowedView<'a> {
    json: &'a dyn Fn() -> Value,
    text: &'a dyn Fn(&mut dyn Write, FollowedTextOpts) -> io::Result<()>,
}

impl FollowedView<'_> {
    fn print(&self, args: &WallArgs, form: ViewForm) -> anyhow::Result<ExitCode> {
        pager::start();
        let mut out = out::stdout();
        match form {
            ViewForm::Json => writeln!(out, "{}", json_lines(&(self.json)()))?,
            ViewForm::Text => {
                let (width, colour) = (term::width(), term::colours_stdout());
                (self.text)(&mut out, FollowedTextOpts { width, colour, rows: args.rows })?;
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads a recording with all that waits need.
///
/// # Errors
/// If it can't be read.
pub fn read(path: &Path, map: &MappedFile, file: &PerfData<'_>) -> anyhow::Result<Recording> {
    load::load_file(path, file, load_opts(), &mut Progress::on_stderr(path, map))
}

/// All that waits need.
pub fn load_opts() -> LoadOpts {
    LoadOpts {
        session: SessionOpts::default(),
        want: Want::Lines,
        names: shown_names::opts(),
        unnamed: UnnamedCode::Functions,
    }
}

/// The same, with the times at which threads were sampled and with labels: for views that follow or divide waits.
#[must_use]
pub fn load_opts_with_runs() -> LoadOpts {
    let mut load = load_opts();
    (load.session.dimensions.seen_running, load.session.dimensions.labels) = (true, true);
    load
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
    let value: f64 = number.parse().map_err(|_| format!("'{text}' is not a time: want 500us, 1ms, 2s"))?;
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
