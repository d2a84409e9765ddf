//! `tally report`: a recording as a table with call graphs, printed or to be browsed.

mod absent;
mod calls;
mod counts;
mod explore;
mod flags;
mod plan;
mod records;
pub(super) mod values;

pub use flags::Args;
pub use plan::{ReportPlan, dimensions, reads_lines};
pub use values::{CallGraph, cpus_of, fuzz_flags, parse_call_graph, parse_fields, parse_times};

use crate::flags::shown_names;
use crate::reading::damage;
use crate::reading::load;
use crate::reading::load::OpenRecording;
use crate::text::report as stdio;
use crate::{
    html,
    terminal::{end_signals, interrupts_off, out, pager},
};
use anyhow::bail;
use display::term;
use exchange::rows;
use exchange::text::label_notes;
use profile::profile::{EventInfo, Profile};
use profile::reason::{Diagnostics, Reason};
use profile::table::DsoKind;
use profile::view::blame::CriticalOpts;
use record::container_names;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use symbols::Recording;

/// Runs the command.
///
/// # Errors
/// If the recording can't be read, or a flag's value makes no sense.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.perf.check()?;
    args.name_thread()?;
    args.names.check()?;
    if let Some(colour) = args.output.stdio_color {
        term::set_colour(colour.into());
    }
    let (path, _) = args.input_and_filter();
    if args.lists.dump_raw_trace {
        bail!("{}", records::NO_DUMP);
    }
    if args.lists.stats || args.lists.tasks || args.lists.mmaps {
        records::print(&path, args.lists.stats, args.lists.mmaps)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.itrace.as_deref().is_some_and(|how| !how.is_empty()) {
        out::note(
            "tally report: --itrace: recorded samples are shown; `tally calls -i FILE` decodes Intel PT into calls and \
             times, `tally script --itrace=i10usg -i FILE | tally flame -i -` draws its instructions",
        );
    }
    if calls::is_one(&path) {
        return calls::run(&args, &path);
    }
    let map = load::open(&path)?;
    let file = load::parse(&path, &map)?;
    let input = OpenRecording { path: &path, map: &map, file: &file };
    shown_names::set_sources(args.name_sources());
    if args.causes.critical_path {
        let span = CriticalOpts {
            thread: args.wall_args.waits.thread.clone(),
            from: args.causes.from.clone(),
            to: args.causes.to.clone(),
        };
        return crate::reading::wall::report_critical(&input, &args.wall_args, &span, args.causes.form());
    }
    if args.causes.blame {
        return crate::reading::wall::report_blame(&input, &args.wall_args, args.causes.form());
    }
    if let Some(function) = &args.causes.span {
        return crate::reading::spans::report(&input, &args, function);
    }
    let explores = browses(&args) && explore::is_wanted(&args, &file);
    if args.wall && args.output.html.is_none() && !explores {
        let (form, most) = (args.causes.form(), args.causes.max_lines);
        if let Some(key) = args.label_key()? {
            return crate::reading::wall::report_labels(&input, &args.wall_args, &key, form);
        }
        return crate::reading::wall::report(&input, &args.wall_args, form, most);
    }
    if args.header.header_only {
        out::text(&args.header.text(&path, &file))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut plan = ReportPlan::new(&args, &file)?;
    if args.causes.json {
        // A section for each event, rows alone.
        (plan.report.group, plan.report.graph) = (false, None);
    }
    if args.header.header {
        plan.header = Some(args.header.text(&path, &file));
    }
    let browses = browses(&args);
    if browses || args.output.html.is_some() {
        plan.show_functions(&args);
    }
    if explores {
        return explore::run(&args, &input, plan);
    }
    if browses {
        return browse(&args, &input, plan);
    }
    let mut progress = load::Progress::on_stderr(&path, &map);
    let mut opts = plan.load_opts(&args, &file)?;
    if args.output.html.is_some() {
        html::keep_times(&mut opts);
    }
    let mut recording = load::load_file(&path, &file, opts, &mut progress)?;
    if args.columns.group {
        group_all(&mut recording.profile);
    }
    if plan.needs_cgroups() {
        name_containers(&mut recording.profile);
    }
    label_notes(&recording.profile, &plan.report.keys()).iter().for_each(|note| out::note(note));
    warn_of_problems(&recording, args.verbose);
    if has_no_samples(&path, &recording) && !args.causes.json {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(target) = &args.output.html {
        let source = html::PageSource { path: &path, bytes: &map, file: &file, recording: &recording };
        let (data, about) = html::of_recording(source, &args.wall_args.waits.opts(0));
        html::write_file(target, &data, &about)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.causes.json {
        let report = profile::view::report::report(&recording.profile, &plan.report);
        let rows = rows::report(&recording.profile, &report, args.causes.max_lines);
        out::rows(&rows, args.causes.max_lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&recording, &plan, &args)?;
    if args.lists.threads {
        out::text(&counts::table(&file, args.lists.pretty.as_deref())?)?;
    }
    // The process ends: to free each row and table would take longer than to print some.
    std::mem::forget(recording);
    Ok(ExitCode::SUCCESS)
}

/// Shows the file in the terminal while it is read; notes about it are printed afterwards.
fn browse(args: &Args, input: &OpenRecording<'_>, plan: ReportPlan) -> anyhow::Result<ExitCode> {
    let OpenRecording { path, map, file } = *input;
    let signal = end_signals::wait()?;
    let theme = tui::Theme::new(term::colours_stdout());
    let opts = plan.load_opts(args, file)?;
    let mut progress = load::Progress::releasing(map);
    let mut on_read = |offset| {
        let _ = progress.at(offset);
    };
    let shown = tui::FileInput { file, bytes: map.len() as u64, opts, on_read: &mut on_read };
    let (code, recording) = tui::read(shown, plan.report, &signal, theme)?;
    damage::warn(path, &recording.diagnostics.problems);
    warn_of_problems(&recording, args.verbose);
    has_no_samples(path, &recording);
    Ok(code)
}

/// `--group` where the recording has no groups: all events become one, as perf does.
fn group_all(profile: &mut Profile) {
    let is_alone = |(at, event): (usize, &EventInfo)| event.leader == at;
    if profile.events.iter().enumerate().all(is_alone) {
        profile.events.iter_mut().for_each(|event| event.leader = 0);
    }
}

fn has_no_samples(path: &Path, recording: &Recording) -> bool {
    let none = recording.profile.diagnostics.samples_read == 0;
    if none {
        out::note(&format!("tally report: {}: no samples in it", path.display()));
    }
    none
}

/// On a terminal a report is browsed, unless text is asked for.
fn browses(args: &Args) -> bool {
    let text = args.output.html.is_some()
        || args.lists.threads
        || args.output.stdio
        || args.output.quiet
        || args.header.header
        || args.columns.hierarchy
        || args.columns.has_latency()
        || args.causes.json
        || args.output.field_separator.is_some();
    args.output.tui || (!text && tui::is_usable())
}

fn print(recording: &Recording, plan: &ReportPlan, args: &Args) -> anyhow::Result<()> {
    let profile = &recording.profile;
    let report = profile::view::report::report(profile, &plan.report);
    if let Some(why) = absent::no_rows(profile, &report, &plan.report.filter) {
        out::note(&format!("tally report: {why}"));
    }
    pager::start();
    let mut out = out::stdout();
    stdio::write(&mut out, profile, &report, &plan.stdio(args, recording, term::colours_stdout()))?;
    out.flush()?;
    // As the recording: the process ends.
    std::mem::forget(report);
    Ok(())
}

/// How many stacks don't reach their root, if that is more than one in a hundred.
fn warn_of_cut_stacks(found: &Diagnostics) {
    let cut: Vec<_> = found.stack_ends.iter().filter(|(end, _)| !end.is_complete()).collect();
    let sum: u64 = cut.iter().map(|(_, count)| **count).sum();
    if sum * 100 <= found.samples_attributed {
        return;
    }
    let causes: Vec<String> = cut.iter().map(|(end, count)| format!("{end} {count}")).collect();
    let percent = sum as f64 * 100.0 / found.samples_attributed.max(1) as f64;
    out::note(&format!("tally report: {percent:.1}% of the stacks are cut short ({})", causes.join(", ")));
}

/// Files named one by one.
const NAMED_FILES: usize = 3;

/// Files that are not the ones recorded: names taken from them would be wrong.
fn warn_of_changed_files(profile: &Profile) {
    let mut changed = profile.dsos_missing_names(dso::Missing::BuildIdMismatch);
    // Another kernel's vdso is no file that anybody keeps.
    changed.retain(|&id| profile.dsos.of(id).kind == DsoKind::File);
    if changed.is_empty() {
        return;
    }
    let path = |id| out::harmless(&profile.dsos.of(id).path).into_owned();
    let mut named: Vec<String> = changed.iter().take(NAMED_FILES).map(|&id| path(id)).collect();
    if changed.len() > NAMED_FILES {
        named.push(format!("{} more", changed.len() - NAMED_FILES));
    }
    out::note(&format!(
        "tally report: changed since recording (build-id differs), so without names: {}; --symfs DIR finds the old ones",
        named.join(", ")
    ));
}

/// Files that are there and were not opened or not read, because of what they are.
fn warn_of_refused_files(profile: &Profile) {
    use dso::Missing::{ForeignOwner, NotRegular, TooLarge};
    for why in [NotRegular, TooLarge, ForeignOwner] {
        let files = profile.dsos_missing_names(why);
        if let Some(&first) = files.first() {
            let first = out::harmless(&profile.dsos.of(first).path);
            let more =
                if files.len() > 1 { format!(" (and {} more)", files.len() - 1) } else { String::new() };
            out::note(&format!("tally report: no names from {first}{more}: {why}"));
        }
    }
}

/// Containers get the names that they have on this machine: their ids are unique.
fn name_containers(profile: &mut Profile) {
    if profile.cgroups.is_empty() {
        out::note("tally report: the recording names no cgroups: record with --all-cgroups");
    }
    let names = container_names::read(Path::new("/"));
    profile.name_containers(&container_names::by_id(&names));
}

/// Damage and losses go to standard error, one line each.
fn warn_of_problems(recording: &Recording, verbose: bool) {
    warn_of_changed_files(&recording.profile);
    warn_of_refused_files(&recording.profile);
    let lost = &recording.profile.diagnostics;
    if lost.lost_records > 0 {
        let times =
            if lost.lost_events == 1 { "once".to_owned() } else { format!("{} times", lost.lost_events) };
        out::note(&format!(
            "tally report: {} records were lost while recording ({times}): record with larger rings (-m)",
            lost.lost_records
        ));
    }
    for (reason, count) in lost.dropped.iter().filter(|(reason, _)| **reason != Reason::Filtered) {
        out::note(&format!("tally report: {count} of {} samples are left out: {reason}", lost.samples_read));
    }
    if lost.merged_frames > 0 {
        out::note(&format!(
            "tally report: {} frames are shown without their address: more distinct ones than the file's size can justify",
            lost.merged_frames
        ));
    }
    warn_of_cut_stacks(lost);
    if let Some(note) = interrupts_off::note(&recording.profile) {
        out::note(&format!("tally report: {note}"));
    }
    if verbose {
        for line in load::describe(recording) {
            out::note(&line);
        }
    }
}
