//! `tally calls info`: what was recorded, and how.

use profile::grow::GrownSum as _;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use super::open::{Need, with_view};
use super::view_args::ViewArgs;
use crate::terminal::out::{self, harmless};
use calls::recording::folder::Folder;
use calls::uftrace;
use display::number;

/// Prints it.
///
/// # Errors
/// If there is no recording, or writing fails.
pub fn print(path: &Path) -> anyhow::Result<()> {
    let mut to = out::stdout();
    if Folder::is_one(path) || !path.exists() || path.is_dir() && !uftrace::is_one(path) {
        let folder = Folder::open(path)?;
        super::open::warn_of_damage(&folder);
        of_folder(&mut to, &folder)?;
    } else {
        of_other(&mut to, path)?;
    }
    Ok(to.flush()?)
}

fn line(to: &mut impl Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(to, "{name:<12} {}", harmless(value))
}

fn of_folder(to: &mut impl Write, folder: &Folder) -> io::Result<()> {
    let said = |key: &str| folder.info.get(key).map(String::as_str);
    line(to, "recording", &folder.path.display().to_string())?;
    line(to, "command", said("command").unwrap_or("not known"))?;
    line(to, "recorded by", said("back_end").unwrap_or("the program's own compiled-in calls"))?;
    for (key, name) in [("status", "exit status"), ("cost", "cost")] {
        said(key).map_or(Ok(()), |value| line(to, name, value))?;
    }
    let wall = said("wall_ns").and_then(|ns| ns.parse().ok());
    let wall = wall.map_or("not known: the recording was cut short".to_owned(), number::duration_ns);
    line(to, "wall time", &wall)?;
    match &folder.totals {
        Some(totals) => {
            let calls = totals.iter().map(|(_, stats)| stats.calls()).grown_sum();
            let functions = number::grouped(totals.len() as u64);
            line(to, "calls", &format!("{}, as sums of {functions} functions only", number::grouped(calls)))?;
        }
        None => single_calls(to, folder)?,
    }
    folder.notes().try_for_each(|note| line(to, "note", note))?;
    folder.damaged.iter().try_for_each(|why| line(to, "not read", why))
}

fn single_calls(to: &mut impl Write, folder: &Folder) -> io::Result<()> {
    let sum = folder.summary();
    let processes: BTreeSet<u32> = folder.threads.iter().map(|thread| thread.pid).collect();
    line(to, "processes", &number::grouped(processes.len() as u64))?;
    line(to, "threads", &number::grouped(sum.threads))?;
    line(to, "calls", &number::grouped(sum.calls))?;
    line(to, "lost", &number::grouped(sum.lost))?;
    sum.stops().try_for_each(|why| line(to, "incomplete", &why))?;
    line(to, "events", &number::bytes(sum.bytes))?;
    let with_values: usize = folder.values.values().map(|functions| functions.len()).sum();
    if with_values > 0 {
        line(
            to,
            "values",
            &format!("arguments or results of {} functions", number::grouped(with_values as u64)),
        )?;
    }
    let switches =
        if folder.off.is_empty() { "not recorded" } else { "recorded: time off the CPU is shown separately" };
    line(to, "switches", switches)
}

/// For a recording of uftrace: facts from its calls.
fn of_other(to: &mut impl Write, path: &Path) -> anyhow::Result<()> {
    let by = if uftrace::is_one(path) { "uftrace" } else { "Intel PT" };
    with_view(&ViewArgs::all_of(path), Need::Sum { slowest: 0 }, |view, notes| {
        let sum = view.sum(0);
        let calls = sum.calls();
        line(to, "recording", &path.display().to_string())?;
        line(to, "command", &notes.title)?;
        line(to, "recorded by", by)?;
        if !view.tracks.is_empty() {
            line(to, "threads", &number::grouped(view.tracks.len() as u64))?;
        }
        line(to, "calls", &number::grouped(calls))?;
        line(to, "lost", &number::grouped(sum.lost))?;
        Ok(notes.lines.iter().try_for_each(|note| line(to, "note", note))?)
    })
}
