//! Mapped files and their addresses in each watched process, followed record by record in time order.
//!
//! Files are opened when the first sample of the process needs them, so that the thousands of short processes of a
//! build cost nothing; those that could vanish (deleted, memfd) are opened at once.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use dso::unwind::AddressSpace;
use dso::{Avma, BuildId, FileOffset, ObjectFile, system_file};
use perfdata::appendix::jit_maps::JitMaps;
use perfdata::record::{FileId, Mmap};
use rustc_hash::FxHashMap;

use crate::machine::objects::{FileMapping, Identity, Objects};
use crate::runtimes::ProcessMemory;
use crate::runtimes::hotspot::{self, Jvm};
use crate::runtimes::jit_maps::{JitMapKeeper, OwnLines};
use crate::runtimes::method_addresses::{MethodAddresses, WalkedFrames};
use crate::runtimes::v8::{self, V8};

/// All processes of the recording.
#[derive(Debug, Default)]
pub struct Processes {
    by_pid: FxHashMap<u32, Process>,
    objects: Objects,
    jit_maps: JitMapKeeper,
    /// Address space of a process that is unknown or has ended: its last samples may come later.
    nothing_mapped: AddressSpace,
}

#[derive(Debug, Default)]
struct Process {
    /// Shared with forked children until one of them maps something.
    maps: Arc<Maps>,
    /// The process it was forked by; 0 if that is not known.
    parent: u32,
    /// Threads that have not exited.
    threads: u32,
    /// The thread of the process's number has exited. Until then the process lives: where records are lost, the
    /// number of its threads is wrong.
    leader_has_exited: bool,
    /// `/proc/PID/mem`, opened at the first use; `None` if it can't be opened.
    memory: OnceCell<Option<File>>,
    /// How often the code of each page was asked for.
    code_asked: FxHashMap<u64, u32>,
    /// The one whose code it has mapped.
    runtime: Option<Box<Runtime>>,
}

/// A runtime whose methods are named from its memory.
#[derive(Debug)]
enum Runtime {
    Java(Jvm),
    Node(V8),
}

impl Runtime {
    /// If a mapping is of the code of one.
    fn of_mapping(object: &ObjectFile, mapping: &FileMapping) -> Option<Self> {
        if hotspot::is_library(&mapping.name) {
            return Jvm::of_library(object, mapping).map(Self::Java);
        }
        if v8::is_program(&mapping.name) { V8::of_program(object, mapping).map(Self::Node) } else { None }
    }

    /// False for a Node with a map, which has its functions. A JVM's lacks those that are interpreted.
    fn needs_names(&mut self, has_map: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Java(_) => true,
            Self::Node(node) => !node.writes_map(has_map),
        }
    }

    fn name_frames(&mut self, walked: WalkedFrames<'_>, memory: &mut ProcessMemory<'_>) {
        match self {
            Self::Java(java) => java.name_frames(walked, memory),
            Self::Node(node) => node.name_frames(walked, memory),
        }
    }

    fn names(&mut self) -> &mut MethodAddresses {
        match self {
            Self::Java(java) => java.names(),
            Self::Node(node) => node.names(),
        }
    }

    fn take_names(&mut self) -> OwnLines {
        let has_compiled = match self {
            Self::Java(java) => java.names_compiled(),
            Self::Node(_) => true,
        };
        OwnLines { text: self.names().take_lines(), has_compiled }
    }
}

#[derive(Debug, Default, Clone)]
struct Maps {
    space: AddressSpace,
    /// Not yet in `space`: in the order of mapping.
    pending: Vec<FileMapping>,
    /// In the order of mapping: a later one hides an earlier one.
    placed: Vec<FileMapping>,
}

impl Processes {
    /// A mapping was made.
    pub fn mmap(&mut self, mmap: &Mmap<'_>) {
        if mmap.is_data || mmap.pid == u32::MAX {
            return;
        }
        if is_jit_memory(mmap.filename) {
            self.jit_maps.note(mmap.pid);
        }
        let mapping = FileMapping {
            start: mmap.addr.0,
            end: mmap.addr.0.saturating_add(mmap.len),
            pgoff: mmap.pgoff,
            name: mmap.filename.into(),
            identity: match mmap.file_id {
                FileId::BuildId(id) => BuildId::from_bytes(id).map_or(Identity::Unknown, Identity::BuildId),
                FileId::Inode { inode, .. } => Identity::Inode(inode),
                FileId::None => Identity::Unknown,
            },
        };
        if may_vanish(&mapping.name) {
            self.objects.open(&self.with_ancestors(mmap.pid), &mapping);
        }
        let process = self.by_pid.entry(mmap.pid).or_default();
        Arc::make_mut(&mut process.maps).pending.push(mapping);
    }

    /// A thread (`pid == parent`) or a process began.
    pub fn fork(&mut self, pid: u32, parent: u32) {
        if pid == parent {
            self.by_pid.entry(pid).or_default().threads += 1;
            return;
        }
        let maps = self.by_pid.get(&parent).map(|p| p.maps.clone()).unwrap_or_default();
        self.by_pid.insert(pid, Process { maps, parent, threads: 1, ..Process::default() });
        self.jit_maps.forked(pid, parent);
    }

    /// A process runs another program now: nothing of the old one is mapped, and only one thread is left.
    pub fn exec(&mut self, pid: u32) {
        let parent = self.by_pid.get(&pid).map_or(0, |p| p.parent);
        self.by_pid.insert(pid, Process { parent, threads: 1, ..Process::default() });
    }

    /// A thread ended; with the last one the process is forgotten.
    pub fn exit(&mut self, pid: u32, tid: u32) {
        let Some(process) = self.by_pid.get_mut(&pid) else { return };
        process.threads = process.threads.saturating_sub(1);
        process.leader_has_exited |= tid == pid;
        if process.threads == 0 && process.leader_has_exited {
            self.by_pid.remove(&pid);
            self.jit_maps.ended(pid);
        }
    }

    /// True for a process that has not exited according to the records.
    #[must_use]
    pub fn is_living(&self, pid: u32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// The processes that have not exited according to the records, ascending.
    #[must_use]
    pub fn living(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.by_pid.keys().copied().collect();
        pids.sort_unstable();
        pids
    }

    /// Maps of JIT code are removed once they are read.
    pub fn remove_jit_maps(&mut self) {
        self.jit_maps.remove_read();
    }

    /// JVMs and .NET runtimes that still run at the end are asked for their maps.
    pub fn ask_runtimes(&mut self) {
        self.jit_maps.ask_runtimes();
    }

    /// The names of JIT code, for the recording.
    pub fn jit_maps(&mut self) -> JitMaps {
        self.jit_maps.take()
    }

    /// The present mappings of `pid`, with all files opened.
    pub fn space(&mut self, pid: u32) -> &AddressSpace {
        let has_pending = self.by_pid.get(&pid).is_some_and(|p| !p.maps.pending.is_empty());
        let pids = if has_pending { self.with_ancestors(pid) } else { Vec::new() };
        let Some(process) = self.by_pid.get_mut(&pid) else { return &self.nothing_mapped };
        if has_pending {
            let maps = Arc::make_mut(&mut process.maps);
            for mapping in std::mem::take(&mut maps.pending) {
                let object = place(&mut maps.space, &mut self.objects, &pids, &mapping);
                // A second mapping is of the same runtime: addresses that it has given stay.
                if let Some(object) = object.filter(|_| process.runtime.is_none()) {
                    process.runtime = Runtime::of_mapping(&object, &mapping).map(Box::new);
                }
                maps.placed.retain(|m| m.end <= mapping.start || mapping.end <= m.start);
                maps.placed.push(mapping);
            }
        }
        &process.maps.space
    }

    /// Reads the code around `address`, in memory without a file, for the unwinder; false if that gives nothing new. A
    /// compiler fills its pages little by little: they are read again, less and less often.
    pub fn know_code(&mut self, pid: u32, address: u64) -> bool {
        /// The code is looked at page by page, and some more for functions that cross the border.
        const PAGE: u64 = 4096;
        const MORE: usize = 8192;
        const MOST_PAGES: usize = 8192;
        let start = address & !(PAGE - 1);
        let Some(process) = self.by_pid.get_mut(&pid) else { return false };
        if process.code_asked.len() >= MOST_PAGES && !process.code_asked.contains_key(&start) {
            return false;
        }
        let asked = process.code_asked.entry(start).or_default();
        *asked = asked.saturating_add(1);
        if !asked.is_power_of_two() {
            return false;
        }
        let mut bytes = vec![0; PAGE as usize + MORE];
        let got = self.read_memory(pid, start, &mut bytes);
        bytes.truncate(got);
        let process = self.by_pid.get_mut(&pid).filter(|_| got > 0);
        process.is_some_and(|process| Arc::make_mut(&mut process.maps).space.know_code(Avma(start), bytes))
    }

    /// Looks up the frames of compiled methods around `pcs`, for the unwinder; false if none is new.
    pub fn know_frames(&mut self, pid: u32, pcs: &[Avma]) -> bool {
        let Some(mut runtime) = self.by_pid.get_mut(&pid).and_then(|process| process.runtime.take()) else {
            return false;
        };
        let frames = match &mut *runtime {
            Runtime::Java(java) => {
                java.find_frames(pcs, &mut |address, into| self.read_memory(pid, address, into))
            }
            Runtime::Node(_) => Vec::new(),
        };
        let Some(process) = self.by_pid.get_mut(&pid) else { return false };
        process.runtime = Some(runtime);
        if frames.is_empty() {
            return false;
        }
        let space = &mut Arc::make_mut(&mut process.maps).space;
        let new = frames.iter().filter(|frame| space.know_frame(frame)).count();
        new > 0
    }

    /// Names the code of a runtime, and gives frames in code for many methods the addresses of theirs.
    pub fn name_methods(&mut self, pid: u32, walked: WalkedFrames<'_>) {
        let Some(mut runtime) = self.by_pid.get_mut(&pid).and_then(|process| process.runtime.take()) else {
            return;
        };
        if runtime.needs_names(|| self.jit_maps.has_map(pid)) {
            runtime.name_frames(walked, &mut |address, into| self.read_memory(pid, address, into));
            self.jit_maps.name(pid, &runtime.take_names());
        }
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.runtime = Some(runtime);
        }
    }

    /// True once: when methods of this process have addresses of their own, and the recording no mapping of them yet.
    pub fn begins_methods(&mut self, pid: u32) -> bool {
        let runtime = self.by_pid.get_mut(&pid).and_then(|process| process.runtime.as_deref_mut());
        runtime.is_some_and(|runtime| runtime.names().begins())
    }

    /// A process, and those that it descends from as far as they are known: the nearest first.
    fn with_ancestors(&self, pid: u32) -> Vec<u32> {
        /// A short process is started by one that lives longer, mostly.
        const MOST: usize = 6;
        let parent_of = |pid: &u32| self.by_pid.get(pid).map(|p| p.parent).filter(|&p| p != 0);
        std::iter::successors(Some(pid), parent_of).take(MOST).collect()
    }

    /// The name of what is mapped at `address` in `pid`, as summaries show it.
    #[must_use]
    pub fn name_at(&self, pid: u32, address: u64) -> Option<Arc<str>> {
        let placed = &self.by_pid.get(&pid)?.maps.placed;
        let mapping = placed.iter().find(|m| (m.start..m.end).contains(&address))?;
        Some(String::from_utf8_lossy(&mapping.name).into())
    }

    /// Reads the process's memory as it is now; how many bytes could be read from `address` on.
    pub fn read_memory(&mut self, pid: u32, address: u64, into: &mut [u8]) -> usize {
        let Some(process) = self.by_pid.get_mut(&pid) else { return 0 };
        let memory = process.memory.get_or_init(|| system_file::open(format!("/proc/{pid}/mem")).ok());
        memory.as_ref().and_then(|m| m.read_at(into, address).ok()).unwrap_or(0)
    }

    /// The files opened so far.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }
}

/// Adds a mapping; its file, if it has code of one.
fn place(
    space: &mut AddressSpace,
    objects: &mut Objects,
    pids: &[u32],
    mapping: &FileMapping,
) -> Option<Arc<ObjectFile>> {
    let (start, end) = (Avma(mapping.start), Avma(mapping.end));
    let named = mapping.name.starts_with(b"/") && !mapping.name.starts_with(b"//");
    let info = if named || &*mapping.name == b"[vdso]" { objects.open(pids, mapping) } else { None };
    let svma = info.as_ref().and_then(|info| {
        info.object().svma_of_mapping(FileOffset(mapping.pgoff), mapping.end - mapping.start)
    });
    match (info, svma) {
        (Some(info), Some(svma)) => {
            let object = info.object().clone();
            space.map(start, end, svma, info);
            Some(object)
        }
        // JIT code, or a file that can't be opened: only frame pointers are available.
        _ => {
            space.map_anonymous(start, end);
            None
        }
    }
}

/// Memory without a file, in which a process makes code.
fn is_jit_memory(name: &[u8]) -> bool {
    [b"//anon".as_slice(), b"[anon", b"/dev/zero", b"/memfd:"].iter().any(|begin| name.starts_with(begin))
}

/// The file has no name any more that could be opened later.
fn may_vanish(name: &[u8]) -> bool {
    name.ends_with(b" (deleted)") || name.starts_with(b"/memfd:") || name.starts_with(b"/tmp/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map_us(processes: &mut Processes, pid: u32) {
        for line in crate::machine::proc::maps(std::process::id()).expect("ours") {
            if line.prot & libc::PROT_EXEC as u32 == 0 {
                continue;
            }
            let file_id = FileId::Inode { major: 0, minor: 0, inode: line.inode, generation: 0 };
            let mmap = Mmap {
                pid,
                tid: pid,
                addr: perfdata::Avma(line.start),
                len: line.end - line.start,
                pgoff: line.pgoff,
                filename: &line.name,
                file_id,
                prot_flags: None,
                cpu_mode: perfdata::CpuMode::User,
                is_data: false,
                parse_timeout: false,
            };
            processes.mmap(&mmap);
        }
    }

    #[test]
    fn samples_after_the_end_of_a_process_keep_nothing_of_it() {
        let us = std::process::id();
        let mut processes = Processes::default();
        processes.fork(us, 1);
        map_us(&mut processes, us);
        // A thread whose birth is not known, for its record was lost.
        processes.exit(us, us + 1);
        assert!(!processes.space(us).is_empty());
        assert_eq!(processes.living(), [us]);
        processes.exit(us, us);
        assert!(processes.living().is_empty());
        assert!(processes.space(us).is_empty());
        assert_eq!(processes.read_memory(us, &raw const us as u64, &mut [0; 4]), 0);
        assert!(processes.by_pid.is_empty());
    }

    #[test]
    fn a_forked_child_keeps_the_mappings_and_exec_drops_them() {
        let us = std::process::id();
        let mut processes = Processes::default();
        processes.fork(us, 1);
        map_us(&mut processes, us);
        let mapped = processes.space(us).len();
        assert!(mapped >= 2);
        processes.fork(us + 1, us);
        assert_eq!(processes.space(us + 1).len(), mapped);
        processes.exec(us + 1);
        assert!(processes.space(us + 1).is_empty());
        assert!(processes.objects().seen().iter().all(|o| !o.build_id.as_bytes().is_empty()));
        let value = 0x1234_5678_9abc_def0u64;
        let mut bytes = [0; 8];
        assert_eq!(processes.read_memory(us, &raw const value as u64, &mut bytes), 8);
        assert_eq!(u64::from_ne_bytes(bytes), value);
    }
}
