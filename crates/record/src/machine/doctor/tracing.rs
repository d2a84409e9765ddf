//! State of tracing: tracepoints, time off the CPU, probes, Processor Trace, traced calls.

use std::io;
use std::path::Path;

use dso::unwind::Regs;
use dso::{Machine, system_file};
use perfdata::abi::*;
use perfdata::{Attr, AttrFlags};

use super::{Check, Health, clock, open, perf_refused, short};
use crate::event::{SystemSource, mounted_tracefs, tracefs};
use crate::machine::capabilities::Rights;
use crate::machine::{capabilities, proc};
use crate::sys::bpf_error::Error as BpfError;
use crate::sys::{Counter, CounterPlace, mem};
use crate::{calls, off_cpu};

fn tracepoint_id(name: &str) -> io::Result<u64> {
    let text = system_file::read_text(tracefs().join("events").join(name).join("id"))?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

fn open_tracepoint(name: &str) -> io::Result<Counter> {
    let mut attr = clock(false);
    (attr.type_, attr.config, attr.sample_period) = (PERF_TYPE_TRACEPOINT, tracepoint_id(name)?, 1);
    open(&attr, CounterPlace::task(0))
}

pub(super) fn tracepoints() -> Check {
    let error = match open_tracepoint("sched/sched_switch") {
        Ok(_) => return Check::good("tracepoints", "sched:sched_switch"),
        Err(error) => error,
    };
    let (why, remedy) = match (mounted_tracefs(), tracepoint_id("sched/sched_switch")) {
        (None, Err(_)) => (
            "tracefs is not mounted".to_owned(),
            "as root: mount -t tracefs tracefs /sys/kernel/tracing".to_owned(),
        ),
        (Some(at), Err(error)) => (
            format!("{at} is mounted, but this user can't read the ids in it ({error})"),
            format!(
                "run as root, or as root: mount -o remount,mode=750,gid=YOUR_GROUP {at} and sysctl \
                 kernel.perf_event_paranoid=-1 (or: setcap cap_perfmon=ep tally)"
            ),
        ),
        (_, Ok(_)) => perf_refused(&error, -1),
    };
    Check::bad("tracepoints", Health::No, "", why, remedy).denied(mem::effective_uid() != 0)
}

/// The tiers are really tried: the BPF engine on a thread that can not exist, tracepoints on a CPU, switch records.
pub(super) fn off_cpu_tier() -> Check {
    const NAME: &str = "time off the CPU";
    let options = off_cpu::OffCpuOpts { slots: 1, ring_bytes: 1 << 16, ..off_cpu::OffCpuOpts::default() };
    let error = match off_cpu::Engine::start(&off_cpu::Scope::Threads(vec![u32::MAX]), &options) {
        Ok(_) => return Check::good(NAME, "exact, by BPF, with stacks and wakers"),
        Err(error) => error,
    };
    let why = short(&error.to_string());
    let rights = Rights::own();
    let remedy = capabilities::of_bpf(&error, &rights);
    let is_denied = !rights.may_bpf() && !rights.filters_bpf;
    if points_on_a_cpu() {
        let found = "by the scheduler's tracepoints on all CPUs: exact times unless records are lost, wakers, \
                     stacks of up to 200 switches a second of each thread; about 3 µs a switch";
        return Check::bad(NAME, Health::Partly, found, why, remedy).denied(is_denied);
    }
    let mut attr = Attr { type_: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_DUMMY, ..clock(true) };
    attr.flags.set(AttrFlags::CONTEXT_SWITCH, true);
    match open(&attr, CounterPlace::task(0)) {
        Ok(_) => {
            let found =
                "waits by switch records, their reasons and stacks by looks at /proc; own processes only";
            let remedy = format!("{remedy}; for tracepoints: {}", tracepoints().remedy);
            Check::bad(NAME, Health::Partly, found, why, remedy).denied(is_denied)
        }
        Err(error) => {
            let (no_perf, perf_remedy) = perf_refused(&error, 2);
            let (why, remedy) =
                (format!("{why}; {no_perf}"), format!("{remedy}; for switch records: {perf_remedy}"));
            Check::bad(NAME, Health::No, "", why, remedy).denied(is_denied)
        }
    }
}

/// Whether the events of tier B may be opened.
fn points_on_a_cpu() -> bool {
    let first = proc::online_cpus().first().copied().unwrap_or(0);
    let points = off_cpu::Tracepoints::find(&SystemSource::new());
    points.is_some_and(|points| {
        off_cpu::tracepoints::EVENTS.into_iter().all(|event| {
            let attr = points.attr(event, &Attr::default(), Regs::perf_mask(Machine::host()));
            open(&Attr { flags: attr.flags.with(AttrFlags::DISABLED), ..attr }, CounterPlace::cpu(first))
                .is_ok()
        })
    })
}

pub(super) fn dynamic_events(feature: &'static str, pmu: &str) -> Check {
    let pmu = format!("/sys/bus/event_source/devices/{pmu}/type");
    let root = mem::effective_uid() == 0;
    match (Path::new(&pmu).exists(), root) {
        (false, _) => Check::bad(
            feature,
            Health::No,
            "",
            format!("{pmu} is missing"),
            "a kernel with CONFIG_*PROBE_EVENTS".to_owned(),
        ),
        (true, true) => Check::good(feature, "tally probe"),
        (true, false) => Check::bad(
            feature,
            Health::No,
            "",
            "only root may set them".to_owned(),
            "run tally probe as root".to_owned(),
        ),
    }
}

pub(super) fn processor_trace() -> Check {
    if Path::new("/sys/bus/event_source/devices/intel_pt").exists() {
        return Check::good("Intel PT", "intel_pt");
    }
    let why = "no intel_pt: not an Intel CPU of Broadwell or later, or a virtual machine".to_owned();
    Check::bad(
        "Intel PT",
        Health::No,
        "",
        why,
        "bare metal; tally calls traces functions without it".to_owned(),
    )
}

pub(super) fn call_probes() -> Check {
    const NAME: &str = "calls of any program";
    let why = match calls::cost_per_call(calls::CallMode::Events, calls::Exits::Sites) {
        Ok(Some(calls::ProbeCost { ns, way, why_no_bpf })) => {
            let found = format!("{way}, {:.1} µs a call", ns / 1e3);
            let Some(why) = why_no_bpf else { return Check::good(NAME, found) };
            let remedy = match &why {
                calls::Error::Bpf(why @ BpfError::OldKernel { .. }) => {
                    capabilities::of_bpf(why, &Rights::own())
                }
                _ => probes_remedy(),
            };
            return Check::bad(NAME, Health::Partly, &found, short(&why.to_string()), remedy);
        }
        Ok(None) => "a probe in tally's own code was not hit".to_owned(),
        Err(error) => short(&error.to_string()),
    };
    let is_denied = mem::effective_uid() != 0 && !Rights::own().filters_bpf;
    Check::bad(NAME, Health::Partly, "programs built with -pg or the like", why, probes_remedy())
        .denied(is_denied)
}

/// The remedy that enables probes of calls.
fn probes_remedy() -> String {
    let rights = Rights::own();
    let mut filters = vec![rights.filters_bpf.then(|| capabilities::of_filter("bpf"))];
    filters.push(rights.of_filtered_perf(None, -1));
    match filters.into_iter().flatten().collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => rights.remedy(&["cap_perfmon", "cap_bpf", "cap_sys_ptrace"], None),
        filters => filters,
    }
}

/// Kernel functions are really traced, in a process that makes none of the selected calls.
pub(super) fn kernel_calls() -> Check {
    const NAME: &str = "calls in the kernel";
    match calls::kernel_functions_by() {
        Ok(way) => Check::good(NAME, way),
        Err(why) => Check::bad(
            NAME,
            Health::Partly,
            "system calls, page faults, block requests and waits under the function that caused them",
            short(&why.to_string()),
            "a kernel with CONFIG_FUNCTION_GRAPH_TRACER or CONFIG_FPROBE, and root".to_owned(),
        )
        .denied(mem::effective_uid() != 0),
    }
}
