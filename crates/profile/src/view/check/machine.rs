//! Facts of a machine that its runs depend on.

use perfdata::Features;

/// The machine of some runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Model of the CPU, as the kernel names it; empty if unknown.
    pub cpu: String,
    /// Release of the kernel; empty if unknown.
    pub kernel: String,
    /// Number of CPUs online; 0 if unknown.
    pub cpus: u32,
}

/// A fact in which two machines differ: before, now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineDifference {
    /// Model of the CPU.
    Cpu(String, String),
    /// Release of the kernel.
    Kernel(String, String),
    /// Number of CPUs online.
    CpuCount(u32, u32),
}

impl MachineFacts {
    /// The machine in a recording's header.
    #[must_use]
    pub fn of_features(features: &Features) -> Self {
        Self {
            cpu: features.cpu_desc.clone().or_else(|| features.arch.clone()).unwrap_or_default(),
            kernel: features.os_release.clone().unwrap_or_default(),
            cpus: features.nr_cpus.map_or(0, |cpus| cpus.online),
        }
    }

    /// The facts that differ. Unknown facts don't.
    #[must_use]
    pub fn differences(baseline: &Self, now: &Self) -> Vec<MachineDifference> {
        let differ = |old: &str, new: &str| !old.is_empty() && !new.is_empty() && old != new;
        let mut all = Vec::new();
        if differ(&baseline.cpu, &now.cpu) {
            all.push(MachineDifference::Cpu(baseline.cpu.clone(), now.cpu.clone()));
        }
        if differ(&baseline.kernel, &now.kernel) {
            all.push(MachineDifference::Kernel(baseline.kernel.clone(), now.kernel.clone()));
        }
        if baseline.cpus != now.cpus && baseline.cpus > 0 && now.cpus > 0 {
            all.push(MachineDifference::CpuCount(baseline.cpus, now.cpus));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_facts_differ() {
        let facts = |cpu: &str, cpus| MachineFacts { cpu: cpu.into(), kernel: "6.1".into(), cpus };
        assert_eq!(MachineFacts::differences(&facts("A", 2), &facts("A", 2)), []);
        assert_eq!(MachineFacts::differences(&facts("", 0), &facts("A", 2)), []);
        let differences = MachineFacts::differences(&facts("A", 2), &facts("B", 4));
        let (cpu, count) =
            (MachineDifference::Cpu("A".into(), "B".into()), MachineDifference::CpuCount(2, 4));
        assert_eq!(differences, [cpu, count]);
    }
}
