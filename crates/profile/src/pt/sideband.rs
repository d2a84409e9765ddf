//! What stands beside the trace: buffers, the clock, who ran where, what was mapped.

use std::borrow::Cow;
use std::ops::ControlFlow;

use intelpt::TimeParams;
use perfdata::record::{FileId, Mmap};
use perfdata::{Item, Order, PerfData, Record};
use rustc_hash::FxHashMap;

/// `PERF_AUXTRACE_INTEL_PT`.
const INTEL_PT: u32 = 1;

/// Why a recording's trace can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PtError {
    /// There is no AUXTRACE_INFO record.
    #[error("no processor trace in it: record with -e intel_pt//u on a machine with Intel PT")]
    NoTrace,
    /// The trace is another processor's.
    #[error("its processor trace is of kind {0}, not Intel PT (kind 1)")]
    OtherTrace(u32),
    /// Fields that every version has are missing.
    #[error("its AUXTRACE_INFO record has {0} fields; at least 11 are needed")]
    ShortInfo(usize),
}

/// How TSC values become times of the recording.
// Source: linux tools/perf/util/tsc.c, tsc_to_perf_time().
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscClock {
    /// Right shift of the product.
    pub shift: u32,
    /// Factor.
    pub mult: u64,
    /// Time at TSC 0, ns.
    pub zero_ns: u64,
}

impl TscClock {
    /// The time at a TSC value, ns.
    #[must_use]
    pub fn ns_at(&self, tsc: u64) -> u64 {
        if self.mult == 0 {
            return tsc;
        }
        let (high, low) = (tsc >> self.shift, tsc & ((1 << self.shift) - 1));
        self.zero_ns
            .wrapping_add(high.wrapping_mul(self.mult))
            .wrapping_add(low.wrapping_mul(self.mult) >> self.shift)
    }
}

/// One AUX area's trace, in the order it was written.
#[derive(Clone, Debug, Default)]
pub struct Buffer<'a> {
    /// Its CPU, unless it is a thread's.
    pub cpu: Option<u32>,
    /// Its thread, if it is one's.
    pub tid: Option<i32>,
    /// Pieces: (offset in the stream, bytes), sorted by offset.
    pieces: Vec<(u64, Cow<'a, [u8]>)>,
}

impl<'a> Buffer<'a> {
    /// The trace in one piece: the file's own bytes where it is one there. A piece missing in between shows
    /// as damage, at which the decoder resyncs.
    #[must_use]
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        match self.pieces.as_slice() {
            [] => Cow::default(),
            [(_, only)] => only.clone(),
            pieces => pieces.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect(),
        }
    }
}

/// The trace of an AUXTRACE record: the file's bytes, or a copy where the record was unpacked.
fn data_of<'a>(file: &PerfData<'a>, item: &Item<'_>, data: &[u8]) -> Cow<'a, [u8]> {
    const RECORD_BYTES: u64 = 48;
    let start = usize::try_from(item.offset + RECORD_BYTES).unwrap_or(usize::MAX);
    let end = start.saturating_add(data.len());
    match file.bytes().get(start..end) {
        Some(own) if std::ptr::eq(own.as_ptr(), data.as_ptr()) => Cow::Borrowed(own),
        _ => Cow::Owned(data.to_vec()),
    }
}

/// A thread came onto a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct In {
    time_ns: u64,
    pid: i32,
    tid: i32,
}

/// A mapping of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Offset in the file of `start`.
    pub offset: u64,
    /// The file, or a name in brackets.
    pub name: String,
    /// Its build-id, if recorded.
    pub build_id: Option<Vec<u8>>,
}

/// A process's mappings over time: from this time on, this list. A new space begins when code is replaced.
#[derive(Clone, Debug, Default)]
struct Spaces(Vec<(u64, u32, Vec<CodeMapping>)>);

/// A thread's time off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffCpu {
    from_ns: u64,
    to_ns: u64,
}

/// All of it.
#[derive(Debug)]
pub struct Sideband<'a> {
    /// Clock of the recording.
    pub clock: TscClock,
    /// What the packets' times are made of.
    pub time: TimeParams,
    /// The traces, by CPU or thread.
    pub buffers: Vec<Buffer<'a>>,
    ins: FxHashMap<u32, Vec<In>>,
    off: FxHashMap<i32, Vec<OffCpu>>,
    out_since: FxHashMap<i32, u64>,
    spaces: FxHashMap<i32, Spaces>,
    next_space: u32,
    process_of: FxHashMap<i32, i32>,
}

impl<'a> Sideband<'a> {
    /// Reads all records.
    ///
    /// # Errors
    /// If the recording holds no Intel PT trace that can be understood.
    pub fn read(file: &PerfData<'a>) -> Result<Self, PtError> {
        let mut info: Option<(u32, Vec<u64>)> = None;
        let mut side = Self {
            clock: TscClock { shift: 0, mult: 0, zero_ns: 0 },
            time: TimeParams { tsc_per_ctc: (0, 0), mtc_shift: 0, max_nonturbo_ratio: 0 },
            buffers: Vec::new(),
            ins: FxHashMap::default(),
            off: FxHashMap::default(),
            out_since: FxHashMap::default(),
            spaces: FxHashMap::default(),
            next_space: 1,
            process_of: FxHashMap::default(),
        };
        let mut places: FxHashMap<u32, usize> = FxHashMap::default();
        file.visit(Order::Time, |item| {
            match &item.record {
                Record::AuxtraceInfo(aux) => info = Some((aux.type_, aux.private.iter().collect())),
                Record::Auxtrace(aux) => {
                    let at = *places.entry(aux.idx).or_insert(side.buffers.len());
                    if at == side.buffers.len() {
                        let known = |id: u32| (id != u32::MAX).then_some(id);
                        let tid = known(aux.tid).and_then(|tid| i32::try_from(tid).ok());
                        let cpu = known(aux.cpu).filter(|_| tid.is_none());
                        side.buffers.push(Buffer { cpu, tid, pieces: Vec::new() });
                    }
                    side.buffers[at].pieces.push((aux.offset, data_of(file, item, aux.data)));
                }
                _ => side.record(item),
            }
            ControlFlow::Continue(())
        });
        let (kind, private) = info.ok_or(PtError::NoTrace)?;
        if kind != INTEL_PT {
            return Err(PtError::OtherTrace(kind));
        }
        side.settings(&private, file)?;
        side.buffers.iter_mut().for_each(|buffer| buffer.pieces.sort_by_key(|(offset, _)| *offset));
        side.ins.values_mut().for_each(|ins| ins.sort_by_key(|entry| entry.time_ns));
        Ok(side)
    }

    /// The fields of AUXTRACE_INFO.
    // Source: linux tools/perf/arch/x86/util/intel-pt.c, intel_pt_info_fill(); order of enum in util/intel-pt.h.
    fn settings(&mut self, private: &[u64], file: &PerfData<'_>) -> Result<(), PtError> {
        const PMU_TYPE: usize = 0;
        const TIME_SHIFT: usize = 1;
        const TIME_MULT: usize = 2;
        const TIME_ZERO: usize = 3;
        const MTC_FREQ_BITS: usize = 11;
        const TSC_CTC_N: usize = 12;
        const TSC_CTC_D: usize = 13;
        const MAX_NONTURBO: usize = 15;
        if private.len() < MTC_FREQ_BITS {
            return Err(PtError::ShortInfo(private.len()));
        }
        let field = |at: usize| private.get(at).copied().unwrap_or(0);
        let small = |at: usize| u32::try_from(field(at)).unwrap_or(0);
        self.clock =
            TscClock { shift: small(TIME_SHIFT).min(63), mult: field(TIME_MULT), zero_ns: field(TIME_ZERO) };
        let config = file
            .events()
            .iter()
            .find(|event| u64::from(event.attr.type_) == field(PMU_TYPE))
            .map_or(0, |event| event.attr.config);
        let bits = field(MTC_FREQ_BITS);
        let mtc_shift = if bits == 0 { 0 } else { (config & bits) >> bits.trailing_zeros() };
        self.time = TimeParams {
            tsc_per_ctc: (small(TSC_CTC_N), small(TSC_CTC_D)),
            mtc_shift: u8::try_from(mtc_shift).unwrap_or(0).min(15),
            max_nonturbo_ratio: u8::try_from(field(MAX_NONTURBO)).unwrap_or(0),
        };
        Ok(())
    }

    fn record(&mut self, item: &Item<'_>) {
        let time_ns = item.time_ns().unwrap_or(0);
        let task = item.pid_tid().map(|(pid, tid)| (pid as i32, tid as i32));
        match &item.record {
            Record::Mmap(mmap) => self.mapped(mmap, time_ns),
            Record::Fork(fork) => {
                let (pid, tid, parent) = (fork.pid as i32, fork.tid as i32, fork.ppid as i32);
                self.process_of.insert(tid, pid);
                if pid != parent
                    && let Some(spaces) = self.spaces.get(&parent).cloned()
                {
                    self.spaces.insert(pid, spaces);
                }
            }
            Record::Comm(comm) => {
                self.process_of.insert(comm.tid as i32, comm.pid as i32);
                if comm.exec {
                    self.replaced(comm.pid as i32, time_ns);
                }
            }
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
                    if let Some(from_ns) = self.out_since.remove(&tid) {
                        self.off.entry(tid).or_default().push(OffCpu { from_ns, to_ns: time_ns });
                    }
                }
            }
            _ => {}
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
        if mmap.is_data || mmap.prot_flags.is_some_and(|(prot, _)| prot & PROT_EXEC == 0) {
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
        };
        let fresh = self.next_space;
        let spaces = self.spaces.entry(mmap.pid as i32).or_default();
        let (space, mut list) =
            spaces.0.last().map_or((fresh, Vec::new()), |(_, space, list)| (*space, list.clone()));
        if list.contains(&new) {
            return;
        }
        let end = new.start.saturating_add(new.bytes);
        let before = list.len();
        list.retain(|old| old.start >= end || old.start.saturating_add(old.bytes) <= new.start);
        // Code that is only added leaves what was decoded valid; code that is replaced does not.
        let space = if list.len() < before || space == fresh { fresh } else { space };
        self.next_space = self.next_space.max(space + 1);
        list.push(new);
        spaces.0.push((time_ns, space, list));
    }

    /// exec: all mappings are gone.
    fn replaced(&mut self, pid: i32, time_ns: u64) {
        let space = self.next_space;
        self.next_space += 1;
        self.spaces.entry(pid).or_default().0.push((time_ns, space, Vec::new()));
    }

    /// The (process, thread) that runs in buffer `at` at a time; `None` when nothing tells.
    #[must_use]
    pub fn running(&self, at: usize, time_ns: u64) -> Option<(i32, i32)> {
        let buffer = self.buffers.get(at)?;
        if let Some(tid) = buffer.tid {
            return Some((self.process_of.get(&tid).copied().unwrap_or(tid), tid));
        }
        let ins = self.ins.get(&buffer.cpu?)?;
        let after = ins.partition_point(|entry| entry.time_ns <= time_ns);
        // The first switch-in may be told a little after the trace begins.
        let entry = ins.get(after.saturating_sub(1))?;
        Some((entry.pid, entry.tid))
    }

    /// The space number and code mappings of a process at a time.
    #[must_use]
    pub fn code(&self, pid: i32, time_ns: u64) -> Option<(u32, &[CodeMapping])> {
        let spaces = &self.spaces.get(&pid)?.0;
        let after = spaces.partition_point(|(from_ns, _, _)| *from_ns <= time_ns);
        let (_, space, list) = spaces.get(after.saturating_sub(1))?;
        Some((*space, list))
    }

    /// Every mapping of code, of all processes and times.
    pub fn all_code(&self) -> impl Iterator<Item = &CodeMapping> {
        let mut pids: Vec<_> = self.spaces.iter().collect();
        pids.sort_by_key(|(pid, _)| **pid);
        pids.into_iter().flat_map(|(_, spaces)| spaces.0.iter().flat_map(|(_, _, list)| list))
    }

    /// Time a thread spent off the CPU within (`from_ns`, `to_ns`], ns.
    #[must_use]
    pub fn off_cpu_ns(&self, tid: i32, from_ns: u64, to_ns: u64) -> u64 {
        let Some(list) = self.off.get(&tid) else { return 0 };
        let first = list.partition_point(|off| off.to_ns <= from_ns);
        list.iter()
            .skip(first)
            .take_while(|off| off.from_ns < to_ns)
            .map(|off| off.to_ns.min(to_ns).saturating_sub(off.from_ns.max(from_ns)))
            .sum()
    }
}
