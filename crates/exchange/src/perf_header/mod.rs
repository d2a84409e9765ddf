//! The header of a recording as `report --header` prints it: machine, command, events.
//
// Source: linux v6.1 tools/perf/util/header.c and perf_event_attr_fprintf.c print this form.

pub mod attr;
pub mod date;
mod layout;

use crate::foreign::harmless;
use display::number::seconds;
use perfdata::{Event, PerfData, ReadMode, abi};
use std::fmt::Write as _;

/// Names of the header features by number, from 1.
const FEATURES: [&str; 31] = [
    "TRACING_DATA",
    "BUILD_ID",
    "HOSTNAME",
    "OSRELEASE",
    "VERSION",
    "ARCH",
    "NRCPUS",
    "CPUDESC",
    "CPUID",
    "TOTAL_MEM",
    "CMDLINE",
    "EVENT_DESC",
    "CPU_TOPOLOGY",
    "NUMA_TOPOLOGY",
    "BRANCH_STACK",
    "PMU_MAPPINGS",
    "GROUP_DESC",
    "AUXTRACE",
    "STAT",
    "CACHE",
    "SAMPLE_TIME",
    "MEM_TOPOLOGY",
    "CLOCKID",
    "DIR_FORMAT",
    "BPF_PROG_INFO",
    "BPF_BTF",
    "COMPRESSED",
    "CPU_PMU_CAPS",
    "CLOCK_DATA",
    "HYBRID_TOPOLOGY",
    "PMU_CAPS",
];

/// End of the header.
const END: &str = "# ========\n#\n";

/// How much of a header is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderExtent {
    /// Features of many lines by their name only.
    Short,
    /// All of it: processors, caches, memory nodes.
    Full,
}

/// The header's lines, each with `# `. `written` is when the file was, in seconds since 1970.
pub fn text(file: &PerfData<'_>, written: Option<u64>, extent: HeaderExtent) -> String {
    let mut lines = Lines { text: "# ========\n".to_owned(), extent };
    lines.place(file, written);
    lines.machine(file);
    lines.events(file);
    lines.layout(file);
    lines.rest(file);
    if file.mode() == ReadMode::File {
        let there: Vec<u32> = file.header().feature_numbers().collect();
        let missing = (1u32..).zip(FEATURES).filter(|(number, _)| !there.contains(number));
        let missing: String = missing.map(|(_, name)| format!("{name} ")).collect();
        if !missing.is_empty() {
            lines.line("missing features", &missing);
        }
    }
    if file.mode() == ReadMode::File {
        lines.text.push_str(END);
    }
    lines.text
}

struct Lines {
    text: String,
    extent: HeaderExtent,
}

impl Lines {
    fn line(&mut self, what: &str, value: &str) {
        // perf is not of one mind about the blank.
        let tight = ["features", "capabilities", "mappings"].iter().any(|end| what.ends_with(end));
        let separator = if tight { ": " } else { " : " };
        let _ = writeln!(self.text, "# {what}{separator}{}", harmless(value));
    }

    fn some(&mut self, what: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.line(what, value);
        }
    }

    fn place(&mut self, file: &PerfData<'_>, written: Option<u64>) {
        if let Some(seconds) = written {
            self.line("captured on   ", &date::utc(seconds));
        }
        let is_file = file.mode() == ReadMode::File;
        let data = file.header().data;
        let (offset, size) = if is_file { (data.offset, data.size) } else { (0, 0) };
        self.line("header version", "1");
        self.line("data offset   ", &offset.to_string());
        self.line("data size     ", &size.to_string());
        self.line("feat offset   ", &offset.saturating_add(size).to_string());
        if !is_file {
            // Features come as records, after the header.
            self.text.push_str(END);
        }
    }

    fn machine(&mut self, file: &PerfData<'_>) {
        let features = file.features();
        self.some("hostname", features.hostname.as_ref());
        self.some("os release", features.os_release.as_ref());
        self.some("perf version", features.version.as_ref());
        self.some("arch", features.arch.as_ref());
        if let Some(cpus) = features.nr_cpus {
            self.line("nrcpus online", &cpus.online.to_string());
            self.line("nrcpus avail", &cpus.available.to_string());
        }
        self.some("cpudesc", features.cpu_desc.as_ref());
        self.some("cpuid", features.cpu_id.as_ref());
        if let Some(kib) = features.total_mem_kib {
            self.line("total memory", &format!("{kib} kB"));
        }
        if let Some(words) = &features.cmdline {
            self.line("cmdline", &words.iter().map(|word| format!("{word} ")).collect::<String>());
        }
    }

    fn events(&mut self, file: &PerfData<'_>) {
        let described = &file.features().event_desc;
        // In a pipe, perf has no header to take them from.
        let in_header = if file.mode() == ReadMode::File { file.events() } else { &[] };
        let events = if described.is_empty() { in_header } else { described };
        for event in events {
            self.line("event", &event_text(event));
        }
    }

    /// Note that perf shows with `-I` only.
    fn layout(&mut self, file: &PerfData<'_>) {
        let features = file.features();
        if let Some(topology) = &features.cpu_topology {
            self.full_only("CPU_TOPOLOGY", |lines| lines.topology(topology));
        }
        if !features.numa_topology.is_empty() {
            self.full_only("NUMA_TOPOLOGY", |lines| {
                for node in &features.numa_topology {
                    let (total, free) = (node.mem_total_kib, node.mem_free_kib);
                    let memory = format!("{total} kB, free = {free} kB");
                    lines.line(&format!("node{} meminfo ", node.node), &format!("total = {memory}"));
                    lines.line(&format!("node{} cpu list", node.node), &node.cpus);
                }
            });
        }
    }

    fn full_only(&mut self, name: &str, print: impl FnOnce(&mut Self)) {
        if self.extent == HeaderExtent::Full {
            print(self);
        } else {
            let _ = writeln!(self.text, "# {name} info available, use -I to display");
        }
    }

    fn rest(&mut self, file: &PerfData<'_>) {
        let features = file.features();
        if features.has_branch_stack {
            self.text.push_str("# contains samples with branch stack\n");
        }
        if !features.pmu_mappings.is_empty() {
            let pmus = features.pmu_mappings.iter().map(|(number, name)| format!("{name} = {number}"));
            self.line("pmu mappings", &pmus.collect::<Vec<_>>().join(", "));
        }
        self.groups(file);
        if !features.auxtrace_index.is_empty() {
            self.text.push_str("# contains AUX area data (e.g. instruction trace)\n");
        }
        if features.is_stat {
            self.text.push_str("# contains stat data\n");
        }
        if !features.caches.is_empty() {
            self.full_only("CACHE", |lines| {
                lines.text.push_str("# CPU cache info:\n");
                for cache in &features.caches {
                    let kind =
                        format!("L{} {:<15} {:>8} [{}]", cache.level, cache.kind, cache.size, cache.cpus);
                    let _ = writeln!(lines.text, "#  {kind}");
                }
            });
        }
        if let Some((first, last)) = features.sample_time_ns {
            self.line("time of first sample", &seconds(first));
            self.line("time of last sample", &seconds(last));
            self.line("sample duration", &format!("{:10.3} ms", last.saturating_sub(first) as f64 / 1e6));
        }
        if let Some(memory) = &features.mem_topology {
            self.full_only("MEM_TOPOLOGY", |lines| lines.memory_blocks(memory));
        }
        if let Some(resolution) = features.clock_resolution_ns {
            // perf's arithmetic: 1 ns is 1000 MHz, and so is 1 kHz for it.
            let _ = writeln!(self.text, "# clockid frequency: {} MHz", resolution.saturating_mul(1000));
        }
        self.bpf_programs(features, file.header().endian);
        if let Some(packed) = features.compressed {
            let kind = if packed.kind == 1 { "Zstd" } else { "Unknown" };
            self.line("compressed", &format!("{kind}, level = {}, ratio = {}", packed.level, packed.ratio));
        }
        self.clock(features);
        if !features.hybrid_topology.is_empty() {
            self.full_only("HYBRID_TOPOLOGY", |lines| {
                lines.text.push_str("# hybrid cpu system:\n");
                for (pmu, cpus) in &features.hybrid_topology {
                    let _ = writeln!(lines.text, "# {pmu} cpu list : {cpus}");
                }
            });
        }
        for pmu in &features.pmu_caps {
            let caps: Vec<String> = pmu.caps.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let caps = if caps.is_empty() { "not available".to_owned() } else { caps.join(", ") };
            self.line(&format!("{} pmu capabilities", pmu.pmu), &caps);
        }
    }

    fn groups(&mut self, file: &PerfData<'_>) {
        for group in &file.features().groups {
            let members = file.events().iter().skip(group.leader as usize).take(group.members as usize);
            let members: Vec<&str> = members.map(|event| event.name.as_str()).collect();
            let name = group.given_name().unwrap_or_default();
            let _ = writeln!(self.text, "# group: {}{{{}}}", harmless(name), harmless(&members.join(",")));
        }
    }
}

/// `name = cycles, , id = { 1, 2 }, size = 128, …`, perf's odd comma included.
fn event_text(event: &Event) -> String {
    let mut text = format!("name = {}, ", event.name);
    if !event.ids.is_empty() {
        let ids: Vec<String> = event.ids.iter().map(u64::to_string).collect();
        let _ = write!(text, ", id = {{ {} }}", ids.join(", "));
    }
    for (name, value) in attr::fields(&event.attr) {
        let _ = write!(text, ", {name} = {value}");
    }
    text
}

const _: () = assert!(FEATURES.len() == abi::HEADER_PMU_CAPS as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_as_in_perf() {
        let mut attr = perfdata::Attr {
            size: 128,
            sample_period: 4000,
            sample_type: 0x107,
            ..perfdata::Attr::default()
        };
        attr.flags.set(perfdata::AttrFlags::FREQ, true);
        attr.read_format = abi::PERF_FORMAT_ID;
        let event = Event { name: "cycles".to_owned(), ids: vec![180, 181], attr };
        assert_eq!(
            event_text(&event),
            "name = cycles, , id = { 180, 181 }, size = 128, { sample_period, sample_freq } = 4000, \
             sample_type = IP|TID|TIME|PERIOD, read_format = ID, freq = 1"
        );
    }
}
