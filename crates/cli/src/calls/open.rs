//! Opens a recording of calls, whichever kind it is.

use super::folder::Folder;
use super::pt;
use super::uftrace;
use super::view::View;
use super::view_args::ViewArgs;
use crate::load;

/// What is to be told beside the numbers.
#[derive(Default)]
pub struct Notes {
    /// The command that was recorded.
    pub title: String,
    /// What was damaged or is missing, a line each.
    pub lines: Vec<String>,
}

/// What a view needs of a recording.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Sums, and so many of the slowest calls: a processor's trace is summed up while it is decoded.
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
    if uftrace::is_one(&args.input) {
        let (view, notes) = uftrace::open(args)?;
        return show(&view, &notes);
    }
    if !args.input.is_file() && args.input.as_os_str() != "-" {
        let folder = Folder::open(&args.input)?;
        folder.tell_damage();
        let title = folder.info.get("command").cloned().unwrap_or_default();
        let notes = Notes { title, lines: folder.notes().cloned().collect() };
        return show(&View::of_folder(&folder, args)?, &notes);
    }
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    let trace = pt::Trace::open(&args.input, &file)?;
    let title = file.features().cmdline.as_deref().unwrap_or_default().join(" ");
    let indexed;
    let (view, lines) = match need {
        // A span of time is one of the steps, which are to be known for that; whose thread one is, is known at the end.
        Need::Sum { slowest } if args.time.is_none() && args.pid.is_empty() => {
            View::of_sum(trace, args, slowest)?
        }
        _ => {
            let functions;
            let outcome;
            (indexed, functions, outcome) = pt::Indexed::new(&trace);
            (View::of_trace(&indexed, functions, args)?, outcome.lines())
        }
    };
    show(&view, &Notes { title, lines })
}
