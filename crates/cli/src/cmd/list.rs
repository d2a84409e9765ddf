//! `tally list`: the events of this machine, and why some of them cannot be had.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use record::count::{Support, probe};
use record::event::catalog::{Entry, Kind, catalog};
use record::event::{EventSource, SystemSource, glob, parse};
use serde_json::json;

use crate::out;

/// Print the events of this machine: those that can be opened, then those that cannot, with the reason
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally list                  everything
  tally list sw               software events
  tally list 'block:*'        tracepoints by pattern
  tally list fault            all that have it in their name
  tally list --json hw        for programs")]
pub struct Args {
    /// hw, sw, cache, tracepoint, pmu, sdt, or a pattern of names
    #[arg(value_name = "WHAT")]
    what: Vec<String>,
    /// A JSON array of objects
    #[arg(short, long)]
    json: bool,
}

/// One line to print.
struct Listed {
    entry: Entry,
    /// Why it cannot be opened; `None`: it can.
    missing: Option<String>,
}

/// Prints the list.
///
/// # Errors
/// What writing says.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let source = SystemSource::new();
    let mut listed: Vec<Listed> = Vec::new();
    let mut sdt = Vec::new();
    let all = [String::new()];
    let what: &[String] = if args.what.is_empty() { &all } else { &args.what };
    for word in what {
        match Choice::of(word) {
            Choice::Sdt => sdt.extend(cached_sdt_events()),
            choice => listed.extend(choice.entries(&source).into_iter().map(|e| examine(e, &source))),
        }
    }
    let mut out = out::stdout();
    if args.json {
        print_json(&listed, &sdt, &mut out)?;
    } else {
        print_text(&listed, &sdt, args.what.is_empty(), &source, &mut out)?;
    }
    out.flush()?;
    let nothing = listed.is_empty() && sdt.is_empty();
    if nothing && !args.json {
        let why = if what.iter().any(|w| w == "sdt") { "; see perf buildid-cache --add FILE" } else { "" };
        out::complain(&format!("no event fits '{}'{why}", what.join(" ")));
    }
    Ok(if nothing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What one word of the command line asks for.
enum Choice<'a> {
    Kinds(&'static [Kind]),
    Sdt,
    Pattern(&'a str),
}

impl<'a> Choice<'a> {
    fn of(word: &'a str) -> Self {
        match word {
            "" => Self::Kinds(&ALL),
            "hw" | "hardware" => Self::Kinds(&[Kind::Hardware]),
            "sw" | "software" => Self::Kinds(&[Kind::Software, Kind::Tool]),
            "cache" | "hwcache" => Self::Kinds(&[Kind::Cache]),
            "pmu" => Self::Kinds(&[Kind::Pmu]),
            "tracepoint" => Self::Kinds(&[Kind::Tracepoint]),
            "sdt" => Self::Sdt,
            pattern => Self::Pattern(pattern),
        }
    }

    fn entries(&self, source: &dyn EventSource) -> Vec<Entry> {
        match self {
            Self::Kinds(kinds) => catalog(kinds, source),
            Self::Sdt => Vec::new(),
            Self::Pattern(pattern) => {
                let mut all = catalog(if pattern.contains(':') { &[Kind::Tracepoint] } else { &ALL }, source);
                // A word without pattern characters stands for any name that has it inside, as perf's does.
                let whole = glob::is_glob(pattern) || pattern.contains(':');
                let pattern = if whole { (*pattern).to_owned() } else { format!("*{pattern}*") };
                let fits = |name: &str| glob::matches(&pattern, name);
                all.retain(|e| fits(&e.name) || e.alias.as_deref().is_some_and(fits));
                all
            }
        }
    }
}

const ALL: [Kind; 6] =
    [Kind::Hardware, Kind::Software, Kind::Tool, Kind::Cache, Kind::Pmu, Kind::Tracepoint];

/// Opens the event for a moment, except tracepoints: each has its id, and arming one by one takes seconds.
fn examine(entry: Entry, source: &dyn EventSource) -> Listed {
    if matches!(entry.kind, Kind::Tracepoint | Kind::Tool) {
        return Listed { entry, missing: None };
    }
    let text = entry.alias.as_deref().filter(|_| entry.kind == Kind::Pmu).unwrap_or(&entry.name);
    let missing = match parse(text, source) {
        Err(error) => Some(error.to_string()),
        Ok(specs) => specs.first().and_then(|spec| match probe(spec) {
            Ok(Support::Full | Support::UserOnly) => None,
            Ok(Support::None(errno)) => Some(reason(entry.kind, errno)),
            Err(error) => Some(error.to_string()),
        }),
    };
    Listed { entry, missing }
}

fn reason(kind: Kind, errno: i32) -> String {
    let system = io::Error::from_raw_os_error(errno);
    match kind {
        Kind::Hardware | Kind::Cache if system.kind() == io::ErrorKind::NotFound => {
            "this CPU or virtual machine does not count it".to_owned()
        }
        _ => format!("the kernel refuses it: {system}"),
    }
}

fn print_text(
    listed: &[Listed],
    sdt: &[String],
    whole: bool,
    source: &dyn EventSource,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut seen = HashSet::new();
    for entry in listed.iter().filter(|l| l.missing.is_none()).map(|l| &l.entry) {
        if seen.insert(&entry.name) || entry.kind == Kind::Pmu {
            if whole && entry.kind == Kind::Tracepoint && seen.insert(&RAW_FORMS) {
                print_forms(out)?;
            }
            writeln!(out, "  {:<50} [{}]", shown_name(entry), entry.kind.label())?;
        }
    }
    for name in sdt {
        writeln!(out, "  {:<50} [SDT event]", out::harmless(name))?;
    }
    if whole && let Err(error) = source.list_tracefs("") {
        writeln!(out, "\n  Tracepoints cannot be read: {error}; mount tracefs on /sys/kernel/tracing, or run as root")?;
    }
    let missing: Vec<_> = listed.iter().filter_map(|l| Some((&l.entry, l.missing.as_ref()?))).collect();
    if !missing.is_empty() {
        writeln!(out, "\nNot to be had here:")?;
    }
    for (entry, why) in missing {
        writeln!(out, "  {:<50} [{}] {why}", shown_name(entry), entry.kind.label())?;
    }
    Ok(())
}

/// Stands in the set of names seen for "the general forms are printed".
static RAW_FORMS: String = String::new();

/// The forms of events that have no list.
fn print_forms(out: &mut dyn Write) -> io::Result<()> {
    for (form, label) in [
        ("rNNN", "Raw hardware event descriptor"),
        ("cpu/t1=v1[,t2=v2,t3 ...]/modifier", "Raw hardware event descriptor"),
        ("mem:<addr>[/len][:access]", "Hardware breakpoint"),
    ] {
        writeln!(out, "  {form:<50} [{label}]")?;
    }
    Ok(())
}

fn shown_name(entry: &Entry) -> String {
    match &entry.alias {
        Some(alias) => format!("{} OR {alias}", entry.name),
        None => entry.name.clone(),
    }
}

fn print_json(listed: &[Listed], sdt: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let events = listed.iter().map(|l| {
        json!({
            "name": l.entry.name,
            "alias": l.entry.alias,
            "type": l.entry.kind.label(),
            "available": l.missing.is_none(),
            "reason": l.missing,
        })
    });
    let sdt = sdt.iter().map(|name| json!({ "name": name, "type": "SDT event", "available": false,
        "reason": "add it first: perf probe, then record -e" }));
    let all: Vec<_> = events.chain(sdt).collect();
    serde_json::to_writer_pretty(&mut *out, &all)?;
    Ok(writeln!(out)?)
}

/// Statically defined probes that `perf buildid-cache --add` noted under `~/.debug`.
fn cached_sdt_events() -> Vec<String> {
    let Some(home) = std::env::var_os("HOME") else { return Vec::new() };
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::from(home).join(".debug"), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name() == "probes" {
                found.extend(sdt_names(&path));
            } else if depth < 12 && entry.file_type().is_ok_and(|t| t.is_dir()) {
                folders.push((path, depth + 1));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The `%sdt_…` lines of one cache file.
fn sdt_names(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let names = text.lines().filter_map(|l| l.strip_prefix('%')?.split('=').next());
    names.map(|n| n.trim().to_owned()).filter(|n| n.starts_with("sdt_")).collect()
}
