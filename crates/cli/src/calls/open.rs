//! Opens a recording of calls, whichever kind it is.

use calls::pt::{Indexed, PtError, Trace};
use calls::recording::folder::Folder;
use calls::uftrace::{self, UftraceNotes};
use calls::view::View;
use perfdata::PerfData;
use std::path::Path;

use super::pt_notes;
use super::view_args::ViewArgs;
use crate::cmd::report::parse_times;
use crate::reading::{damage, load};
use display::number;

/// Notes besides the numbers.
#[derive(Default)]
pub struct Notes {
    /// The command that was recorded.
    pub title: String,
    /// Damaged or missing parts, a line each.
    pub lines: Vec<String>,
}

/// Parts of a recording that a view needs.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Sums, and this many of the slowest calls: a processor's trace is summed up while it is decoded.
    Sum {
        /// How many.
        slowest: usize,
    },
    /// Every single call, in order: a processor's trace is decoded again for each look at it.
    Steps,
}

/// Opens the recording and shows it.
///
/// # Errors
/// If there is none, nothing is left of it by the filters, or `show` fails.
pub fn with_view<R>(
    args: &ViewArgs,
    need: Need,
    show: impl FnOnce(&View<'_>, &Notes) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let spec = args.spec();
    let time = args.time.as_deref();
    if uftrace::is_one(&args.input) {
        let (view, notes) = uftrace::open(&args.input, &spec)?;
        let notes = notes_of_uftrace(&args.input, notes);
        return show(&within(view, time)?, &notes);
    }
    if !args.input.is_file() && args.input.as_os_str() != "-" {
        let folder = Folder::open(&args.input)?;
        warn_of_damage(&folder);
        let title = folder.info.get("command").cloned().unwrap_or_default();
        let notes = Notes { title, lines: folder.notes().cloned().collect() };
        return show(&within(View::of_folder(&folder, &spec)?, time)?, &notes);
    }
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    let trace = open_trace(&args.input, &file)?;
    let title = file.features().cmdline.as_deref().unwrap_or_default().join(" ");
    let indexed;
    let (view, outcome) = match need {
        // A span of time is one of the steps, which are to be known for that; whose thread one is, is known at the end.
        Need::Sum { slowest } if time.is_none() && args.pid.is_empty() => {
            View::of_sum(trace, &spec, slowest)?
        }
        _ => {
            let functions;
            let outcome;
            (indexed, functions, outcome) = Indexed::new(&trace);
            (within(View::of_trace(&indexed, functions, &spec)?, time)?, outcome)
        }
    };
    show(&view, &Notes { title, lines: pt_notes::lines(&outcome) })
}

/// The view limited to the span of `--time`.
fn within<'v>(mut view: View<'v>, time: Option<&str>) -> anyhow::Result<View<'v>> {
    let Some(text) = time else { return Ok(view) };
    let whole = text.contains('%').then(|| (0, view.length_ns()));
    match parse_times(text, whole)?.as_slice() {
        [(from, to)] => view.show_only(*from, *to),
        _ => anyhow::bail!("--time {text}: one span of time"),
    }
    Ok(view)
}

/// Opens an Intel PT recording. A damaged one is named on standard error, first of all if it holds no trace.
///
/// # Errors
/// If it holds no trace.
pub fn open_trace<'a>(path: &Path, file: &PerfData<'a>) -> anyhow::Result<Trace<'a>> {
    let trace = Trace::open(file).map_err(|why| {
        damage::warn_of_records(path, file);
        if matches!(why, PtError::NoTrace) && damage::is_named(path) {
            return damage::lacks(path, "no processor trace in it", "");
        }
        anyhow::Error::new(why).context(load::name_of(path))
    })?;
    damage::warn(path, trace.problems());
    Ok(trace)
}

/// Names the recording on standard error if it is unfinished, or if files of it could not be read.
pub fn warn_of_damage(folder: &Folder) {
    damage::warn_of_folder(&folder.path, &folder.damaged);
    if !folder.info.contains_key("wall_ns") {
        damage::warn_unfinished(&folder.path, "was killed, ran out of space or still runs");
    }
}

fn notes_of_uftrace(dir: &Path, notes: UftraceNotes) -> Notes {
    let counts = [
        (notes.skipped, "records passed over (events, ends of earlier calls)"),
        (
            notes.values_passed_over,
            "entries and exits with arguments or results of a form not known, which are not shown",
        ),
        (
            notes.events_bytes,
            "bytes of uftrace's events (context switches, kernel functions), which are not shown",
        ),
    ];
    let lines = counts.into_iter().filter(|(count, _)| *count > 0);
    let lines = lines.map(|(count, what)| format!("{} {what}", number::grouped(count))).collect();
    if notes.unread_bytes > 0 {
        damage::warn_of_folder(dir, &[format!("{} bytes not read", number::grouped(notes.unread_bytes))]);
    }
    Notes { title: notes.command, lines }
}
