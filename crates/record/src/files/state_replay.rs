//! The state a reader needs before the first sample of a file that begins in the middle of a recording: processes,
//! names of their threads, mappings.
//!
//! Follows the records as they leave for the file (or fall out of the window before it), so that it is always the
//! state of that very moment. /proc would show a later state, without processes that have ended since.

use std::collections::BTreeMap;
use std::sync::Arc;

use perfdata::record::live::LiveFormat;
use perfdata::record::{Comm, TaskRecord};
use perfdata::{Event, Record, SampleId, record_to_bytes};

/// The pid of the kernel's own mappings.
const KERNEL: u32 = u32::MAX;

/// The living processes, as records.
#[derive(Debug)]
pub struct Journal {
    event: Event,
    format: LiveFormat,
    processes: BTreeMap<u32, Life>,
    /// Kernel symbols, BPF programs, cgroups, namespaces: as they came.
    others: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Life {
    parent: u32,
    /// Name by thread; `None`: that of the process it was forked by.
    threads: BTreeMap<u32, Vec<u8>>,
    /// Shared with forked children until one of them maps something.
    maps: Arc<Vec<Mapped>>,
}

/// A mapping's record in the layout of the file's first event; its pid may be an ancestor's.
#[derive(Debug, Clone)]
struct Mapped {
    start: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl Journal {
    /// Nothing is known yet. `event` is the file's first.
    #[must_use]
    pub fn new(event: Event) -> Self {
        Self { format: LiveFormat::new(&event.attr), event, processes: BTreeMap::new(), others: Vec::new() }
    }

    /// Takes in one record that isn't a sample, in the file's layout and in the order of time.
    pub fn take(&mut self, bytes: &[u8]) {
        let Some((record, _)) = self.format.parse(bytes) else { return };
        match record {
            Record::Mmap(mmap) => {
                let (start, end) = (mmap.addr.0, mmap.addr.0.saturating_add(mmap.len));
                let life = self.processes.entry(mmap.pid).or_default();
                let maps = Arc::make_mut(&mut life.maps);
                // A mapping that a later one covers completely is gone.
                maps.retain(|old| old.start < start || end < old.end);
                maps.push(Mapped { start, end, bytes: bytes.to_vec() });
            }
            Record::Comm(comm) => self.name(&comm),
            Record::Fork(task) => self.begin(&task),
            Record::Exit(task) => self.end(&task),
            Record::Ksymbol(_) | Record::BpfEvent(_) | Record::Cgroup(_) | Record::Namespaces(_) => {
                self.others.push(bytes.to_vec());
            }
            _ => {}
        }
    }

    fn name(&mut self, comm: &Comm<'_>) {
        let life = self.processes.entry(comm.pid).or_default();
        if comm.exec {
            life.maps = Arc::default();
            life.threads.clear();
        }
        life.threads.insert(comm.tid, comm.comm.to_vec());
    }

    fn begin(&mut self, task: &TaskRecord) {
        let of_parent = self.processes.get(&task.ppid);
        let comm = of_parent.and_then(|life| life.threads.get(&task.ptid)).cloned().unwrap_or_default();
        if task.pid != task.ppid {
            let maps = of_parent.map(|life| Arc::clone(&life.maps)).unwrap_or_default();
            self.processes.insert(task.pid, Life { parent: task.ppid, threads: BTreeMap::new(), maps });
        }
        self.processes.entry(task.pid).or_default().threads.insert(task.tid, comm);
    }

    fn end(&mut self, task: &TaskRecord) {
        let Some(life) = self.processes.get_mut(&task.pid) else { return };
        life.threads.remove(&task.tid);
        if life.threads.is_empty() {
            self.processes.remove(&task.pid);
        }
    }

    /// Hands out the whole state as records of time 0, in the file's layout. Forks come first, so that no child
    /// inherits later mappings of its parent.
    pub fn replay(&self, mut with: impl FnMut(&[u8])) {
        let mut write = |record: &Record<'_>, pid: u32, tid: u32| {
            let id = SampleId { pid_tid: Some((pid, tid)), time_ns: Some(0), ..SampleId::default() };
            if let Some(bytes) = record_to_bytes(&self.event, record, &id) {
                with(&bytes);
            }
        };
        let living = || self.processes.iter().filter(|(pid, _)| **pid != KERNEL);
        for (&pid, life) in living() {
            for &tid in life.threads.keys() {
                let (ppid, ptid) = if tid == pid { (life.parent, life.parent) } else { (pid, pid) };
                write(&Record::Fork(TaskRecord { pid, ppid, tid, ptid, time_ns: 0 }), pid, tid);
            }
        }
        for (&pid, life) in living() {
            for (&tid, comm) in life.threads.iter().filter(|(_, comm)| !comm.is_empty()) {
                write(&Record::Comm(Comm { pid, tid, comm, exec: false }), pid, tid);
            }
        }
        for (&pid, life) in &self.processes {
            for mapped in life.maps.iter() {
                if let Some((Record::Mmap(mut mmap), _)) = self.format.parse(&mapped.bytes) {
                    (mmap.pid, mmap.tid) = (pid, if pid == KERNEL { 0 } else { pid });
                    write(&Record::Mmap(mmap), mmap.pid, mmap.tid);
                }
            }
        }
        self.others.iter().for_each(|bytes| with(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::abi::{PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME};
    use perfdata::record::{FileId, Mmap};
    use perfdata::{Attr, AttrFlags, Avma, CpuMode};

    fn event() -> Event {
        let sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
        Event {
            attr: Attr { sample_type, flags: AttrFlags::SAMPLE_ID_ALL, ..Attr::default() },
            ..Event::default()
        }
    }

    fn mmap(pid: u32, addr: u64, filename: &[u8]) -> Record<'_> {
        Record::Mmap(Mmap {
            pid,
            tid: pid,
            addr: Avma(addr),
            len: 0x1000,
            pgoff: 0,
            filename,
            file_id: FileId::None,
            prot_flags: None,
            cpu_mode: CpuMode::User,
            is_data: false,
            parse_timeout: false,
        })
    }

    fn comm(pid: u32, tid: u32, comm: &[u8], exec: bool) -> Record<'_> {
        Record::Comm(Comm { pid, tid, comm, exec })
    }

    fn fork(pid: u32, ppid: u32, tid: u32, ptid: u32) -> Record<'static> {
        Record::Fork(TaskRecord { pid, ppid, tid, ptid, time_ns: 0 })
    }

    /// The journal of these records as text: "fork 7<1/7", "comm 7/7 a", "map 7 1000 x".
    fn told(records: &[Record<'_>]) -> Vec<String> {
        let mut journal = Journal::new(event());
        for record in records {
            let bytes = record_to_bytes(&event(), record, &SampleId::default()).expect("fits a record");
            journal.take(&bytes);
        }
        let mut all = Vec::new();
        journal.replay(|bytes| {
            let (record, id) = LiveFormat::new(&event().attr).parse(bytes).expect("whole");
            assert_eq!(id.time_ns, Some(0));
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            all.push(match record {
                Record::Fork(t) => format!("fork {}<{}/{}", t.pid, t.ppid, t.tid),
                Record::Comm(c) => format!("comm {}/{} {}", c.pid, c.tid, text(c.comm)),
                Record::Mmap(m) => format!("map {} {:x} {}", m.pid, m.addr.0, text(m.filename)),
                other => format!("{other:?}"),
            });
        });
        all
    }

    #[test]
    fn the_living_are_told_with_names_and_mappings_and_the_dead_are_not() {
        let records = [
            comm(7, 7, b"a", false),
            mmap(7, 0x1000, b"x"),
            fork(7, 7, 8, 7),
            fork(9, 7, 9, 8),
            fork(10, 7, 10, 7),
            Record::Exit(TaskRecord { pid: 10, ppid: 7, tid: 10, ptid: 7, time_ns: 0 }),
            mmap(9, 0x5000, b"y"),
        ];
        let expected = [
            "fork 7<0/7",
            "fork 7<7/8",
            "fork 9<7/9",
            "comm 7/7 a",
            "comm 7/8 a",
            "comm 9/9 a",
            "map 7 1000 x",
            "map 9 1000 x",
            "map 9 5000 y",
        ];
        assert_eq!(told(&records), expected);
    }

    #[test]
    fn exec_forgets_the_old_program_and_a_mapping_those_under_it() {
        let records = [
            comm(7, 7, b"sh", false),
            mmap(7, 0x1000, b"sh"),
            fork(7, 7, 8, 7),
            comm(7, 7, b"new", true),
            mmap(7, 0x2000, b"old"),
            mmap(7, 0x2000, b"new"),
        ];
        assert_eq!(told(&records), ["fork 7<0/7", "comm 7/7 new", "map 7 2000 new"]);
    }

    #[test]
    fn the_kernels_mappings_have_no_process() {
        let all = told(&[mmap(KERNEL, 0xffff_0000, b"[kernel.kallsyms]")]);
        assert_eq!(all, ["map 4294967295 ffff0000 [kernel.kallsyms]"]);
    }
}
