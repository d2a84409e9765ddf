//! `tally report` of traced calls: browsed, as a table, or as a page.

use super::{Args, browses, explore};
use crate::calls::flame::{self, FlameOpts};
use crate::calls::open::{Need, with_view};
use crate::calls::view_args::ViewArgs;
use crate::terminal::end_signals;
use anyhow::bail;
use calls::model::{CallProfile, CallStats};
use calls::recording::folder;
use calls::uftrace;
use calls::view::View;
use display::number::count_of;
use display::term;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tui::{CallBrowser, CallRow, CallTable};

/// Whether a path is a folder of traced calls.
pub fn is_one(path: &Path) -> bool {
    path.join("info").is_file() || uftrace::is_one(path)
}

/// The folder of calls that is shown where no recording is named: the usual one, where there is no perf.data.
pub fn default_input() -> Option<PathBuf> {
    let usual = Path::new(folder::DEFAULT);
    (!Path::new("perf.data").exists() && is_one(usual)).then(|| usual.to_owned())
}

/// Shows the recording.
///
/// # Errors
/// If it can't be read, or a flag is about samples.
pub fn run(args: &Args, path: &Path) -> anyhow::Result<ExitCode> {
    if explore::selects(args) || args.causes.json || args.output.field_separator.is_some() {
        bail!(
            "{}: traced calls have no samples to select, sort or print as rows: `tally calls report -i {}` has flags for \
             calls",
            path.display(),
            path.display()
        );
    }
    let view = ViewArgs::all_of(path);
    if args.output.html.is_some() {
        flame::draw(&view, &FlameOpts { html: args.output.html.clone(), ..FlameOpts::default() })?;
    } else if browses(args) {
        return browse(&view);
    } else {
        crate::cmd::calls::print_functions(&view)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn browse(view: &ViewArgs) -> anyhow::Result<ExitCode> {
    with_view(view, Need::Sum { slowest: 0 }, |view, notes| {
        let sum = view.sum(0);
        anyhow::ensure!(sum.calls() > 0, "no calls in it");
        let title = format!("{}   {}", notes.title, count_of(sum.calls(), "call", "calls"));
        let table = CallTable { title, rows: rows(&sum, view), tree: flame::tree(&sum, view, false) };
        let mut browser = CallBrowser::new(table, tui::Theme::new(term::colours_stdout()));
        let signal = end_signals::wait()?;
        Ok(tui::run(&mut browser, None, &signal)?)
    })
}

fn rows(sum: &CallProfile, view: &View<'_>) -> Vec<CallRow> {
    let row = |(id, stats): (_, &CallStats)| CallRow {
        name: view.functions.of(id).name.clone(),
        calls: stats.calls(),
        total_ns: stats.total_ns,
        self_ns: stats.self_ns,
        off_ns: stats.off_ns,
        average_ns: stats.average_ns(),
        p50_ns: stats.quantile_ns(0.5),
        p99_ns: stats.quantile_ns(0.99),
        max_ns: stats.max_ns,
    };
    sum.functions().map(row).collect()
}
