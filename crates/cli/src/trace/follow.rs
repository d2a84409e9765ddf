//! Known facts about the traced threads and programs, learned record by record.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use syscalls::decode::ExecProgram;
use syscalls::files::OpenFiles;
use syscalls::layout::{CallRecord, RecordKind};
use syscalls::table::CallSignature;

/// The traced threads.
#[derive(Debug)]
pub struct TracedThreads {
    comms: HashMap<u32, Arc<str>>,
    /// Threads of each process that have not ended.
    living: HashMap<u32, HashSet<u32>>,
    /// Threads that have just called exec.
    programs: HashMap<u32, ExecProgram>,
    /// Names of open files.
    pub files: OpenFiles,
}

impl Default for TracedThreads {
    fn default() -> Self {
        Self {
            comms: HashMap::new(),
            living: HashMap::new(),
            programs: HashMap::new(),
            files: OpenFiles::new(record::syscalls::descriptor),
        }
    }
}

impl TracedThreads {
    /// Looks up all files that a process has open now.
    pub fn look_up_files(&mut self, pid: u32) {
        self.files.look_up(pid, &record::syscalls::open_descriptors(pid));
    }

    /// Learns from a record that is no call.
    pub fn learn(&mut self, record: &CallRecord<'_>) {
        match record.kind {
            RecordKind::Call => {}
            RecordKind::New => {
                self.name(record.tid, record.bytes(0));
                self.living.entry(record.tgid).or_default().insert(record.tid);
                if record.tid == record.tgid {
                    self.files.is_born(record.tgid, record.args[0]);
                }
            }
            RecordKind::Fork => self.files.fork(record.tgid, record.args[0]),
            RecordKind::Exec => {
                self.name(record.tid, record.bytes(0));
                self.files.exec(record.tgid);
                let part = |at| record.bytes(at).unwrap_or_default().to_vec();
                self.programs.insert(record.tid, ExecProgram { file: part(1), arguments: part(2) });
            }
            RecordKind::Exit => {
                self.name(record.tid, record.bytes(0));
                self.programs.remove(&record.tid);
                let living = self.living.entry(record.tgid).or_default();
                living.remove(&record.tid);
                if living.is_empty() {
                    self.living.remove(&record.tgid);
                    self.files.forget(record.tgid);
                }
            }
        }
    }

    /// Learns from a call, after it was shown.
    pub fn learn_call(&mut self, signature: &CallSignature, record: &CallRecord<'_>) {
        const PR_SET_NAME: u64 = 15;
        if signature.name == "prctl" && record.args[0] == PR_SET_NAME && record.ret == 0 {
            self.comms.remove(&record.tid);
        }
        self.files.learn(signature, record);
    }

    /// The program that this call of exec has begun, once.
    pub fn program(&mut self, record: &CallRecord<'_>) -> Option<ExecProgram> {
        if record.ret != 0 || record.is_open {
            return None;
        }
        self.programs.remove(&record.tid)
    }

    /// The name of a thread.
    pub fn comm(&mut self, tid: u32) -> Arc<str> {
        if let Some(comm) = self.comms.get(&tid) {
            return Arc::clone(comm);
        }
        let status = record::proc::status(tid);
        let comm = status
            .map_or_else(|| "?".to_owned(), |status| String::from_utf8_lossy(&status.comm).into_owned());
        let comm: Arc<str> = crate::terminal::out::harmless(&comm).into();
        self.comms.insert(tid, Arc::clone(&comm));
        comm
    }

    /// Ids of the threads that have not ended, with their processes.
    #[must_use]
    pub fn living_with_processes(&self) -> Vec<(u32, u32)> {
        let mut threads: Vec<(u32, u32)> = Vec::new();
        for (pid, tids) in &self.living {
            threads.extend(tids.iter().map(|tid| (*tid, *pid)));
        }
        threads.sort_unstable();
        threads
    }

    fn name(&mut self, tid: u32, comm: Option<&[u8]>) {
        let comm = comm.unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
        let comm = String::from_utf8_lossy(comm);
        self.comms.insert(tid, crate::terminal::out::harmless(&comm).into());
    }
}
