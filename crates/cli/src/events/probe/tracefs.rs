//! The kernel's list of probes: `uprobe_events` and `kprobe_events` in tracefs, shared with perf and trace-cmd.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use dso::system_file;
use record::event::{EventSource, SystemSource, glob, tracefs};

use crate::terminal::out;
use calls::probing::definition::Definition;

/// A probe that the kernel has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Is it a function's return?
    pub is_return: bool,
    /// The event's group.
    pub group: String,
    /// The event's name.
    pub event: String,
    /// Program and offset, or the kernel's symbol: what is before the arguments.
    pub place: String,
    /// Names of the arguments.
    pub args: Vec<String>,
    /// Whether it is in the kernel.
    pub is_kernel: bool,
}

impl Installed {
    /// Reads a line of `uprobe_events` or `kprobe_events`; `None` if it is none.
    pub fn parse(line: &str, is_kernel: bool) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (kind, names) = words.next()?.split_once(':')?;
        let (group, event) = names.split_once('/')?;
        let place = words.next()?.to_owned();
        let args = words.filter_map(|w| Some(w.split_once('=')?.0.to_owned())).collect();
        let is_return = kind.starts_with('r');
        Some(Self { is_return, group: group.to_owned(), event: event.to_owned(), place, args, is_kernel })
    }

    /// Program and file offset of a uprobe.
    pub fn program(&self) -> Option<(&str, u64)> {
        let (path, offset) = self.place.rsplit_once(":0x")?;
        let digits = offset.split('(').next()?;
        Some((path, u64::from_str_radix(digits, 16).ok()?))
    }

    /// `group:event`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.group, self.event)
    }
}

/// All probes of users and kernel, in the kernel's order.
pub fn installed() -> anyhow::Result<Vec<Installed>> {
    let mut all = Vec::new();
    for (file, is_kernel) in [("kprobe_events", true), ("uprobe_events", false)] {
        let path = tracefs().join(file);
        let text = match system_file::read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_kernel => continue,
            Err(error) => return Err(refused(&path, error)),
        };
        all.extend(text.lines().filter_map(|l| Installed::parse(l, is_kernel)));
    }
    Ok(all)
}

/// Gives one definition to the kernel.
///
/// # Errors
/// If it is more than one line of words: a newline in a file's name would begin another definition. If the kernel
/// refuses it.
pub fn install(definition: &str, is_kernel: bool) -> anyhow::Result<()> {
    check_line(definition)?;
    write(definition, is_kernel).map_err(|error| {
        let why = last_complaint().map(|w| format!(" ({w})")).unwrap_or_default();
        error.context(format!("the kernel refuses the probe '{definition}'{why}"))
    })
}

/// Takes all probes away whose `event`, or `group:event` if the pattern has a colon, fits; their names, each once.
pub fn remove(pattern: &str) -> anyhow::Result<Vec<String>> {
    let fits = |p: &Installed| match pattern.split_once(':') {
        Some((group, event)) => glob::matches(group, &p.group) && glob::matches(event, &p.event),
        None => glob::matches(pattern, &p.event),
    };
    let mut removed: Vec<String> = Vec::new();
    for probe in installed()?.iter().filter(|p| fits(p)) {
        if removed.contains(&probe.name()) {
            continue;
        }
        let order = format!("-:{}/{}", probe.group, probe.event);
        write(&order, probe.is_kernel)
            .with_context(|| format!("cannot remove {} (is it being recorded just now?)", probe.name()))?;
        removed.push(probe.name());
    }
    Ok(removed)
}

fn write(line: &str, is_kernel: bool) -> anyhow::Result<()> {
    let path = tracefs().join(if is_kernel { "kprobe_events" } else { "uprobe_events" });
    let mut file = system_file::open_to_append(&path).map_err(|error| refused(&path, error))?;
    Ok(file.write_all(format!("{line}\n").as_bytes())?)
}

/// Refuses a probe on a file whose name the kernel would not read to its end.
///
/// # Errors
/// With the character that ends it.
pub fn check_definition(definition: &Definition) -> anyhow::Result<()> {
    let path = definition.path.to_string_lossy();
    if let Some(c) = path.chars().find(|c| c.is_whitespace()) {
        bail!(
            "'{}' can't be probed, because its name contains {c:?}, where the kernel's words end; make a link without it",
            out::harmless(&path)
        );
    }
    check_line(&definition.to_string())
}

/// Refuses what the kernel would read as something else.
///
/// Source: linux v6.1 kernel/trace/trace.c, trace_parse_run_command(): lines end at a newline, and `#` begins a comment.
fn check_line(definition: &str) -> anyhow::Result<()> {
    match definition.chars().find(|c| c.is_control() || *c == '#') {
        None => Ok(()),
        Some(c) => bail!(
            "the probe '{}' can't be given to the kernel, because it contains {c:?}; make a link without it to the file",
            out::harmless(definition)
        ),
    }
}

fn refused(path: &Path, error: io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root",
        io::ErrorKind::NotFound => {
            "; mount tracefs (mount -t tracefs nodev /sys/kernel/tracing), or this kernel has no uprobes (CONFIG_UPROBE_EVENTS)"
        }
        _ => "",
    };
    anyhow::anyhow!("cannot open {}: {error}{remedy}", path.display())
}

/// What the kernel wrote last into its error log, without the place in the line.
fn last_complaint() -> Option<String> {
    let log = system_file::read_text(tracefs().join("error_log")).ok()?;
    let line = log.lines().rfind(|l| l.contains("error: "))?;
    Some(line.split_once("error: ")?.1.trim().to_owned())
}

/// Can kernel functions be probed? If not: why, and tracepoints whose names have parts of the function's.
pub fn check_kernel_probes(function: &str) -> anyhow::Result<()> {
    if tracefs().join("kprobe_events").exists() {
        return Ok(());
    }
    let tracepoints = tracepoints_like(function, &SystemSource::new());
    let hint = if tracepoints.is_empty() {
        "tally list tracepoint shows what there is instead".to_owned()
    } else {
        format!("tracepoints of the same subsystem: {}", tracepoints.join(", "))
    };
    bail!(
        "this kernel has no kprobes (built without CONFIG_KPROBE_EVENTS), so '{function}' of the kernel cannot be \
         probed; {hint}. A program's function is probed with -x FILE"
    )
}

/// At most six tracepoints, those first that share most with the function's name.
pub fn tracepoints_like(function: &str, source: &dyn EventSource) -> Vec<String> {
    const SAME: &[(&str, &str)] = &[
        ("vfs", "syscalls"),
        ("do", "syscalls"),
        ("ksys", "syscalls"),
        ("submit", "block"),
        ("bio", "block"),
        ("blk", "block"),
        ("schedule", "sched"),
        ("kmalloc", "kmem"),
        ("kfree", "kmem"),
        ("alloc", "kmem"),
        ("inet", "sock"),
        ("ip", "net"),
        ("wake", "sched"),
    ];
    let parts: Vec<&str> = function.split('_').filter(|p| p.len() > 1).collect();
    let mut scored: Vec<(usize, String)> = Vec::new();
    for system in source.list_tracefs("").unwrap_or_default() {
        let same = |p: &&str| *p == system || SAME.iter().any(|(from, to)| from == p && *to == system);
        let own = parts.iter().take(1).filter(|p| same(p)).count() * 2;
        for event in source.list_tracefs(&system).unwrap_or_default() {
            let shared = event.split('_').filter(|e| parts.contains(e)).count();
            let exit = usize::from(!event.contains("_exit_"));
            if own > 0 || shared > 1 {
                scored.push((100 - 2 * (own + 2 * shared).min(40) - exit, format!("{system}:{event}")));
            }
        }
    }
    scored.sort();
    scored.into_iter().take(6).map(|(_, name)| name).collect()
}
