//! Where a CPU sits: socket, die, core, memory node.
//
// Source: linux v6.18 Documentation/admin-guide/cputopology.rst, /sys/devices/system/cpu/cpuN/topology/.

use std::fs;

use counts::CpuPlace;
use dso::system_file;

/// Topology of logical CPU `cpu` from sysfs; zero where it has no value.
#[must_use]
pub fn cpu_place(cpu: u32) -> CpuPlace {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
    let number = |name: &str| {
        let text = system_file::read_text(format!("{folder}/topology/{name}")).ok()?;
        text.trim().parse::<i64>().ok().and_then(|n| u32::try_from(n).ok())
    };
    CpuPlace {
        socket: number("physical_package_id").unwrap_or(0),
        die: number("die_id").unwrap_or(0),
        core: number("core_id").unwrap_or(0),
        node: node_of(&folder).unwrap_or(0),
    }
}

/// The `nodeN` link in the CPU's folder.
fn node_of(folder: &str) -> Option<u32> {
    let names = fs::read_dir(folder).ok()?.flatten().filter_map(|e| e.file_name().into_string().ok());
    names.filter_map(|n| n.strip_prefix("node")?.parse().ok()).next()
}
