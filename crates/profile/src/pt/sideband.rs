//! What stands beside the trace: buffers, the clock, who ran where, what was mapped.

use std::ops::ControlFlow;

use perfdata::jitdump::JitDump;
use perfdata::record::{FileId, Mmap};
use perfdata::{CpuMode, Item, Order, PerfData, Record};
use rustc_hash::FxHashMap;

use super::Buffer;
use super::code::{CodeMapping, CodeSpaces, KERNEL, MadeCode};
use super::info::{INTEL_PT, PtError, Setup};
use super::made::{Poke, made_of};
use super::switch_samples::{Switch, SwitchSamples};
use crate::machine::{KERNEL_PROPER, is_kernel_proper};

/// `PERF_AUX_FLAG_TRUNCATED`: the AUX area was full and tracing stopped.
const AUX_TRUNCATED: u64 = 1;

/// A thread came onto a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct In {
    time_ns: u64,
    pid: i32,
    tid: i32,
}

/// A thread's time off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffCpu {
    from_ns: u64,
    to_ns: u64,
}

/// All of it.
#[derive(Debug)]
pub struct Sideband<'a> {
    /// The processor, its clocks, how it was set up.
    pub setup: Setup,
    /// The traces, by CPU or thread.
    pub buffers: Vec<Buffer<'a>>,
    ins: FxHashMap<u32, Vec<In>>,
    off: FxHashMap<i32, Vec<OffCpu>>,
    out_since: FxHashMap<i32, u64>,
    code: CodeSpaces,
    pokes: Vec<Poke>,
    process_of: FxHashMap<i32, i32>,
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
            ins: FxHashMap::default(),
            off: FxHashMap::default(),
            out_since: FxHashMap::default(),
            code: CodeSpaces::default(),
            pokes: Vec::new(),
            process_of: FxHashMap::default(),
            names: FxHashMap::default(),
        };
        let mut places: FxHashMap<u32, usize> = FxHashMap::default();
        let mut full: Vec<(Option<u32>, Option<i32>, u64)> = Vec::new();
        let switches = SwitchSamples::new(file);
        file.visit(Order::Time, |item| {
            if let Some(switch) = switches.of(item) {
                side.switched(switch, item.time_ns().unwrap_or(0));
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
                        side.buffers.push(Buffer::new((cpu, tid), snapshots));
                    }
                    side.buffers[at].push(file, item, (aux.offset, aux.data));
                }
                Record::Aux(aux) if aux.flags & AUX_TRUNCATED != 0 => {
                    let tid = item.pid_tid().map(|(_, tid)| tid as i32);
                    full.push((item.cpu(), tid, aux.offset.saturating_add(aux.size)));
                }
                _ => side.record(item),
            }
            ControlFlow::Continue(())
        });
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
        side.ins.values_mut().for_each(|ins| ins.sort_by_key(|entry| entry.time_ns));
        side.identify(file);
        Ok(side)
    }

    fn setup(file: &PerfData<'_>) -> Result<Setup, PtError> {
        let mut info: Option<(u32, Vec<u64>)> = None;
        file.visit(Order::File, |item| match &item.record {
            Record::AuxtraceInfo(aux) => {
                info = Some((aux.type_, aux.private.iter().collect()));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        let (kind, private) = info.ok_or(PtError::NoTrace)?;
        if kind == INTEL_PT { Setup::read(&private, file) } else { Err(PtError::OtherTrace(kind)) }
    }

    /// Mappings told without a build-id have that of the header's table.
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
        let task = item.pid_tid().map(|(pid, tid)| (pid as i32, tid as i32));
        match &item.record {
            Record::Mmap(mmap) => self.mapped(mmap, time_ns),
            Record::Fork(fork) => {
                let (pid, tid, parent) = (fork.pid as i32, fork.tid as i32, fork.ppid as i32);
                self.process_of.insert(tid, pid);
                let name = self.name_of(fork.ptid as i32, time_ns).unwrap_or_default().to_owned();
                self.names.entry(tid).or_default().push((time_ns, name));
                if pid != parent {
                    self.code.forked(pid, parent);
                }
            }
            Record::Comm(comm) => {
                self.process_of.insert(comm.tid as i32, comm.pid as i32);
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
                self.process_of.insert(*tid as i32, *pid as i32);
                self.came_in(item.cpu(), time_ns, (*pid as i32, *tid as i32));
            }
            Record::Switch(switch) => {
                let Some((pid, tid)) = task else { return };
                if switch.out {
                    self.out_since.insert(tid, time_ns);
                } else {
                    self.came_in(item.cpu(), time_ns, (pid, tid));
                    self.was_off(tid, time_ns);
                }
            }
            _ => {}
        }
    }

    /// One thread left a CPU, another came.
    fn switched(&mut self, switch: Switch, time_ns: u64) {
        self.out_since.insert(switch.prev, time_ns);
        self.came_in(switch.cpu, time_ns, (self.process_of(switch.next), switch.next));
        self.was_off(switch.next, time_ns);
    }

    /// A thread is back on a CPU.
    fn was_off(&mut self, tid: i32, time_ns: u64) {
        if let Some(from_ns) = self.out_since.remove(&tid) {
            self.off.entry(tid).or_default().push(OffCpu { from_ns, to_ns: time_ns });
        }
    }

    fn came_in(&mut self, cpu: Option<u32>, time_ns: u64, (pid, tid): (i32, i32)) {
        self.process_of.insert(tid, pid);
        let list = self.ins.entry(cpu.unwrap_or(u32::MAX)).or_default();
        if list.last().is_none_or(|last| (last.pid, last.tid) != (pid, tid)) {
            list.push(In { time_ns, pid, tid });
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

    /// The (process, thread) that runs in buffer `at` at a time; `None` when nothing tells.
    #[must_use]
    pub fn running(&self, at: usize, time_ns: u64) -> Option<(i32, i32)> {
        let buffer = self.buffers.get(at)?;
        if let Some(tid) = buffer.tid {
            return Some((self.process_of.get(&tid).copied().unwrap_or(tid), tid));
        }
        let ins = self.ins.get(&buffer.cpu?)?;
        if !self.setup.joined {
            // No time tells who it was; it can only have been the one who ever ran there.
            let first = ins.first()?;
            return ins.iter().all(|entry| entry.tid == first.tid).then_some((first.pid, first.tid));
        }
        let after = ins.partition_point(|entry| entry.time_ns <= time_ns);
        // The first switch-in may be told a little after the trace begins.
        let entry = ins.get(after.saturating_sub(1))?;
        Some((entry.pid, entry.tid))
    }

    /// A thread's name at a time.
    #[must_use]
    pub fn name_of(&self, tid: i32, time_ns: u64) -> Option<&str> {
        let names = self.names.get(&tid)?;
        let after = names.partition_point(|(from_ns, _)| *from_ns <= time_ns);
        Some(names.get(after.saturating_sub(1))?.1.as_str())
    }

    /// The process of a thread.
    #[must_use]
    pub fn process_of(&self, tid: i32) -> i32 {
        self.process_of.get(&tid).copied().unwrap_or(tid)
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

    /// The code made at run time that lay at an address of a process at a time.
    #[must_use]
    pub fn made_at(&self, pid: i32, ip: u64, time_ns: u64) -> Option<&MadeCode> {
        self.code.made_at(pid, (ip, self.comparable(time_ns)))
    }

    /// Changes of the kernel's own code, in the order of time.
    #[must_use]
    pub fn pokes(&self) -> &[Poke] {
        &self.pokes
    }

    /// The files that runtimes told of their code in, as they were mapped: process and path, each once.
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

    /// Adds the code that a process's runtime told of. Where the times of that can't be compared with the trace's,
    /// code that shares addresses with other code is left out: how many functions.
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

    /// Time a thread spent off the CPU within (`from_ns`, `to_ns`], ns.
    #[must_use]
    pub fn off_cpu_ns(&self, tid: i32, from_ns: u64, to_ns: u64) -> u64 {
        let Some(list) = self.off.get(&tid).filter(|_| self.setup.joined) else { return 0 };
        let first = list.partition_point(|off| off.to_ns <= from_ns);
        list.iter()
            .skip(first)
            .take_while(|off| off.from_ns < to_ns)
            .map(|off| off.to_ns.min(to_ns).saturating_sub(off.from_ns.max(from_ns)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::abi::{
        PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
        PERF_TYPE_TRACEPOINT,
    };
    use perfdata::file::tracing::TracingData;
    use perfdata::record::{Auxtrace, AuxtraceInfo};
    use perfdata::{Attr, AttrFlags, Avma, Event, Features, Sample, SampleId, U64s, Writer, WriterOpts};
    use std::io::Cursor;

    /// A recording of one CPU whose switches are samples of the tracepoint: (time, prev, next).
    fn recording(switches: &[(u64, i32, i32)]) -> Vec<u8> {
        const BITS: u64 =
            PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW | PERF_SAMPLE_IDENTIFIER;
        let flags = AttrFlags(0).with(AttrFlags::SAMPLE_ID_ALL);
        let attr = Attr { sample_type: BITS, flags, ..Attr::default() };
        let events = [(10, 0x401, "intel_pt//u"), (PERF_TYPE_TRACEPOINT, 316, "sched:sched_switch")];
        let events = events.iter().enumerate().map(|(n, (type_, config, name))| Event {
            attr: Attr { type_: *type_, config: *config, ..attr },
            ids: vec![n as u64 + 1],
            name: (*name).to_owned(),
        });
        let mut bytes = Cursor::new(Vec::new());
        let opts = WriterOpts { events: events.collect(), ..WriterOpts::default() };
        let mut writer = Writer::file(&mut bytes, opts).expect("memory");
        let words = [10, 31, 858_993_459, 0, 1, 0x400, 0x800, 1, 0, 1, 0x200, 0x3c000, 200, 2, 2, 25, 0];
        let info = Record::AuxtraceInfo(AuxtraceInfo { type_: INTEL_PT, private: U64s::from(&words[..]) });
        writer.write_record(0, &info, &SampleId::default()).expect("memory");
        for cpu_mode in [CpuMode::Kernel, CpuMode::GuestKernel] {
            let filename = format!("{cpu_mode:?}");
            let kernel = Mmap {
                pid: KERNEL.cast_unsigned(),
                tid: 0,
                addr: Avma(0xffff_ffff_8100_0000),
                len: 0x100_0000,
                pgoff: 0,
                filename: filename.as_bytes(),
                file_id: FileId::None,
                prot_flags: None,
                cpu_mode,
                is_data: false,
                parse_timeout: false,
            };
            writer.write_record(0, &Record::Mmap(kernel), &SampleId::default()).expect("memory");
        }
        for (time_ns, prev, next) in switches {
            let raw = [&316u32.to_ne_bytes()[..], &[0; 4], &prev.to_ne_bytes(), &next.to_ne_bytes()].concat();
            let sample = Sample {
                identifier: Some(2),
                pid_tid: Some((prev.cast_unsigned(), prev.cast_unsigned())),
                time_ns: Some(*time_ns),
                cpu: Some(0),
                raw: Some(&raw),
                ..Sample::default()
            };
            writer.write_record(1, &Record::Sample(sample), &SampleId::default()).expect("memory");
        }
        let nobody = u32::MAX;
        let aux = Auxtrace { offset: 0, reference: 0, idx: 0, tid: nobody, cpu: 0, size: 8, data: &[0; 8] };
        writer.write_auxtrace(&aux).expect("memory");
        let format = "name: sched_switch\nID: 316\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:pid_t next_pid;\toffset:12;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
        let tracing = TracingData {
            version: "0.6".to_owned(),
            long_size: 8,
            page_size: 4096,
            formats: vec![("sched".to_owned(), format.as_bytes().to_vec())],
            ..TracingData::default()
        };
        let features = Features { tracing_data: Some(tracing), ..Features::default() };
        writer.finish(&features, &[]).expect("memory");
        bytes.into_inner()
    }

    #[test]
    fn switches_told_by_the_tracepoint_say_who_runs_and_who_waits() {
        let bytes = recording(&[(100, 0, 7), (200, 7, 8), (350, 8, 7), (400, 7, 0)]);
        let file = PerfData::open(&bytes).expect("just written");
        let side = Sideband::read(&file).expect("it has a trace");
        let runs = |time_ns| side.running(0, time_ns).map(|(_, tid)| tid);
        assert_eq!([150, 250, 360, 500].map(runs), [Some(7), Some(8), Some(7), Some(0)]);
        assert_eq!(side.off_cpu_ns(7, 0, 1000), 150);
        assert_eq!(side.off_cpu_ns(7, 300, 1000), 50);
    }

    #[test]
    fn a_guests_kernel_is_not_this_machines() {
        let bytes = recording(&[(100, 0, 7)]);
        let file = PerfData::open(&bytes).expect("just written");
        let side = Sideband::read(&file).expect("it has a trace");
        let names: Vec<&str> = side.all_code().map(|mapping| mapping.name.as_str()).collect();
        assert_eq!(names, ["Kernel"]);
    }
}
