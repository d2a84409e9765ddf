//! The PMU `intel_pt` as sysfs describes it.

use crate::event::EventSource;
use crate::sys::time;

/// Description of the PMU in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PtPmu {
    /// `attr.type`.
    pub type_: u32,
    /// Bits of `attr.config` that ask for TSC, MTC and CYC packets, and against compressed returns; 0 where the
    /// processor has none.
    pub tsc: u64,
    /// See `tsc`.
    pub mtc: u64,
    /// See `tsc`.
    pub cyc: u64,
    /// See `tsc`.
    pub noretcomp: u64,
    /// Bits of the MTC packets' distance.
    pub mtc_period: u64,
    /// TSC ticks are crystal clocks × the first / the second (CPUID 15H: EBX, EAX); zeros where the CPU doesn't
    /// report it.
    pub tsc_per_crystal: (u32, u32),
    /// Ratio of TSC to bus clock; 0 if unknown.
    pub max_nonturbo_ratio: u64,
    /// Events such as interrupts can be traced.
    pub event_trace: bool,
}

impl PtPmu {
    /// `None` where the PMU doesn't exist.
    #[must_use]
    pub fn read(source: &dyn EventSource) -> Option<Self> {
        let entry = |path: &str| source.read_pmu(&format!("intel_pt/{path}")).ok();
        let number = |path: &str| entry(path)?.trim().parse().ok();
        let bits = |name: &str| entry(&format!("format/{name}")).map_or(0, |text| bits_of(&text));
        Some(Self {
            type_: entry("type")?.trim().parse().ok()?,
            tsc: bits("tsc"),
            mtc: bits("mtc"),
            cyc: bits("cyc"),
            noretcomp: bits("noretcomp"),
            mtc_period: bits("mtc_period"),
            tsc_per_crystal: time::tsc_per_crystal(),
            max_nonturbo_ratio: number("max_nonturbo_ratio").unwrap_or(0),
            event_trace: number("caps/event_trace").unwrap_or(0u64) != 0,
        })
    }
}

/// The bits of `config:14-17`.
fn bits_of(text: &str) -> u64 {
    let ranges = text.trim().strip_prefix("config:").unwrap_or("");
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < 64).then(|| (u64::MAX >> (63 - last)) & (u64::MAX << first))
    };
    ranges.split(',').filter_map(range).fold(0, |all, bits| all | bits)
}

#[cfg(test)]
mod tests {
    use super::bits_of;

    #[test]
    fn fields_are_masks() {
        assert_eq!(bits_of("config:10\n"), 0x400);
        assert_eq!(bits_of("config:14-17\n"), 0x3c000);
        assert_eq!(bits_of("config:0-63"), u64::MAX);
        assert_eq!(bits_of("config1:3"), 0);
        assert_eq!(bits_of("config:9-70"), 0);
    }
}
