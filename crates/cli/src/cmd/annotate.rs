//! `tally annotate`: functions as source and machine code, each line with its share of the samples.

use crate::cmd::report;
use crate::flags::name_args::NameArgs;
use crate::flags::perf_compat::{AnnotateFlags, PerfCompatFlags};
use crate::reading::load;
use crate::terminal::{end_signals, out, pager};
use crate::text::annotate::{self as text, AnnotateText, PercentType, Shows};
use anyhow::{Context, bail};
use display::term;
use dso::code::disasm::Syntax;
use dso::{Missing, ObjectFile};
use perfdata::PerfData;
use profile::profile::Profile;
use profile::session::{SampleFilter, SessionOpts};
use profile::source::Want;
use profile::table::DsoKind;
use profile::view::annotate::{AnnotateFunction, AnnotateOpts, NameMatch};
use profile::view::report::{ReportOpts, SortKey};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use symbols::listing::{self, CodeLine, KernelCode, KernelIdentity, Listing, ListingOpts, Sources};
use symbols::{LoadOpts, Recording, UnnamedCode};

/// Show where inside functions the samples fall: source and machine code with percentages
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally annotate -s my_function              browse it on a terminal, from its hottest line on
  tally annotate -s my_function | cat        hottest lines, then the code around them
  tally annotate -s my_function --all        all of its code
  tally annotate --stdio                     every function that was hit, in perf's form
  tally annotate --dsos=app --no-source      machine code only, of one file
  tally annotate -M intel                    Intel syntax
The percentages of a function add up to 100; `tally report` shows a function's own share.")]
pub struct Args {
    /// The recording; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Print all code of each function, in perf's form
    #[arg(long)]
    pub stdio: bool,
    /// Print all code, not only the lines near samples
    #[arg(long)]
    pub all: bool,
    /// Only these files
    #[arg(short = 'd', long, value_name = "FILES", value_delimiter = ',', alias = "dso")]
    pub dsos: Vec<String>,
    /// Only functions of this name
    ///
    /// (with or without the part before its last `::`)
    #[arg(short = 's', long, value_name = "NAMES")]
    pub symbol: Vec<String>,
    /// Interleave source (default)
    #[arg(long, overrides_with = "no_source")]
    pub source: bool,
    /// Machine code only
    #[arg(long, overrides_with = "source")]
    pub no_source: bool,
    /// Syntax of x86 code: att or intel
    #[arg(short = 'M', long, value_name = "STYLE")]
    pub disassembler_style: Option<String>,
    /// Program for machines tally has no disassembler for
    #[arg(long, value_name = "PROGRAM")]
    pub objdump: Option<PathBuf>,
    /// The hottest lines before each function
    ///
    /// and the source line of each instruction with samples
    #[arg(short = 'l', long)]
    pub print_line: bool,
    /// File names with their folders
    #[arg(short = 'P', long)]
    pub full_paths: bool,
    /// Show the bytes of instructions
    #[arg(long)]
    pub asm_raw: bool,
    /// Numbers of samples instead of percentages
    #[arg(short = 'n', long)]
    pub show_nr_samples: bool,
    /// Sums of periods instead of percentages
    #[arg(long, conflicts_with = "show_nr_samples")]
    pub show_total_period: bool,
    /// What percentages are of: local-period, local-hits, global-period or global-hits (local: of the function)
    #[arg(long, value_name = "TYPE", default_value = LOCAL_PERIOD)]
    pub percent_type: String,
    /// Leave out functions below this share
    ///
    /// (percent of all samples)
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub percent_limit: f64,
    /// Leave out functions without code to show
    #[arg(long)]
    pub skip_missing: bool,
    /// Show the events of a group side by side (default for groups of record's {a,b})
    #[arg(long, overrides_with = "no_group")]
    pub group: bool,
    /// Show the events of a group one by one
    #[arg(long, overrides_with = "group")]
    pub no_group: bool,
    /// The kernel with its symbols, for its code and source (default: where distributions put it, else /proc/kcore)
    #[arg(short = 'k', long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,
    /// Look for source files below this folder, with or without --prefix-strip
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Leave out this many folders of the recorded names of source files
    #[arg(long, value_name = "N", requires = "prefix")]
    pub prefix_strip: Option<usize>,
    /// What perf has and we don't.
    #[command(flatten)]
    pub perf: PerfCompatFlags<AnnotateFlags>,
    /// Only these CPUs, such as 0-3,5
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub cpu: Option<String>,
    /// Look for object and source files below this folder
    #[arg(long, value_name = "DIR")]
    pub symfs: Option<PathBuf>,
    /// Read names of JIT code (/tmp/perf-PID.map) whoever wrote them
    #[arg(short, long)]
    pub force: bool,
    /// perf's flag; all notes are printed anyway
    #[arg(short, long, hide = true)]
    pub verbose: bool,
    /// No notes
    #[arg(short, long)]
    pub quiet: bool,
    /// The function to show
    #[arg(value_name = "SYMBOL")]
    pub function: Option<String>,
}

/// What percentages are of unless asked otherwise.
const LOCAL_PERIOD: &str = "local-period";
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
    let mut functions = profile::view::annotate::annotate(&recording.profile, &opts);
    if functions.is_empty() && !opts.symbols.is_empty() {
        // Other views name inlined functions as well.
        symbols::name_all(&mut recording.profile, &recording.files, Want::Lines, UnnamedCode::Functions);
        for names in [NameMatch::Inlined, NameMatch::Brief] {
            if functions.is_empty() {
                opts.names = names;
                functions = profile::view::annotate::annotate(&recording.profile, &opts);
            }
        }
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
    pager::start();
    print(&recording, &functions, &listing_opts, &args)?;
    Ok(ExitCode::SUCCESS)
}

/// On a terminal the hottest function is browsed, unless the flags are of the text.
fn browses(args: &Args) -> bool {
    let is_text = args.stdio || args.all || args.print_line || args.asm_raw || args.quiet;
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
    let theme = tui::Theme { colour: term::colours_stdout() };
    let mut app = tui::App::new(tui::Data::new(recording.clone(), view), theme);
    if app.open_listing(hottest, opts, &sources(args)).is_err() {
        return Ok(None);
    }
    let signal = end_signals::wait()?;
    Ok(Some(tui::run(&mut app, None, &signal)?))
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
        let whole = style.events.iter().map(|&event| style.whole[event].period).find(|&p| p > 0).unwrap_or(0);
        let least = (whole as f64 * args.percent_limit / 100.0).max(1.0);
        let mut hit: Vec<_> = functions.iter().filter(|f| period(f, &style.events) as f64 >= least).collect();
        hit.sort_by_key(|function| std::cmp::Reverse(period(function, &style.events)));
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
