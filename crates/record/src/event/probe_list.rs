//! The kernel's list of probes: `uprobe_events` and `kprobe_events` in tracefs, shared with perf and trace-cmd.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dso::system_file;

use super::{EventSource, SystemSource, glob, tracefs};

/// Why the kernel's list of probes can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeListError {
    /// The file's name would not be read to its end.
    #[error(
        "'{path}' can't be probed, because its name contains {character:?}, where the kernel's words end; make a link without it"
    )]
    Name {
        /// The file.
        path: String,
        /// The character that ends it.
        character: char,
    },
    /// The kernel would read the definition as something else.
    #[error(
        "the probe '{definition}' can't be given to the kernel, because it contains {character:?}; make a link without it to the file"
    )]
    Line {
        /// The definition.
        definition: String,
        /// The character that ends it.
        character: char,
    },
    /// A file of tracefs can't be opened.
    #[error("cannot open {}: {source}{}", path.display(), remedy(source))]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The kernel refuses a definition.
    #[error("the kernel refuses the probe '{definition}'{complaint}")]
    Refused {
        /// The definition.
        definition: String,
        /// ` (WHY)` from the kernel's log, or nothing.
        complaint: String,
        /// The file or write that failed.
        source: Box<Self>,
    },
    /// The kernel keeps a probe.
    #[error("cannot remove {name} (is it being recorded just now?)")]
    Kept {
        /// `group:event`.
        name: String,
        /// The file or write that failed.
        source: Box<Self>,
    },
    /// A write to a file of tracefs failed.
    #[error("{0}")]
    Write(io::Error),
    /// The kernel has no kprobes.
    #[error(
        "this kernel has no kprobes (built without CONFIG_KPROBE_EVENTS), so '{function}' of the kernel cannot be \
         probed; {hint}. A program's function is probed with -x FILE"
    )]
    NoKernelProbes {
        /// The function that was to be probed.
        function: String,
        /// Tracepoints to use instead.
        hint: String,
    },
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root",
        io::ErrorKind::NotFound => {
            "; mount tracefs (mount -t tracefs nodev /sys/kernel/tracing), or this kernel has no uprobes (CONFIG_UPROBE_EVENTS)"
        }
        _ => "",
    }
}

type Result<T> = std::result::Result<T, ProbeListError>;

/// Program or kernel that a probe is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeSpace {
    /// The kernel's.
    Kernel,
    /// A program's or a library's.
    User,
}

impl ProbeSpace {
    /// The file in tracefs with these probes.
    fn list(self) -> &'static str {
        match self {
            Self::Kernel => "kprobe_events",
            Self::User => "uprobe_events",
        }
    }
}

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
    /// Where its code is.
    pub space: ProbeSpace,
}

impl Installed {
    /// Reads a line of `uprobe_events` or `kprobe_events`; `None` if it is none.
    pub fn parse(line: &str, space: ProbeSpace) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (kind, names) = words.next()?.split_once(':')?;
        let (group, event) = names.split_once('/')?;
        let place = words.next()?.to_owned();
        let args = words.filter_map(|w| Some(w.split_once('=')?.0.to_owned())).collect();
        let is_return = kind.starts_with('r');
        Some(Self { is_return, group: group.to_owned(), event: event.to_owned(), place, args, space })
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
///
/// # Errors
/// If the lists can't be read.
pub fn installed() -> Result<Vec<Installed>> {
    let mut all = Vec::new();
    for space in [ProbeSpace::Kernel, ProbeSpace::User] {
        let path = tracefs().join(space.list());
        let text = match system_file::read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && space == ProbeSpace::Kernel => continue,
            Err(source) => return Err(ProbeListError::Open { path, source }),
        };
        all.extend(text.lines().filter_map(|l| Installed::parse(l, space)));
    }
    Ok(all)
}

/// Gives one definition to the kernel.
///
/// # Errors
/// If it is more than one line of words: a newline in a file's name would begin another definition. If the kernel
/// refuses it.
pub fn install(definition: &str, space: ProbeSpace) -> Result<()> {
    check_line(definition)?;
    write(definition, space).map_err(|error| {
        let why = last_complaint().map(|w| format!(" ({w})")).unwrap_or_default();
        ProbeListError::Refused { definition: definition.to_owned(), complaint: why, source: Box::new(error) }
    })
}

/// Takes all probes away whose `event`, or `group:event` if the pattern has a colon, fits; their names, each once.
///
/// # Errors
/// If the lists can't be read, or the kernel keeps a probe.
pub fn remove(pattern: &str) -> Result<Vec<String>> {
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
        write(&order, probe.space)
            .map_err(|error| ProbeListError::Kept { name: probe.name(), source: Box::new(error) })?;
        removed.push(probe.name());
    }
    Ok(removed)
}

fn write(line: &str, space: ProbeSpace) -> Result<()> {
    let path = tracefs().join(space.list());
    let opened = system_file::open_to_append(&path);
    let mut file = opened.map_err(|source| ProbeListError::Open { path, source })?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(ProbeListError::Write)
}

/// Refuses a probe on a file whose name the kernel would not read to its end.
///
/// # Errors
/// With the character that ends it.
pub fn check_definition(program: &Path, definition: &str) -> Result<()> {
    let path = program.to_string_lossy();
    if let Some(character) = path.chars().find(|c| c.is_whitespace()) {
        return Err(ProbeListError::Name { path: path.into_owned(), character });
    }
    check_line(definition)
}

/// Refuses what the kernel would read as something else.
///
/// Source: linux v6.1 kernel/trace/trace.c, trace_parse_run_command(): lines end at a newline, and `#` begins a
/// comment.
fn check_line(definition: &str) -> Result<()> {
    match definition.chars().find(|c| c.is_control() || *c == '#') {
        None => Ok(()),
        Some(character) => Err(ProbeListError::Line { definition: definition.to_owned(), character }),
    }
}

/// The last line of the kernel's error log, without the position in the line.
fn last_complaint() -> Option<String> {
    let log = system_file::read_text(tracefs().join("error_log")).ok()?;
    let line = log.lines().rfind(|l| l.contains("error: "))?;
    Some(line.split_once("error: ")?.1.trim().to_owned())
}

/// Checks that functions of the kernel can be probed.
///
/// # Errors
/// They can't: with tracepoints whose names have parts of the function's.
pub fn check_kernel_probes(function: &str) -> Result<()> {
    if tracefs().join("kprobe_events").exists() {
        return Ok(());
    }
    let tracepoints = tracepoints_like(function, &SystemSource::new());
    let hint = if tracepoints.is_empty() {
        "tally list tracepoint shows what there is instead".to_owned()
    } else {
        format!("tracepoints of the same subsystem: {}", tracepoints.join(", "))
    };
    Err(ProbeListError::NoKernelProbes { function: function.to_owned(), hint })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read_back() {
        let line = "p:probe_p0/add /tmp/p0:0x0000000000001143 a=-20(%bp):s32 b=%si:s32";
        let probe = Installed::parse(line, ProbeSpace::User).expect("a uprobe");
        assert_eq!((probe.name().as_str(), probe.program()), ("probe_p0:add", Some(("/tmp/p0", 0x1143))));
        assert_eq!((probe.args.as_slice(), probe.is_return), (&["a".to_owned(), "b".to_owned()][..], false));
        let returns = Installed::parse("r:g/e /x:0x1(0x20)", ProbeSpace::User).expect("a return probe");
        assert!(returns.is_return && returns.program() == Some(("/x", 1)));
        assert_eq!(Installed::parse("nonsense", ProbeSpace::User), None);
    }

    /// Three tracepoints.
    struct Kernel;

    impl EventSource for Kernel {
        fn read_pmu(&self, _: &str) -> io::Result<String> {
            Err(io::ErrorKind::NotFound.into())
        }
        fn list_pmu(&self, _: &str) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
        fn read_tracefs(&self, _: &str) -> io::Result<String> {
            Ok("1".to_owned())
        }
        fn list_tracefs(&self, path: &str) -> io::Result<Vec<String>> {
            let names: &[&str] = match path {
                "" => &["block", "syscalls", "tcp"],
                "syscalls" => &["sys_enter_read", "sys_exit_read"],
                "tcp" => &["tcp_probe", "tcp_send_reset"],
                _ => &["block_rq_issue"],
            };
            Ok(names.iter().map(|n| (*n).to_owned()).collect())
        }
    }

    #[test]
    fn tracepoints_replace_kernel_probes() {
        assert_eq!(
            tracepoints_like("vfs_read", &Kernel),
            ["syscalls:sys_enter_read", "syscalls:sys_exit_read"]
        );
        assert_eq!(tracepoints_like("tcp_send_ack", &Kernel), ["tcp:tcp_send_reset", "tcp:tcp_probe"]);
        assert_eq!(tracepoints_like("submit_bio", &Kernel), ["block:block_rq_issue"]);
    }
}
