//! Why a recording can't be made, with what to do about it.

use std::io;
use std::path::PathBuf;

/// A failure of recording. Each message names the call or file, the cause and the remedy, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command could not be started.
    #[error("cannot run '{command}': {source}{}", remedy_of_exec(source))]
    Exec {
        /// The program as given.
        command: String,
        /// `execvp`'s error.
        source: io::Error,
    },
    /// Requests by thread contexts are written at the end, and several files have several ends.
    #[error("--span otel needs one file: leave out --overwrite and --switch-output")]
    OneFile,
    /// `perf_event_open` refused an event.
    #[error("cannot open event '{event}'{place}: {source}{remedy}")]
    Open {
        /// The event's name.
        event: String,
        /// " on CPU 3", " for thread 77", or nothing.
        place: String,
        /// The kernel's error.
        source: io::Error,
        /// The remedy, starting with "; ", or nothing.
        remedy: String,
    },
    /// Running processes can be sampled neither by events nor by stops.
    #[error("cannot sample a running process here: {events}, and {stops}; either remedy is enough")]
    NothingAllowed {
        /// The reason that events are refused, and the remedy.
        events: String,
        /// The same for stops of threads.
        stops: String,
    },
    /// The limit of the address space leaves too little.
    #[error(
        "ulimit -v leaves {} MB of address space, and recording needs about {} MB: raise it, or lower it for the command \
         only (sh -c 'ulimit -v …; exec …')",
        left_bytes >> 20, needed_bytes >> 20
    )]
    AddressSpace {
        /// Memory that may still be mapped.
        left_bytes: u64,
        /// The minimum needed.
        needed_bytes: u64,
    },
    /// The ring could not be mapped, not even the smallest.
    #[error("cannot map a ring of {kib} KiB: {source}; raise kernel.perf_event_mlock_kb or ulimit -l")]
    Map {
        /// The smallest size tried.
        kib: u64,
        /// `mmap`'s error.
        source: io::Error,
    },
    /// No such process or thread.
    #[error("no process or thread {0} (it may have ended already)")]
    NoSuchTask(u32),
    /// No process of this user.
    #[error("no process of user {0}")]
    NoTaskOfUser(u32),
    /// A CPU list that can't be read, or names a CPU that is not there.
    #[error("bad CPU list '{0}': want numbers and ranges of online CPUs, as 0,2-3")]
    BadCpuList(String),
    /// The kernel gives no real-time priority.
    #[error(
        "cannot run with real-time priority {priority}: {source}; it takes root, CAP_SYS_NICE or ulimit -r, and a cgroup with real-time budget"
    )]
    Priority {
        /// The requested priority.
        priority: i32,
        /// `sched_setscheduler`'s error.
        source: io::Error,
    },
    /// Nothing to record.
    #[error("nothing to record: give a command, -p PID, -t TID or -a")]
    NoTarget,
    /// The output file can't be made.
    #[error("cannot write {}: {source}; choose another file with -o FILE", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The cgroup's directory can't be opened.
    #[error("cannot open cgroup '{name}': {source}; want a path below /sys/fs/cgroup")]
    Cgroup {
        /// As given.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A tracepoint filter was refused.
    #[error("the kernel refuses the filter '{filter}' of event '{event}': {source}")]
    Filter {
        /// As given.
        filter: String,
        /// The event's name.
        event: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// An address filter can't be followed.
    #[error("--filter: {0}")]
    AddressFilter(#[from] crate::pt::filter::FilterError),
    /// The AUX area could not be mapped, not even a small one.
    #[error(
        "cannot map an AUX area of {kib} KiB for the trace: {source}; another -m,SIZE (a power of two), a higher kernel.perf_event_mlock_kb, or root"
    )]
    MapArea {
        /// The size first tried.
        kib: u64,
        /// `mmap`'s error.
        source: io::Error,
    },
    /// The frequency is above the kernel's limit, and must not be lowered.
    #[error("{asked} Hz is above the kernel's limit of {limit} Hz (kernel.perf_event_max_sample_rate)")]
    RateTooHigh {
        /// The requested frequency, in Hz.
        asked: u64,
        /// The limit, in Hz.
        limit: u64,
    },
    /// The unwinding thread died: our bug.
    #[error("the unwinding thread has panicked; this is a bug of tally")]
    Worker,
    /// Another system call failed.
    #[error("{call}: {source}")]
    System {
        /// The call, with its object.
        call: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// Wraps an error of `call`: for `map_err`.
    pub fn system(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { call, source }
    }

    /// The exit code a shell would give: 127 for a command not found, 126 for one not executable, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Exec { .. } => 126,
            _ => 1,
        }
    }
}

fn remedy_of_exec(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "; is it spelled right and in PATH?",
        Some(libc::EACCES) => "; is it executable (chmod +x)?",
        Some(libc::ENOEXEC) => "; it is not a program (a script needs a #! line)",
        _ => "",
    }
}
