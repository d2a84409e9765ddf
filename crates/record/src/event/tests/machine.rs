//! A machine of the tests' own: files of sysfs and tracefs in memory.

use std::collections::BTreeMap;
use std::io;

use super::super::*;

/// A machine with the PMUs `cpu` and `uncore_imc_0/1` and a few tracepoints.
pub(super) struct Machine(BTreeMap<&'static str, &'static str>);

pub(super) fn machine() -> Machine {
    Machine(BTreeMap::from([
        ("pmu/cpu/type", "4\n"),
        ("pmu/cpu/format/event", "config:0-7,32-35\n"),
        ("pmu/cpu/format/umask", "config:8-15\n"),
        ("pmu/cpu/format/edge", "config:18\n"),
        ("pmu/cpu/format/ldlat", "config1:0-15\n"),
        ("pmu/cpu/format/frontend", "config2:0-63\n"),
        ("pmu/cpu/format/acr", "config3:4\n"),
        ("pmu/cpu/events/cpu-cycles", "event=0x76\n"),
        ("pmu/cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("pmu/power/type", "17\n"),
        ("pmu/power/cpumask", "0,4-5\n"),
        ("pmu/power/format/event", "config:0-7\n"),
        ("pmu/power/events/energy-pkg", "event=0x02\n"),
        ("pmu/power/events/energy-pkg.unit", "Joules\n"),
        ("pmu/power/events/energy-pkg.scale", "2.3283064365386962890625e-10\n"),
        ("pmu/uncore_imc_0/type", "20\n"),
        ("pmu/uncore_imc_1/type", "21\n"),
        ("pmu/uncore_imc_0/format/event", "config:0-7\n"),
        ("pmu/uncore_imc_1/format/event", "config:0-7\n"),
        ("pmu/intel_pt/type", "8\n"),
        ("pmu/intel_pt/format/pt", "config:0\n"),
        ("pmu/intel_pt/format/cyc", "config:1\n"),
        ("pmu/intel_pt/format/mtc", "config:9\n"),
        ("pmu/intel_pt/format/tsc", "config:10\n"),
        ("pmu/intel_pt/format/noretcomp", "config:11\n"),
        ("pmu/intel_pt/format/branch", "config:13\n"),
        ("pmu/intel_pt/format/mtc_period", "config:14-17\n"),
        ("pmu/intel_pt/format/psb_period", "config:24-27\n"),
        ("pmu/intel_pt/caps/mtc", "1\n"),
        ("pmu/intel_pt/caps/mtc_periods", "249\n"),
        ("pmu/intel_pt/caps/psb_cyc", "1\n"),
        ("pmu/intel_pt/caps/psb_periods", "3f\n"),
        ("pmu/intel_pt/max_nonturbo_ratio", "25\n"),
        ("trace/sched/sched_switch/id", "316\n"),
        ("trace/sched/sched_wakeup/id", "318\n"),
        ("trace/block/block_rq_issue/id", "900\n"),
        ("trace/block/block_rq_complete/id", "901\n"),
    ]))
}

impl Machine {
    pub(super) fn read(&self, path: &str) -> io::Result<String> {
        self.0.get(path).map(|s| (*s).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let folder = format!("{}/", folder.trim_end_matches('/'));
        let names = self.0.keys().filter_map(|k| k.strip_prefix(&folder)?.split('/').next());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.dedup();
        Ok(names)
    }
}

impl EventSource for Machine {
    fn read_pmu(&self, path: &str) -> io::Result<String> {
        self.read(&format!("pmu/{path}"))
    }
    fn list_pmu(&self, path: &str) -> io::Result<Vec<String>> {
        self.list(&format!("pmu/{path}"))
    }
    fn read_tracefs(&self, path: &str) -> io::Result<String> {
        self.read(&format!("trace/{path}"))
    }
    fn list_tracefs(&self, path: &str) -> io::Result<Vec<String>> {
        self.list(&format!("trace/{path}"))
    }
}
