//! `tally probe`: put events on functions, lines and returns of programs.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use dso::{FileOffset, ObjectFile};
use record::event::glob;

use crate::events::probe::show;
use crate::flags::perf_compat::{PerfCompatFlags, ProbeFlags};
use crate::terminal::out;
use calls::probing::definition::spec::{ProbePlace, ProbePoint, ProbeSpec};
use calls::probing::definition::{Definition, Program};
use record::event::probe_list::{
    Installed, ProbeSpace, check_definition, check_kernel_probes, install, installed, remove,
};

/// Put events on functions, lines and returns of programs, with values of their variables
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally probe -x ./app parse                       an event on each call of parse
  tally probe -x ./app 'parse:12 len buf->name:string'
  tally probe -x ./app 'parse%return $retval'      on its returns
  tally probe -x libc.so.6 --add malloc            libraries too (path, or a program in PATH)
  tally probe -x ./app -V parse:12                 which variables are there?
  tally probe -x ./app -L parse                    which lines can be probed?
  tally probe -x ./app -D 'parse $vars'            only show the definition
  tally probe --list; tally probe --del 'probe_app:*'
  tally record -e probe_app:parse -a sleep 5       then use it, in tally and perf alike

Probes stay until they are removed or the machine is restarted.")]
pub struct Args {
    /// The program or library
    #[arg(short = 'x', long, value_name = "FILE")]
    exec: Option<PathBuf>,
    /// Add this probe: [[GROUP:]EVENT=]PLACE [VARIABLE …]
    ///
    /// PLACE: FUNC[@FILE], then :LINE, +OFFSET, %return or ;PATTERN; FILE:LINE; 0xADDRESS. VARIABLE:
    /// [NAME=]VARIABLE[:TYPE]
    #[arg(short, long, value_name = "PROBE")]
    add: Vec<String>,
    /// Remove events by name or pattern: EVENT or GROUP:EVENT
    #[arg(short, long, value_name = "EVENT")]
    del: Vec<String>,
    /// Print the kernel's probes, or those whose names fit
    #[arg(short, long, value_name = "EVENT", num_args = 0..=1, default_missing_value = "*")]
    list: Option<String>,
    /// Print definitions instead of adding them
    #[arg(short = 'D', long, value_name = "PROBE")]
    definition: Vec<String>,
    /// Print the variables that can be seen at a place
    #[arg(short = 'V', long, value_name = "PLACE")]
    vars: Option<String>,
    /// With -V, global variables too
    #[arg(long, requires = "vars")]
    externs: bool,
    /// Print lines and mark those that can be probed: FUNC or FILE[:FROM-TO]
    #[arg(short = 'L', long, value_name = "RANGE")]
    line: Option<String>,
    /// Print the functions that can be probed
    #[arg(short = 'F', long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "*")]
    funcs: Option<String>,
    /// Do everything except adding probes
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Add to an event that exists already, under a new name
    #[arg(short, long)]
    force: bool,
    /// Leave inlined calls out
    #[arg(long)]
    no_inlines: bool,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// At most this many places for one probe
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_probes: usize,
    /// Flags of perf that we don't have.
    #[command(flatten)]
    perf: PerfCompatFlags<ProbeFlags>,
    /// The probe to add, as with --add
    #[arg(value_name = "PROBE")]
    probe: Vec<String>,
}

/// Runs the command with these flags.
///
/// # Errors
/// Places that are not there, variables that cannot be had, the kernel's refusals; each with what to do.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.perf.check()?;
    let mut out = out::stdout();
    if let Some(pattern) = &args.list {
        list(pattern, &mut out)?;
    } else if !args.del.is_empty() {
        return delete(&args.del, args.quiet);
    } else if let Some(place) = &args.vars {
        let place = ProbePlace::parse(place.trim())?;
        show::variables(&mut args.program()?, &place, args.externs, &mut out)?;
    } else if let Some(range) = &args.line {
        show::lines(&mut args.program()?, range, &mut out)?;
    } else if let Some(pattern) = &args.funcs {
        let names = args.program()?.function_names();
        // Names of C++ and Rust as people write them, as perf does; both spellings are found.
        let fits =
            |name: &&String| glob::matches(pattern, name) || glob::matches(pattern, &dso::demangle(name));
        let shown: BTreeSet<_> = names.iter().filter(fits).map(|name| dso::demangle(name)).collect();
        for name in shown {
            writeln!(out, "{}", out::harmless(&name))?;
        }
    } else if !args.definition.is_empty() {
        for definition in args.define_all(&args.definition)?.iter().flatten() {
            writeln!(out, "{definition}")?;
        }
    } else {
        args.add_all()?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn program(&self) -> anyhow::Result<Program> {
        Ok(Program::open(self.exec.as_deref().context("which program? Give it with -x FILE")?)?)
    }

    /// Definitions of each text, in order.
    fn define_all(&self, texts: &[String]) -> anyhow::Result<Vec<Vec<Definition>>> {
        let specs = texts.iter().map(|t| ProbeSpec::parse(t).with_context(|| format!("probe '{t}'")));
        let specs = specs.collect::<anyhow::Result<Vec<_>>>()?;
        if self.exec.is_none() {
            bail!("which program? Give it with -x FILE");
        }
        let mut program = self.program()?;
        let definitions = specs.iter().map(|spec| {
            let found = program.define(spec, !self.no_inlines)?;
            for place in &found {
                check_definition(&place.path, &place.to_string())?;
            }
            if found.len() > self.max_probes {
                bail!("it matches {} places, more than --max-probes {}", found.len(), self.max_probes);
            }
            Ok(found)
        });
        definitions.collect()
    }

    fn add_all(&self) -> anyhow::Result<()> {
        let mut texts = self.add.clone();
        if !self.probe.is_empty() {
            texts.push(self.probe.join(" "));
        }
        if texts.is_empty() {
            bail!(
                "nothing to do: give a place to probe, or --list, --del, -V, -L, -F; see tally probe --help"
            );
        }
        if self.exec.is_none() {
            return texts.iter().try_for_each(|t| self.add_to_kernel(t));
        }
        for definitions in self.define_all(&texts)? {
            self.add_definitions(definitions)?;
        }
        Ok(())
    }

    fn add_definitions(&self, mut definitions: Vec<Definition>) -> anyhow::Result<()> {
        let name = self.free_name(&definitions)?;
        for definition in &mut definitions {
            definition.event.clone_from(&name);
            if !self.dry_run {
                install(&definition.to_string(), ProbeSpace::User)?;
            }
        }
        let Some(first) = definitions.first() else { return Ok(()) };
        let full = format!("{}:{name}", first.group);
        let lines: Vec<String> = definitions
            .iter()
            .map(|d| {
                let args: Vec<&str> = d.args.iter().map(|a| a.split('=').next().unwrap_or(a)).collect();
                let with = if args.is_empty() { String::new() } else { format!(" with {}", args.join(" ")) };
                format!("  {full:<20} (on {} in {}{with})", d.place, d.path.display())
            })
            .collect();
        self.report(&lines, &full);
        Ok(())
    }

    fn report(&self, lines: &[String], event: &str) {
        if self.quiet {
            return;
        }
        let plural = if lines.len() == 1 { "event" } else { "events" };
        let verb = if self.dry_run { "Would add" } else { "Added new" };
        out::note(&format!("{verb} {plural}:"));
        lines.iter().for_each(|line| out::note(line));
        out::note_lines(&format!(
            "\nUse it in tally, perf and trace-cmd alike:\n\n\ttally record -e {event} -a sleep 1\n"
        ));
    }

    /// The event's name, with `_1`, `_2` … if it is taken and --force is given.
    fn free_name(&self, definitions: &[Definition]) -> anyhow::Result<String> {
        let Some(first) = definitions.first() else { return Ok(String::new()) };
        let taken = if self.dry_run { installed().unwrap_or_default() } else { installed()? };
        let is_taken = |name: &str| taken.iter().any(|p| p.group == first.group && p.event == name);
        if !is_taken(&first.event) {
            return Ok(first.event.clone());
        }
        if !self.force {
            let name = &first.event;
            bail!(
                "event {}:{name} exists already; remove it (tally probe -d {}:{name}), name this one (NEW=…), or add it \
                 with --force",
                first.group,
                first.group
            );
        }
        let mut suffixed = (1..).map(|n| format!("{}_{n}", first.event));
        suffixed.find(|name| !is_taken(name)).context("no name is free")
    }

    /// A function of the kernel, by its symbol.
    fn add_to_kernel(&self, text: &str) -> anyhow::Result<()> {
        let spec = ProbeSpec::parse(text).with_context(|| format!("probe '{text}'"))?;
        let ProbePlace::Function { name, at, .. } = &spec.place else {
            bail!("lines and addresses of programs are probed with -x FILE");
        };
        check_kernel_probes(name)?;
        if spec.wants_variables() || matches!(at, ProbePoint::Line(_)) {
            bail!(
                "variables and lines of kernel functions need the kernel's debug information; registers (%di) and $retval work"
            );
        }
        let (kind, offset, suffix) = match at {
            ProbePoint::Return => ('r', String::new(), "__return"),
            ProbePoint::Offset(offset) => ('p', format!("+{offset}"), ""),
            _ => ('p', "+0".to_owned(), ""),
        };
        let group = spec.group.clone().unwrap_or_else(|| "probe".to_owned());
        let event = spec.event.clone().unwrap_or_else(|| format!("{name}{suffix}"));
        let args: Vec<&str> = text.split_whitespace().skip(1).collect();
        let definition = format!("{kind}:{group}/{event} {name}{offset} {}", args.join(" "));
        if !self.dry_run {
            install(definition.trim_end(), ProbeSpace::Kernel)?;
        }
        let full = format!("{group}:{event}");
        self.report(&[format!("  {full:<20} (on {name}{offset})")], &full);
        Ok(())
    }
}

fn delete(patterns: &[String], quiet: bool) -> anyhow::Result<ExitCode> {
    for pattern in patterns {
        let removed = remove(pattern)?;
        if removed.is_empty() {
            bail!("no probe fits '{pattern}'; tally probe --list shows them");
        }
        for name in removed.iter().filter(|_| !quiet) {
            out::note(&format!("Removed event: {name}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(pattern: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut programs: HashMap<String, Option<Listing>> = HashMap::new();
    for probe in installed()? {
        let full = probe.name();
        if !glob::matches(pattern, &full) && !glob::matches(pattern, &probe.event) {
            continue;
        }
        let with =
            if probe.args.is_empty() { String::new() } else { format!(" with {}", probe.args.join(" ")) };
        let place = match probe.program() {
            Some((path, offset)) => {
                let program = programs.entry(path.to_owned()).or_insert_with(|| Listing::open(path));
                let place = program.as_mut().and_then(|p| p.place(&probe, offset));
                format!("{} in {path}", place.unwrap_or_else(|| format!("{offset:#x}")))
            }
            None => probe.place.clone(),
        };
        writeln!(out, "  {full:<20} (on {}{with})", out::harmless(&place))?;
    }
    Ok(())
}

/// A program whose probes are being listed.
struct Listing {
    object: ObjectFile,
    program: Program,
}

impl Listing {
    fn open(path: &str) -> Option<Self> {
        Some(Self {
            object: ObjectFile::open(Path::new(path)).ok()?,
            program: Program::open(Path::new(path)).ok()?,
        })
    }

    /// `FUNC:LINE@FILE`, or `FUNC+OFFSET` without debug information.
    fn place(&mut self, probe: &Installed, offset: u64) -> Option<String> {
        let named = self.program.info().ok()?.source_of(self.object.svma_of(FileOffset(offset))?)?;
        let file = named.file.map(|f| format!("@{f}")).unwrap_or_default();
        Some(match named.line {
            _ if probe.is_return => format!("{}%return{file}", named.function),
            0 => format!("{}{file}", named.function),
            line => format!("{}:{line}{file}", named.function),
        })
    }
}
