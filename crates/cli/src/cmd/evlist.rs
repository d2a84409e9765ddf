//! `tally evlist`: the events of a recording.

use crate::reading::damage;
use crate::{reading::load, terminal::out};
use exchange::perf_header::attr;
use perfdata::tracepoint::TracepointFormats;
use perfdata::{Event, PerfData, abi};
use std::path::PathBuf;
use std::process::ExitCode;

/// List the events of a recording, in perf's form
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally evlist                   names of the events of perf.data
  tally evlist -F                with their frequency or period
  tally evlist -v -i app.data    with all that was asked of the kernel
  tally evlist --trace-fields    with the fields of tracepoints, which are sort keys of tally report")]
pub struct Args {
    /// The recording; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// With frequency or period
    #[arg(short = 'F', long)]
    pub freq: bool,
    /// With all fields of their attributes
    #[arg(short, long)]
    pub verbose: bool,
    /// Groups on one line
    #[arg(short, long)]
    pub group: bool,
    /// With the fields of tracepoints
    #[arg(long)]
    pub trace_fields: bool,
    /// perf's flag; files of others are read anyway
    #[arg(short, long, hide = true)]
    pub force: bool,
}

/// # Errors
/// If the file can't be read.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    damage::warn_of_features(&args.input, &file);
    for line in lines(&file, &args) {
        out::line(&out::harmless(&line))?;
    }
    if !args.trace_fields && file.events().iter().any(is_tracepoint) {
        out::line("# Tip: use 'tally evlist --trace-fields' to show fields for tracepoint events")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(file: &PerfData<'_>, args: &Args) -> Vec<String> {
    if args.group {
        return groups(file);
    }
    let formats = file.features().tracing_data.as_ref().map(TracepointFormats::new).unwrap_or_default();
    file.events().iter().map(|event| line(event, &formats, args)).collect()
}

/// A name, after a colon what was asked for.
fn line(event: &Event, formats: &TracepointFormats, args: &Args) -> String {
    let mut parts = Vec::new();
    if args.verbose {
        parts.extend(attr::fields(&event.attr).into_iter().map(|(name, value)| format!("{name}: {value}")));
    } else if args.freq {
        let term = if event.attr.is_freq() { "sample_freq" } else { "sample_period" };
        parts.push(format!("{term}={}", event.attr.sample_period));
    }
    if args.trace_fields {
        parts.push(trace_fields(event, formats));
    }
    let colon = if parts.is_empty() { "" } else { ": " };
    format!("{}{colon}{}", event.name, parts.join(", "))
}

fn trace_fields(event: &Event, formats: &TracepointFormats) -> String {
    if !is_tracepoint(event) {
        return "(not a tracepoint)".to_owned();
    }
    match formats.of(event.attr.config) {
        Some(format) => {
            let names = format.fields.iter().skip(format.common).map(|field| field.name.as_str());
            format!("trace_fields: {}", names.collect::<Vec<_>>().join(","))
        }
        None => "(not in the file)".to_owned(),
    }
}

fn is_tracepoint(event: &Event) -> bool {
    event.attr.type_ == abi::PERF_TYPE_TRACEPOINT
}

/// `{a,b}` for a group, a name for each event outside of groups.
fn groups(file: &PerfData<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut at = 0;
    while let Some(event) = file.events().get(at) {
        let group =
            file.features().groups.iter().find(|group| group.leader as usize == at && group.members > 1);
        let members = group.map_or(1, |group| group.members as usize).max(1);
        let names = file.events().iter().skip(at).take(members).map(|event| event.name.as_str());
        lines.push(match group {
            Some(group) => {
                let name = group.given_name().unwrap_or_default();
                format!("{name}{{{}}}", names.collect::<Vec<_>>().join(","))
            }
            None => event.name.clone(),
        });
        at += members;
    }
    lines
}
