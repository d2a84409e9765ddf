//! Reading the feature sections.
//
// Layout: a string is u32 len; char s[len], NUL-padded. Each section as in the arm that reads it.

use super::*;
use crate::abi::*;
use crate::file::header::section;
use crate::file::open::{lossy, slice};
use crate::record::{BuildId, Header};
use crate::wire::Wire;
use crate::{Attr, Endian, Error, Event, PerfData};

/// Magic of tally's appendix; a u64 with its size follows.
pub(in crate::file) const APPENDIX_MAGIC: &[u8; 8] = b"TALLYAPX";

/// Reads all feature sections of a file in file mode; their table follows the records.
pub(in crate::file) fn read_sections(file: &mut PerfData<'_>) {
    let (header, endian) = (file.header, file.header.endian);
    // A data size of 0 is that of a recorder that did not come to write its features either.
    if header.data.size == 0 {
        return;
    }
    let table = usize::try_from(header.data.offset.saturating_add(header.data.size)).unwrap_or(usize::MAX);
    let mut w = Wire::new(file.bytes.get(table..).unwrap_or_default(), endian);
    let attrs_end = header.attrs.offset.saturating_add(header.attrs.size);
    let mut end = attrs_end.max((table as u64).saturating_add(header.feature_numbers().count() as u64 * 16));
    for number in header.feature_numbers() {
        let Some(s) = section(&mut w) else {
            file.problems.push(Error::BadFeature { feature: number, offset: table as u64 });
            break;
        };
        let data = slice(file.bytes, s);
        if (data.len() as u64) < s.size || file.features.read(number, data, endian).is_none() {
            file.problems.push(Error::BadFeature { feature: number, offset: s.offset });
            continue;
        }
        end = end.max(s.offset.saturating_add(s.size));
    }
    file.appendix = find_appendix(file.bytes, end, endian);
}

fn find_appendix(bytes: &[u8], end: u64, endian: Endian) -> Option<&[u8]> {
    let mut w = Wire::new(bytes.get(usize::try_from(end).ok()?..)?, endian);
    (w.array()? == *APPENDIX_MAGIC).then_some(())?;
    let size = w.u64()?;
    w.take(size)
}

fn string(w: &mut Wire<'_>) -> Option<String> {
    let len = w.u32()?;
    w.cstr(u64::from(len)).map(lossy)
}

/// `nr` items, each read by `f`. Memory grows with the items in the bytes, not with `nr`.
fn list<T>(nr: u32, w: &mut Wire<'_>, f: impl Fn(&mut Wire<'_>) -> Option<T>) -> Option<Vec<T>> {
    let mut out = Vec::new();
    for _ in 0..nr {
        if w.len() == 0 {
            return None;
        }
        out.push(f(w)?);
    }
    Some(out)
}

fn counted<T>(w: &mut Wire<'_>, f: impl Fn(&mut Wire<'_>) -> Option<T>) -> Option<Vec<T>> {
    let nr = w.u32()?;
    list(nr, w, f)
}

impl Features {
    /// Takes in one section; `None` if it is damaged (what was read of it may stay).
    pub(in crate::file) fn read(&mut self, number: u32, data: &[u8], endian: Endian) -> Option<()> {
        let w = &mut Wire::new(data, endian);
        match number {
            HEADER_TRACING_DATA => self.tracing_data = Some(TracingData::parse(data)?),
            HEADER_BUILD_ID => self.build_ids = read_build_ids(data, endian),
            HEADER_HOSTNAME => self.hostname = Some(string(w)?),
            HEADER_OSRELEASE => self.os_release = Some(string(w)?),
            HEADER_VERSION => self.version = Some(string(w)?),
            HEADER_ARCH => self.arch = Some(string(w)?),
            HEADER_NRCPUS => self.nr_cpus = Some(NrCpus { available: w.u32()?, online: w.u32()? }),
            HEADER_CPUDESC => self.cpu_desc = Some(string(w)?),
            HEADER_CPUID => self.cpu_id = Some(string(w)?),
            HEADER_TOTAL_MEM => self.total_mem_kib = Some(w.u64()?),
            HEADER_CMDLINE => self.cmdline = Some(counted(w, string)?),
            HEADER_EVENT_DESC => self.event_desc = read_event_desc(w)?,
            HEADER_BRANCH_STACK => self.has_branch_stack = true,
            HEADER_STAT => self.is_stat = true,
            HEADER_CPU_TOPOLOGY => self.cpu_topology = Some(read_topology(w, self.nr_cpus)?),
            _ => return self.read_rest(number, w),
        }
        Some(())
    }

    fn read_rest(&mut self, number: u32, w: &mut Wire<'_>) -> Option<()> {
        match number {
            HEADER_NUMA_TOPOLOGY => self.numa_topology = counted(w, read_numa_node)?,
            HEADER_PMU_MAPPINGS => self.pmu_mappings = counted(w, |w| Some((w.u32()?, string(w)?)))?,
            HEADER_GROUP_DESC => {
                self.groups = counted(w, |w| {
                    Some(GroupDesc { name: string(w)?, leader: w.u32()?, members: w.u32()? })
                })?;
            }
            HEADER_AUXTRACE => {
                let nr = w.u64()?.min(w.len() as u64 / 16);
                self.auxtrace_index = (0..nr).map(|_| Some((w.u64()?, w.u64()?))).collect::<Option<_>>()?;
            }
            HEADER_CACHE => {
                let _version = w.u32()?;
                self.caches = counted(w, read_cache)?;
            }
            HEADER_SAMPLE_TIME => self.sample_time_ns = Some((w.u64()?, w.u64()?)),
            HEADER_MEM_TOPOLOGY => self.mem_topology = Some(read_mem_topology(w)?),
            HEADER_CLOCKID => self.clock_resolution_ns = Some(w.u64()?),
            HEADER_DIR_FORMAT => self.dir_format = Some(w.u64()?),
            HEADER_BPF_PROG_INFO => self.bpf_programs = counted(w, read_bpf_program)?,
            HEADER_BPF_BTF => {
                self.bpf_btf = counted(w, |w| {
                    let (id, size) = (w.u32()?, w.u32()?);
                    Some((id, w.take(u64::from(size))?.to_vec()))
                })?;
            }
            HEADER_COMPRESSED => {
                let (version, kind, level) = (w.u32()?, w.u32()?, w.u32()?);
                self.compressed =
                    Some(Compressed { version, kind, level, ratio: w.u32()?, mmap_len: w.u32()? });
            }
            HEADER_CLOCK_DATA => {
                let _version = w.u32()?;
                self.clock_data =
                    Some(ClockData { clockid: w.u32()?, wall_ns: w.u64()?, clock_ns: w.u64()? });
            }
            HEADER_HYBRID_TOPOLOGY => self.hybrid_topology = counted(w, pair)?,
            HEADER_CPU_PMU_CAPS => {
                let caps = counted(w, pair)?;
                self.pmu_caps.push(PmuCaps { pmu: "cpu".into(), caps, is_cpu_feature: true });
            }
            HEADER_PMU_CAPS => {
                let all = counted(w, |w| {
                    // The PMU's name follows its capabilities (write_pmu_caps() of header.c).
                    let nr = w.u32()?;
                    let caps = list(nr, w, pair)?;
                    Some(PmuCaps { pmu: string(w)?, caps, is_cpu_feature: false })
                })?;
                self.pmu_caps.extend(all);
            }
            other => self.other.push((other, w.rest().to_vec())),
        }
        Some(())
    }
}

fn pair(w: &mut Wire<'_>) -> Option<(String, String)> {
    Some((string(w)?, string(w)?))
}

/// A row of records of type `HEADER_BUILD_ID` (old recorders: type 0).
fn read_build_ids(data: &[u8], endian: Endian) -> Vec<BuildIdEntry> {
    let (mut out, mut rest) = (Vec::new(), data);
    while let Some(header) = Header::parse(rest, endian) {
        let size = usize::from(header.size);
        let Some((record, tail)) = rest.split_at_checked(size) else { break };
        let Some(payload) = record.get(Header::SIZE..) else { break };
        if let Some(b) = BuildId::parse(header.misc, &mut Wire::new(payload, endian)) {
            out.push(BuildIdEntry {
                misc: b.misc,
                pid: b.pid,
                build_id: b.build_id.to_vec(),
                filename: b.filename.to_vec(),
            });
        }
        rest = tail;
    }
    out
}

// Layout: u32 nr, attr_size; { perf_event_attr attr (attr_size bytes); u32 nr_ids; string name; u64 ids[nr_ids]; }[nr]
fn read_event_desc(w: &mut Wire<'_>) -> Option<Vec<Event>> {
    let (nr, attr_size) = (w.u32()?, w.u32()?);
    list(nr, w, |w| {
        let attr = Attr::parse(w.take(u64::from(attr_size))?, w.endian())?;
        let nr_ids = w.u32()?;
        let name = string(w)?;
        Some(Event { attr, ids: w.u64s(u64::from(nr_ids))?.iter().collect(), name })
    })
}

// Layout: u32 nr; string core_siblings[nr]; u32 nr; string thread_siblings[nr]; { u32 core, socket; }[cpus];
//         u32 nr; string die_siblings[nr]; u32 die[cpus]; — the last three came later, one by one.
fn read_topology(w: &mut Wire<'_>, nr_cpus: Option<NrCpus>) -> Option<CpuTopology> {
    let mut t = CpuTopology {
        core_siblings: counted(w, string)?,
        thread_siblings: counted(w, string)?,
        ..CpuTopology::default()
    };
    let cpus = nr_cpus.map_or(0, |n| n.available);
    if w.len() < cpus as usize * 8 {
        return Some(t);
    }
    t.cpus = list(cpus, w, |w| Some(CpuPlace { core_id: w.u32()?, die_id: None, socket_id: w.u32()? }))?;
    if w.len() < 4 {
        return Some(t);
    }
    t.die_siblings = counted(w, string)?;
    for cpu in &mut t.cpus {
        cpu.die_id = w.u32();
    }
    Some(t)
}

fn read_numa_node(w: &mut Wire<'_>) -> Option<NumaNode> {
    Some(NumaNode { node: w.u32()?, mem_total_kib: w.u64()?, mem_free_kib: w.u64()?, cpus: string(w)? })
}

fn read_cache(w: &mut Wire<'_>) -> Option<CacheLevel> {
    let (level, line_size, sets, ways) = (w.u32()?, w.u32()?, w.u32()?, w.u32()?);
    Some(CacheLevel { level, line_size, sets, ways, kind: string(w)?, size: string(w)?, cpus: string(w)? })
}

// Layout: u64 version, block_size, nr; { u64 node, size; u64 bits; u64 bitmap[(bits + 63) / 64]; }[nr]
fn read_mem_topology(w: &mut Wire<'_>) -> Option<MemTopology> {
    let (_version, block_size, nr) = (w.u64()?, w.u64()?, w.u64()?);
    let nodes = list(u32::try_from(nr).ok()?, w, |w| {
        let (node, _size, bits) = (w.u64()?, w.u64()?, w.u64()?);
        Some((node, bits, w.u64s(bits.div_ceil(64))?.iter().collect()))
    })?;
    Some(MemTopology { block_size, nodes })
}

// Layout: u32 info_len, data_len; u64 arrays; u8 info[info_len]; u8 data[data_len]
fn read_bpf_program(w: &mut Wire<'_>) -> Option<BpfProgInfo> {
    let (info_len, data_len, arrays) = (w.u32()?, w.u32()?, w.u64()?);
    let info = w.take(u64::from(info_len))?.to_vec();
    Some(BpfProgInfo { info, arrays, data: w.take(u64::from(data_len))?.to_vec() })
}
