//! Takes what the programs copied, while code objects can still be read: what the recorder calls, and its thread.

mod reader;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use perfdata::appendix::goroutine_labels::GoroutineLabels;
use perfdata::appendix::python_functions::{PythonCounts, PythonFunctions};
use rustc_hash::{FxHashMap, FxHashSet};

use super::binary::PythonBinaries;
use super::engine::PythonEngine;
use super::frames::{FunctionNumbers, PythonProcess};
use super::layout::{CopiedAt, RawFrame, copied_frames};
use super::stack_store::{PythonStack, StackStore};
use super::versions::PythonVersion;
use super::weave::{FramesEnd, PythonFrames};
use crate::runtimes::goroutine_labels::{IsFirst, LabelStore};
use crate::runtimes::goroutines::{GoPrograms, Goroutine};
use crate::summary::Notice;
use crate::sys::SharedSlots;
use crate::sys::time::Clock;
use perfdata::PidTid;

/// How often the rings are looked at: code objects of short programs are read while they live.
const TICK: Duration = Duration::from_millis(8);
/// How often while no process is known to run Python or Go.
const CALM_TICK: Duration = Duration::from_millis(24);
/// The same once nothing has come for [`QUIET_NS`]: no program that is sampled for the first time. Samples that are
/// unwound take what came before them in any case.
const QUIET_TICK: Duration = Duration::from_millis(250);
/// For so long nothing has come, ns.
const QUIET_NS: u64 = 3_000_000_000;
/// How often while the rings fill fast, or a program that may become Python has just started.
const SHORT_TICK: Duration = Duration::from_millis(1);
/// Share of a young program's age after which it is looked at again: an interpreter is mapped early or late, and most
/// commands are none.
const SHARE_OF_AGE: u64 = 16;
/// For so long a program is looked at again, ns: its interpreter is mapped some milliseconds after its start.
const YOUNG_NS: u64 = 200_000_000;
/// The same of the command that is recorded, which may be a script that runs Python.
const COMMAND_NS: u64 = 2_000_000_000;

/// Which of a thread's stacks is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMoment {
    /// That of the sample at this time, ns.
    Sample(u64),
    /// That of a wait.
    Wait {
        /// Its begin, ns; 0 if any earlier stack is its.
        since_ns: u64,
        /// When it ended, or was looked at, ns.
        time_ns: u64,
    },
}

impl StackMoment {
    /// When the sample was taken, or the wait ended or was looked at, ns.
    #[must_use]
    pub const fn time_ns(self) -> u64 {
        let (Self::Sample(time_ns) | Self::Wait { time_ns, .. }) = self;
        time_ns
    }
}

/// Reads Python stacks along with a recording. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PythonReader {
    shared: Arc<Mutex<Reader>>,
    ends: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Reader {
    /// `None` while it is being loaded, and where timers take the samples.
    engine: Option<PythonEngine>,
    /// Where timers take the samples: they copy the frames themselves.
    timers: Option<TimerSamples>,
    binaries: PythonBinaries,
    processes: FxHashMap<u32, PythonProcess>,
    functions: FunctionNumbers,
    store: StackStore<PythonStack>,
    goroutines: StackStore<Goroutine>,
    labels: LabelStore,
    go_programs: GoPrograms,
    /// Names that programs gave their threads, by thread, which were not taken yet.
    thread_names: FxHashMap<u32, String>,
    polled_ns: u64,
    /// When something new was in the rings, or the first look.
    came_ns: u64,
    /// Processes asked about so far, with their address spaces: the programs ask again and again.
    asked: FxHashSet<(u32, u64)>,
    /// Much was in the rings at the last look.
    is_pressed: bool,
    words: Vec<u64>,
    counts: PythonCounts,
    unknown: Vec<PythonVersion>,
    runtimes: Vec<String>,
    young: Vec<YoungProcess>,
    /// Processes that mapped an interpreter which has not begun, such as `perf`, which can run Python scripts.
    dormant: Vec<u32>,
}

/// Samples of timers, which copy frames only of processes that are found.
#[derive(Debug, Default)]
struct TimerSamples {
    /// The file shared with timers inside; `None` where threads are stopped from outside.
    slots: Option<Arc<SharedSlots>>,
    /// Samples of processes without Python, and the number at which they are looked at again.
    misses: FxHashMap<u32, (u32, u32)>,
}

/// The address space of all processes where timers take the samples: exec is noticed otherwise.
const ANY_SPACE: u64 = 1;

/// Frames as they were copied.
#[derive(Debug)]
struct RawStack {
    time_ns: u64,
    end: FramesEnd,
    frames: Vec<RawFrame>,
}

/// A process whose interpreter may be mapped soon.
#[derive(Clone, Copy, Debug)]
struct YoungProcess {
    pid: u32,
    mm: u64,
    since_ns: u64,
    until_ns: u64,
}

impl PythonReader {
    /// Around the loaded programs, or before they are.
    #[must_use]
    pub fn new(engine: Option<PythonEngine>) -> Self {
        let reader = Reader {
            engine,
            timers: None,
            binaries: PythonBinaries::default(),
            processes: FxHashMap::default(),
            functions: FunctionNumbers::default(),
            store: StackStore::default(),
            goroutines: StackStore::default(),
            labels: LabelStore::default(),
            go_programs: GoPrograms::default(),
            thread_names: FxHashMap::default(),
            polled_ns: 0,
            came_ns: Clock::Monotonic.now_ns(),
            asked: FxHashSet::default(),
            is_pressed: false,
            words: Vec::new(),
            counts: PythonCounts::default(),
            unknown: Vec::new(),
            runtimes: Vec::new(),
            young: Vec::new(),
            dormant: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(reader)), ends: Arc::default() }
    }

    /// For samples by timers, inside of the programs if there are `slots`.
    #[must_use]
    pub fn of_timers(slots: Option<Arc<SharedSlots>>) -> Self {
        let reader = Self::new(None);
        reader.lock().timers = Some(TimerSamples { slots, ..TimerSamples::default() });
        reader
    }

    /// A process runs another program, as a timer in it has reported.
    pub fn exec_seen(&self, pid: u32) {
        let mut reader = self.lock();
        reader.forget(pid);
        if let Some(timers) = &mut reader.timers {
            timers.misses.remove(&pid);
        }
        let since_ns = Clock::Monotonic.now_ns();
        reader.young.retain(|young| young.pid != pid);
        reader.young.push(YoungProcess { pid, mm: ANY_SPACE, since_ns, until_ns: since_ns + YOUNG_NS });
    }

    /// A timer took a sample, with these words of frames.
    pub fn sampled(&self, task: PidTid, time_ns: u64, header: u64, words: &[u64]) {
        let mut reader = self.lock();
        reader.meet(task.pid);
        if header == 0 {
            return;
        }
        let (frames, end) = copied_frames(header, words);
        reader.keep(task, CopiedAt::Sample, RawStack { time_ns, end, frames });
    }

    /// Reads the frames of a thread that does not run: one that is stopped for a sample, or one that waits since before
    /// `moment`. Whether it `rested` is asked afterwards.
    pub fn read_resting(&self, task: PidTid, moment: StackMoment, rested: &dyn Fn() -> bool) {
        let mut reader = self.lock();
        let (when, time_ns) = match moment {
            StackMoment::Sample(time_ns) => (CopiedAt::Sample, time_ns),
            StackMoment::Wait { time_ns, .. } => (CopiedAt::Switch, time_ns),
        };
        if when == CopiedAt::Sample {
            reader.meet(task.pid);
        }
        let Some(process) = reader.processes.get_mut(&task.pid) else { return };
        // Without frames: those of the wait before are not this one's.
        let frames = process.frames_of(task.tid).filter(|_| rested());
        let end = if frames.is_some() { FramesEnd::Start } else { FramesEnd::Unread };
        reader.keep(task, when, RawStack { time_ns, end, frames: frames.unwrap_or_default() });
    }

    /// The programs are loaded and run at samples.
    pub fn start_engine(&self, engine: PythonEngine) {
        let mut reader = self.lock();
        reader.engine = Some(engine);
        reader.know_go();
        let found: Vec<u32> = reader.processes.keys().copied().collect();
        found.iter().for_each(|pid| reader.watch(*pid));
        // Those that have begun meanwhile.
        reader.dormant = found;
        reader.wake_dormant();
    }

    fn lock(&self) -> MutexGuard<'_, Reader> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at these processes now: they may sleep, and never be sampled.
    pub fn look_at(&self, pids: &[u32]) {
        let mut reader = self.lock();
        for &pid in pids {
            reader.look_at(pid, 0);
        }
    }

    /// Looks at this process, which is about to become the command, until it runs Python.
    pub fn await_command(&self, pid: u32) {
        let since_ns = Clock::Monotonic.now_ns();
        let until_ns = since_ns + COMMAND_NS;
        self.lock().young.push(YoungProcess { pid, mm: 0, since_ns, until_ns });
    }

    /// Looks at the program that is about to become the command, for what it may have in common with other programs.
    pub fn know_program(&self, file: &Path) {
        let mut reader = self.lock();
        // Timers copy no goroutines.
        if reader.timers.is_none() {
            reader.go_programs.learn(file);
            reader.know_go();
        }
    }

    /// Whether a program of Go's was found.
    #[must_use]
    pub fn knows_go(&self) -> bool {
        !self.lock().go_programs.layouts().is_empty()
    }

    /// Starts the thread that takes what is copied; it ends with [`PythonReader::end`].
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(&self) -> std::io::Result<JoinHandle<()>> {
        let reader = self.clone();
        std::thread::Builder::new().name("tally-python".to_owned()).spawn(move || {
            while !reader.ends.load(Ordering::Relaxed) {
                let tick = reader.lock().tick();
                std::thread::sleep(tick);
            }
        })
    }

    /// Ends its thread.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// The Python frames of a thread; `None` if it ran none.
    #[must_use]
    pub fn frames_of(&self, task: PidTid, moment: StackMoment) -> Option<PythonFrames> {
        let mut reader = self.lock();
        reader.poll_up_to(moment.time_ns());
        let moment = reader.moment_of_copy(moment);
        let stack = reader.store.of_moment(task.tid, moment)?;
        if stack.groups.is_empty() {
            return None;
        }
        reader.counts.stacks += 1;
        reader.counts.whole += u64::from(stack.end == FramesEnd::Start);
        let eval = reader.processes.get(&task.pid)?.interpreter.eval.clone();
        Some(PythonFrames { groups: stack.groups.to_vec(), eval, end: stack.end })
    }

    /// The name that the program gave a thread; `None` if it has none, was taken before, or isn't known yet.
    #[must_use]
    pub fn take_thread_name(&self, tid: u32) -> Option<String> {
        self.lock().thread_names.remove(&tid)
    }

    /// The goroutine of a thread that was on its own stack at this moment; `None` if it was not, or isn't Go's.
    #[must_use]
    pub fn goroutine_of(&self, task: PidTid, moment: StackMoment) -> Option<Goroutine> {
        let mut reader = self.lock();
        reader.poll_up_to(moment.time_ns());
        reader.goroutines.of_moment(task.tid, moment)
    }

    /// The address for the labels of a thread's goroutine at this moment, if it had some.
    #[must_use]
    pub fn labels_of(&self, task: PidTid, moment: StackMoment) -> Option<(u64, IsFirst)> {
        self.lock().labels.address_of(task, moment)
    }

    /// The labels met, for the recording.
    #[must_use]
    pub fn labels(&self) -> GoroutineLabels {
        self.lock().labels.to_recording()
    }

    /// A process was forked.
    pub fn fork(&self, pid: u32, parent: u32) {
        let mut reader = self.lock();
        if reader.processes.contains_key(&parent) && !reader.processes.contains_key(&pid) {
            reader.look_at(pid, 0);
        }
    }

    /// A process runs another program. If it was found by itself and not at a sample, it is looked at again: by now it
    /// may sleep, so that no sample would find it.
    pub fn exec(&self, pid: u32) {
        let mut reader = self.lock();
        if reader.processes.get(&pid).is_some_and(|process| process.mm == 0) && !reader.look_at(pid, 0) {
            reader.forget(pid);
        }
    }

    /// A process ended.
    pub fn forget_process(&self, pid: u32) {
        self.lock().forget(pid);
    }

    /// A thread ended.
    pub fn forget_thread(&self, tid: u32) {
        let mut reader = self.lock();
        reader.store.forget(tid);
        reader.thread_names.remove(&tid);
        reader.processes.values_mut().for_each(|process| process.forget_thread(tid));
        reader.goroutines.forget(tid);
        reader.labels.forget_thread(tid);
    }

    /// A notice about interpreters that can't be read.
    #[must_use]
    pub fn notice(&self) -> Option<Notice> {
        let unknown = self.lock().unknown.clone();
        (!unknown.is_empty()).then_some(Notice::UnknownPython(unknown))
    }

    /// The functions met, for the recording.
    #[must_use]
    pub fn functions(&self) -> PythonFunctions {
        let reader = self.lock();
        let (runtimes, counts) = (reader.runtimes.clone(), reader.counts);
        PythonFunctions { runtimes, counts, ..reader.functions.to_recording() }
    }
}
