//! `tally script`: every sample as text, in perf script's form, or as JSON lines.

mod branches;
mod flags;
mod per_event;

pub use flags::{Args, spelled_out};

use self::per_event::PerEvent;
use crate::cmd::report::values::{cpus_of, parse_times};
use crate::flags::name_args::NameArgs;
use crate::reading::damage;
use crate::reading::load::{self, OpenRecording};
use crate::script::{
    Fields, FrameTexts, KernelNames, LineStyle, Picks, Row, RowMaker, ScriptField, TimeZero, write_json,
    write_row,
};
use crate::terminal::{out, pager};
use anyhow::Context;
use calls::pt::lines::TimeDigits;
use perfdata::abi::PERF_SAMPLE_STACK_USER;
use perfdata::tracepoint::TracepointFormats;
use perfdata::{Order, PerfData, Sample};
use profile::machine::Mappings;
use profile::profile::Profile;
use profile::session::{Session, SessionOpts};
use profile::source::Want;
use rayon::prelude::*;
use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;
use symbols::{ObjectFiles, StackUnwinder, session_of};

/// Records handed to all cores at once: few enough that their text is written while it still is in the caches.
const BATCH: usize = 2048;
/// Rows a thread writes at once.
const PIECE: usize = 128;

/// # Errors
/// If the file can't be read, or a field is asked for that its events lack.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.perf.check()?;
    flags::refuse_words(&args.words)?;
    args.names.check()?;
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    if args.header.header || args.header.header_only {
        out::text(&args.header.text(&args.input, &file))?;
    }
    if args.header.header_only {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(letters) = &args.itrace {
        return branches::print(&args, &file, letters);
    }
    let callchains = !args.hide_call_graph && file.events().iter().any(perfdata::Event::has_callchain);
    let mut fields = Fields::default();
    for text in &args.fields {
        fields.apply(text)?;
    }
    fields.fit(file.events(), callchains)?;
    if args.full_source_path {
        fields.show_source_folders();
    }
    let by_event: Vec<_> = file.events().iter().map(|e| fields.of(e)).collect();
    let formats = file.features().tracing_data.as_ref().map(TracepointFormats::new);
    let names = NameArgs { force: args.force, ..args.names.clone() }.opts();
    let files = ObjectFiles::of_recording(&file, &names);
    let mut style = LineStyle {
        events: file.events(),
        fields: by_event.clone(),
        name_width: file.events().iter().map(|e| e.name.len()).max().unwrap_or(0),
        digits: TimeDigits::of_flag(args.ns),
        inline: args.inline,
        callchains,
        texts: FrameTexts::new(&by_event),
        kernel: KernelNames { files: &files, mappings: Mappings::default() },
        formats: formats.as_ref(),
    };
    let lines = by_event.iter().any(|f| f.has(ScriptField::Srcline));
    let unwinds = file.events().iter().any(|e| e.attr.samples(PERF_SAMPLE_STACK_USER));
    let inlines = callchains && !args.no_inline && (unwinds || args.inline || args.json);
    let cpus = cpus_of(args.cpu.as_deref(), &file)?;
    let span = file.features().sample_time_ns;
    let times = args.time.as_deref().map(|text| parse_times(text, span)).transpose()?;
    let filter = |sample: &Sample<'_>, comm: &str| {
        let cpu = sample.cpu.map_or(-1, u32::cast_signed);
        let time = sample.time_ns.unwrap_or(0);
        (cpus.is_empty() || cpus.contains(&cpu))
            && times.as_ref().is_none_or(|times| times.iter().any(|(from, to)| (from..=to).contains(&&time)))
            && passes(&args, sample, comm)
    };
    let mut maker = RowMaker {
        fields: by_event,
        callchains,
        want: if lines || inlines { Want::Lines } else { Want::Names },
        files: &files,
        unwinder: StackUnwinder::new(&files, file.features().arch.as_deref()),
        shown: args.shown(),
        filter: &filter,
        switch: args.switch.of(file.events())?,
        picks: Picks {
            symbols: args.symbols.iter().filter(|name| address_of(name).is_none()).cloned().collect(),
            addresses: (
                args.symbols.iter().filter_map(|name| address_of(name)).collect(),
                addr_range(&args)?,
            ),
            dsos: args.dsos.clone(),
            stop_at: args.stop_bt.clone(),
        },
        clock: match (args.reltime, args.deltatime) {
            (true, _) => TimeZero::First(None),
            (_, true) => TimeZero::Before(None),
            _ => TimeZero::Recorded,
        },
        named: 0,
    };
    let input = OpenRecording { path: &args.input, map: &map, file: &file };
    print(&args, &input, &mut style, &mut maker)
}

/// `-S 0x…` names an address.
fn address_of(name: &str) -> Option<u64> {
    name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok())
}

/// Bytes from each address of `-S` on.
fn addr_range(args: &Args) -> anyhow::Result<u64> {
    let Some(text) = &args.addr_range else { return Ok(1) };
    anyhow::ensure!(
        args.symbols.iter().any(|name| address_of(name).is_some()),
        "--addr-range counts from an address: -S 0x…"
    );
    let bytes = address_of(text).or_else(|| text.parse().ok());
    bytes.with_context(|| format!("--addr-range: '{text}' is not a number of bytes"))
}

fn passes(args: &Args, sample: &Sample<'_>, comm: &str) -> bool {
    let (pid, tid) = sample.pid_tid.unwrap_or((u32::MAX, u32::MAX));
    (args.comms.is_empty() || args.comms.iter().any(|c| c == comm))
        && (args.pid.is_empty() || args.pid.contains(&pid))
        && (args.tid.is_empty() || args.tid.contains(&tid))
}

fn print(
    args: &Args,
    input: &OpenRecording<'_>,
    style: &mut LineStyle<'_>,
    maker: &mut RowMaker<'_>,
) -> anyhow::Result<ExitCode> {
    let OpenRecording { path, map, file } = *input;
    let mut session = new_session(args, file, maker.callchains);
    pager::start();
    let mut writer = Writer::new(args, file)?;
    let mut progress = load::Progress::next_to_output(path, map);
    let mut failed = None;
    let diagnostics = file.visit_batches(Order::Time, BATCH, |items| {
        let rows = maker.rows(&mut session, items);
        style.kernel.mappings.clone_from(session.machine().kernel());
        style.texts.grow(session.profile());
        match writer.write(&rows, &*style, session.profile()) {
            Ok(()) => progress.at(items.last().map_or(0, |item| item.offset)),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    progress.end();
    writer.finish()?;
    damage::warn(&args.input, &diagnostics.problems);
    Ok(ExitCode::SUCCESS)
}

fn new_session(args: &Args, file: &PerfData<'_>, callchains: bool) -> Session {
    let max_frames = args.max_stack.unwrap_or(usize::MAX);
    let opts = SessionOpts { max_frames, callchains, ..SessionOpts::default() };
    session_of(file, opts)
}

type WriteRow = fn(&mut String, &LineStyle<'_>, &Profile, &Row<'_>);

/// Where rows go.
struct Writer {
    /// Appends one row as text or JSON.
    write_row: WriteRow,
    out: out::TextOutput,
    per_event: Option<PerEvent>,
    /// Used again for every batch: their memory costs more than what is written into it.
    texts: Vec<String>,
}

impl Writer {
    fn new(args: &Args, file: &PerfData<'_>) -> anyhow::Result<Self> {
        let per_event =
            args.per_event_dump.then(|| PerEvent::create(&args.input, file.events())).transpose()?;
        let write_row: WriteRow = if args.json { write_json } else { write_row };
        Ok(Self { write_row, out: out::stdout(), per_event, texts: Vec::new() })
    }

    fn write(&mut self, rows: &[Row<'_>], style: &LineStyle<'_>, profile: &Profile) -> anyhow::Result<()> {
        let write_row = self.write_row;
        let write_rows = |text: &mut String, rows: &[Row<'_>]| {
            text.clear();
            rows.iter().for_each(|row| write_row(text, style, profile, row));
        };
        let pieces = rows.len().div_ceil(PIECE);
        self.texts.resize_with(self.texts.len().max(pieces).max(1), String::new);
        if let Some(files) = &mut self.per_event {
            let text = &mut self.texts[0];
            return rows.iter().try_for_each(|row| {
                write_rows(text, std::slice::from_ref(row));
                files.write(row.event, text)
            });
        }
        let work = rows.par_chunks(PIECE).zip(self.texts.par_iter_mut());
        work.for_each(|(rows, text)| write_rows(text, rows));
        self.texts[..pieces].iter().try_for_each(|text| self.out.write_all(text.as_bytes()))?;
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.out.flush()?;
        self.per_event.map_or(Ok(()), PerEvent::finish)
    }
}
