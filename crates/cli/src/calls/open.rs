//! Opens a recording of calls, whichever kind it is.

use anyhow::Context;

use super::folder::Folder;
use super::pt;
use super::view::{View, ViewArgs};
use crate::load;

/// What is to be told beside the numbers.
#[derive(Default)]
pub struct Notes {
    /// The command that was recorded.
    pub title: String,
    /// What was damaged or is missing, a line each.
    pub lines: Vec<String>,
}

/// Opens the recording and shows it.
///
/// # Errors
/// If there is none, nothing is left of it by the filters, or `show` fails.
pub fn with_view<R>(
    args: &ViewArgs,
    show: impl FnOnce(&View<'_>, &Notes) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    if !args.input.is_file() {
        let folder = Folder::open(&args.input)?;
        let title = folder.info.get("command").cloned().unwrap_or_default();
        let notes = Notes { title, lines: folder.damaged.clone() };
        return show(&View::of_folder(&folder, args)?, &notes);
    }
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    let trace = pt::Trace::open(&file).with_context(|| format!("{}", args.input.display()))?;
    let (steps, functions, outcome) = trace.decode_all();
    let title = file.features().cmdline.as_deref().unwrap_or_default().join(" ");
    show(&View::of_trace(steps, functions, args)?, &Notes { title, lines: outcome.lines() })
}
