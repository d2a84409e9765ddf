//! The features that work here, and for the others the reason and the remedy. Every feature is tried, none is
//! guessed.

use std::io;

use dso::system_file;
use perfdata::abi::*;
use perfdata::{Attr, AttrFlags};

use crate::machine::capabilities::Rights;
use crate::machine::proc;
use crate::machine::refusal::{AccessFacts, AccessRefusal};
use crate::sys::{Counter, CounterPlace, mem};
use tracing::{call_probes, dynamic_events, kernel_calls, off_cpu_tier, processor_trace, tracepoints};

mod names;
mod tracing;

/// Capabilities for all that can be recorded without being root.
const ALL_RIGHTS: [&str; 4] = ["cap_perfmon", "cap_bpf", "cap_sys_ptrace", "cap_syslog"];

/// How well a feature works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// All of it.
    Good,
    /// A lesser form of it.
    Partly,
    /// Not at all.
    No,
}

/// Kinds of features, in the order they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoctorSection {
    /// Possible recordings.
    Recording,
    /// Where names come from.
    Names,
    /// Installed runtimes that make code while they run.
    Runtimes,
    /// Facts that depend on the machine.
    Hardware,
}

/// One feature, tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Kind.
    pub section: DoctorSection,
    /// The feature.
    pub feature: &'static str,
    /// How well it works.
    pub health: Health,
    /// The result, or the replacement in use.
    pub found: String,
    /// Why it is not better; empty if it is good.
    pub why: String,
    /// The remedy; empty if none is needed.
    pub remedy: String,
    /// This user's rights are too few for it: [`best_remedy`] helps.
    pub needs_rights: bool,
}

impl Check {
    fn good(feature: &'static str, found: impl Into<String>) -> Self {
        Self { found: found.into(), ..Self::bad(feature, Health::Good, "", String::new(), String::new()) }
    }

    fn section(self, section: DoctorSection) -> Self {
        Self { section, ..self }
    }

    /// Not better for missing rights, if `is_denied`.
    fn denied(self, is_denied: bool) -> Self {
        Self { needs_rights: is_denied, ..self }
    }

    /// Result for a refused event that is allowed at kernel.perf_event_paranoid `enough`; `instead` is the
    /// replacement for it.
    fn refused(feature: &'static str, instead: &str, error: &io::Error, enough: i64) -> Self {
        let (why, remedy) = perf_refused(error, enough);
        let is_filtered = Rights::own().filters_perf;
        let instead = if is_filtered { "" } else { instead };
        Self::bad(feature, Health::No, instead, why, remedy).denied(!is_filtered)
    }

    fn bad(feature: &'static str, health: Health, found: &str, why: String, remedy: String) -> Self {
        let (section, found) = (DoctorSection::Recording, found.to_owned());
        Self { section, feature, health, found, why, remedy, needs_rights: false }
    }
}

/// Tries everything. Takes about half a second, most of it for loading the BPF programs.
#[must_use]
pub fn examine() -> Vec<Check> {
    let mut checks = vec![
        user_samples(),
        kernel_samples(),
        system_wide(),
        other_processes(),
        off_cpu_tier(),
        call_probes(),
        kernel_calls(),
        tracepoints(),
        dynamic_events("uprobes", "uprobe"),
        dynamic_events("kprobes", "kprobe"),
        locked_memory(),
        kernel_symbols().section(DoctorSection::Names),
        names::debug_files(),
    ];
    checks.extend(names::runtimes());
    checks.extend([hardware(), processor_trace()].map(|check| check.section(DoctorSection::Hardware)));
    checks
}

/// The one command that gives this user most of the missing features; `None` if rights are not missing.
#[must_use]
pub fn best_remedy(checks: &[Check]) -> Option<String> {
    checks.iter().any(|check| check.needs_rights).then(|| Rights::own().shortest_remedy(&ALL_RIGHTS))
}

fn clock(exclude_kernel: bool) -> Attr {
    let mut attr = Attr { type_: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_CPU_CLOCK, ..Attr::default() };
    attr.sample_period = 1_000_000;
    attr.flags.set(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV, exclude_kernel);
    attr.flags.set(AttrFlags::DISABLED, true);
    attr
}

fn open(attr: &Attr, place: CounterPlace<'_>) -> io::Result<Counter> {
    Counter::open(&attr.to_bytes(), place)
}

/// Why an event was refused, and what opens the door for it.
fn perf_refused(error: &io::Error, enough: i64) -> (String, String) {
    let level = proc::sysctl("kernel/perf_event_paranoid");
    if let Some(remedy) = Rights::own().of_filtered_perf(level, enough) {
        return (format!("perf_event_open: {error}, by a seccomp filter"), remedy);
    }
    if let Some(AccessRefusal { why, remedy }) = AccessFacts::own().of_module("perf_event_open", enough) {
        return (format!("perf_event_open: {error}; {why}"), remedy);
    }
    let level = level.map_or_else(|| "unreadable".to_owned(), |level| level.to_string());
    (format!("perf_event_open: {error}; kernel.perf_event_paranoid is {level}"), perf_remedy(enough))
}

fn perf_remedy(enough: i64) -> String {
    let sysctl = format!("as root: sysctl kernel.perf_event_paranoid={enough}");
    Rights::own().remedy(&ALL_RIGHTS, Some(&sysctl))
}

fn hardware() -> Check {
    let mut attr = clock(true);
    (attr.type_, attr.config) = (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
    match open(&attr, CounterPlace::task(0)) {
        Ok(_) => Check::good("hardware counters", "cycles"),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
            Check::refused("hardware counters", "", &error, 2)
        }
        Err(error) => Check::bad(
            "hardware counters",
            Health::Partly,
            "cpu-clock samples instead of cycles",
            format!("the machine offers none ({error})"),
            "on a virtual machine: ask for a vPMU (KVM: -cpu host,pmu=on)".to_owned(),
        ),
    }
}

fn user_samples() -> Check {
    match open(&clock(true), CounterPlace::task(0)) {
        Ok(_) => Check::good("samples of user code", "own processes"),
        Err(error) => Check::refused("samples of user code", "", &error, 2),
    }
}

fn kernel_samples() -> Check {
    match open(&clock(false), CounterPlace::task(0)) {
        Ok(_) => Check::good("samples of the kernel", "in callchains"),
        Err(error) => Check::refused("samples of the kernel", "user space only", &error, 1),
    }
}

fn system_wide() -> Check {
    match open(&clock(false), CounterPlace::cpu(proc::online_cpus().first().copied().unwrap_or(0))) {
        Ok(_) => Check::good("whole system (-a)", "all processes"),
        Err(error) => Check::refused("whole system (-a)", "own processes only", &error, 0),
    }
}

fn kernel_symbols() -> Check {
    let text = system_file::read_text("/proc/kallsyms").unwrap_or_default();
    let known = text
        .lines()
        .take(100)
        .any(|line| !line.starts_with("0000000000000000") && !line.starts_with("00000000 "));
    if known {
        return Check::good("kernel symbols", "/proc/kallsyms");
    }
    let level = proc::sysctl("kernel/kptr_restrict");
    let paranoid = proc::sysctl("kernel/perf_event_paranoid");
    let (why, remedy) = kallsyms_remedy(level, paranoid);
    Check::bad("kernel symbols", Health::No, "kernel functions stay without names", why, remedy)
        .denied(mem::effective_uid() != 0 && level.is_none_or(|level| level < 2))
}

/// Why the addresses are hidden. With kptr_restrict 0 they are shown to those who may sample the kernel.
// Source: linux v6.18 kernel/ksyms_common.c, kallsyms_show_value()
fn kallsyms_remedy(restrict: Option<i64>, paranoid: Option<i64>) -> (String, String) {
    let shown = |level: Option<i64>| level.map_or_else(|| "?".to_owned(), |level| level.to_string());
    let (by_restrict, by_paranoid) =
        (restrict.is_none_or(|level| level > 0), paranoid.is_none_or(|level| level > 1));
    let mut sysctls = String::new();
    if by_restrict {
        sysctls += " kernel.kptr_restrict=0";
    }
    if by_paranoid {
        sysctls += " kernel.perf_event_paranoid=1";
    }
    let why = format!(
        "/proc/kallsyms hides its addresses: kernel.kptr_restrict is {}, kernel.perf_event_paranoid {}",
        shown(restrict),
        shown(paranoid)
    );
    let remedy = match (restrict, sysctls.as_str()) {
        (Some(2..), _) => format!("as root: sysctl{sysctls} (with kptr_restrict=2 nobody sees them)"),
        (_, "") => "run as root, or: setcap cap_syslog=ep tally".to_owned(),
        _ => format!("run as root, or: setcap cap_syslog=ep tally, or as root: sysctl{sysctls}"),
    };
    (why, remedy)
}

fn locked_memory() -> Check {
    let kib = proc::sysctl("kernel/perf_event_mlock_kb").unwrap_or(516);
    if mem::effective_uid() == 0 || kib >= 516 {
        return Check::good("ring buffers", format!("{kib} KiB a CPU and user (kernel.perf_event_mlock_kb)"));
    }
    let why = format!("kernel.perf_event_mlock_kb is {kib}");
    Check::bad(
        "ring buffers",
        Health::Partly,
        "small rings lose samples",
        why,
        "as root: sysctl kernel.perf_event_mlock_kb=8192".to_owned(),
    )
}

fn other_processes() -> Check {
    if system_file::read_text("/proc/1/maps").is_ok() {
        return Check::good("processes of others", "/proc/PID/maps is readable");
    }
    let (instead, why, remedy) = if Rights::own().may_trace() {
        let remedy = "check the ptrace restrictions of the container, the security module and that process";
        ("all but those that are protected", "/proc/1/maps can't be read even with CAP_SYS_PTRACE", remedy)
    } else {
        let remedy = "run as root, or: setcap cap_sys_ptrace=ep tally";
        ("own processes only", "/proc/1/maps can't be read", remedy)
    };
    let is_denied = !Rights::own().may_trace();
    Check::bad("processes of others", Health::Partly, instead, why.to_owned(), remedy.to_owned())
        .denied(is_denied)
}

/// Bytes of a reason shown.
const MAX_REASON: usize = 400;

/// The text without the verifier's log, and without the remedy, which is shown separately.
fn short(text: &str) -> String {
    let line = text.split(" | ").next().unwrap_or(text);
    let line = line.split(": in docker").next().unwrap_or(line);
    if line.len() <= MAX_REASON {
        return line.to_owned();
    }
    let end = (0..=MAX_REASON).rev().find(|&at| line.as_bytes().get(at) == Some(&b' ')).unwrap_or(0);
    format!("{} ...", &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_end_between_words() {
        assert_eq!(short("BPF load of x: denied | log | log: in docker"), "BPF load of x: denied");
        let long = short(&"wörd ".repeat(200));
        assert!(long.len() <= MAX_REASON + 4 && long.ends_with("wörd ..."), "{long}");
    }

    #[test]
    fn the_remedy_for_hidden_symbols_names_each_sysctl_that_hides_them() {
        let remedy = |restrict, paranoid| kallsyms_remedy(Some(restrict), Some(paranoid)).1;
        assert!(remedy(0, 2).ends_with("sysctl kernel.perf_event_paranoid=1"));
        assert!(remedy(1, 2).ends_with("sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"));
        assert!(remedy(1, -1).ends_with("sysctl kernel.kptr_restrict=0"));
        assert!(!remedy(2, 1).contains("cap_syslog"));
    }
}
