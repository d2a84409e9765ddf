//! `tally script`: every sample as text, in perf script's form, or as JSON lines.

use crate::cmd::report::values::{parse_cpus, parse_time};
use crate::load;
use crate::{out, text};
use crate::script::{Field, Fields, FrameTexts, KernelNames, Row, RowMaker, Shown, Style, write_json, write_row};
use crate::symbols::ObjectFiles;
use crate::unwind::StackUnwinder;
use dso::{DebugSearch, Mmap};
use perfdata::abi::{PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_STACK_USER};
use perfdata::tracepoint::Formats;
use perfdata::{Order, PerfData, Sample};
use profile::machine::Mappings;
use profile::profile::Profile;
use profile::session::{Session, SessionOpts};
use profile::source::Want;
use rayon::prelude::*;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print every sample, in time order, in perf script's form
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally script                               perf.data of this folder
  tally script -F comm,pid,tid,time,event,ip,sym,dso
  tally script -F +srcline,-period --ns
  tally script | stackcollapse-perf.pl       any collapser of perf's text
  tally script --json | jq .stack[0].sym
Fields of -F: comm tid pid time cpu event trace ip sym symoff dso addr srcline period iregs uregs brstack
brstacksym brstackoff data_src weight phys_addr data_page_size code_page_size flags misc ins_lat cgroup")]
pub struct Args {
    /// The file; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// Fields to print: [hw:|sw:|trace:|raw:]FIELD,… or +FIELD,-FIELD
    #[arg(short = 'F', long, short_alias = 'f', value_name = "FIELDS", allow_hyphen_values = true)]
    pub fields: Vec<String>,
    /// Times with nine digits
    #[arg(long)]
    pub ns: bool,
    /// Without call chains: the sampled address only
    #[arg(short = 'G', long)]
    pub hide_call_graph: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Show functions inlined into others in recorded call chains, too, not only in unwound ones
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,
    /// Do not show functions inlined into others
    #[arg(long)]
    pub no_inline: bool,
    /// Longest call chain printed, from the leaf
    #[arg(long, value_name = "N")]
    pub max_stack: Option<usize>,
    /// Only threads of these names
    #[arg(short, long, value_name = "COMM,…", value_delimiter = ',')]
    pub comms: Vec<String>,
    /// Only these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Only these threads
    #[arg(long, value_name = "TID,…", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// Only these CPUs: `0-3,6`
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub cpu: Option<String>,
    /// Only this time: FROM,TO in seconds, either may be empty
    #[arg(long, value_name = "FROM,TO", allow_hyphen_values = true)]
    pub time: Option<String>,
    /// The file's header first
    #[arg(long)]
    pub header: bool,
    /// The file's header only
    #[arg(long)]
    pub header_only: bool,
    /// More of the header: processors, memory nodes
    #[arg(short = 'I', long, requires = "header")]
    pub show_info: bool,
    /// Names, beginnings and ends of tasks, too
    #[arg(long)]
    pub show_task_events: bool,
    /// Mappings, too
    #[arg(long)]
    pub show_mmap_events: bool,
    /// Context switches, too
    #[arg(long)]
    pub show_switch_events: bool,
    /// Namespaces of tasks, too
    #[arg(long)]
    pub show_namespace_events: bool,
    /// Cgroups, too
    #[arg(long)]
    pub show_cgroup_events: bool,
    /// Losses, too
    #[arg(long)]
    pub show_lost_events: bool,
    /// Kernel symbols and BPF programs that come and go, too
    #[arg(long)]
    pub show_bpf_events: bool,
    /// Another root to look for object files in
    #[arg(long, value_name = "FOLDER")]
    pub symfs: Option<PathBuf>,
}

/// Records handed to all cores at once.
const BATCH: usize = 16_384;
/// Rows a thread writes at once.
const PIECE: usize = 256;

/// # Errors
/// If the file can't be read, or a field is asked for that its events lack.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    if args.header || args.header_only {
        out::text(&text::header::of_file(&args.input, &file, args.show_info))?;
    }
    if args.header_only {
        return Ok(ExitCode::SUCCESS);
    }
    let callchains =
        !args.hide_call_graph && file.events().iter().any(|e| e.attr.samples(PERF_SAMPLE_CALLCHAIN));
    let mut fields = Fields::default();
    for text in &args.fields {
        fields.apply(text)?;
    }
    fields.fit(file.events(), callchains)?;
    let by_event: Vec<_> = file.events().iter().map(|e| fields.of(e)).collect();
    let formats = file.features().tracing_data.as_ref().map(Formats::new);
    let mut search = DebugSearch::from_env();
    search.root = args.symfs.clone().or(search.root);
    let files = ObjectFiles::new(search);
    let mut style = Style {
        events: file.events(),
        fields: by_event.clone(),
        name_width: file.events().iter().map(|e| e.name.len()).max().unwrap_or(0),
        nanoseconds: args.ns,
        inline: args.inline,
        callchains,
        texts: FrameTexts::new(&by_event),
        kernel: KernelNames { files: &files, mappings: Mappings::default() },
        formats: formats.as_ref(),
    };
    let lines = by_event.iter().any(|f| f.has(Field::Srcline));
    let unwinds = file.events().iter().any(|e| e.attr.samples(PERF_SAMPLE_STACK_USER));
    let inlines = callchains && !args.no_inline && (unwinds || args.inline || args.json);
    let cpus = args.cpu.as_deref().map(parse_cpus).transpose()?;
    let times = args.time.as_deref().map(parse_time).transpose()?;
    let filter = |sample: &Sample<'_>, comm: &str| {
        let cpu = sample.cpu.map_or(-1, u32::cast_signed);
        let time = sample.time_ns.unwrap_or(0);
        cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
            && times.is_none_or(|(from, to)| (from..=to).contains(&time))
            && passes(&args, sample, comm)
    };
    let maker = RowMaker {
        fields: by_event,
        callchains,
        want: if lines || inlines { Want::Lines } else { Want::Names },
        files: &files,
        unwinder: StackUnwinder::new(&files, file.features().arch.as_deref()),
        shown: args.shown(),
        filter: &filter,
    };
    print(&args, (&map, &file), &mut style, &maker)
}

impl Args {
    fn shown(&self) -> Shown {
        Shown {
            tasks: self.show_task_events,
            mmaps: self.show_mmap_events,
            switches: self.show_switch_events,
            namespaces: self.show_namespace_events,
            cgroups: self.show_cgroup_events,
            lost: self.show_lost_events,
            bpf: self.show_bpf_events,
        }
    }
}

fn passes(args: &Args, sample: &Sample<'_>, comm: &str) -> bool {
    let (pid, tid) = sample.pid_tid.unwrap_or((u32::MAX, u32::MAX));
    (args.comms.is_empty() || args.comms.iter().any(|c| c == comm))
        && (args.pid.is_empty() || args.pid.contains(&pid))
        && (args.tid.is_empty() || args.tid.contains(&tid))
}

fn print(
    args: &Args,
    (map, file): (&Mmap, &PerfData<'_>),
    style: &mut Style<'_>,
    maker: &RowMaker<'_>,
) -> anyhow::Result<ExitCode> {
    let max_frames = args.max_stack.unwrap_or(usize::MAX);
    let opts = SessionOpts { max_frames, callchains: maker.callchains, ..SessionOpts::default() };
    let mut session = Session::new(file.events(), file.endian(), opts);
    let ids = file.features().build_ids.iter();
    let ids: Vec<_> = ids.map(|b| (String::from_utf8_lossy(&b.filename), b.build_id.as_slice())).collect();
    session.set_build_ids(ids.iter().map(|(path, id)| (path.as_ref(), *id)));
    let mut out = out::stdout();
    let mut progress = load::Progress::releasing(map);
    let mut failed = None;
    // Used again for every batch: their memory costs more than what is written into it.
    let mut texts: Vec<String> = Vec::new();
    let diagnostics = file.visit_batches(Order::Time, BATCH, |items| {
        let rows = maker.rows(&mut session, items);
        style.kernel.mappings.clone_from(session.machine().kernel());
        style.texts.grow(session.profile());
        let (profile, style) = (session.profile(), &*style);
        let pieces = rows.len().div_ceil(PIECE);
        texts.resize_with(texts.len().max(pieces), String::new);
        let work = rows.par_chunks(PIECE).zip(texts.par_iter_mut());
        work.for_each(|(rows, text)| write_rows(text, rows, (style, profile), args.json));
        match texts[..pieces].iter().try_for_each(|text| out.write_all(text.as_bytes())) {
            Ok(()) => progress.at(items.last().map_or(0, |item| item.offset)),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    out.flush()?;
    let problems = file.problems().iter().chain(&diagnostics.problems);
    problems.for_each(|problem| out::complain(&problem.to_string()));
    Ok(ExitCode::SUCCESS)
}

fn write_rows(text: &mut String, rows: &[Row<'_>], (style, profile): (&Style<'_>, &Profile), json: bool) {
    text.clear();
    let write = if json { write_json } else { write_row };
    rows.iter().for_each(|row| write(text, style, profile, row));
}
