//! Python's frames in the unwinding thread: asked for before a stack is unwound.

use perfdata::appendix::python_functions::{MAPPING_BYTES, MAPPING_NAME, MAPPING_START};
use perfdata::record::{FileId, Mmap};
use perfdata::{Avma, CpuMode, Record, SampleId};

use super::WorkerState;
use crate::runtimes::python::{PythonReader, StackMoment};
use perfdata::PidTid;
use rustc_hash::FxHashSet;

/// Python's frames, where a reader of them runs.
#[derive(Default)]
pub(super) struct PythonFrames {
    pub reader: Option<PythonReader>,
    /// Processes that have the mapping of their functions in the file.
    mapped: FxHashSet<u32>,
}

impl WorkerState {
    /// Hands Python's frames of the stack that is unwound next to the unwinder.
    pub(super) fn add_python(&mut self, task: PidTid, time_ns: u64, moment: StackMoment) {
        let Some(python) = &self.python.reader else { return };
        let frames = python.frames_of(task, moment);
        if frames.is_some() && self.python.mapped.insert(task.pid) {
            self.map_python(task, time_ns);
        }
        self.stacks.take_python(frames);
    }

    /// Hands the goroutine of the sample that is unwound next to the unwinder.
    pub(super) fn add_goroutine(&mut self, task: PidTid, moment: StackMoment) {
        let goroutine = self.python.reader.as_ref().and_then(|reader| reader.goroutine_of(task, moment));
        self.stacks.take_goroutine(goroutine);
    }

    /// The file gets a mapping of the process for the addresses of Python's functions.
    fn map_python(&mut self, task: PidTid, time_ns: u64) {
        let PidTid { pid, tid } = task;
        let mmap = Mmap {
            pid,
            tid,
            addr: Avma(MAPPING_START),
            len: MAPPING_BYTES,
            pgoff: 0,
            filename: MAPPING_NAME.as_bytes(),
            file_id: FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
            prot_flags: Some((libc::PROT_EXEC as u32, libc::MAP_PRIVATE as u32)),
            cpu_mode: CpuMode::User,
            is_data: false,
            parse_timeout: false,
        };
        let id = SampleId { pid_tid: Some((pid, tid)), time_ns: Some(time_ns), ..SampleId::default() };
        self.sink.record(0, &Record::Mmap(mmap), &id);
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
        if pid == tid {
            python.forget_process(pid);
        }
    }
}
