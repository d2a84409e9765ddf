//! Opens the events: probes for whole CPUs, kernel events for each thread and CPU.
//!
//! A probe as a perf event can't be inherited: the kernel would look for the path of its file in the memory of the
//! process that forks, and fail that fork (perf_uprobe_init reads `uprobe_path` of `current`, Linux 6.18). So probes
//! see every process that runs the file, and the reader drops the processes that aren't selected.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dso::system_file;
use perfdata::AttrFlags;
use perfdata::abi::*;

use super::super::Error;
use super::super::engine::is_about_code;
use super::records;
use crate::event::tracefs;
use crate::machine::proc;
use crate::sys::bpf::ProbeSide;
use crate::sys::perf_event::{CounterPlace, Cpu};
use crate::sys::{Counter, Ring, mem};

/// Descriptors left to the rest of the program.
const SPARE_FILES: u64 = 256;
/// More are opened for whole CPUs instead: opening takes its time.
const MOST_FILES: u64 = 20_000;

/// Most events for each thread and CPU that aren't probes.
const SIDE_EVENTS: usize = 4;

/// Why a probe was not set.
#[derive(Debug)]
pub enum ProbeRefusal {
    /// Because of the code at the probed address.
    Code(io::Error),
    /// For want of rights, descriptors or memory.
    Us(io::Error),
}

/// Processes and CPUs that the events watch.
pub struct ProbePlaces {
    /// (thread or −1, CPU), all CPUs of the first thread first.
    all: Vec<(i32, u32)>,
    cpus: Vec<u32>,
    /// One for each of `all`, with forks, execs and switches; its ring is that of its CPU.
    sideband: Vec<Counter>,
}

/// The uprobe PMU's number.
///
/// # Errors
/// If the kernel has none.
pub fn uprobe_type() -> Result<u32, Error> {
    const TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";
    let text = system_file::read_text(TYPE).map_err(|error| Error::Perf { what: TYPE.to_owned(), error })?;
    let error = || Error::Perf { what: TYPE.to_owned(), error: io::ErrorKind::InvalidData.into() };
    text.trim().parse().map_err(|_| error())
}

/// Whether we may set a probe at all: sets one in ourselves and takes it away.
///
/// # Errors
/// The kernel's errno, if it is about us and not about the place.
pub fn allowed(uprobe_type: u32, path: &Path, offset: u64) -> Result<(), Error> {
    match open_uprobe(uprobe_type, UprobeSite { path, offset, side: ProbeSide::Entry }, CounterPlace::task(0))
    {
        Err(error) if !is_about_code(&error) => Err(Error::Perf { what: "a uprobe".to_owned(), error }),
        _ => Ok(()),
    }
}

/// An instruction to be probed.
#[derive(Clone, Copy, Debug)]
pub struct UprobeSite<'a> {
    /// The file.
    pub path: &'a Path,
    /// Offset in the file.
    pub offset: u64,
    /// Whether the probe is about the instruction, or the return from the function that begins there.
    pub side: ProbeSide,
}

/// Opens one uprobe event.
///
/// # Errors
/// The kernel's errno.
pub fn open_uprobe(uprobe_type: u32, site: UprobeSite<'_>, place: CounterPlace<'_>) -> io::Result<Counter> {
    let path = CString::new(site.path.as_os_str().as_bytes())?;
    let mut attr = records::attr();
    // Source: include/uapi/linux/perf_event.h, uprobe_path and probe_offset; /sys/…/uprobe/format/retprobe.
    (attr.type_, attr.config) = (uprobe_type, u64::from(site.side == ProbeSide::Return));
    (attr.config1, attr.config2) = (path.as_ptr() as u64, site.offset);
    Counter::open(&attr.to_bytes(), place)
}

impl ProbePlaces {
    /// For these processes and this number of probes.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub fn new(processes: &[u32], probes: usize) -> Result<Self, Error> {
        let cpus = proc::online_cpus();
        let mut threads = Vec::new();
        for pid in processes {
            let found = proc::threads(*pid).filter(|found| !found.is_empty());
            threads.extend(found.ok_or(Error::NoProcess(*pid))?);
        }
        let files = mem::raise_open_files().unwrap_or(1024).saturating_sub(SPARE_FILES).min(MOST_FILES);
        let needed = (cpus.len() * (threads.len() * SIDE_EVENTS + probes)) as u64;
        let watched: Vec<i32> =
            if needed <= files { threads.iter().map(|tid| *tid as i32).collect() } else { vec![-1] };
        let all = watched.iter().flat_map(|tid| cpus.iter().map(move |cpu| (*tid, *cpu))).collect();
        Ok(Self { all, cpus, sideband: Vec::new() })
    }

    /// The CPUs.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Opens forks, execs and, if requested, switches, and maps a ring for each CPU.
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn map_rings(&mut self, switches: bool, bytes: usize) -> io::Result<Vec<Ring>> {
        self.sideband.clear();
        let mut rings = Vec::new();
        let mut attr = records::attr();
        (attr.type_, attr.config, attr.sample_period) = (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0);
        attr.flags.set(AttrFlags::TASK | AttrFlags::COMM | AttrFlags::COMM_EXEC, true);
        attr.flags.set(AttrFlags::CONTEXT_SWITCH, switches);
        for (at, &(tid, cpu)) in self.all.iter().enumerate() {
            attr.flags.set(AttrFlags::INHERIT, tid > 0);
            let counter = match Counter::open(&attr.to_bytes(), place(tid, cpu)) {
                // The thread has ended meanwhile: its events go nowhere, but others' places count on the order.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) && at >= self.cpus.len() => {
                    Counter::open(&attr.to_bytes(), place(0, cpu))?
                }
                other => other?,
            };
            if at < self.cpus.len() {
                rings.push(Ring::map(&counter, bytes / mem::page_bytes())?);
            } else {
                counter.set_output(&self.sideband[at % self.cpus.len()])?;
            }
            self.sideband.push(counter);
        }
        Ok(rings)
    }

    /// One probe, on all CPUs.
    ///
    /// # Errors
    /// Which kind of refusal.
    pub fn open_probe(&self, uprobe_type: u32, site: UprobeSite<'_>) -> Result<Vec<Counter>, ProbeRefusal> {
        let sort = |error: io::Error| {
            if is_about_code(&error) { ProbeRefusal::Code(error) } else { ProbeRefusal::Us(error) }
        };
        let cpus = self.cpus.iter().zip(&self.sideband);
        cpus.map(|(cpu, ring)| {
            let counter = open_uprobe(uprobe_type, site, CounterPlace::cpu(*cpu))?;
            counter.set_output(ring)?;
            Ok(counter)
        })
        .collect::<io::Result<_>>()
        .map_err(sort)
    }

    /// One tracepoint, `subsystem/name`, for all threads and CPUs.
    ///
    /// # Errors
    /// If it does not exist or is denied.
    pub fn open_tracepoint(&self, name: &str) -> io::Result<Vec<Counter>> {
        let id = system_file::read_text(tracefs().join("events").join(name).join("id"))?;
        let mut attr = records::attr();
        attr.type_ = PERF_TYPE_TRACEPOINT;
        attr.config = id.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        attr.sample_type |= PERF_SAMPLE_RAW;
        let mut counters = Vec::with_capacity(self.all.len());
        for (at, &(tid, cpu)) in self.all.iter().enumerate() {
            attr.flags.set(AttrFlags::INHERIT, tid > 0);
            match Counter::open(&attr.to_bytes(), place(tid, cpu)) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
                Ok(counter) => {
                    counter.set_output(&self.sideband[at % self.cpus.len()])?;
                    counters.push(counter);
                }
            }
        }
        Ok(counters)
    }
}

fn place(tid: i32, cpu: u32) -> CounterPlace<'static> {
    CounterPlace { tid, cpu: Cpu::One(cpu), leader: None, cgroup: None }
}
