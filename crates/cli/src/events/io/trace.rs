//! A line for each request: of a recording, or live while it is made.

use super::block_events_here;
use super::device;
use crate::terminal::out::harmless;
use display::number::{brief_ns, bytes};
use profile::tracepoints::block_io::BlockEvents;
use profile::tracepoints::block_io::{BlockIo, BlockTracepoint, Join, Request};
use profile::view::io::LiveFiles;
use record::opts::Watched;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Requests kept before the done ones are forgotten.
const KEPT: usize = 65_536;
/// A request's line waits this long for its files.
const FILES_COME_WITHIN: Duration = Duration::from_millis(100);

/// Processes whose requests are shown.
#[derive(Clone, Debug)]
pub enum TracedProcesses {
    /// All.
    All,
    /// Requests of these processes and what they start.
    Of(BTreeSet<u32>),
    /// Requests of the command that we start, and what that starts.
    OfCommand(BTreeSet<u32>),
}

impl TracedProcesses {
    fn has(&self, pid: u32) -> bool {
        match self {
            Self::All => true,
            Self::Of(pids) | Self::OfCommand(pids) => pids.contains(&pid),
        }
    }

    /// A process is born (or was there when the recording began).
    fn born(&mut self, pid: u32, ppid: u32) {
        let own = std::process::id();
        match self {
            Self::Of(pids) if pids.contains(&ppid) => {
                pids.insert(pid);
            }
            Self::OfCommand(pids) if pid != own && (ppid == own || pids.contains(&ppid)) => {
                pids.insert(pid);
            }
            _ => {}
        }
    }
}

/// Prints the heading.
///
/// # Errors
/// Standard output can't be written.
pub fn heading(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>12} {:<22} {:<7} {:<6} {:>12} {:>9} {:>7} {:>7}  flags     file",
        "done at", "thread", "what", "disk", "sector", "bytes", "queue", "device"
    )
}

/// Columns of a line besides its request.
#[derive(Clone, Copy, Debug)]
pub struct LinePlace<'n> {
    /// The thread, as `comm pid`.
    pub who: &'n str,
    /// Times are counted from here, ns.
    pub begin_ns: u64,
    /// The devices are those of this machine.
    pub here: bool,
    /// Files of the request; empty if they aren't known.
    pub files: &'n str,
}

/// Prints one request that is done.
///
/// # Errors
/// Standard output can't be written.
pub fn line(out: &mut dyn Write, request: &Request, place: LinePlace<'_>) -> io::Result<()> {
    let LinePlace { who, begin_ns, here, files } = place;
    let Some(done) = request.complete_ns else { return Ok(()) };
    let part = |ns: Option<u64>| ns.map_or_else(|| "·".to_owned(), brief_ns);
    let failed = if request.error == 0 { String::new() } else { format!("error {} ", request.error) };
    let text = format!(
        "{:>12.6} {:<22} {:<7} {:<6} {:>12} {:>9} {:>7} {:>7}  {failed}{:<9} {}",
        done.saturating_sub(begin_ns) as f64 / 1e9,
        harmless(who),
        request.rwbs.op.name(),
        device::name(request.dev, here),
        request.sector,
        bytes(request.bytes),
        part(request.queue_ns()),
        part(request.device_ns()),
        request.rwbs.flags(),
        harmless(files)
    );
    writeln!(out, "{}", text.trim_end())
}

/// A request that is done, and whose files may still be found.
struct DoneRequest {
    request: Request,
    comm: String,
    pid: u32,
    since: Instant,
}

/// Joins what the recorder hands on, and prints.
pub struct LiveRequests {
    files: LiveFiles,
    done: VecDeque<DoneRequest>,
    events: BlockEvents,
    join: Join,
    io: BlockIo,
    processes: TracedProcesses,
    dev: Option<u32>,
    begin_ns: Option<u64>,
}

impl LiveRequests {
    /// For the kernel that runs.
    #[must_use]
    pub fn new(processes: TracedProcesses, dev: Option<u32>) -> Self {
        Self {
            files: LiveFiles::default(),
            done: VecDeque::new(),
            events: block_events_here(),
            join: Join::default(),
            io: BlockIo::default(),
            processes,
            dev,
            begin_ns: None,
        }
    }

    /// Prints a line for each request, until the recorder is done.
    ///
    /// # Errors
    /// Standard output can't be written; a closed pipe ends the recording.
    pub fn run(mut self, handed: &Receiver<Watched>, out: &mut dyn Write) -> io::Result<()> {
        heading(out)?;
        loop {
            match handed.recv_timeout(FILES_COME_WITHIN / 2) {
                Ok(first) => self.take(first),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            handed.try_iter().for_each(|next| self.take(next));
            self.print_done(FILES_COME_WITHIN, out)?;
            out.flush()?;
        }
        self.print_done(Duration::ZERO, out)
    }

    fn take(&mut self, what: Watched) {
        match what {
            Watched::Fork { pid, ppid } => self.processes.born(pid, ppid),
            Watched::Files(found) => self.files.add(found),
            Watched::Sample { time_ns, pid, raw, .. } => {
                let Some(event) = self.events.read(time_ns, pid, &raw) else { return };
                self.begin_ns.get_or_insert(time_ns);
                let at = self.join.push(&event, &mut self.io);
                if let Some(at) = at.filter(|_| event.tracepoint == BlockTracepoint::Complete) {
                    self.add_done(self.io.requests[at]);
                }
                if self.io.requests.len() > KEPT {
                    self.join.forget_done(&mut self.io);
                }
            }
        }
    }

    fn add_done(&mut self, request: Request) {
        let (comm, pid) = self.events.thread(request.task).clone();
        if self.dev.is_none_or(|dev| dev == request.dev) && self.processes.has(pid) {
            self.done.push_back(DoneRequest { request, comm, pid, since: Instant::now() });
        }
    }

    /// Prints what is done, in order, up to the first request whose files may still come.
    fn print_done(&mut self, wait: Duration, out: &mut dyn Write) -> io::Result<()> {
        let begin_ns = self.begin_ns.unwrap_or(0);
        while let Some(DoneRequest { request, comm, pid, since }) = self.done.front() {
            let files = self.files.words(comm, request);
            if files.is_none() && since.elapsed() < wait {
                break;
            }
            let files = files.unwrap_or_default();
            let who = format!("{comm} {pid}");
            line(out, request, LinePlace { who: &who, begin_ns, here: true, files: &files })?;
            self.done.pop_front();
        }
        Ok(())
    }
}
