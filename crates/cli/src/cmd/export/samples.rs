//! `tally export --to pprof` and others: samples and the wall clock for other profilers.

use crate::cmd::export::ExportFormat;
use crate::reading::load::{self, Progress};
use crate::terminal::out;
use anyhow::Context;
use display::number::{count_of, duration_ns, grouped};
use dso::MappedFile;
use exchange::export::otlp::OtlpSource;
use exchange::export::samples::{SampleSet, ValueKind, ValueUnit};
use exchange::export::{autofdo, callgrind, firefox, folded, otlp, parquet, pprof, speedscope};
use perfdata::PerfData;
use profile::session::{Dimensions, SessionOpts};
use profile::source::Want;
use record::output_file::{create_export, write_export};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;
use symbols::{LoadOpts, NameOpts, Recording, UnnamedCode, declared_lines, sampled_lines};

/// Values to write, and the file.
pub struct SampleRequest<'a> {
    /// The recording.
    pub input: &'a Path,
    /// The format: one of samples.
    pub format: ExportFormat,
    /// The kind of value, for formats with one; the first without it.
    pub event: Option<&'a str>,
    /// Idle time too.
    pub with_idle: bool,
    /// Lines of this program only, for counts of lines.
    pub binary: Option<&'a Path>,
    /// `None` is standard output.
    pub output: Option<&'a Path>,
}

/// Writes the recording.
///
/// # Errors
/// If it can't be read, has no samples, or the output can't be written.
pub fn export(request: &SampleRequest<'_>) -> anyhow::Result<()> {
    if request.format == ExportFormat::Autofdo {
        return export_lines(request);
    }
    let map = load::open(request.input)?;
    let file = load::parse(request.input, &map)?;
    let recording = read(request, &map, &file)?;
    let command = recording.features.cmdline.as_deref().unwrap_or_default().join(" ");
    let mut samples = SampleSet::of(&recording.profile, request.with_idle);
    if request.format == ExportFormat::Pprof {
        samples.declare(&declared_lines(&file, &NameOpts::from_env(), &recording.profile));
    }
    if samples.stacks.is_empty() {
        anyhow::bail!("{}: no samples in it", request.input.display());
    }
    let kind = kind_of(&samples, request.event)?;
    let host = recording.features.hostname.as_deref().unwrap_or_default();
    let source = OtlpSource { host, start_unix_ns: start_of(request.input, &samples), agent: None };
    let content = Content { samples: &samples, kind, command: &command, source };
    match request.output {
        Some(path) => {
            let file = create_export(path).with_context(|| format!("can't write {}", path.display()))?;
            write(BufWriter::new(file), request.format, &content)
                .with_context(|| format!("can't write {}", path.display()))?;
        }
        None => {
            out::refuse_terminal("a profile", request.format.example())?;
            write(out::raw_stdout(), request.format, &content)?;
        }
    }
    out::note(&summary(&samples, request));
    Ok(())
}

/// Writes counts of lines from branch stacks.
fn export_lines(request: &SampleRequest<'_>) -> anyhow::Result<()> {
    let map = load::open(request.input)?;
    let file = load::parse(request.input, &map)?;
    let lines = sampled_lines(&file, &NameOpts::from_env(), request.binary)
        .map_err(|why| anyhow::anyhow!("{}: {why}", request.binary.unwrap_or(request.input).display()))?;
    if let Some(why) = autofdo::refusal(&lines.profile, lines.samples) {
        anyhow::bail!("{}: {why}", request.input.display());
    }
    let mut text = Vec::new();
    autofdo::write(&mut text, &lines.profile)?;
    match request.output {
        Some(path) => write_export(path, text).with_context(|| format!("can't write {}", path.display()))?,
        None => out::text(&String::from_utf8_lossy(&text))?,
    }
    out::note(&format!(
        "tally export: {} from {}; left out: {} of {} stretches between branches whose ends don't fit together, {} executions without lines",
        count_of(lines.profile.functions.len() as u64, "function", "functions"),
        count_of(lines.samples, "branch stack", "branch stacks"),
        grouped(lines.impossible),
        grouped(lines.stretches),
        grouped(lines.without_lines),
    ));
    Ok(())
}

fn read(request: &SampleRequest<'_>, map: &MappedFile, file: &PerfData<'_>) -> anyhow::Result<Recording> {
    // Only these formats keep the order of samples.
    let is_ordered = matches!(request.format, ExportFormat::Speedscope | ExportFormat::Firefox);
    let labels = request.format == ExportFormat::Pprof;
    let time_slice_ns = is_ordered.then_some(1);
    let dimensions = Dimensions { time_slice_ns, labels, ..Dimensions::default() };
    let session = SessionOpts { dimensions, ..SessionOpts::default() };
    let names = NameOpts::from_env();
    let opts = LoadOpts { session, want: Want::Lines, names, unnamed: UnnamedCode::Functions };
    let progress = &mut Progress::on_stderr(request.input, map);
    load::load_file(request.input, file, opts, progress)
}

/// The kind of value of this name; the first without a name.
fn kind_of(samples: &SampleSet<'_>, name: Option<&str>) -> anyhow::Result<usize> {
    let Some(name) = name else { return Ok(0) };
    let names = || samples.kinds.iter().map(|kind| kind.name.as_str());
    let known = names().collect::<Vec<_>>().join(", ");
    names()
        .position(|known| known == name)
        .with_context(|| format!("no values of '{name}': there are {known}"))
}

/// Stacks that go into the file.
struct Content<'a> {
    samples: &'a SampleSet<'a>,
    /// Index of the kind of value, for formats with one.
    kind: usize,
    command: &'a str,
    source: OtlpSource<'a>,
}

/// When recording began, ns since 1970: the file was completed at its end. 0 if unknown.
fn start_of(path: &Path, samples: &SampleSet<'_>) -> u64 {
    let changed = path.metadata().and_then(|meta| meta.modified()).ok();
    let end = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let end_ns = end.and_then(|end| u64::try_from(end.as_nanos()).ok()).unwrap_or(0);
    let (first, last) = samples.profile.time_span_ns.unwrap_or_default();
    end_ns.saturating_sub(last.saturating_sub(first))
}

fn write(out: impl Write, format: ExportFormat, content: &Content<'_>) -> anyhow::Result<()> {
    let Content { samples, kind, command, source } = *content;
    match format {
        ExportFormat::Pprof => pprof::write(out, samples, command)?,
        ExportFormat::Otlp => otlp::write(out, samples, &source)?,
        ExportFormat::Speedscope => speedscope::write(out, samples, command)?,
        ExportFormat::Firefox => firefox::write(out, samples, command)?,
        ExportFormat::Parquet => {
            let start_us = i64::try_from(source.start_unix_ns / 1000).unwrap_or_default();
            let source = parquet::RowSource { host: source.host.to_owned(), start_us };
            parquet::write(out, samples, &source, |task| samples.process_name(task).to_owned())?;
        }
        ExportFormat::Callgrind => callgrind::write(out, samples, kind, command)?,
        ExportFormat::Folded => folded::write_samples(out, samples, kind)?,
        ExportFormat::Perfetto | ExportFormat::Chrome => {
            anyhow::bail!("traced calls only: see tally calls record")
        }
        ExportFormat::Autofdo => anyhow::bail!("counts of lines, no stacks"),
    }
    Ok(())
}

/// Summary of the output: `tally export: 812 stacks: cpu 1.204 s, wall 3.301 s in cpu.pb.gz`.
fn summary(samples: &SampleSet<'_>, request: &SampleRequest<'_>) -> String {
    let amount = |kind: &ValueKind| match kind.unit {
        ValueUnit::Nanoseconds => format!("{} {}", kind.name, duration_ns(kind.total)),
        ValueUnit::Count => format!("{} {}", kind.name, grouped(kind.total)),
    };
    let amounts: Vec<String> = samples.kinds.iter().map(amount).collect();
    let stacks = count_of(samples.stacks.len() as u64, "stack", "stacks");
    let place = request.output.map_or(String::new(), |path| format!(" in {}", path.display()));
    let idle = match samples.idle_left_out_ns {
        0 => String::new(),
        ns => format!("; idle left out: {} (--idle)", duration_ns(ns)),
    };
    format!("tally export: {stacks}: {}{place}{idle}", amounts.join(", "))
}
