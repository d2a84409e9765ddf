//! State records applied to the machine.

use super::Session;
use crate::grow::Grow as _;
use crate::machine::{KernelSymbol, MmapSpec, Mode};
use perfdata::abi::{
    PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER, PERF_RECORD_KSYMBOL_TYPE_BPF, PERF_RECORD_MISC_FORK_EXEC,
};
use perfdata::record::{FileId, Header, Ksymbol, Mmap};
use perfdata::{Item, Record};

const PROT_EXEC: u32 = 4;
const MAP_HUGETLB: u32 = 0x4_0000;

impl Session {
    /// Applies a record that isn't a sample. Records that aren't about the machine are ignored. They aren't samples, so
    /// nothing is lost with them.
    pub(super) fn apply_state(&mut self, item: &Item<'_>) {
        let diagnostics = &mut self.profile.diagnostics;
        match &item.record {
            Record::Mmap(mmap) => self.apply_mmap(mmap),
            Record::Comm(comm) => {
                let name = String::from_utf8_lossy(comm.comm);
                let (pid, tid) = (comm.pid.cast_signed(), comm.tid.cast_signed());
                self.machine.comm(pid, tid, &name, comm.exec, &mut self.profile.strings);
            }
            Record::Fork(task) => {
                let misc = Header::parse(item.raw, self.endian).map_or(0, |header| header.misc);
                let child = (task.pid.cast_signed(), task.tid.cast_signed());
                let parent = (task.ppid.cast_signed(), task.ptid.cast_signed());
                self.machine.fork(child, parent, misc & PERF_RECORD_MISC_FORK_EXEC != 0);
            }
            Record::Exit(task) => self.machine.exit(task.pid.cast_signed(), task.tid.cast_signed()),
            Record::Ksymbol(symbol) => self.apply_ksymbol(symbol),
            Record::Cgroup(cgroup) => {
                self.profile.name_cgroup(cgroup.id, &String::from_utf8_lossy(cgroup.path));
            }
            Record::Lost(lost) => {
                diagnostics.lost_records.grow(lost.lost);
                diagnostics.lost_events += 1;
            }
            Record::LostSamples(lost) => {
                diagnostics.lost_samples.grow(*lost);
            }
            Record::Throttle(_) => diagnostics.throttled += 1,
            Record::HeaderBuildId(id) => {
                let path = String::from_utf8_lossy(id.filename).into_owned();
                self.machine.set_build_id(&path, id.build_id, &mut self.profile.dsos);
            }
            _ => {}
        }
    }

    fn apply_mmap(&mut self, mmap: &Mmap<'_>) {
        let path = String::from_utf8_lossy(mmap.filename);
        let (executable, huge) = match mmap.prot_flags {
            Some((prot, flags)) => (prot & PROT_EXEC != 0, flags & MAP_HUGETLB != 0),
            None => (!mmap.is_data, false),
        };
        let (build_id, inode) = match mmap.file_id {
            FileId::BuildId(id) => (Some(id), None),
            FileId::Inode { inode, .. } => (None, Some(inode)),
            FileId::None => (None, None),
        };
        let spec = MmapSpec {
            pid: mmap.pid.cast_signed(),
            start: mmap.addr.0,
            len: mmap.len,
            pgoff: mmap.pgoff,
            path: &path,
            build_id,
            inode,
            mode: Mode::of_cpu(mmap.cpu_mode),
            executable,
            huge,
        };
        self.machine.mmap(&spec, &mut self.profile.dsos);
    }

    fn apply_ksymbol(&mut self, symbol: &Ksymbol<'_>) {
        let name = String::from_utf8_lossy(symbol.name);
        let symbol = KernelSymbol {
            start: symbol.addr.0,
            len: u64::from(symbol.len),
            name: &name,
            bpf: symbol.ksym_type == PERF_RECORD_KSYMBOL_TYPE_BPF,
            removed: symbol.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER != 0,
        };
        self.machine.kernel_symbol(&symbol, &mut self.profile.dsos);
    }
}
