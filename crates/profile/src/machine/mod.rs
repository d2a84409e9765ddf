//! The machine being profiled, reconstructed from state records: running threads, their names and their mappings, at
//! the moment of the current sample.
//!
//! Knows no samples, periods or symbols. Time is only the order of calls.

pub mod c_library;
mod kernel;
pub(crate) mod language_runtime;
mod last_asked;
mod lookup;
mod mapping;
mod process;

pub use kernel::{KernelSymbol, PROPER as KERNEL_PROPER, is_kernel_proper, module_name};
pub use mapping::{LookupAddr, Mapping, Mappings};
pub use process::{Process, ProcessId, TaskSpan, Thread, ThreadId};

use self::last_asked::LastAsked;
use crate::table::{Dso, DsoId, DsoKind, DsoTable, StringId, StringTable, dense_id};
use rustc_hash::FxHashMap;
use std::sync::Arc;

dense_id! {
    /// A [`TaskSpan`]: one thread under one name.
    TaskSpanId
}

/// Which kind of code an address is of: the kernel's context markers and record misc bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// The kernel.
    Kernel,
    /// A process.
    User,
    /// A hypervisor, or a mode that the record doesn't contain.
    Hypervisor,
    /// A virtual machine's kernel.
    GuestKernel,
    /// A virtual machine's process.
    GuestUser,
}

impl Mode {
    /// The letter perf writes for it.
    #[must_use]
    pub fn level(self) -> char {
        match self {
            Self::Kernel => 'k',
            Self::User => '.',
            Self::Hypervisor => 'H',
            Self::GuestKernel => 'g',
            Self::GuestUser => 'u',
        }
    }
}

/// Contents of a `MMAP` or `MMAP2` record.
#[derive(Clone, Copy, Debug)]
pub struct MmapSpec<'a> {
    /// Process the mapping is made in; -1 with kernel mode for the kernel's own.
    pub pid: i32,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Position of `start` in the file, in bytes.
    pub pgoff: u64,
    /// Path or pseudo-file name, as recorded.
    pub path: &'a str,
    /// Build id, when the record carries one.
    pub build_id: Option<&'a [u8]>,
    /// The file's inode number, when the record carries one.
    pub inode: Option<u64>,
    /// Address space: kernel or user (guests too).
    pub mode: Mode,
    /// May it hold code? (`PROT_EXEC`; false for MMAP records of data.)
    pub executable: bool,
    /// Made of huge pages without a file (`MAP_HUGETLB`).
    pub huge: bool,
}

/// Processes, threads and mappings at one moment.
#[derive(Clone, Debug, Default)]
pub struct MachineState {
    processes: Vec<Process>,
    threads: Vec<Thread>,
    spans: Vec<TaskSpan>,
    by_pid: FxHashMap<i32, ProcessId>,
    by_tid: FxHashMap<i32, ThreadId>,
    kernel: Mappings,
    build_ids: FxHashMap<String, Vec<u8>>,
    /// Build ids of files that share their path, by path and inode.
    same_paths: FxHashMap<(String, u64), Vec<u8>>,
    unknown: FxHashMap<Mode, DsoId>,
    map_version: u64,
    kernel_version: u64,
    last_asked: LastAsked,
}

impl MachineState {
    /// A build id from the file header, for DSOs whose mapping records carry none.
    pub fn set_build_id(&mut self, path: &str, build_id: &[u8], dsos: &mut DsoTable) {
        self.build_ids.insert(path.to_owned(), build_id.to_vec());
        dsos.set_build_id(path, build_id);
    }

    /// A build id of a file that shares its path with others: of these, the path alone has none.
    pub fn set_build_id_of_inode(&mut self, path: &str, inode: u64, build_id: &[u8]) {
        self.build_ids.remove(path);
        self.same_paths.insert((path.to_owned(), inode), build_id.to_vec());
    }

    /// A mapping made.
    pub fn mmap(&mut self, spec: &MmapSpec<'_>, dsos: &mut DsoTable) {
        match spec.mode {
            Mode::Kernel => {
                self.kernel_version += 1;
                kernel::mmap(&mut self.kernel, spec, &self.build_ids, dsos);
            }
            Mode::User => self.mmap_user(spec, dsos),
            Mode::Hypervisor | Mode::GuestKernel | Mode::GuestUser => {}
        }
    }

    fn mmap_user(&mut self, spec: &MmapSpec<'_>, dsos: &mut DsoTable) {
        let mut dso = mapping_dso(spec, &self.build_ids);
        if let Some(inode) = spec.inode.filter(|_| dso.build_id.is_none() && !self.same_paths.is_empty()) {
            dso.build_id = self.same_paths.get(&(spec.path.to_owned(), inode)).cloned();
        }
        let base = match dso.kind {
            DsoKind::File => spec.pgoff,
            DsoKind::Vdso => 0,
            _ => spec.start,
        };
        let end = spec.start.saturating_add(spec.len);
        let process = self.process_of(spec.pid);
        self.map_version += 1;
        let below = self.processes[process.index()].mappings.overlapping(spec.start, end);
        // Recorded in a pid namespace, all processes outside of it have number 0: which file is whose is not known.
        let is_ambiguous = spec.pid == 0 && below.iter().any(|other| dsos.of(other.dso).path != dso.path);
        let mapping = match is_ambiguous {
            true => {
                Mapping { start: spec.start, end, base: spec.start, dso: self.unknown_dso(Mode::User, dsos) }
            }
            false => Mapping { start: spec.start, end, base, dso: dsos.intern(dso) },
        };
        let process = &mut self.processes[process.index()];
        process.map_version = self.map_version;
        process.insert(mapping);
    }

    /// Code the kernel announced by `KSYMBOL` (BPF programs, trampolines) or withdrew.
    pub fn kernel_symbol(&mut self, symbol: &KernelSymbol<'_>, dsos: &mut DsoTable) {
        self.kernel_version += 1;
        kernel::announce(&mut self.kernel, symbol, dsos);
    }

    /// A thread's new name. With `exec` the process is being replaced. Its mappings are removed as soon as code of the
    /// new program runs ([`Self::note_user_code`]), because samples within that system call belong to the old program.
    pub fn comm(&mut self, pid: i32, tid: i32, name: &str, exec: bool, strings: &mut StringTable) {
        let name = strings.intern(name);
        let process = self.process_of(pid);
        if exec {
            self.map_version += 1;
            let process = &mut self.processes[process.index()];
            process.begin_exec();
            process.map_version = self.map_version;
        }
        let thread = self.thread_of(pid, tid);
        self.name_thread(thread, name);
    }

    /// A new thread or process. The child starts with the parent's name. It also gets the parent's mappings, unless
    /// `exec` shows that it was found running something else.
    pub fn fork(&mut self, child: (i32, i32), parent: (i32, i32), exec: bool) {
        let ((pid, tid), (parent_pid, parent_tid)) = (child, parent);
        let parent = self.thread_of(parent_pid, parent_tid);
        let comm = self.spans[self.threads[parent.index()].span.index()].comm;
        let parent_process = self.threads[parent.index()].process;
        if self.by_tid.get(&tid).is_some_and(|&id| id == parent) {
            return; // synthesized for the process itself
        }
        self.last_asked = LastAsked::default();
        self.by_tid.remove(&tid);
        if pid == tid && pid != parent_pid {
            self.end_exec(parent_process); // it forks, so it runs
            self.by_pid.remove(&pid);
            let child = self.process_of(pid);
            let (maps, version) = {
                let parent = &self.processes[parent_process.index()];
                (Arc::clone(&parent.mappings), parent.map_version)
            };
            let child = &mut self.processes[child.index()];
            if !exec {
                child.mappings = maps;
                child.map_version = version;
            }
        }
        let thread = self.thread_of(pid, tid);
        if let Some(comm) = comm {
            self.name_thread(thread, comm);
        }
    }

    /// A thread ended. Its ids may be used again by another.
    pub fn exit(&mut self, pid: i32, tid: i32) {
        if let Some(&id) = self.by_tid.get(&tid) {
            self.threads[id.index()].exited = true;
        }
        if pid == tid
            && let Some(&id) = self.by_pid.get(&pid)
        {
            self.end_exec(id);
            self.processes[id.index()].exited = true;
        }
    }

    /// The process runs, or was interrupted at, the user instruction at `avma`. If a mapping of a new program contains
    /// it, the exec is over and the old program's mappings are removed.
    pub fn note_user_code(&mut self, process: ProcessId, avma: u64) {
        if self.processes[process.index()].is_in_new_program(avma) {
            self.end_exec(process);
        }
    }

    fn end_exec(&mut self, process: ProcessId) {
        let process = &mut self.processes[process.index()];
        if process.end_exec() {
            self.map_version += 1;
            process.map_version = self.map_version;
        }
    }

    fn unknown_dso(&mut self, mode: Mode, dsos: &mut DsoTable) -> DsoId {
        *self.unknown.entry(mode).or_insert_with(|| {
            let (kind, name) = match mode {
                Mode::GuestKernel => (DsoKind::GuestKernel, "[guest.kernel.kallsyms]"),
                Mode::GuestUser => (DsoKind::GuestUser, "[guest.user]"),
                Mode::Kernel | Mode::User | Mode::Hypervisor => (DsoKind::Unknown, "[unknown]"),
            };
            dsos.intern(Dso {
                kind,
                path: name.to_owned(),
                short_name: name.to_owned(),
                build_id: None,
                level: mode.level(),
                start_avma: 0,
            })
        })
    }

    /// The process `pid` names now, new or known.
    pub fn process_of(&mut self, pid: i32) -> ProcessId {
        if let Some(id) = self.last_asked.process(pid) {
            return id;
        }
        let (by_pid, processes) = (&mut self.by_pid, &mut self.processes);
        let id = *by_pid.entry(pid).or_insert_with(|| {
            processes.push(Process::new(pid));
            ProcessId::from_index(processes.len() - 1)
        });
        self.last_asked.keep_process(pid, id);
        id
    }

    fn thread_of(&mut self, pid: i32, tid: i32) -> ThreadId {
        if let Some(id) = self.last_asked.thread(pid, tid) {
            return id;
        }
        let id = self.find_thread(pid, tid);
        self.last_asked.keep_thread(pid, tid, id);
        id
    }

    fn find_thread(&mut self, pid: i32, tid: i32) -> ThreadId {
        let process = self.process_of(pid);
        if let Some(&id) = self.by_tid.get(&tid)
            && self.threads[id.index()].process == process
        {
            return id;
        }
        let thread = ThreadId::from_index(self.threads.len());
        let span = self.push_span(thread);
        self.threads.push(Thread { process, pid, tid, span, exited: false });
        self.by_tid.insert(tid, thread);
        thread
    }

    fn name_thread(&mut self, thread: ThreadId, comm: StringId) {
        let span = self.threads[thread.index()].span;
        let current = &mut self.spans[span.index()];
        if current.comm == Some(comm) {
            return;
        }
        if current.comm.is_none() {
            current.comm = Some(comm); // its first name is taken for what it was called before, too
            return;
        }
        let span = self.push_span(thread);
        self.spans[span.index()].comm = Some(comm);
        self.threads[thread.index()].span = span;
    }

    fn push_span(&mut self, thread: ThreadId) -> TaskSpanId {
        self.spans.push(TaskSpan { thread, comm: None });
        TaskSpanId::from_index(self.spans.len() - 1)
    }
}

/// Names of memory that .NET and Erlang map twice, to write code and to run it.
const JIT_MEMORY: [&str; 2] = ["/memfd:doublemapper", "/memfd:vmem"];

/// The DSO of a user mapping.
fn mapping_dso(spec: &MmapSpec<'_>, build_ids: &FxHashMap<String, Vec<u8>>) -> Dso {
    let anonymous = spec.huge
        || spec.path == "//anon"
        || spec.path.starts_with("/dev/zero")
        || spec.path.starts_with("/anon_hugepage")
        || JIT_MEMORY.iter().any(|begin| spec.path.starts_with(begin));
    let no_file =
        spec.path.starts_with("[stack") || spec.path.starts_with("/SYSV") || spec.path.starts_with("[heap]");
    let (kind, path) = if spec.path == "[vdso]" || spec.path == "[vdso32]" || spec.path == "[vdsox32]" {
        (DsoKind::Vdso, spec.path.to_owned())
    } else if spec.path == perfdata::appendix::python_functions::MAPPING_NAME {
        (DsoKind::Python, spec.path.to_owned())
    } else if (anonymous || no_file) && spec.executable {
        (DsoKind::PerfMap { pid: spec.pid }, format!("/tmp/perf-{}.map", spec.pid))
    } else if anonymous || no_file || spec.path.is_empty() {
        (DsoKind::PerfMap { pid: spec.pid }, spec.path.to_owned())
    } else {
        (DsoKind::File, spec.path.to_owned())
    };
    let build_id = spec.build_id.map(<[u8]>::to_vec).or_else(|| build_ids.get(&path).cloned());
    let short_name = match kind {
        DsoKind::PerfMap { pid } if spec.executable => format!("[JIT] tid {pid}"),
        _ => file_name(&path).to_owned(),
    };
    Dso { kind, short_name, path, build_id, level: '.', start_avma: 0 }
}

/// The part of a path after the last slash; all of a bracketed name.
#[must_use]
pub fn file_name(path: &str) -> &str {
    if path.starts_with('[') {
        return path;
    }
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_share_a_path_are_known_by_their_inodes() {
        let (mut machine, mut dsos) = (MachineState::default(), DsoTable::default());
        machine.set_build_id("/lib/libc.so.6", &[9], &mut dsos);
        machine.set_build_id_of_inode("/lib/libc.so.6", 7, &[1]);
        machine.set_build_id_of_inode("/lib/libc.so.6", 8, &[2]);
        let mut build_id_of = |pid: i32, inode: u64| {
            let spec = MmapSpec {
                pid,
                start: 0x1000,
                len: 0x1000,
                pgoff: 0,
                path: "/lib/libc.so.6",
                build_id: None,
                inode: Some(inode),
                mode: Mode::User,
                executable: true,
                huge: false,
            };
            machine.mmap(&spec, &mut dsos);
            let (_, maps, _) = machine.mappings_of(pid);
            let mapping = maps.find(0x1800).expect("mapped");
            dsos.of(mapping.dso).build_id.clone()
        };
        assert_eq!([build_id_of(1, 7), build_id_of(2, 8)], [Some(vec![1]), Some(vec![2])]);
        // Of another file with that path nothing is known: no name is better than a wrong one.
        assert_eq!(build_id_of(3, 9), None);
    }
}
