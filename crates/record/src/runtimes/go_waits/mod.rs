//! Where goroutines wait: the lists of Go programs, read from their memory now and then.
//!
//! A goroutine that waits has no thread. Reading disturbs nothing: the program isn't stopped, and what changes meanwhile
//! is found by reading it twice.

mod listing;
mod places;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dso::MapLine;
use dso::unwind::GoProgram;
use perfdata::appendix::go_waits::GoWaits;
use rustc_hash::FxHashMap;

use crate::machine::objects::{FileMapping, open_object};
use crate::machine::proc;
use crate::sys::time;
use listing::GoProcess;

/// No two looks are nearer.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// The pause after a look is this many times as long as its CPU time: one percent of a CPU.
const REST_TIMES: u32 = 100;
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Processes are searched for after so many looks. Where none is Go's, the pauses grow by as many looks while no other
/// program is met.
const SEARCH_EVERY: u32 = 5;
/// More processes are not read.
const MOST_PROCESSES: usize = 256;

/// A thread that looks at goroutines until it is asked to end.
#[derive(Debug)]
pub struct GoLooker {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<GoWaits>,
}

impl GoLooker {
    /// Starts the thread; `target` gives the living processes that are recorded.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(target: impl Fn() -> Vec<u32> + Send + 'static) -> std::io::Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let thread = std::thread::Builder::new().name("tally-go".to_owned()).spawn(move || {
            let mut looks = GoLooks::default();
            while !until.load(Ordering::Relaxed) {
                let pause = looks.look(&target);
                std::thread::park_timeout(pause);
            }
            looks.finish()
        })?;
        Ok(Self { ends, thread })
    }

    /// Ends it; what was found, nothing if it has panicked.
    #[must_use]
    pub fn finish(self) -> GoWaits {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// A file by its path, device and inode: containers have files of the same path.
type ProgramFile = (PathBuf, (u32, u32), u64);

/// All processes met, and those of Go among them.
#[derive(Debug, Default)]
struct GoLooks {
    /// The program of each process at the last search.
    programs: FxHashMap<u32, PathBuf>,
    /// Go's programs.
    known: FxHashMap<ProgramFile, Option<Arc<GoProgram>>>,
    processes: BTreeMap<u32, GoProcess>,
    ended: Vec<GoProcess>,
    looks: u32,
    /// Searches that met no program, since the last one that did.
    vain: u32,
}

impl GoLooks {
    /// One look at all; the pause until the next.
    fn look(&mut self, target: &dyn Fn() -> Vec<u32>) -> Duration {
        let (begin, begin_cpu_ns) = (Instant::now(), time::thread_cpu_ns());
        if self.processes.is_empty() || self.looks.is_multiple_of(SEARCH_EVERY) {
            self.search(target());
        }
        self.looks = self.looks.wrapping_add(1);
        self.processes.values_mut().for_each(GoProcess::look);
        let used = Duration::from_nanos(time::thread_cpu_ns().saturating_sub(begin_cpu_ns));
        if self.processes.is_empty() {
            let least = (LEAST_PAUSE * SEARCH_EVERY * self.vain.max(1)).min(LONGEST_PAUSE);
            return (used * REST_TIMES).clamp(least, LONGEST_PAUSE);
        }
        (used * REST_TIMES).clamp(LEAST_PAUSE, LONGEST_PAUSE).saturating_sub(begin.elapsed())
    }

    fn search(&mut self, mut pids: Vec<u32>) {
        pids.sort_unstable();
        pids.dedup();
        let is_gone = |pid: &u32| pids.binary_search(pid).is_err();
        let gone: Vec<u32> = self.programs.keys().copied().filter(is_gone).collect();
        for pid in gone {
            self.programs.remove(&pid);
            self.ended.extend(self.processes.remove(&pid));
        }
        self.vain = self.vain.saturating_add(1);
        for &pid in &pids {
            self.meet(pid);
        }
    }

    /// Takes up a process if it is Go's, unless it still runs the program that it ran before.
    fn meet(&mut self, pid: u32) {
        let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return };
        if self.programs.get(&pid) == Some(&program) || self.processes.len() >= MOST_PROCESSES {
            return;
        }
        // A child of tally that has not begun its program yet: reading this one would cost the look at that one.
        if std::env::current_exe().is_ok_and(|own| own == program) {
            return;
        }
        self.vain = 0;
        self.ended.extend(self.processes.remove(&pid));
        if let Some(process) = self.open(pid, &program) {
            self.processes.insert(pid, process);
        }
        self.programs.insert(pid, program);
    }

    fn open(&mut self, pid: u32, program: &Path) -> Option<GoProcess> {
        let name = program.as_os_str().as_encoded_bytes();
        let lines = proc::maps(pid).unwrap_or_default();
        let code = |of: &&MapLine| of.prot & libc::PROT_EXEC as u32 != 0 && of.name == name;
        let line = lines.iter().find(code)?;
        let object = open_object(&[pid], &FileMapping::of_line(line))?;
        let read = || GoProgram::of_object(&object).map(Arc::new);
        let known = self.known.entry((program.to_path_buf(), line.device, line.inode)).or_insert_with(read);
        GoProcess::open(pid, known.clone()?, &listing::bias_of(&object, line)?)
    }

    fn finish(self) -> GoWaits {
        let all = self.ended.into_iter().chain(self.processes.into_values());
        GoWaits(all.map(GoProcess::finish).filter(|process| process.looks > 0).collect())
    }
}
