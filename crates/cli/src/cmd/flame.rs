//! `tally flame`: stacks in, flame graph (SVG) or folded stacks out.

mod compare;
mod flags;

pub use flags::Args;

use crate::calls::{self, view_args::ViewArgs};
use crate::flags::shown_names;
use crate::reading::damage;
use crate::reading::load::{self, Progress};
use exchange::foreign::json_lines;
use exchange::import::{self, TextFormat};
use exchange::{export, rows};
use profile::view::flame::{Tree, TreeOpts, WallTree};

use crate::{html, reading::wall, terminal::out};
use anyhow::Context;
use display::number::count_of;
use dso::MappedFile;
use exchange::svg::{self, Palette, SvgOpts};
use exchange::text::shown_time;
use profile::off_cpu::is_off_cpu;
use profile::profile::Profile;
use profile::session::SessionOpts;
use profile::source::Want;
use profile::view::blame::blame;
use record::output_file::create_export;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use symbols::{LoadOpts, UnnamedCode};

/// Runs the command.
///
/// # Errors
/// If the input can't be read or the output can't be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.calls {
        calls::flame::draw(&ViewArgs::all_of(args.source()), &args.calls_opts())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let [before, after] = args.diff.as_slice() {
        let compared = compare::read(before, after, &args)?;
        return put(&args, |out| compared.write(out, &args)).map(|()| ExitCode::SUCCESS);
    }
    let (tree, subtitle) = read_stacks(args.source(), &args)?;
    if let Some(target) = &args.html {
        write_page(target, tree, subtitle, &args)?;
        return Ok(ExitCode::SUCCESS);
    }
    put(&args, |out| write(out, tree, subtitle, &args))?;
    Ok(ExitCode::SUCCESS)
}

/// The stacks of a file and their subtitle if it isn't their amount; its notes are printed.
fn read_stacks(path: &Path, args: &Args) -> anyhow::Result<(Tree, Option<String>)> {
    let map = load::open_as_it_is(path)?;
    let (tree, subtitle, notes) = read(path, map, args)?;
    for note in notes {
        out::note(&format!("tally flame: {note}"));
    }
    if tree.is_empty() {
        anyhow::bail!("{}: no stacks in it{}", path.display(), remedy(args));
    }
    let has_all_frames = args.all_frames || args.is_text() || args.html.is_some();
    Ok((if has_all_frames { tree } else { tree.condensed() }, subtitle))
}

/// Writes the result to the file asked for, to standard output, or as a picture where that is a terminal.
fn put(args: &Args, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let picture =
        if args.is_text() || args.output.is_some() { None } else { out::picture_for_terminal("flame") };
    match args.output.as_ref().or(picture.as_ref()) {
        Some(path) => {
            let file = create_export(path).with_context(|| format!("can't write {}", path.display()))?;
            write(&mut BufWriter::new(file)).with_context(|| format!("can't write {}", path.display()))?;
        }
        None if args.is_text() => write(&mut out::stdout())?,
        None => write(&mut out::raw_stdout())?,
    }
    picture.iter().for_each(|path| out::note_picture(path));
    Ok(())
}

fn write_page(target: &Path, tree: Tree, subtitle: Option<String>, args: &Args) -> anyhow::Result<()> {
    let title = args.title.clone().unwrap_or_else(|| load::name_of(args.source()));
    let subtitle = subtitle.unwrap_or_else(|| svg::amount(&tree));
    let about = html::About { title, subtitle, is_good: true, ..html::About::default() };
    html::write_file(target, &html::PageData::of_tree(tree, args.heading()), &about)
}

fn remedy(args: &Args) -> &'static str {
    if args.blame {
        return "";
    }
    if args.wall_tree().is_some() && !args.waits.idle {
        return " (threads that wait for work are left out: --idle counts them)";
    }
    if args.event.is_some() { " for this event" } else { " (was it recorded with -g?)" }
}

/// Stacks, their subtitle if it isn't their amount, and notes for the user.
type Drawn = (Tree, Option<String>, Vec<String>);

/// The stacks of the input.
fn read(path: &Path, map: MappedFile, args: &Args) -> anyhow::Result<Drawn> {
    let map = if import::is_text(&map) { map } else { load::as_recording(path, map)? };
    if map.starts_with(b"PERFILE2") || map.starts_with(b"2ELIFREP") {
        return read_recording(path, &map, args);
    }
    let stacks = match import::text_format(&map) {
        TextFormat::PerfScript => import::perf_script::read(&map, &args.collapse_opts()),
        TextFormat::Folded => import::folded::read(&map),
    };
    Ok((stacks.tree, None, left_out(&stacks.notes)))
}

/// Parts that were not read, one line each.
fn left_out(notes: &import::ImportNotes) -> Vec<String> {
    let mut lines = Vec::new();
    if !notes.other_events.is_empty() {
        let others: Vec<String> = notes.other_events.iter().map(|(e, n)| format!("{e} ({n})")).collect();
        let others = others.join(", ");
        lines.push(format!("shows event {}; left out: {others} (choose with --event)", notes.event));
    }
    if notes.odd_lines > 0 {
        let count = count_of(notes.odd_lines, "line is not a stack and is", "lines are not stacks and are");
        lines.push(format!("{count} left out"));
    }
    if notes.cut_off {
        lines.push("the text ends inside a stack (no empty line after it), which is left out".to_owned());
    }
    lines
}

fn read_recording(path: &Path, map: &MappedFile, args: &Args) -> anyhow::Result<Drawn> {
    let file = load::parse(path, map)?;
    let want = if args.no_inline { Want::Names } else { Want::Lines };
    let (mut session, names) = (SessionOpts::default(), shown_names::opts());
    session.dimensions.seen_running = args.blame;
    let opts = LoadOpts { session, want, names, unnamed: UnnamedCode::Functions };
    let recording = load::load_file(path, &file, opts, &mut Progress::on_stderr(path, map))?;
    let is_of_waits = args.blame || args.wall_tree().is_some();
    if is_of_waits && recording.profile.off_cpu.source.is_none() {
        let record = "record with tally record --off-cpu";
        return Err(damage::lacks(path, "nothing about time off the CPU in it", record));
    }
    let (pid, tid, addrs) = (args.pid, args.tid, args.addrs);
    let (kernel, jit) = (args.kernel || args.all, args.jit || args.all);
    let opts = TreeOpts { event: 0, pid, tid, kernel, jit, addrs, samples: false };
    wall::check_thread(&recording.profile, &args.waits)?;
    if args.blame {
        let found = blame(&recording.profile, args.waits.thread.as_deref());
        let tree = Tree::of_blame(&recording.profile, opts, &found);
        return Ok((tree, None, Vec::new()));
    }
    if let Some(which) = args.wall_tree() {
        let tree = Tree::of_wall(&recording.profile, opts, which, &args.waits.opts(0));
        let subtitle = match which {
            WallTree::Wall => shown_time::subtitle(&recording.profile, &args.waits.opts(0)),
            WallTree::OnCpu => svg::amount(&tree),
            _ => svg::amount(&tree) + &shown_time::idle_left_out(&recording.profile, &args.waits.opts(0)),
        };
        return Ok((tree, Some(subtitle), Vec::new()));
    }
    let (event, notes) = choose_event(&recording.profile, args.event.as_deref())?;
    let opts = TreeOpts { event, samples: args.samples, ..opts };
    let thread = args.waits.thread.as_deref();
    Ok((Tree::of_thread(&recording.profile, opts, thread), None, notes))
}

/// The event asked for, or the first that has samples; with a note about the others.
fn choose_event(profile: &Profile, asked: Option<&str>) -> anyhow::Result<(usize, Vec<String>)> {
    let counts: Vec<u64> = (0..profile.events.len()).map(|event| profile.total(event).count).collect();
    let name = |event: usize| profile.events[event].name.as_str();
    let matches = |event: &usize| asked.map_or(counts[*event] > 0, |asked| name(*event) == asked);
    let Some(event) = (0..counts.len()).find(matches) else {
        let names: Vec<&str> = (0..counts.len()).map(name).collect();
        match asked {
            Some(asked) => anyhow::bail!("no event '{asked}' in the file (there are: {})", names.join(", ")),
            None => anyhow::bail!("no samples in the file"),
        }
    };
    if asked.is_some() {
        return Ok((event, Vec::new()));
    }
    let others = (0..counts.len()).filter(|&other| other != event && counts[other] > 0);
    let (waits, others): (Vec<_>, Vec<_>) = others.partition(|&other| is_off_cpu(name(other)));
    let mut notes = Vec::new();
    if !waits.is_empty() {
        notes.push(format!("shows only running time ({}); --wall shows waits, too", name(event)));
    }
    let others: Vec<String> =
        others.iter().map(|&other| format!("{} ({})", name(other), counts[other])).collect();
    if !others.is_empty() {
        let others = others.join(", ");
        notes.push(format!("shows event {}; left out: {others} (choose with --event)", name(event)));
    }
    Ok((event, notes))
}

fn write(mut out: &mut dyn Write, tree: Tree, subtitle: Option<String>, args: &Args) -> io::Result<()> {
    let tree = if args.reverse { tree.reversed() } else { tree };
    if args.json {
        let rows = rows::flame(&tree, args.max_lines);
        out::note_rows_left_out(&rows, args.max_lines);
        writeln!(out, "{}", json_lines(&rows))?;
    } else if args.folded {
        out.write_all(export::folded::to_text(&tree).as_bytes())?;
    } else {
        svg::write(&mut out, &tree, &svg_opts(&tree, subtitle, args))?;
    }
    out.flush()
}

fn svg_opts(tree: &Tree, subtitle: Option<String>, args: &Args) -> SvgOpts {
    SvgOpts {
        title: args.title.clone().unwrap_or_else(|| args.heading().to_owned()),
        subtitle: subtitle.unwrap_or_else(|| svg::amount(tree)),
        width: args.width,
        min_width: args.min_width.map(|px| px.max(0.0)),
        icicle: args.icicle,
        palette: args.palette.map_or(Palette::Kind, Palette::from),
    }
}
