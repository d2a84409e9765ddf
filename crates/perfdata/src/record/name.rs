//! Names of the record types.
//
// Source: linux v6.1 tools/perf/util/event.c, perf_event__names[]; newer kernel types as `enum perf_event_type` spells them.

/// Names of the kernel's record types from 1 on, as perf writes them.
const OF_KERNEL: [&str; 21] = [
    "MMAP",
    "LOST",
    "COMM",
    "EXIT",
    "THROTTLE",
    "UNTHROTTLE",
    "FORK",
    "READ",
    "SAMPLE",
    "MMAP2",
    "AUX",
    "ITRACE_START",
    "LOST_SAMPLES",
    "SWITCH",
    "SWITCH_CPU_WIDE",
    "NAMESPACES",
    "KSYMBOL",
    "BPF_EVENT",
    "CGROUP",
    "TEXT_POKE",
    "AUX_OUTPUT_HW_ID",
];

/// Names of perf's own record types from 64 on.
const OF_PERF: [&str; 19] = [
    "ATTR",
    "EVENT_TYPE",
    "TRACING_DATA",
    "BUILD_ID",
    "FINISHED_ROUND",
    "ID_INDEX",
    "AUXTRACE_INFO",
    "AUXTRACE",
    "AUXTRACE_ERROR",
    "THREAD_MAP",
    "CPU_MAP",
    "STAT_CONFIG",
    "STAT",
    "STAT_ROUND",
    "EVENT_UPDATE",
    "TIME_CONV",
    "FEATURE",
    "COMPRESSED",
    "FINISHED_INIT",
];

/// The name of record type `kind` as perf writes it in its statistics; `None` if it is not known here.
#[must_use]
pub fn type_name(kind: u32) -> Option<&'static str> {
    let (names, first): (&[&str], u32) = if kind < 64 { (&OF_KERNEL, 1) } else { (&OF_PERF, 64) };
    names.get(usize::try_from(kind.checked_sub(first)?).ok()?).copied()
}
