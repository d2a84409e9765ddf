//! `tally annotate`: functions as source and machine code, each line with its share of the samples.

mod flags;
mod json;

pub use flags::Args;

use crate::cmd::report;
use crate::flags::name_args::NameArgs;
use crate::reading::load;
use crate::terminal::{end_signals, out, pager};
use crate::text::annotate::{self as text, AnnotateText, PercentType, Shows};
use anyhow::{Context, bail};
use display::term;
use dso::code::disasm::Syntax;
use dso::{Missing, ObjectFile};
use perfdata::PerfData;
use profile::profile::{Profile, Sums};
use profile::session::{SampleFilter, SessionOpts};
use profile::source::Want;
use profile::table::DsoKind;
use profile::view::annotate::{AnnotateFunction, AnnotateOpts, NameMatch};
use profile::view::ranking::RankRows as _;
use profile::view::report::{ReportOpts, SortKey};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use symbols::listing::{self, CodeLine, KernelCode, KernelIdentity, Listing, ListingOpts, Sources};
use symbols::{LoadOpts, Recording, UnnamedCode};

use flags::LOCAL_PERIOD;

/// Lines shown before and after one with samples.
const CONTEXT: usize = 10;
/// Listings in memory at once.
const BATCH: usize = 64;

/// Runs the command.
///
/// # Errors
/// If the recording can't be read, nothing was hit, or all of it is in files that changed since.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.perf.check()?;
    let mut listing_opts = ListingOpts {
        syntax: match args.disassembler_style.as_deref() {
            None | Some("att" | "") => Syntax::Att,
            Some("intel") => Syntax::Intel,
            Some(other) => bail!("-M: unknown style '{other}' (att or intel)"),
        },
        source: !args.no_source,
        objdump: args.objdump.clone(),
        kernel: None,
    };
    let input = args.input.clone().unwrap_or_else(|| PathBuf::from("perf.data"));
    let map = load::open(&input)?;
    let file = load::parse(&input, &map)?;
    let mut progress = load::Progress::on_stderr(&input, &map);
    let mut recording = load::load_file(&input, &file, load_opts(&args, &file)?, &mut progress)?;
    listing_opts.kernel = Some(Arc::new(kernel_code(&args, &recording)?));
    let symbols = args.symbol.iter().chain(&args.function).map(|name| dso::demangle(name).into_owned());
    let mut opts =
        AnnotateOpts { dsos: args.dsos.clone(), symbols: symbols.collect(), names: NameMatch::Own };
    let mut functions = listing::wanted_functions(&mut recording, &mut opts);
    if functions.is_empty() && !opts.symbols.is_empty() {
        // Functions that only call others, and Python's, are in the callchains.
        let mut with_chains = load_opts(&args, &file)?;
        with_chains.session.callchains = true;
        recording = load::load_file(&input, &file, with_chains, &mut progress)?;
        functions = listing::wanted_functions(&mut recording, &mut opts);
    }
    if functions.is_empty() {
        let (callers, time) = listing::wanted_callers(&recording, &mut opts);
        time.inspect(|time| {
            out::note(&format!("tally annotate: no sample ends in it: shares are of {}", time.words()))
        });
        functions = callers;
    }
    let (functions, refused) = refuse_changed(&recording, functions);
    if !args.quiet {
        refused.iter().for_each(|note| out::note(&format!("tally annotate: {note}")));
    }
    if functions.is_empty() {
        bail!("{}", nothing(&recording.profile, &opts, &refused));
    }
    let recording = Arc::new(recording);
    if browses(&args)
        && let Some(code) = browse(&recording, &functions, &listing_opts, &args)?
    {
        return Ok(code);
    }
    if args.json {
        return json::print(&recording, &functions, &listing_opts, &args).map(|()| ExitCode::SUCCESS);
    }
    pager::start();
    print(&recording, &functions, &listing_opts, &args)?;
    Ok(ExitCode::SUCCESS)
}

/// On a terminal the hottest function is browsed, unless the flags are of the text.
fn browses(args: &Args) -> bool {
    let is_text = args.stdio || args.json || args.all || args.print_line || args.asm_raw || args.quiet;
    let has_units = args.show_nr_samples || args.show_total_period || args.percent_type != LOCAL_PERIOD;
    !is_text && !has_units && tui::is_usable()
}

/// Shows the hottest function in the terminal, at its hottest line; `None` if there is no code to show.
fn browse(
    recording: &Arc<Recording>,
    functions: &[AnnotateFunction],
    opts: &ListingOpts,
    args: &Args,
) -> anyhow::Result<Option<ExitCode>> {
    let events: Vec<usize> = (0..recording.profile.events.len()).collect();
    let Some(hottest) = functions.iter().max_by_key(|function| period(function, &events)) else {
        return Ok(None);
    };
    let view = ReportOpts { sort: vec![SortKey::Dso, SortKey::Symbol], ..ReportOpts::default() };
    let theme = tui::Theme::new(term::colours_stdout());
    let mut app = tui::App::new(tui::Data::new(recording.clone(), view), theme);
    if app.open_listing(hottest, opts, &sources(args)).is_err() {
        return Ok(None);
    }
    Ok(Some(tui::run(&mut app, None, &end_signals::wait()?)?))
}

fn sources(args: &Args) -> Sources {
    match &args.prefix {
        Some(prefix) => Sources::moved(prefix.clone(), args.prefix_strip.unwrap_or(0)),
        None => Sources::new(args.symfs.clone()),
    }
}

/// Where the recorded kernel's code is.
fn kernel_code(args: &Args, recording: &Recording) -> anyhow::Result<KernelCode> {
    let mut dsos = recording.profile.dsos.iter().map(|(_, dso)| dso);
    let id = dsos.find(|dso| dso.kind == DsoKind::Kernel).and_then(|dso| dso.build_id.as_deref());
    let id = id.and_then(dso::BuildId::from_bytes);
    let kernel = KernelIdentity {
        release: recording.features.os_release.as_deref(),
        build_id: id.as_ref(),
        is_running: recording.files.is_running_kernel(),
    };
    let given = args.vmlinux.as_deref();
    let found = KernelCode::find(given, &kernel);
    found.with_context(|| format!("-k {}", given.unwrap_or(Path::new("")).display()))
}

fn load_opts(args: &Args, file: &PerfData<'_>) -> anyhow::Result<LoadOpts> {
    let cpus = report::cpus_of(args.cpu.as_deref(), file)?;
    let filter = SampleFilter { cpus, ..SampleFilter::default() };
    // Only where the samples fell counts: no chains, nothing to unwind.
    let session = SessionOpts { filter, callchains: false, ..SessionOpts::default() };
    Ok(LoadOpts {
        session,
        want: Want::Names,
        names: NameArgs { symfs: args.symfs.clone(), force: args.force, ..NameArgs::default() }.opts(),
        unnamed: UnnamedCode::Functions,
    })
}

/// Code of another build would be shown with numbers that aren't its own.
fn refuse_changed(
    recording: &Recording,
    functions: Vec<AnnotateFunction>,
) -> (Vec<AnnotateFunction>, BTreeSet<String>) {
    let mut notes = BTreeSet::new();
    let is_known = |function: &AnnotateFunction| {
        let dso = recording.profile.dsos.of(function.dso);
        let changed = matches!(recording.files.open(dso).as_ref(), Err(Missing::BuildIdMismatch));
        if changed {
            notes.insert(format!("{}: {}: not shown", out::harmless(&dso.path), Missing::BuildIdMismatch));
        }
        !changed
    };
    (functions.into_iter().filter(is_known).collect(), notes)
}

fn nothing(profile: &Profile, opts: &AnnotateOpts, refused: &BTreeSet<String>) -> String {
    let samples = profile.diagnostics.samples_read;
    match (samples, opts.symbols.first(), opts.dsos.first()) {
        (0, ..) => "no samples in the recording".to_owned(),
        _ if !refused.is_empty() => {
            "all code that was hit is of files that changed since the recording".to_owned()
        }
        (_, Some(symbol), _) => {
            format!("no samples in a function named {symbol} (tally report lists those hit)")
        }
        (_, _, Some(file)) => format!("no samples in {file} (tally report --sort dso lists the files hit)"),
        _ => "no samples in code with a known place".to_owned(),
    }
}

fn print(
    recording: &Recording,
    functions: &[AnnotateFunction],
    opts: &ListingOpts,
    args: &Args,
) -> anyhow::Result<()> {
    let sources = sources(args);
    let profile = &recording.profile;
    let mut out = out::stdout();
    for events in sections(profile, !args.no_group) {
        let style = AnnotateText {
            title: title(profile, &events),
            events,
            shows: match (args.show_nr_samples, args.show_total_period) {
                (true, _) => Shows::Samples,
                (_, true) => Shows::Period,
                _ => Shows::Percent,
            },
            percent: PercentType::parse(&args.percent_type)?,
            whole: (0..profile.events.len()).map(|event| profile.total(event)).collect(),
            print_lines: args.print_line || !args.stdio,
            full_paths: args.full_paths,
            raw: args.asm_raw,
            colour: term::colours_stdout(),
            context: (!args.stdio && !args.all).then_some(CONTEXT),
        };
        let hit = hottest_first(functions, &style.events, &style.whole, args.percent_limit);
        for batch in hit.chunks(BATCH) {
            let texts: Vec<String> = batch
                .par_iter()
                .map(|function| {
                    let listings = listing::listings(profile, &recording.files, &sources, function, opts);
                    let shown = |l: &&Listing| !(args.skip_missing && l.no_code.is_some());
                    listings
                        .iter()
                        .filter(shown)
                        .filter(|l| style.events.iter().any(|&e| l.totals[e].count > 0))
                        .fold(String::new(), |mut text, listing| {
                            write_one(&mut text, listing, &style);
                            text
                        })
                })
                .collect();
            texts.iter().try_for_each(|text| out.write_all(text.as_bytes()))?;
        }
    }
    out.flush()?;
    if !args.quiet {
        let notes = sources.refused();
        notes.iter().for_each(|why| out::note(&format!("tally annotate: source not shown: {why}")));
    }
    Ok(())
}

fn write_one(text: &mut String, listing: &Listing, style: &AnnotateText) {
    // The bytes are only wanted with --asm-raw, so the file is only then opened again.
    let object = listing.path.as_ref().filter(|_| style.raw).and_then(|path| ObjectFile::open(path).ok());
    let code = |line: &CodeLine| {
        object.as_ref().and_then(|o| o.bytes_at(line.svma, line.len)).unwrap_or_default().to_vec()
    };
    text::write(text, listing, style, &code);
}

/// Functions with at least `percent` of `totals`, most time in `events` first.
fn hottest_first<'f>(
    functions: &'f [AnnotateFunction],
    events: &[usize],
    totals: &[Sums],
    percent: f64,
) -> Vec<&'f AnnotateFunction> {
    let whole = events.iter().map(|&event| totals[event].period).find(|&period| period > 0).unwrap_or(0);
    let least = (whole as f64 * percent / 100.0).max(1.0);
    let mut hit: Vec<_> = functions.iter().filter(|of| period(of, events) as f64 >= least).collect();
    hit.rank_by_key(|function| std::cmp::Reverse(period(function, events)));
    hit
}

/// The leader's period first: that is what perf sorts by.
fn period(function: &AnnotateFunction, events: &[usize]) -> u64 {
    events.iter().map(|&event| function.totals[event].period).find(|&period| period > 0).unwrap_or(0)
}

/// The events of each section: one, or a group.
fn sections(profile: &Profile, grouped: bool) -> Vec<Vec<usize>> {
    let mut sections: Vec<Vec<usize>> = Vec::new();
    for (at, event) in profile.events.iter().enumerate() {
        match sections.iter_mut().find(|s| grouped && s[0] == event.leader) {
            Some(section) => section.push(at),
            None => sections.push(vec![at]),
        }
    }
    sections
}

fn title(profile: &Profile, events: &[usize]) -> String {
    let names: Vec<&str> = events.iter().map(|&event| profile.events[event].name.as_str()).collect();
    if names.len() > 1 { format!("anon group {{ {} }}", names.join(", ")) } else { names.concat() }
}
