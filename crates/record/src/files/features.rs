//! The header of a file: which machine, which kernel, which command, which files were seen.

use std::fs;

use dso::system_file;
use perfdata::abi::{PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER, PERF_TYPE_TRACEPOINT};
use perfdata::file::features::{BuildIdEntry, ClockData, CpuPlace, CpuTopology, GroupDesc, NrCpus, NumaNode};
use perfdata::file::tracing::TracingData;
use perfdata::{Event, Features};

use crate::machine::objects::SeenObject;
use crate::machine::proc;
use crate::session::opts::{Output, RecordOpts};
use crate::sys::time::Clock;

/// The features known when the recording begins.
#[must_use]
pub fn of_machine(opts: &RecordOpts, events: &[Event]) -> Features {
    let read = |path: &str| system_file::read_text(path).ok().map(|t| t.trim().to_owned());
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let cpus = proc::online_cpus();
    let present =
        read("/sys/devices/system/cpu/present").and_then(|t| crate::open::target::parse_cpu_list(&t));
    let available = present.map_or(cpus.len(), |p| p.len());
    let clock_ns = opts.clock.now_ns();
    let has_clock = opts.clock != Clock::Perf;
    Features {
        hostname: read("/proc/sys/kernel/hostname"),
        os_release: read("/proc/sys/kernel/osrelease"),
        version: Some(concat!("tally ", env!("CARGO_PKG_VERSION")).to_owned()),
        arch: Some(std::env::consts::ARCH.to_owned()),
        nr_cpus: Some(NrCpus { available: available as u32, online: cpus.len() as u32 }),
        cpu_desc: cpu_field(&cpuinfo, "model name").map(str::to_owned),
        cpu_id: cpu_id(&cpuinfo),
        total_mem_kib: read("/proc/meminfo").and_then(|t| mem_total_kib(&t)),
        cmdline: (!opts.file.command_line.is_empty()).then(|| opts.file.command_line.clone()),
        event_desc: events.to_vec(),
        cpu_topology: Some(cpu_topology(&cpus)),
        numa_topology: numa_nodes(),
        pmu_mappings: pmu_mappings(),
        groups: groups(opts),
        tracing_data: tracing_data(events),
        has_branch_stack: opts.extra.branches != 0,
        clock_resolution_ns: has_clock.then_some(1),
        clock_data: has_clock.then_some(ClockData {
            clockid: opts.clock.id().cast_unsigned(),
            wall_ns: Clock::Realtime.now_ns(),
            clock_ns,
        }),
        ..Features::default()
    }
}

/// The files of a recording.
#[derive(Debug, Clone, Copy)]
pub struct SeenFiles<'a> {
    /// Mapped by the processes.
    pub objects: &'a [SeenObject],
    /// The kernel was sampled: it counts as one of them.
    pub with_kernel: bool,
}

/// The features known when a file is complete: also the files seen, and the times of its first and last sample in ns.
/// None where there is no file.
#[must_use]
pub fn at_end(
    opts: &RecordOpts,
    events: &[Event],
    seen: SeenFiles<'_>,
    sample_time_ns: Option<(u64, u64)>,
) -> Features {
    if opts.file.output == Output::Discard {
        return Features::default();
    }
    let mut features = of_machine(opts, events);
    features.sample_time_ns = sample_time_ns;
    if !opts.file.no_build_ids {
        features.build_ids = build_ids(seen);
    }
    features
}

/// The build-ids of the files seen and of the kernel.
#[must_use]
pub fn build_ids(seen: SeenFiles<'_>) -> Vec<BuildIdEntry> {
    let user = seen.objects.iter().map(|o| BuildIdEntry {
        misc: PERF_RECORD_MISC_USER,
        pid: -1,
        build_id: o.build_id.as_bytes().to_vec(),
        filename: o.name.to_vec(),
    });
    let kernel = dso::elf::kernel_build_id().filter(|_| seen.with_kernel).map(|id| BuildIdEntry {
        misc: PERF_RECORD_MISC_KERNEL,
        pid: -1,
        build_id: id.as_bytes().to_vec(),
        filename: b"[kernel.kallsyms]".to_vec(),
    });
    kernel.into_iter().chain(user).collect()
}

fn cpu_field<'t>(cpuinfo: &'t str, key: &str) -> Option<&'t str> {
    let of = |line: &'t str| line.split_once(':').filter(|(k, _)| k.trim() == key).map(|(_, v)| v.trim());
    cpuinfo.lines().find_map(of)
}

/// "vendor,family,model,stepping" in perf's format; x86 only.
fn cpu_id(cpuinfo: &str) -> Option<String> {
    let parts = ["vendor_id", "cpu family", "model", "stepping"].map(|key| cpu_field(cpuinfo, key));
    let parts: Option<Vec<&str>> = parts.into_iter().collect();
    Some(parts?.join(","))
}

fn mem_total_kib(meminfo: &str) -> Option<u64> {
    meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn cpu_topology(cpus: &[u32]) -> CpuTopology {
    let read = |cpu: u32, file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        system_file::read_text(path).ok().map(|t| t.trim().to_owned())
    };
    let lists = |file: &str| {
        let mut all: Vec<String> = cpus.iter().filter_map(|&c| read(c, file)).collect();
        let mut seen = std::collections::HashSet::new();
        all.retain(|l| seen.insert(l.clone()));
        all
    };
    let number = |cpu, file: &str| read(cpu, file).and_then(|t| t.parse::<i64>().ok());
    let unsigned = |cpu, file: &str| number(cpu, file).and_then(|n| u32::try_from(n).ok());
    CpuTopology {
        core_siblings: lists("package_cpus_list"),
        die_siblings: lists("die_cpus_list"),
        thread_siblings: lists("core_cpus_list"),
        cpus: cpus
            .iter()
            .map(|&c| CpuPlace {
                core_id: unsigned(c, "core_id").unwrap_or(0),
                die_id: Some(unsigned(c, "die_id").unwrap_or(0)),
                socket_id: unsigned(c, "physical_package_id").unwrap_or(0),
            })
            .collect(),
    }
}

fn numa_nodes() -> Vec<NumaNode> {
    let root = "/sys/devices/system/node";
    let online = system_file::read_text(format!("{root}/online")).ok();
    let nodes = online.and_then(|t| crate::open::target::parse_cpu_list(&t)).unwrap_or_default();
    let of = |node: u32| {
        let info = system_file::read_text(format!("{root}/node{node}/meminfo")).ok()?;
        let kib = |key: &str| {
            let line = info.lines().find(|l| l.contains(key))?;
            line.rsplit(':').next()?.trim().strip_suffix(" kB")?.trim().parse().ok()
        };
        let cpus = system_file::read_text(format!("{root}/node{node}/cpulist")).ok()?.trim().to_owned();
        Some(NumaNode { node, mem_total_kib: kib("MemTotal")?, mem_free_kib: kib("MemFree")?, cpus })
    };
    nodes.into_iter().filter_map(of).collect()
}

fn pmu_mappings() -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/sys/bus/event_source/devices") else { return Vec::new() };
    let of = |entry: fs::DirEntry| {
        let kind = system_file::read_text(entry.path().join("type")).ok()?.trim().parse().ok()?;
        Some((kind, entry.file_name().to_str()?.to_owned()))
    };
    let mut found: Vec<(u32, String)> = entries.filter_map(|e| of(e.ok()?)).collect();
    found.sort();
    found
}

/// The formats of the tracepoints among the events, as tracefs gives them; `None` without tracepoints.
fn tracing_data(events: &[Event]) -> Option<TracingData> {
    let root = crate::event::tracefs();
    let read = |path: &str| system_file::read_by_large_pieces(root.join(path)).unwrap_or_default();
    let format = |event: &Event| {
        let (system, name) = event.name.split_once(':')?;
        let name = name.split([':', '/']).next()?;
        Some((
            system.to_owned(),
            system_file::read(root.join(format!("events/{system}/{name}/format"))).ok()?,
        ))
    };
    let mut formats: Vec<(String, Vec<u8>)> =
        events.iter().filter(|e| e.attr.type_ == PERF_TYPE_TRACEPOINT).filter_map(format).collect();
    formats.sort();
    formats.dedup();
    (!formats.is_empty()).then(|| TracingData {
        version: "0.6".to_owned(),
        big_endian: cfg!(target_endian = "big"),
        long_size: size_of::<libc::c_long>() as u8,
        page_size: crate::sys::mem::page_bytes() as u32,
        header_page: read("events/header_page"),
        header_event: read("events/header_event"),
        ftrace_formats: Vec::new(),
        formats,
        kallsyms: Vec::new(),
        printk_formats: read("printk_formats"),
        saved_cmdlines: read("saved_cmdlines"),
    })
}

fn groups(opts: &RecordOpts) -> Vec<GroupDesc> {
    let members = |leader: usize| opts.events.iter().filter(|e| e.leader == Some(leader)).count() as u32;
    (0..opts.events.len())
        .filter(|&i| opts.events[i].leader.is_none() && members(i) > 0)
        .map(|i| GroupDesc { name: "{anon_group}".to_owned(), leader: i as u32, members: members(i) + 1 })
        .collect()
}
