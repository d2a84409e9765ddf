//! User records that list CPUs, threads, ids, counters and clock parameters.
//
// Layout: CPU_MAP { u16 type; CPUS 0: u16 nr, cpu[nr]; MASK 1: u16 nr, long_size; [4 bytes pad if 8] mask[nr];
//                   RANGE 2: u8 any_cpu, pad; u16 start, end; } (packed)
//         THREAD_MAP { u64 nr; { u64 pid; char comm[16]; }[nr]; }
//         ID_INDEX { u64 nr; { u64 id, idx, cpu, tid; }[nr]; { u64 machine_pid, vcpu; }[nr]; }
//         STAT { u64 id; u32 cpu, thread; u64 val, ena, run; }
//         TIME_CONV { u64 shift, mult, zero; u64 cycles, mask; u8 cap_zero, cap_short; }
// Source: linux v7.2 tools/lib/perf/include/perf/event.h.

use crate::wire::{Put, Wire, until_nul};

/// The most CPUs a map is expanded to: Linux' own limit is 8192.
const MAX_CPUS: usize = 1 << 16;

/// A set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuMap {
    /// CPU numbers in the record's order; 0xffff means "any CPU".
    pub cpus: Vec<u16>,
}

impl CpuMap {
    pub(super) fn parse(w: &mut Wire<'_>) -> Option<Self> {
        let cpus = match w.u16()? {
            0 => {
                let nr = w.u16()?;
                (0..nr).map(|_| w.u16()).collect::<Option<Vec<_>>>()?
            }
            1 => parse_mask(w)?,
            2 => {
                let any = w.u8()? != 0;
                w.u8()?;
                let (start, end) = (w.u16()?, w.u16()?);
                any.then_some(u16::MAX).into_iter().chain(start..=end).collect()
            }
            _ => return None,
        };
        Some(CpuMap { cpus })
    }

    pub(super) fn write(&self, p: &mut Put) {
        let nr = u16::try_from(self.cpus.len()).unwrap_or(u16::MAX);
        p.u16(0);
        p.u16(nr);
        for cpu in self.cpus.iter().take(usize::from(nr)) {
            p.u16(*cpu);
        }
        p.pad(8);
    }
}

fn parse_mask(w: &mut Wire<'_>) -> Option<Vec<u16>> {
    let (nr, long_size) = (w.u16()?, w.u16()?);
    if long_size == 8 {
        w.take(4)?;
    }
    let bits = u32::from(long_size) * 8;
    let mut cpus = Vec::new();
    for word in 0..u32::from(nr) {
        let mask = if long_size == 8 { w.u64()? } else { u64::from(w.u32()?) };
        let set = (0..bits.min(64)).filter(|bit| mask >> bit & 1 != 0);
        cpus.extend(set.filter_map(|bit| u16::try_from(word * bits + bit).ok()));
        if cpus.len() > MAX_CPUS {
            return None;
        }
    }
    Some(cpus)
}

/// One thread of a [`super::super::Record::ThreadMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadMapEntry<'a> {
    /// Thread; -1 (all ones) for "any".
    pub tid: u64,
    /// Name.
    pub comm: &'a [u8],
}

pub(super) fn parse_thread_map<'a>(w: &mut Wire<'a>) -> Option<Vec<ThreadMapEntry<'a>>> {
    let nr = w.u64()?.min(w.len() as u64 / 24);
    (0..nr).map(|_| Some(ThreadMapEntry { tid: w.u64()?, comm: w.cstr(16)? })).collect()
}

pub(super) fn write_thread_map(entries: &[ThreadMapEntry<'_>], p: &mut Put) {
    p.count(entries.len());
    for e in entries {
        p.u64(e.tid);
        let comm = until_nul(e.comm);
        let comm = comm.get(..15).unwrap_or(comm);
        p.raw(comm);
        p.bytes.resize(p.bytes.len() + 16 - comm.len(), 0);
    }
}

/// Which id belongs to which CPU and thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdIndexEntry {
    /// Event id.
    pub id: u64,
    /// Which ring.
    pub idx: u64,
    /// CPU, or -1 (all ones).
    pub cpu: u64,
    /// Thread, or -1 (all ones).
    pub tid: u64,
}

pub(super) fn parse_id_index(w: &mut Wire<'_>) -> Option<Vec<IdIndexEntry>> {
    let nr = w.u64()?.min(w.len() as u64 / 32);
    (0..nr)
        .map(|_| Some(IdIndexEntry { id: w.u64()?, idx: w.u64()?, cpu: w.u64()?, tid: w.u64()? }))
        .collect()
}

pub(super) fn write_id_index(entries: &[IdIndexEntry], p: &mut Put) {
    p.count(entries.len());
    for e in entries {
        for v in [e.id, e.idx, e.cpu, e.tid] {
            p.u64(v);
        }
    }
}

pub(super) fn parse_stat_config(w: &mut Wire<'_>) -> Option<Vec<(u64, u64)>> {
    let nr = w.u64()?.min(w.len() as u64 / 16);
    (0..nr).map(|_| Some((w.u64()?, w.u64()?))).collect()
}

pub(super) fn write_stat_config(entries: &[(u64, u64)], p: &mut Put) {
    p.count(entries.len());
    for (tag, value) in entries {
        p.u64(*tag);
        p.u64(*value);
    }
}

/// One counter of `perf stat record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Event id.
    pub id: u64,
    /// Index of the CPU in the CPU map.
    pub cpu: u32,
    /// Index of the thread in the thread map.
    pub thread: u32,
    /// The count.
    pub value: u64,
    /// Time enabled, ns.
    pub enabled_ns: u64,
    /// Time on the PMU, ns.
    pub running_ns: u64,
}

impl Stat {
    pub(super) fn parse(w: &mut Wire<'_>) -> Option<Self> {
        let (id, cpu, thread) = (w.u64()?, w.u32()?, w.u32()?);
        Some(Stat { id, cpu, thread, value: w.u64()?, enabled_ns: w.u64()?, running_ns: w.u64()? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u64(self.id);
        p.u32(self.cpu);
        p.u32(self.thread);
        for v in [self.value, self.enabled_ns, self.running_ns] {
            p.u64(v);
        }
    }
}

/// End of an interval of `perf stat record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatRound {
    /// 0 = an interval, 1 = the end.
    pub kind: u64,
    /// Since the start, ns.
    pub time_ns: u64,
}

/// How TSC ticks become ns: `ns = zero + (tsc * mult >> shift)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeConv {
    /// Shift.
    pub shift: u64,
    /// Multiplier.
    pub mult: u64,
    /// ns at TSC 0.
    pub zero_ns: u64,
    /// Cycles and mask for short counters; `None` in older files.
    pub cycles_mask: Option<(u64, u64)>,
    /// `cap_user_time_zero` and `cap_user_time_short`.
    pub caps: (bool, bool),
}

impl TimeConv {
    pub(super) fn parse(w: &mut Wire<'_>) -> Option<Self> {
        let mut t = TimeConv { shift: w.u64()?, mult: w.u64()?, zero_ns: w.u64()?, ..TimeConv::default() };
        if w.len() >= 18 {
            t.cycles_mask = Some((w.u64()?, w.u64()?));
            t.caps = (w.u8()? != 0, w.u8()? != 0);
        }
        Some(t)
    }

    pub(super) fn write(&self, p: &mut Put) {
        for v in [self.shift, self.mult, self.zero_ns] {
            p.u64(v);
        }
        if let Some((cycles, mask)) = self.cycles_mask {
            p.u64(cycles);
            p.u64(mask);
            p.raw(&[u8::from(self.caps.0), u8::from(self.caps.1)]);
            p.pad(8);
        }
    }
}
