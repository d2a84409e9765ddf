//! Where a CPU sits: socket, die, core, memory node.
//
// Source: linux v6.18 Documentation/admin-guide/cputopology.rst, /sys/devices/system/cpu/cpuN/topology/.

use std::fs;

use dso::system_file;

/// One logical CPU's place in the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CpuPlace {
    /// Physical package.
    pub socket: u32,
    /// Die within the package.
    pub die: u32,
    /// Core within the package.
    pub core: u32,
    /// Memory node.
    pub node: u32,
}

impl CpuPlace {
    /// Topology of logical CPU `cpu` from sysfs; zero where it has no value.
    #[must_use]
    pub fn of(cpu: u32) -> Self {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
        let number = |name: &str| {
            let text = system_file::read_text(format!("{folder}/topology/{name}")).ok()?;
            text.trim().parse::<i64>().ok().and_then(|n| u32::try_from(n).ok())
        };
        Self {
            socket: number("physical_package_id").unwrap_or(0),
            die: number("die_id").unwrap_or(0),
            core: number("core_id").unwrap_or(0),
            node: node_of(&folder).unwrap_or(0),
        }
    }
}

/// The `nodeN` link in the CPU's folder.
fn node_of(folder: &str) -> Option<u32> {
    let names = fs::read_dir(folder).ok()?.flatten().filter_map(|e| e.file_name().into_string().ok());
    names.filter_map(|n| n.strip_prefix("node")?.parse().ok()).next()
}
