//! A line for each request: of a recording, or live while it is made.

use super::block_events_here;
use super::device;
use crate::terminal::out::harmless;
use display::number::{brief_ns, bytes};
use profile::tracepoints::block_io::BlockEvents;
use profile::tracepoints::block_io::{BlockIo, BlockTracepoint, Join, Request};
use record::opts::Watched;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::mpsc::Receiver;

/// Requests kept before the done ones are forgotten.
const KEPT: usize = 65_536;

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

/// Joins what the recorder hands on, and prints.
pub struct LiveRequests {
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
        while let Ok(first) = handed.recv() {
            self.take(first, out)?;
            while let Ok(next) = handed.try_recv() {
                self.take(next, out)?;
            }
            out.flush()?;
        }
        Ok(())
    }

    fn take(&mut self, what: Watched, out: &mut dyn Write) -> io::Result<()> {
        match what {
            Watched::Fork { pid, ppid } => {
                self.processes.born(pid, ppid);
                Ok(())
            }
            Watched::Sample { time_ns, pid, raw, .. } => {
                let Some(event) = self.events.read(time_ns, pid, &raw) else { return Ok(()) };
                let begin_ns = *self.begin_ns.get_or_insert(time_ns);
                let at = self.join.push(&event, &mut self.io);
                if let Some(at) = at.filter(|_| event.tracepoint == BlockTracepoint::Complete) {
                    self.print(at, begin_ns, out)?;
                }
                if self.io.requests.len() > KEPT {
                    self.join.forget_done(&mut self.io);
                }
                Ok(())
            }
        }
    }

    fn print(&self, at: usize, begin_ns: u64, out: &mut dyn Write) -> io::Result<()> {
        let request = self.io.requests[at];
        let (comm, pid) = self.events.thread(request.task).clone();
        if self.dev.is_some_and(|dev| dev != request.dev) || !self.processes.has(pid) {
            return Ok(());
        }
        line(out, &request, LinePlace { who: &format!("{comm} {pid}"), begin_ns, here: true, files: "" })
    }
}
