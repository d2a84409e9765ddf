//! The header features: what the recording machine and session were.
//
// Source: linux v7.2 tools/perf/util/header.c, the write_*() function of each feature.

use super::tracing::TracingData;

/// All header features, typed. `None` or empty: the file does not have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// `TRACING_DATA`: tracepoint formats.
    pub tracing_data: Option<TracingData>,
    /// `BUILD_ID`: the build-ids of the files that were hit.
    pub build_ids: Vec<BuildIdEntry>,
    /// `HOSTNAME`.
    pub hostname: Option<String>,
    /// `OSRELEASE`: `uname -r`.
    pub os_release: Option<String>,
    /// `VERSION`: of the recorder.
    pub version: Option<String>,
    /// `ARCH`: `uname -m`.
    pub arch: Option<String>,
    /// `NRCPUS`: configured, online (in this order in the file: available first).
    pub nr_cpus: Option<NrCpus>,
    /// `CPUDESC`: model name.
    pub cpu_desc: Option<String>,
    /// `CPUID`: vendor, family, model, stepping.
    pub cpu_id: Option<String>,
    /// `TOTAL_MEM`, in KiB.
    pub total_mem_kib: Option<u64>,
    /// `CMDLINE`: the recorder's arguments.
    pub cmdline: Option<Vec<String>>,
    /// `EVENT_DESC`: the events with names and ids.
    pub event_desc: Vec<crate::Event>,
    /// `CPU_TOPOLOGY`.
    pub cpu_topology: Option<CpuTopology>,
    /// `NUMA_TOPOLOGY`.
    pub numa_topology: Vec<NumaNode>,
    /// `BRANCH_STACK`: there are branch stacks.
    pub has_branch_stack: bool,
    /// `PMU_MAPPINGS`: (type number, PMU name).
    pub pmu_mappings: Vec<(u32, String)>,
    /// `GROUP_DESC`.
    pub groups: Vec<GroupDesc>,
    /// `AUXTRACE`: where the AUXTRACE records are, (file offset, size).
    pub auxtrace_index: Vec<(u64, u64)>,
    /// `STAT`: written by `perf stat record`.
    pub is_stat: bool,
    /// `CACHE`: the CPU's caches.
    pub caches: Vec<CacheLevel>,
    /// `SAMPLE_TIME`: first and last sample, ns.
    pub sample_time_ns: Option<(u64, u64)>,
    /// `MEM_TOPOLOGY`.
    pub mem_topology: Option<MemTopology>,
    /// `CLOCKID`: resolution of the clock in ns.
    pub clock_resolution_ns: Option<u64>,
    /// `DIR_FORMAT`: version of the directory layout.
    pub dir_format: Option<u64>,
    /// `BPF_PROG_INFO`: the loaded BPF programs.
    pub bpf_programs: Vec<BpfProgInfo>,
    /// `BPF_BTF`: (id, BTF data).
    pub bpf_btf: Vec<(u32, Vec<u8>)>,
    /// `COMPRESSED`.
    pub compressed: Option<Compressed>,
    /// `CLOCK_DATA`: relation of the recording's clock to the wall clock.
    pub clock_data: Option<ClockData>,
    /// `HYBRID_TOPOLOGY`: (PMU name, its CPU list).
    pub hybrid_topology: Vec<(String, String)>,
    /// `CPU_PMU_CAPS` and `PMU_CAPS`: capabilities by PMU name (empty for the former).
    pub pmu_caps: Vec<PmuCaps>,
    /// Features with a number unknown here: (number, section bytes).
    pub other: Vec<(u32, Vec<u8>)>,
}

/// `BUILD_ID`: one file that was hit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildIdEntry {
    /// CPU mode as `misc` bits: kernel or user.
    pub misc: u16,
    /// -1 for the host, else the guest's process.
    pub pid: i32,
    /// 20 bytes, or the length given in the file.
    pub build_id: Vec<u8>,
    /// Path.
    pub filename: Vec<u8>,
}

/// `NRCPUS`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NrCpus {
    /// Configured CPUs.
    pub available: u32,
    /// Online CPUs.
    pub online: u32,
}

/// `CPU_TOPOLOGY`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// CPU lists of the sockets (`0-3`).
    pub core_siblings: Vec<String>,
    /// CPU lists of the dies; empty if there is one per socket or the file is older.
    pub die_siblings: Vec<String>,
    /// CPU lists of the cores.
    pub thread_siblings: Vec<String>,
    /// By CPU number; empty in old files.
    pub cpus: Vec<CpuPlace>,
}

/// Where a CPU sits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuPlace {
    /// Core.
    pub core_id: u32,
    /// Die; `None` in older files.
    pub die_id: Option<u32>,
    /// Socket.
    pub socket_id: u32,
}

/// `NUMA_TOPOLOGY`: one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NumaNode {
    /// Node number.
    pub node: u32,
    /// Total memory in KiB.
    pub mem_total_kib: u64,
    /// Free memory in KiB.
    pub mem_free_kib: u64,
    /// CPU list (`0-3`).
    pub cpus: String,
}

/// `GROUP_DESC`: a group of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupDesc {
    /// Name as given by the user.
    pub name: String,
    /// Index of the leader among the events.
    pub leader: u32,
    /// Number of events, leader included.
    pub members: u32,
}

impl GroupDesc {
    /// The user's name; `None` for perf's placeholder.
    #[must_use]
    pub fn given_name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|&name| name != "{anon_group}")
    }
}

/// `CACHE`: one cache of the CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheLevel {
    /// 1, 2, 3 …
    pub level: u32,
    /// Bytes of a line.
    pub line_size: u32,
    /// Sets.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
    /// `Data`, `Instruction`, `Unified`.
    pub kind: String,
    /// Size (`32K`).
    pub size: String,
    /// CPU list.
    pub cpus: String,
}

/// `MEM_TOPOLOGY`: memory blocks of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemTopology {
    /// Bytes of a block.
    pub block_size: u64,
    /// (node, number of bits, bitmap of its blocks).
    pub nodes: Vec<(u64, u64, Vec<u64>)>,
}

/// `BPF_PROG_INFO`: one program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BpfProgInfo {
    /// The kernel's `struct bpf_prog_info`, as recorded.
    pub info: Vec<u8>,
    /// Which arrays of it are in `data` (bits of perf's `enum perf_bpil_array_types`).
    pub arrays: u64,
    /// The arrays, one after the other.
    pub data: Vec<u8>,
}

/// `COMPRESSED`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compressed {
    /// Version of the header, 1.
    pub version: u32,
    /// 1 = zstd.
    pub kind: u32,
    /// zstd level.
    pub level: u32,
    /// Uncompressed by compressed bytes, rounded.
    pub ratio: u32,
    /// Bytes of the ring buffer: the most one compressed record becomes.
    pub mmap_len: u32,
}

/// `CLOCK_DATA`: one moment in two clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockData {
    /// `CLOCK_*` of the recording.
    pub clockid: u32,
    /// Wall clock, ns since 1970.
    pub wall_ns: u64,
    /// The recording's clock, ns.
    pub clock_ns: u64,
}

/// `PMU_CAPS`: what a PMU can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PmuCaps {
    /// PMU name; `cpu` for `CPU_PMU_CAPS`.
    pub pmu: String,
    /// (name, value).
    pub caps: Vec<(String, String)>,
    /// It came from the older `CPU_PMU_CAPS`.
    pub is_cpu_feature: bool,
}

mod bpf;
mod read;
mod write;

pub use bpf::BpfFunction;

pub(super) use read::{APPENDIX_MAGIC, read_sections};
