//! Writing the feature sections, in the layouts `read` documents.

use super::*;
use crate::abi::*;
use crate::file::encode::attr_size;
use crate::record::{BuildId, Header};
use crate::wire::Put;
use crate::{Endian, Event};

/// Takes a feature's number, whether it is there, and what writes it.
type Add<'f> = &'f mut dyn FnMut(u32, bool, &dyn Fn(&mut Put));

/// perf pads strings to a multiple of this.
const NAME_ALIGN: usize = 64;

fn string(p: &mut Put, s: &str) {
    let len = (s.len() + 1).next_multiple_of(NAME_ALIGN);
    p.u32(u32::try_from(len).unwrap_or(u32::MAX));
    p.raw(s.as_bytes());
    p.bytes.resize(p.bytes.len() + len - s.len(), 0);
}

fn count32(p: &mut Put, n: usize) {
    p.u32(u32::try_from(n).unwrap_or(u32::MAX));
}

fn strings(p: &mut Put, list: &[String]) {
    count32(p, list.len());
    list.iter().for_each(|s| string(p, s));
}

fn pairs(p: &mut Put, list: &[(String, String)]) {
    for (a, b) in list {
        string(p, a);
        string(p, b);
    }
}

impl Features {
    /// (number, section bytes) of every feature that is there, ascending, in this machine's byte order.
    pub(in crate::file) fn sections(&self) -> Vec<(u32, Vec<u8>)> {
        let mut all = Vec::new();
        let mut add = |number: u32, present: bool, f: &dyn Fn(&mut Put)| {
            if present {
                let mut p = Put::new(Endian::NATIVE);
                f(&mut p);
                all.push((number, p.bytes));
            }
        };
        let text = |s: &Option<String>| {
            let s = s.clone().unwrap_or_default();
            move |p: &mut Put| string(p, &s)
        };
        if let Some(t) = &self.tracing_data {
            add(HEADER_TRACING_DATA, true, &|p| p.raw(&t.to_bytes()));
        }
        add(HEADER_BUILD_ID, !self.build_ids.is_empty(), &|p| write_build_ids(&self.build_ids, p));
        add(HEADER_HOSTNAME, self.hostname.is_some(), &text(&self.hostname));
        add(HEADER_OSRELEASE, self.os_release.is_some(), &text(&self.os_release));
        add(HEADER_VERSION, self.version.is_some(), &text(&self.version));
        add(HEADER_ARCH, self.arch.is_some(), &text(&self.arch));
        if let Some(n) = self.nr_cpus {
            add(HEADER_NRCPUS, true, &|p| {
                p.u32(n.available);
                p.u32(n.online);
            });
        }
        add(HEADER_CPUDESC, self.cpu_desc.is_some(), &text(&self.cpu_desc));
        add(HEADER_CPUID, self.cpu_id.is_some(), &text(&self.cpu_id));
        add(HEADER_TOTAL_MEM, self.total_mem_kib.is_some(), &|p| p.u64(self.total_mem_kib.unwrap_or(0)));
        if let Some(args) = &self.cmdline {
            add(HEADER_CMDLINE, true, &|p| strings(p, args));
        }
        add(HEADER_EVENT_DESC, !self.event_desc.is_empty(), &|p| write_event_desc(&self.event_desc, p));
        if let Some(t) = &self.cpu_topology {
            add(HEADER_CPU_TOPOLOGY, true, &|p| write_topology(t, p));
        }
        add(HEADER_NUMA_TOPOLOGY, !self.numa_topology.is_empty(), &|p| write_numa(&self.numa_topology, p));
        add(HEADER_BRANCH_STACK, self.has_branch_stack, &|_| {});
        self.add_rest(&mut add);
        all
    }

    fn add_rest(&self, add: Add<'_>) {
        add(HEADER_PMU_MAPPINGS, !self.pmu_mappings.is_empty(), &|p| {
            count32(p, self.pmu_mappings.len());
            for (type_, name) in &self.pmu_mappings {
                p.u32(*type_);
                string(p, name);
            }
        });
        add(HEADER_GROUP_DESC, !self.groups.is_empty(), &|p| {
            count32(p, self.groups.len());
            for g in &self.groups {
                string(p, &g.name);
                p.u32(g.leader);
                p.u32(g.members);
            }
        });
        add(HEADER_AUXTRACE, !self.auxtrace_index.is_empty(), &|p| {
            p.count(self.auxtrace_index.len());
            for (offset, size) in &self.auxtrace_index {
                p.u64(*offset);
                p.u64(*size);
            }
        });
        add(HEADER_STAT, self.is_stat, &|_| {});
        add(HEADER_CACHE, !self.caches.is_empty(), &|p| write_caches(&self.caches, p));
        if let Some((first, last)) = self.sample_time_ns {
            add(HEADER_SAMPLE_TIME, true, &|p| {
                p.u64(first);
                p.u64(last);
            });
        }
        if let Some(m) = &self.mem_topology {
            add(HEADER_MEM_TOPOLOGY, true, &|p| write_mem_topology(m, p));
        }
        add(HEADER_CLOCKID, self.clock_resolution_ns.is_some(), &|p| {
            p.u64(self.clock_resolution_ns.unwrap_or(0))
        });
        add(HEADER_DIR_FORMAT, self.dir_format.is_some(), &|p| p.u64(self.dir_format.unwrap_or(0)));
        add(HEADER_BPF_PROG_INFO, !self.bpf_programs.is_empty(), &|p| {
            write_bpf_programs(&self.bpf_programs, p)
        });
        add(HEADER_BPF_BTF, !self.bpf_btf.is_empty(), &|p| {
            count32(p, self.bpf_btf.len());
            for (id, data) in &self.bpf_btf {
                p.u32(*id);
                count32(p, data.len());
                p.raw(data);
            }
        });
        self.add_newest(add);
    }

    fn add_newest(&self, add: Add<'_>) {
        if let Some(c) = self.compressed {
            add(HEADER_COMPRESSED, true, &|p| {
                [c.version, c.kind, c.level, c.ratio, c.mmap_len].into_iter().for_each(|v| p.u32(v));
            });
        }
        let (cpu_caps, pmu_caps): (Vec<_>, Vec<_>) = self.pmu_caps.iter().partition(|c| c.is_cpu_feature);
        for c in cpu_caps.iter().take(1) {
            add(HEADER_CPU_PMU_CAPS, true, &|p| {
                count32(p, c.caps.len());
                pairs(p, &c.caps);
            });
        }
        if let Some(c) = self.clock_data {
            add(HEADER_CLOCK_DATA, true, &|p| {
                p.u32(1);
                p.u32(c.clockid);
                p.u64(c.wall_ns);
                p.u64(c.clock_ns);
            });
        }
        add(HEADER_HYBRID_TOPOLOGY, !self.hybrid_topology.is_empty(), &|p| {
            count32(p, self.hybrid_topology.len());
            pairs(p, &self.hybrid_topology);
        });
        add(HEADER_PMU_CAPS, !pmu_caps.is_empty(), &|p| {
            count32(p, pmu_caps.len());
            for c in &pmu_caps {
                count32(p, c.caps.len());
                pairs(p, &c.caps);
                string(p, &c.pmu);
            }
        });
        for (number, data) in &self.other {
            add(*number, true, &|p| p.raw(data));
        }
    }
}

fn write_build_ids(list: &[BuildIdEntry], p: &mut Put) {
    for entry in list {
        let mut body = Put::new(p.endian);
        let b = BuildId {
            misc: entry.misc,
            pid: entry.pid,
            build_id: &entry.build_id,
            filename: &entry.filename,
        };
        b.write(&mut body);
        p.u32(PERF_RECORD_HEADER_BUILD_ID);
        p.u16(entry.misc | crate::record::PERF_RECORD_MISC_BUILD_ID_SIZE);
        p.u16(u16::try_from(body.bytes.len() + Header::SIZE).unwrap_or(u16::MAX));
        p.raw(&body.bytes);
    }
}

fn write_event_desc(events: &[Event], p: &mut Put) {
    let size = attr_size(events);
    count32(p, events.len());
    p.u32(size);
    for e in events {
        p.raw(&e.attr.to_bytes_sized(size, p.endian));
        count32(p, e.ids.len());
        string(p, &e.name);
        e.ids.iter().for_each(|id| p.u64(*id));
    }
}

fn write_topology(t: &CpuTopology, p: &mut Put) {
    strings(p, &t.core_siblings);
    strings(p, &t.thread_siblings);
    for cpu in &t.cpus {
        p.u32(cpu.core_id);
        p.u32(cpu.socket_id);
    }
    if t.die_siblings.is_empty() {
        return;
    }
    strings(p, &t.die_siblings);
    for cpu in &t.cpus {
        p.u32(cpu.die_id.unwrap_or_default());
    }
}

fn write_numa(nodes: &[NumaNode], p: &mut Put) {
    count32(p, nodes.len());
    for n in nodes {
        p.u32(n.node);
        p.u64(n.mem_total_kib);
        p.u64(n.mem_free_kib);
        string(p, &n.cpus);
    }
}

fn write_caches(caches: &[CacheLevel], p: &mut Put) {
    p.u32(1);
    count32(p, caches.len());
    for c in caches {
        [c.level, c.line_size, c.sets, c.ways].into_iter().for_each(|v| p.u32(v));
        [&c.kind, &c.size, &c.cpus].into_iter().for_each(|s| string(p, s));
    }
}

fn write_mem_topology(m: &MemTopology, p: &mut Put) {
    p.u64(1);
    p.u64(m.block_size);
    p.count(m.nodes.len());
    for (node, bits, words) in &m.nodes {
        [*node, *bits, *bits].into_iter().for_each(|v| p.u64(v));
        words.iter().for_each(|w| p.u64(*w));
    }
}

fn write_bpf_programs(list: &[BpfProgInfo], p: &mut Put) {
    count32(p, list.len());
    for b in list {
        count32(p, b.info.len());
        count32(p, b.data.len());
        p.u64(b.arrays);
        p.raw(&b.info);
        p.raw(&b.data);
    }
}
