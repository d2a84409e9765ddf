//! The lines of a header on the machine's layout and on BPF programs: most of them only with `-I`.

use super::{Lines, date, seconds};
use crate::foreign::harmless;
use perfdata::Endian;
use perfdata::file::features::{CpuTopology, Features, MemTopology};
use profile::view::ranking::RankRows as _;
use std::fmt::Write as _;

impl Lines {
    pub(super) fn topology(&mut self, topology: &CpuTopology) {
        topology.core_siblings.iter().for_each(|list| self.line("sibling sockets", list));
        topology.die_siblings.iter().for_each(|list| self.line("sibling dies   ", list));
        topology.thread_siblings.iter().for_each(|list| self.line("sibling threads", list));
        if topology.cpus.is_empty() {
            self.text.push_str("# Core ID and Socket ID information is not available\n");
        }
        for (number, cpu) in topology.cpus.iter().enumerate() {
            let (core, socket) = (cpu.core_id, cpu.socket_id);
            let die = cpu.die_id.map_or_else(String::new, |die| format!(" Die ID {die},"));
            let _ = writeln!(self.text, "# CPU {number}: Core ID {core},{die} Socket ID {socket}");
        }
    }

    pub(super) fn memory_blocks(&mut self, memory: &MemTopology) {
        let (count, block) = (memory.nodes.len(), memory.block_size);
        let _ = writeln!(self.text, "# memory nodes (nr {count}, block size {block:#x}):");
        for (node, bits, blocks) in &memory.nodes {
            let set: Vec<u64> = (0..*bits)
                .filter(|bit| blocks.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1))
                .collect();
            let size = whole_units(block.saturating_mul(set.len() as u64));
            let _ = writeln!(self.text, "#  {node:3} [{size}]: {}", ranges(&set));
        }
    }

    pub(super) fn bpf_programs(&mut self, features: &Features, endian: Endian) {
        let mut programs: Vec<_> =
            features.bpf_programs.iter().filter_map(|info| Some((info.id(endian)?, info))).collect();
        programs.rank_by_key(|(id, _)| *id);
        for (id, info) in programs {
            let btf_id = info.btf_id(endian);
            let btf = features.bpf_btf.iter().find(|(id, _)| *id == btf_id && btf_id != 0);
            let Some(functions) = info.functions(btf.map(|(_, btf)| btf.as_slice()), endian) else {
                continue;
            };
            let texts: Vec<String> = functions
                .iter()
                .map(|of| format!("{} addr {:#x} size {}", harmless(&of.name), of.address, of.size))
                .collect();
            match texts.as_slice() {
                [only] => {
                    let _ = writeln!(self.text, "# bpf_prog_info {id}: {only}");
                }
                several => {
                    let _ = writeln!(self.text, "# bpf_prog_info {id}:");
                    for (at, text) in several.iter().enumerate() {
                        let _ = writeln!(self.text, "# \tsub_prog {at}: {text}");
                    }
                }
            }
        }
        let mut ids: Vec<u32> = features.bpf_btf.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        for id in ids {
            let _ = writeln!(self.text, "# btf info of id {id}");
        }
    }

    pub(super) fn clock(&mut self, features: &Features) {
        let Some(clock) = features.clock_data else { return };
        let name = match clock.clockid {
            0 => "realtime",
            1 => "monotonic",
            4 => "monotonic_raw",
            7 => "boottime",
            11 => "tai",
            _ => "(not found)",
        };
        let (wall, at) = (seconds(clock.wall_ns), clock.clock_ns);
        let date = date::iso_utc(clock.wall_ns / 1_000_000_000);
        let micros = clock.wall_ns % 1_000_000_000 / 1000;
        let at = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
        let _ = writeln!(self.text, "# clockid: {name} ({})", clock.clockid);
        let _ = writeln!(self.text, "# reference time: {date}.{micros:06} = {wall} (TOD) = {at} ({name})");
    }
}

/// Bytes in the largest unit that leaves more than one of it, cut.
fn whole_units(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes, 0);
    while value / 1024 > 1 && unit < 3 {
        value /= 1024;
        unit += 1;
    }
    format!("{value}{}", ["B", "K", "M", "G"][unit])
}

/// `0-23,32` of ascending numbers.
fn ranges(numbers: &[u64]) -> String {
    let parts = numbers.chunk_by(|a, b| a + 1 == *b).filter_map(|run| match run {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::HeaderExtent;
    use super::*;

    #[test]
    fn memory_reads_as_in_perf() {
        let mut lines = Lines { text: String::new(), extent: HeaderExtent::Full };
        let blocks = vec![0xffff_ffff_00ff_ffff, 1];
        lines.memory_blocks(&MemTopology { block_size: 0x800_0000, nodes: vec![(0, 65, blocks)] });
        let expected = "# memory nodes (nr 1, block size 0x8000000):\n#    0 [7G]: 0-23,32-64\n";
        assert_eq!(lines.text, expected);
    }
}
