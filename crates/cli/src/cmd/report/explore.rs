//! A wall-clock recording in the terminal.

use super::{Args, ReportPlan, has_no_samples, warn_of_problems};
use crate::html;
use crate::reading::damage;
use crate::reading::load::{self, OpenRecording};
use crate::terminal::end_signals;
use crate::text::findings;
use display::term;
use perfdata::PerfData;
use profile::off_cpu::is_off_cpu;
use profile::view::page::gather;
use profile::view::wall::{WallOpts, wall};
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;
use tui::{App, Data, Explorer, ExplorerFinding, ExplorerText};

/// True for a recording with time off the CPU, unless a flag asks for a table or a part of the samples.
pub fn is_wanted(args: &Args, file: &PerfData<'_>) -> bool {
    let has_waits = |name: &str| is_off_cpu(name) || name == "sched:sched_switch";
    let is_part = args.wall_args.waits.thread.is_some() || args.wall_args.waits.min_block.is_some();
    !selects(args) && !is_part && file.events().iter().any(|event| has_waits(&event.name))
}

/// True if a flag asks for a part of the samples, or for other rows or columns than the usual ones.
pub fn selects(args: &Args) -> bool {
    let is_filtered =
        [&args.only.comms, &args.only.dsos, &args.only.symbols].iter().any(|names| !names.is_empty())
            || !(args.only.pid.is_empty() && args.only.tid.is_empty())
            || args.only.cpu.is_some()
            || args.only.time.is_some()
            || args.input_and_filter().1.is_some();
    let is_shaped = args.columns.sort.is_some()
        || args.columns.fields.is_some()
        || args.stacks.call_graph.is_some()
        || args.stacks.branch_stack
        || args.columns.mem_mode
        || args.stacks.parent.is_some();
    is_filtered || is_shaped
}

/// Reads the whole recording, then shows it until the user leaves. Notes about it are printed afterwards.
///
/// # Errors
/// If it can't be read, or the terminal can't be used.
pub fn run(args: &Args, input: &OpenRecording<'_>, plan: ReportPlan) -> anyhow::Result<ExitCode> {
    let mut opts = plan.load_opts(args, input.file)?;
    html::keep_times(&mut opts);
    let mut progress = load::Progress::on_stderr(input.path, input.map);
    let recording = Arc::new(load::load_file(input.path, input.file, opts, &mut progress)?);
    let shown = WallOpts { never_empty: true, ..WallOpts::default() };
    let view = wall(&recording.profile, &shown);
    let theme = tui::Theme::new(term::colours_stdout());
    let mut app = App::new(Data::new(Arc::clone(&recording), plan.report), theme);
    if view.is_observed() {
        let source =
            html::PageSource { path: input.path, bytes: input.map, file: input.file, recording: &recording };
        let (title, findings) = html::head(&source, &view);
        let page = gather(&recording.profile, &view, &shown);
        let findings =
            findings.iter().enumerate().map(|(at, finding)| explorer_finding(at, finding)).collect();
        app.explore(Explorer::new(Arc::clone(&recording), page, ExplorerText { title, findings }));
    }
    drop(progress);
    let code = tui::run(&mut app, None, &end_signals::wait()?)?;
    damage::warn(input.path, &recording.diagnostics.problems);
    warn_of_problems(&recording, args.verbose);
    has_no_samples(input.path, &recording);
    Ok(code)
}

/// The finding at this place of `tally why --json`, with its evidence as text.
fn explorer_finding(at: usize, finding: &Value) -> ExplorerFinding {
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    ExplorerFinding {
        name: text("name"),
        claim: text("claim"),
        detail: text("detail"),
        fix: text("fix"),
        evidence: findings::draw(std::slice::from_ref(finding), at + 1, 100, false),
    }
}
