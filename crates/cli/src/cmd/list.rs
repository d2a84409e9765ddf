//! `tally list`: the events of this machine, and why some of them cannot be had.

use std::collections::HashSet;
use std::io::{self, Write};
use std::process::ExitCode;

use record::count::{Support, probe};
use record::event::catalog::{CatalogEntry, CatalogKind, catalog};
use record::event::{EventSource, SystemSource, glob, parse};
use serde_json::json;

use crate::terminal::foreign::json_lines;
use crate::terminal::out;
use calls::probing::sdt_probes::{self as sdt, Sdt};

/// Print the events of this machine: those that can be opened, then those that cannot, with the reason
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally list                  everything
  tally list sw               software events
  tally list 'block:*'        tracepoints by pattern
  tally list fault            all that have it in their name
  tally list sdt ./app        probes that a program's authors placed (without a file: of all libraries)
  tally list --details sched:sched_switch
                              with what the kernel is told and the fields
  tally list --json hw        for programs")]
pub struct Args {
    /// hw, sw, cache, tracepoint, pmu, sdt [FILE …], or a name pattern
    #[arg(value_name = "WHAT")]
    what: Vec<String>,
    /// A JSON array of objects
    #[arg(short, long)]
    json: bool,
    /// Under each event what the kernel gets, and the fields of tracepoints
    #[arg(long)]
    details: bool,
    /// perf's flags for the vendors' tables of events, which are not built in
    #[arg(short, long, hide = true)]
    desc: bool,
    /// As above
    #[arg(short = 'v', long, hide = true)]
    long_desc: bool,
    /// As above
    #[arg(long, hide = true)]
    debug: bool,
    /// As above
    #[arg(long, hide = true)]
    deprecated: bool,
}

/// One line to print.
struct Listed {
    entry: CatalogEntry,
    /// Why it cannot be opened; `None`: it can.
    missing: Option<String>,
}

/// Prints the list.
///
/// # Errors
/// Standard output can't be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let source = SystemSource::new();
    let mut listed: Vec<Listed> = Vec::new();
    let mut sdt = Vec::new();
    let all = [String::new()];
    let mut what: &[String] = if args.what.is_empty() { &all } else { &args.what };
    if what.first().is_some_and(|word| word == "sdt") && what.len() > 1 {
        let files: Vec<&str> = what.iter().skip(1).map(String::as_str).collect();
        sdt = sdt::events(&files)?;
        what = &[];
    }
    for word in what {
        match Choice::of(word) {
            Choice::Sdt => sdt.extend(sdt::events(&[])?),
            choice => listed.extend(choice.entries(&source).into_iter().map(|e| examine(e, &source))),
        }
    }
    let mut out = out::stdout();
    if args.json {
        print_json(&listed, &sdt, &mut out)?;
    } else {
        print_text(&listed, args.what.is_empty(), &source, &mut out)?;
        if args.details && !listed.is_empty() {
            print_details(&listed, &source, &mut out)?;
        }
        print_sdt(&sdt, args.details, &mut out)?;
    }
    out.flush()?;
    let nothing = listed.is_empty() && sdt.is_empty();
    if nothing && !args.json {
        let is_sdt = args.what.first().is_some_and(|word| word == "sdt");
        let why = match source.list_tracefs("") {
            _ if is_sdt => ": no probes of that kind in it".to_owned(),
            Err(error) if args.what.iter().any(|what| asks_for_tracepoints(what)) => {
                format!(": tracepoints can't be read ({error}); {NO_TRACEFS}")
            }
            _ => String::new(),
        };
        out::complain(&format!("no event fits '{}'{why}", args.what.join(" ")));
    }
    Ok(if nothing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Remedy where tracefs can't be read.
const NO_TRACEFS: &str = "as root: mount -t tracefs tracefs /sys/kernel/tracing; others: run as root";

fn asks_for_tracepoints(what: &str) -> bool {
    what.contains(':') || what == "tracepoint"
}

/// Request of one word of the command line.
enum Choice<'a> {
    Kinds(&'static [CatalogKind]),
    Sdt,
    Pattern(&'a str),
}

impl<'a> Choice<'a> {
    fn of(word: &'a str) -> Self {
        match word {
            "" => Self::Kinds(&ALL),
            "hw" | "hardware" => Self::Kinds(&[CatalogKind::Hardware]),
            "sw" | "software" => Self::Kinds(&[CatalogKind::Software, CatalogKind::Tool]),
            "cache" | "hwcache" => Self::Kinds(&[CatalogKind::Cache]),
            "pmu" => Self::Kinds(&[CatalogKind::Pmu]),
            "tracepoint" => Self::Kinds(&[CatalogKind::Tracepoint]),
            "sdt" => Self::Sdt,
            pattern => Self::Pattern(pattern),
        }
    }

    fn entries(&self, source: &dyn EventSource) -> Vec<CatalogEntry> {
        match self {
            Self::Kinds(kinds) => catalog(kinds, source),
            Self::Sdt => Vec::new(),
            Self::Pattern(pattern) => {
                let mut all =
                    catalog(if pattern.contains(':') { &[CatalogKind::Tracepoint] } else { &ALL }, source);
                // A word without pattern characters represents any name that has it inside, as perf's does.
                let whole = glob::is_glob(pattern) || pattern.contains(':');
                let pattern = if whole { (*pattern).to_owned() } else { format!("*{pattern}*") };
                let fits = |name: &str| glob::matches(&pattern, name);
                all.retain(|e| fits(&e.name) || e.alias.as_deref().is_some_and(fits));
                all
            }
        }
    }
}

const ALL: [CatalogKind; 6] = [
    CatalogKind::Hardware,
    CatalogKind::Software,
    CatalogKind::Tool,
    CatalogKind::Cache,
    CatalogKind::Pmu,
    CatalogKind::Tracepoint,
];

/// Opens the event for a moment, except tracepoints: each has its id, and arming one by one takes seconds.
fn examine(entry: CatalogEntry, source: &dyn EventSource) -> Listed {
    if matches!(entry.kind, CatalogKind::Tracepoint | CatalogKind::Tool) {
        return Listed { entry, missing: None };
    }
    let text = entry.alias.as_deref().filter(|_| entry.kind == CatalogKind::Pmu).unwrap_or(&entry.name);
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

fn reason(kind: CatalogKind, errno: i32) -> String {
    let system = io::Error::from_raw_os_error(errno);
    match kind {
        CatalogKind::Hardware | CatalogKind::Cache if system.kind() == io::ErrorKind::NotFound => {
            "this CPU or virtual machine does not count it".to_owned()
        }
        _ => out::without_errno(&format!("the kernel refuses it: {system}")),
    }
}

fn print_text(
    listed: &[Listed],
    whole: bool,
    source: &dyn EventSource,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut seen = HashSet::new();
    for entry in listed.iter().filter(|l| l.missing.is_none()).map(|l| &l.entry) {
        if seen.insert(&entry.name) || entry.kind == CatalogKind::Pmu {
            if whole && entry.kind == CatalogKind::Tracepoint && seen.insert(&RAW_FORMS) {
                print_forms(out)?;
            }
            writeln!(out, "  {:<50} [{}]", shown_name(entry), entry.kind.label())?;
        }
    }
    if whole && let Err(error) = source.list_tracefs("") {
        writeln!(out, "\n  Tracepoints can't be read ({error}); {NO_TRACEFS}")?;
    }
    let missing: Vec<_> = listed.iter().filter_map(|l| Some((&l.entry, l.missing.as_ref()?))).collect();
    if !missing.is_empty() {
        writeln!(out, "\nNot available here:")?;
    }
    for (entry, why) in missing {
        writeln!(out, "  {:<50} [{}] {why}", shown_name(entry), entry.kind.label())?;
    }
    Ok(())
}

fn print_sdt(sdt: &[Sdt], details: bool, out: &mut dyn Write) -> io::Result<()> {
    for event in sdt {
        let file = event.file.as_ref().map(|file| format!(" in {}", file.display())).unwrap_or_default();
        writeln!(out, "  {:<50} [SDT event]{}", out::harmless(&event.name), out::harmless(&file))?;
        if details {
            let at: Vec<String> = event.at.iter().map(|at| format!("{at:#x}")).collect();
            let only = if event.has_semaphore { "; only while its semaphore is set" } else { "" };
            writeln!(
                out,
                "        at {}{only}; arguments: {}",
                at.join(" "),
                out::harmless(&event.arguments)
            )?;
        }
    }
    if let Some((event, file)) = sdt.iter().find_map(|event| Some((event, event.file.as_ref()?))) {
        let name = event.name.replace(':', "/").replacen("sdt_", "", 1).replace('/', "_");
        let at = event.at.first().copied().unwrap_or(0);
        writeln!(
            out,
            "\nTo use one: tally probe -x {} {name}={at:#x}; tally record -e 'probe_*:{name}' …",
            file.display()
        )?;
    }
    Ok(())
}

/// Kernel attributes of each event, and the fields of tracepoints' samples.
fn print_details(listed: &[Listed], source: &dyn EventSource, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nDetails:")?;
    for entry in listed.iter().filter(|l| l.missing.is_none()).map(|l| &l.entry) {
        let Ok(specs) = parse(&entry.name, source) else { continue };
        let Some(attr) = specs.first().map(|spec| spec.attr) else { continue };
        writeln!(out, "  {:<50} type={} config={:#x}", entry.name, attr.type_, attr.config)?;
        if entry.kind == CatalogKind::Tracepoint {
            let format = source.read_tracefs(&format!("{}/format", entry.name.replace(':', "/")));
            writeln!(out, "        fields: {}", field_names(&format.unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// The names of a tracepoint's own fields, from its format file.
fn field_names(format: &str) -> String {
    let declared = format.lines().filter_map(|line| line.trim().strip_prefix("field:")?.split(';').next());
    let names = declared.filter_map(|text| text.split('[').next()?.split_whitespace().next_back());
    let own = names.filter(|name| !name.starts_with("common_"));
    own.collect::<Vec<_>>().join(" ")
}

/// Is in the set of names seen for "the general forms are printed".
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

fn shown_name(entry: &CatalogEntry) -> String {
    match &entry.alias {
        Some(alias) => format!("{} OR {alias}", entry.name),
        None => entry.name.clone(),
    }
}

fn print_json(listed: &[Listed], sdt: &[Sdt], out: &mut dyn Write) -> anyhow::Result<()> {
    let events = listed.iter().map(|l| {
        json!({
            "name": l.entry.name,
            "alias": l.entry.alias,
            "type": l.entry.kind.label(),
            "available": l.missing.is_none(),
            "reason": l.missing,
        })
    });
    let sdt = sdt.iter().map(|event| {
        json!({ "name": event.name, "type": "SDT event", "available": false,
        "file": event.file, "addresses": event.at, "arguments": event.arguments,
        "reason": "add it first by tally probe" })
    });
    let all: Vec<_> = events.chain(sdt).collect();
    Ok(writeln!(out, "{}", json_lines(&json!(all)))?)
}
