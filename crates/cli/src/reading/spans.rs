//! The calls of recorded spans, printed.

use crate::cmd::report::Args;
use crate::reading::damage;
use crate::reading::load::OpenRecording;
use crate::reading::wall::read_with_runs;
use crate::terminal::{out, pager};
use crate::text::present;
use crate::text::view_form::ViewForm;
use display::term;
use exchange::rows;
use exchange::text::{FollowedTextOpts, spans::text};
use profile::view::spans::{SpanOpts, spans};
use std::process::ExitCode;

/// Prints the calls of `function`, or of all functions where it is empty.
///
/// # Errors
/// If the recording can't be read, has no spans, or none of this function.
pub fn report(input: &OpenRecording<'_>, args: &Args, function: &str) -> anyhow::Result<ExitCode> {
    let profile = &read_with_runs(input)?.profile;
    let named = Some(function.to_owned()).filter(|name| !name.is_empty());
    let found = spans(profile, &SpanOpts { function: named, slowest: args.wall_args.rows.min(10) });
    if found.is_empty() {
        let names = profile.spans.functions.iter().map(|of| of.name.as_str());
        if profile.spans.functions.is_empty() {
            return Err(damage::lacks(input.path, "no spans in it", "record with tally record --span FUNC"));
        }
        anyhow::bail!("no span '{function}' in the recording; there are {}", present::listed(names));
    }
    if args.causes.form() == ViewForm::Json {
        out::rows(&rows::spans(profile, &found, args.causes.max_lines), args.causes.max_lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (width, colour) = (term::width(), term::colours_stdout());
    let text = text(profile, &found, FollowedTextOpts { width, colour, rows: args.wall_args.rows });
    pager::start();
    out::text(&text)?;
    Ok(ExitCode::SUCCESS)
}
