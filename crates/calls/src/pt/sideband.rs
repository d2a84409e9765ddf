//! Records next to the trace: buffers, the clock, running threads, mappings.

use std::ops::ControlFlow;

use perfdata::jitdump::JitDump;
use perfdata::record::{FileId, Mmap};
use perfdata::{CpuMode, Item, Order, PerfData, PidTid, Record};
use rustc_hash::FxHashMap;

use super::Buffer;
use super::code::{CodeMapping, CodeSpaces, KERNEL, MadeCode};
use super::info::{INTEL_PT, PtError, TraceSetup};
use super::made::{Poke, made_of};
use super::occupancy::Occupancy;
use super::switch_samples::SwitchSamples;
use profile::machine::{KERNEL_PROPER, is_kernel_proper};

/// `PERF_AUX_FLAG_TRUNCATED`: the AUX area was full and tracing stopped.
const AUX_TRUNCATED: u64 = 1;

/// All of it.
#[derive(Debug)]
pub struct Sideband<'a> {
    /// The processor, its clocks, how it was set up.
    pub setup: TraceSetup,
    /// The traces, by CPU or thread.
    pub buffers: Vec<Buffer<'a>>,
    occupancy: Occupancy,
    code: CodeSpaces,
    pokes: Vec<Poke>,
    problems: Vec<perfdata::Error>,
    /// Each thread's names, and from when on.
    names: FxHashMap<i32, Vec<(u64, String)>>,
}

impl<'a> Sideband<'a> {
    /// Reads all records.
    ///
    /// # Errors
    /// If the recording holds no Intel PT trace that can be understood.
    pub fn read(file: &PerfData<'a>) -> Result<Self, PtError> {
        let mut side = Self {
            setup: Self::setup(file)?,
            buffers: Vec::new(),
            occupancy: Occupancy::default(),
            code: CodeSpaces::default(),
            pokes: Vec::new(),
            problems: Vec::new(),
            names: FxHashMap::default(),
        };
        let mut places: FxHashMap<u32, usize> = FxHashMap::default();
        let mut full: Vec<(Option<u32>, Option<i32>, u64)> = Vec::new();
        let switches = SwitchSamples::new(file);
        let found = file.visit(Order::Time, |item| {
            if let Some(switch) = switches.of(item) {
                side.occupancy.switched(switch, item.time_ns().unwrap_or(0));
                return ControlFlow::Continue(());
            }
            match &item.record {
                Record::Auxtrace(aux) => {
                    let at = *places.entry(aux.idx).or_insert(side.buffers.len());
                    if at == side.buffers.len() {
                        let known = |id: u32| (id != u32::MAX).then_some(id);
                        let tid = known(aux.tid).and_then(|tid| i32::try_from(tid).ok());
                        let cpu = known(aux.cpu).filter(|_| tid.is_none());
                        let snapshots = side.setup.snapshots;
                        side.buffers.push(Buffer::new(cpu, tid, snapshots));
                    }
                    side.buffers[at].push(file, item, aux.offset, aux.data);
                }
                Record::Aux(aux) if aux.flags & AUX_TRUNCATED != 0 => {
                    let tid = item.pid_tid().map(|(_, tid)| tid as i32);
                    full.push((item.cpu(), tid, aux.offset.saturating_add(aux.size)));
                }
                _ => side.record(item),
            }
            ControlFlow::Continue(())
        });
        side.problems = found.problems;
        for buffer in &mut side.buffers {
            let own = |(cpu, tid): (Option<u32>, Option<i32>)| match buffer.tid {
                Some(_) => tid == buffer.tid,
                None => cpu == buffer.cpu,
            };
            let offsets: Vec<u64> =
                full.iter().filter(|(cpu, tid, _)| own((*cpu, *tid))).map(|(_, _, offset)| *offset).collect();
            offsets.into_iter().for_each(|offset| buffer.full(offset));
            buffer.arrange();
        }
        side.occupancy.arrange();
        side.identify(file);
        Ok(side)
    }

    /// Problems found while reading the records, the first ones in file order.
    #[must_use]
    pub fn problems(&self) -> &[perfdata::Error] {
        &self.problems
    }

    fn setup(file: &PerfData<'_>) -> Result<TraceSetup, PtError> {
        let mut info: Option<(u32, Vec<u64>)> = None;
        file.visit(Order::File, |item| match &item.record {
            Record::AuxtraceInfo(aux) => {
                info = Some((aux.type_, aux.private.iter().collect()));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        let (kind, private) = info.ok_or(PtError::NoTrace)?;
        if kind == INTEL_PT { TraceSetup::read(&private, file) } else { Err(PtError::OtherTrace(kind)) }
    }

    /// Gives mappings recorded without a build-id the one from the header's table.
    fn identify(&mut self, file: &PerfData<'_>) {
        let entries = &file.features().build_ids;
        self.code.identify(|name| {
            let name = if is_kernel_proper(name) { KERNEL_PROPER } else { name };
            let entry = entries.iter().find(|entry| entry.filename == name.as_bytes())?;
            Some(entry.build_id.to_vec())
        });
    }

    fn record(&mut self, item: &Item<'_>) {
        let time_ns = item.time_ns().unwrap_or(0);
        let task = item.pid_tid().map(|(pid, tid)| PidTid { pid, tid });
        match &item.record {
            Record::Mmap(mmap) => self.mapped(mmap, time_ns),
            Record::Fork(fork) => {
                let (pid, tid, parent) = (fork.pid as i32, fork.tid as i32, fork.ppid as i32);
                self.occupancy.belongs(tid, pid);
                let name = self.name_of(fork.ptid as i32, time_ns).unwrap_or_default().to_owned();
                self.names.entry(tid).or_default().push((time_ns, name));
                if pid != parent {
                    self.code.forked(pid, parent);
                }
            }
            Record::Comm(comm) => {
                self.occupancy.belongs(comm.tid as i32, comm.pid as i32);
                let name = String::from_utf8_lossy(comm.comm).into_owned();
                self.names.entry(comm.tid as i32).or_default().push((time_ns, name));
                if comm.exec {
                    self.code.replaced(comm.pid as i32, time_ns);
                }
            }
            Record::TextPoke(poke) => self.pokes.push(Poke {
                time_ns,
                start: poke.addr.0,
                old: poke.old.to_vec(),
                new: poke.new.to_vec(),
            }),
            Record::ItraceStart { pid, tid } => {
                self.occupancy.came_in(item.cpu(), time_ns, PidTid { pid: *pid, tid: *tid });
            }
            Record::Switch(switch) => {
                let Some(task) = task else { return };
                if switch.out {
                    self.occupancy.went_out(task.signed_tid(), time_ns);
                } else {
                    self.occupancy.came_in(item.cpu(), time_ns, task);
                    self.occupancy.was_off(task.signed_tid(), time_ns);
                }
            }
            _ => {}
        }
    }

    fn mapped(&mut self, mmap: &Mmap<'_>, time_ns: u64) {
        const PROT_EXEC: u32 = 4;
        const PROT_WRITE: u32 = 2;
        let of_guest = matches!(mmap.cpu_mode, CpuMode::GuestKernel | CpuMode::GuestUser);
        if of_guest || mmap.is_data || mmap.prot_flags.is_some_and(|(prot, _)| prot & PROT_EXEC == 0) {
            return;
        }
        let build_id = match &mmap.file_id {
            FileId::BuildId(id) => Some(id.to_vec()),
            _ => None,
        };
        let new = CodeMapping {
            start: mmap.addr.0,
            bytes: mmap.len,
            offset: mmap.pgoff,
            name: String::from_utf8_lossy(mmap.filename).into_owned(),
            build_id,
            writable: mmap.prot_flags.is_some_and(|(prot, _)| prot & PROT_WRITE != 0),
        };
        self.code.mapped(mmap.pid as i32, time_ns, new);
    }

    /// The thread that runs in buffer `at` at a time; `None` when the recording doesn't show it.
    #[must_use]
    pub fn running(&self, at: usize, time_ns: u64) -> Option<PidTid> {
        let buffer = self.buffers.get(at)?;
        if let Some(tid) = buffer.tid {
            return Some(PidTid::from_signed(self.process_of(tid), tid));
        }
        self.occupancy.on_cpu(buffer.cpu?, self.comparable(time_ns))
    }

    /// Time a thread spent off the CPU within (`from_ns`, `to_ns`], ns; 0 if the trace's times are unknown.
    #[must_use]
    pub fn off_cpu_ns(&self, tid: i32, from_ns: u64, to_ns: u64) -> u64 {
        if self.setup.joined { self.occupancy.off_cpu_ns(tid, from_ns, to_ns) } else { 0 }
    }

    /// The process of a thread; of an unknown one, itself.
    #[must_use]
    pub fn process_of(&self, tid: i32) -> i32 {
        self.occupancy.process_of(tid)
    }

    /// A thread's name at a time.
    #[must_use]
    pub fn name_of(&self, tid: i32, time_ns: u64) -> Option<&str> {
        let names = self.names.get(&tid)?;
        let after = names.partition_point(|(from_ns, _)| *from_ns <= time_ns);
        Some(names.get(after.saturating_sub(1))?.1.as_str())
    }

    /// A time, if times of the trace and of the records can be compared.
    fn comparable(&self, time_ns: u64) -> Option<u64> {
        self.setup.joined.then_some(time_ns)
    }

    /// The space number and code mappings of a process at a time.
    #[must_use]
    pub fn code(&self, pid: i32, time_ns: u64) -> Option<(u32, &[CodeMapping])> {
        let (space, list) = self.code.at(pid, self.comparable(time_ns))?;
        // Each change of the kernel's code begins a space of its own.
        let kernels = self.pokes.len() as u32 + 1;
        let changes = self.pokes.partition_point(|poke| poke.time_ns <= time_ns) as u32;
        Some((space.wrapping_mul(kernels).wrapping_add(changes), list))
    }

    /// The kernel's mappings of code at a time.
    #[must_use]
    pub fn kernel(&self, time_ns: u64) -> &[CodeMapping] {
        self.code.at(KERNEL, self.comparable(time_ns)).map_or(&[], |(_, list)| list)
    }

    /// When the code of a process or of the kernel is replaced next after a time, ns.
    #[must_use]
    pub fn code_changes_after(&self, pid: i32, time_ns: u64) -> Option<u64> {
        let time_ns = self.comparable(time_ns)?;
        let poke = self.pokes.get(self.pokes.partition_point(|poke| poke.time_ns <= time_ns));
        let poke = poke.map(|poke| poke.time_ns);
        self.code.changes_after(pid, time_ns).into_iter().chain(poke).min()
    }

    /// The code made at run time that was at an address of a process at a time.
    #[must_use]
    pub fn made_at(&self, pid: i32, ip: u64, time_ns: u64) -> Option<&MadeCode> {
        self.code.made_at(pid, ip, self.comparable(time_ns))
    }

    /// Changes of the kernel's own code, in the order of time.
    #[must_use]
    pub fn pokes(&self) -> &[Poke] {
        &self.pokes
    }

    /// The files in which runtimes reported their code, as they were mapped: process and path, each once.
    #[must_use]
    pub fn jit_dumps(&self) -> Vec<(i32, String)> {
        let is_one = |name: &str| {
            let file = name.rsplit('/').next().unwrap_or(name);
            file.starts_with("jit-") && file.ends_with(".dump")
        };
        let all = self.code.mappings().filter(|(_, mapping)| is_one(&mapping.name));
        let mut all: Vec<(i32, String)> = all.map(|(pid, mapping)| (pid, mapping.name.clone())).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Adds the code that a process's runtime reported. If its times can't be compared with the trace's, code that
    /// shares addresses with other code is left out. Returns the number of such functions.
    pub fn add_made(&mut self, pid: i32, dump: &JitDump<'_>) -> usize {
        let clock = (dump.is_tsc && self.setup.joined).then_some(self.setup.clock);
        let (made, left_out) = made_of(dump, clock);
        self.code.made(pid, made);
        left_out
    }

    /// Every mapping of code, of all processes and times.
    pub fn all_code(&self) -> impl Iterator<Item = &CodeMapping> {
        self.code.all()
    }
}

#[cfg(test)]
mod tests;
