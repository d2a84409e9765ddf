//! Python's frames in the unwinding thread: asked for before a stack is unwound.

use perfdata::abi::PERF_CONTEXT_USER;
use perfdata::appendix::goroutine_labels as label_sets;
use perfdata::appendix::python_functions::{MAPPING_BYTES, MAPPING_NAME, MAPPING_START};
use perfdata::record::{Comm, FileId, Mmap};
use perfdata::{Avma, CpuMode, Record, Sample, SampleId};

use super::WorkerState;
use crate::pipeline::stacks::LiveStack;
use crate::runtimes::goroutine_labels::IsFirst;
use crate::runtimes::method_addresses::{METHODS_BYTES, METHODS_START};
use crate::runtimes::python::{PythonReader, StackMoment};
use perfdata::PidTid;
use rustc_hash::{FxHashMap, FxHashSet};

/// Python's frames, where a reader of them runs.
#[derive(Default)]
pub(super) struct PythonFrames {
    pub reader: Option<PythonReader>,
    /// Processes that have the mapping of their functions in the file.
    mapped: FxHashSet<u32>,
    /// Threads that were named, with the names that the kernel has for them.
    named: FxHashMap<u32, String>,
    /// Threads that named ones made: the kernel's name, which is theirs, too.
    born_of_named: FxHashMap<u32, String>,
}

/// Addresses for functions that have none in the process.
struct MadeUp {
    start: u64,
    len: u64,
    name: &'static str,
}

impl WorkerState {
    /// Hands Python's frames of the stack that is unwound next to the unwinder.
    pub(super) fn add_python(&mut self, task: PidTid, time_ns: u64, moment: StackMoment) {
        let Some(python) = self.python.reader.clone() else { return };
        let frames = python.frames_of(task, moment);
        if frames.is_some() && self.python.mapped.insert(task.pid) {
            self.map_python(task, time_ns);
        }
        self.stacks.take_python(frames);
        // Not before a sample of its own: the record of its birth would take the name away.
        let born = self.python.born_of_named.remove(&task.tid);
        if let Some(name) = python.take_thread_name(task.tid) {
            let kernel = comm_of(task).unwrap_or_else(|| "python".to_owned());
            self.python.named.insert(task.tid, kernel);
            self.name_thread(task, &name, time_ns);
        } else if let Some(name) = born {
            self.name_thread(task, &name, time_ns);
        }
    }

    /// The thread has this name from now on.
    fn name_thread(&mut self, task: PidTid, name: &str, time_ns: u64) {
        let PidTid { pid, tid } = task;
        self.account.comm(tid, name.as_bytes());
        let comm = Comm { pid, tid, comm: name.as_bytes(), exec: false };
        let id = SampleId { pid_tid: Some((pid, tid)), time_ns: Some(time_ns), ..SampleId::default() };
        self.sink.record(0, &Record::Comm(comm), &id);
    }

    /// Hands the goroutine of the sample that is unwound next to the unwinder.
    pub(super) fn add_goroutine(&mut self, task: PidTid, moment: StackMoment) {
        let goroutine = self.python.reader.as_ref().and_then(|reader| reader.goroutine_of(task, moment));
        self.stacks.take_goroutine(goroutine);
    }

    /// Ends a chain with the address of the labels of the thread's goroutine.
    pub(super) fn add_labels(&mut self, task: PidTid, moment: StackMoment, chain: &mut Vec<u64>) {
        let found = self.python.reader.as_ref().and_then(|reader| reader.labels_of(task, moment));
        let Some((address, is_first)) = found else { return };
        if is_first == IsFirst::Yes {
            let (start, len) = (label_sets::MAPPING_START, label_sets::MAPPING_BYTES);
            self.map_made_up(task, moment.time_ns(), MadeUp { start, len, name: label_sets::MAPPING_NAME });
        }
        chain.extend([PERF_CONTEXT_USER, address]);
    }

    /// The file gets a mapping of the process for the addresses of Python's functions.
    fn map_python(&mut self, task: PidTid, time_ns: u64) {
        let made_up = MadeUp { start: MAPPING_START, len: MAPPING_BYTES, name: MAPPING_NAME };
        self.map_made_up(task, time_ns, made_up);
    }

    /// Unwinds a sample. Where methods with addresses of their own are in its stack, the file has a mapping for them before it.
    pub(super) fn unwind(&mut self, sample: &Sample<'_>, time_ns: u64) -> LiveStack {
        let unwound = self.stacks.unwind(sample, &mut self.processes);
        self.map_methods(PidTid::of_record(sample.pid_tid), time_ns);
        unwound
    }

    /// The file gets a mapping of the process for the addresses of interpreted methods, once it has some.
    fn map_methods(&mut self, task: PidTid, time_ns: u64) {
        if self.processes.begins_methods(task.pid) {
            // As memory with compiled code: a method is one function in both.
            let made_up = MadeUp { start: METHODS_START.0, len: METHODS_BYTES, name: "//anon" };
            self.map_made_up(task, time_ns, made_up);
        }
    }

    /// The file gets a mapping of addresses that the process doesn't have.
    fn map_made_up(&mut self, task: PidTid, time_ns: u64, made_up: MadeUp) {
        let PidTid { pid, tid } = task;
        let mmap = Mmap {
            pid,
            tid,
            addr: Avma(made_up.start),
            len: made_up.len,
            pgoff: 0,
            filename: made_up.name.as_bytes(),
            file_id: FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
            prot_flags: Some((libc::PROT_EXEC as u32, libc::MAP_PRIVATE as u32)),
            cpu_mode: CpuMode::User,
            is_data: false,
            parse_timeout: false,
        };
        let id = SampleId { pid_tid: Some((pid, tid)), time_ns: Some(time_ns), ..SampleId::default() };
        self.sink.record(0, &Record::Mmap(mmap), &id);
    }

    /// A thread made another one, which has the kernel's name of the first: readers take it for the given one.
    pub(super) fn python_birth(&mut self, tid: u32, parent_tid: u32) {
        if let Some(kernel) = self.python.named.get(&parent_tid) {
            self.python.born_of_named.insert(tid, kernel.clone());
        }
    }

    pub(super) fn python_fork(&mut self, pid: u32, parent: u32) {
        if pid != parent && self.python.mapped.contains(&parent) {
            self.python.mapped.insert(pid);
        }
        if let Some(python) = self.python.reader.as_ref().filter(|_| pid != parent) {
            python.fork(pid, parent);
        }
    }

    pub(super) fn python_exec(&mut self, pid: u32) {
        self.python.mapped.remove(&pid);
        self.python.reader.iter().for_each(|python| python.exec(pid));
    }

    pub(super) fn python_exit(&mut self, pid: u32, tid: u32) {
        let Some(python) = &self.python.reader else { return };
        python.forget_thread(tid);
        self.python.named.remove(&tid);
        self.python.born_of_named.remove(&tid);
        if pid == tid {
            python.forget_process(pid);
        }
    }
}

/// The kernel's name of a thread.
fn comm_of(task: PidTid) -> Option<String> {
    let PidTid { pid, tid } = task;
    let text = dso::system_file::read_text(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(text.trim_end().to_owned())
}
