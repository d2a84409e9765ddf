//! Output when a recording is done.

use record::sys::signal::SIGPIPE;
use std::path::Path;

use super::launch::Ended;
use super::overhead::{self, OverheadEstimate};
use super::preloaded_tracer::PreloadedTracer;
use super::record_spec::RecordSpec;
use super::size_watchdog;
use crate::terminal::out;
use calls::recording::folder::{Folder, Summary};
use display::number;
use display::signal::signal_name;

/// Reports what was recorded, what it cost, and how the program ended; and notes the cost in the folder.
///
/// # Errors
/// If the folder can't be read.
pub fn print_summary(
    args: &RecordSpec,
    tracer: &PreloadedTracer,
    ended: &Ended,
    told: Option<&OverheadEstimate>,
) -> anyhow::Result<()> {
    let folder = Folder::open(&args.output)?;
    let summary = folder.summary();
    out::note(&line(&args.output, &summary));
    for line in summary.stops().chain(unfiled(&folder)) {
        out::note(&format!("tally calls: {line}"));
    }
    let price = told.map(|told| told.of_run(args, tracer));
    if let Some(cost) = overhead::after(price, &summary, ended.used, args.min_ns.is_some()) {
        out::note(&format!("tally calls: {cost}"));
        overhead::note(&args.output, &cost)?;
    }
    for line in size_watchdog::smaller(&folder, summary.bytes, args) {
        out::note(&format!("tally calls: {line}"));
    }
    note_exit_status(ended.status);
    Ok(())
}

/// Notes about files that could not be made.
fn unfiled(folder: &Folder) -> Option<String> {
    let why = folder.unfiled_errno.map(std::io::Error::from_raw_os_error);
    let dir = folder.path.display();
    if folder.unfiled == 0 {
        return why.map(|why| {
            format!("the list of loaded libraries could not be written to {dir} ({why}): some functions may have no name")
        });
    }
    use std::io::ErrorKind;
    let remedy = match why {
        Some(why) if ![ErrorKind::PermissionDenied, ErrorKind::NotFound].contains(&why.kind()) => why.to_string(),
        _ => "the program had become another user, or changed its root directory and closed all files; start it as that \
              user, with a folder of theirs"
            .to_owned(),
    };
    Some(format!(
        "{} of the lost calls are those of threads that could make no file in {dir}: {remedy}",
        number::grouped(folder.unfiled)
    ))
}

/// Reports that the program was ended by a signal, if it was: it did not do all that it would have.
pub fn note_exit_status(status: u8) {
    let Some(number) = i32::from(status).checked_sub(128).filter(|number| (1..=64).contains(number)) else {
        return;
    };
    let why = if number == SIGPIPE {
        ": what read its output ended first (`| head`), so it did not run to its end"
    } else {
        ""
    };
    out::note(&format!("tally calls: the program was ended by signal {number}{}{why}", signal_name(number)));
}

fn line(dir: &Path, summary: &Summary) -> String {
    if summary.threads == 0 && summary.lost == 0 {
        return "tally calls: nothing was recorded: no instrumented function ran".to_owned();
    }
    let lost =
        if summary.lost > 0 { format!(", {} lost", number::grouped(summary.lost)) } else { String::new() };
    format!(
        "tally calls: {} calls in {} {}{lost}, {} in {}",
        number::grouped(summary.calls),
        number::grouped(summary.threads),
        if summary.threads == 1 { "thread" } else { "threads" },
        number::bytes(summary.bytes),
        dir.display()
    )
}
