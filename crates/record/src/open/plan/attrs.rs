//! The attributes of a recording's events.

use perfdata::abi::*;
use perfdata::{Attr, AttrFlags};

use super::{MAX_SNAPSHOT_BYTES, Offer, OpenedEvent};
use crate::session::opts::{CallGraph, EventRequest, Rate, RecordOpts, SampleExtras};
use crate::sys::time::Clock;

/// The part shared by all attributes of a recording, so that all records end with the same fields.
pub(super) fn common_attr(opts: &RecordOpts, several: bool) -> Attr {
    let by_cpu = opts.target.is_system_wide() || opts.target.cpus.is_some();
    let mut sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    if several {
        sample_type |= PERF_SAMPLE_IDENTIFIER;
    }
    if by_cpu || opts.traces() {
        sample_type |= PERF_SAMPLE_CPU;
    }
    sample_type |= opts.extra.sample_type & PERF_SAMPLE_CPU;
    let mut flags = AttrFlags::SAMPLE_ID_ALL;
    // The kernel has no rings for inherited events that are on no certain CPU.
    let inherits = !opts.sampling.no_inherit && !opts.trace.per_thread;
    flags.set(AttrFlags::INHERIT, inherits && !opts.target.is_system_wide());
    let has_clock = opts.clock != Clock::Perf;
    flags.set(AttrFlags::USE_CLOCKID, has_clock);
    Attr { sample_type, flags, clockid: if has_clock { opts.clock.id() } else { 0 }, ..Attr::default() }
}

/// Adds the records that describe processes, mappings and other requested data.
pub(super) fn track(attr: &mut Attr, opts: &RecordOpts, offer: &Offer) {
    let SampleExtras { data_maps, switches, namespaces, cgroups, .. } = opts.extra;
    attr.flags = attr.flags.with(AttrFlags::MMAP | AttrFlags::MMAP2 | AttrFlags::COMM | AttrFlags::COMM_EXEC);
    attr.flags = attr.flags.with(AttrFlags::TASK);
    attr.flags.set(AttrFlags::MMAP_DATA, data_maps);
    attr.flags.set(AttrFlags::CONTEXT_SWITCH, switches || opts.counts_switches);
    attr.flags.set(AttrFlags::NAMESPACES, namespaces);
    attr.flags.set(AttrFlags::CGROUP, cgroups);
    attr.flags.set(AttrFlags::BUILD_ID, offer.build_id_records && !opts.file.no_build_ids);
    let whole = offer.kernel && opts.target.is_system_wide();
    attr.flags.set(AttrFlags::KSYMBOL | AttrFlags::BPF_EVENT, whole);
    let kernel_code = opts.events.iter().any(|e| e.aux && !e.attr.flags.has(AttrFlags::EXCLUDE_KERNEL));
    attr.flags.set(AttrFlags::TEXT_POKE, offer.kernel && kernel_code);
}

/// The always-on event after the ladder: no samples, only records about processes.
pub(super) fn tracking_event(opts: &RecordOpts, common: &Attr, offer: &Offer) -> OpenedEvent {
    let mut attr = Attr { type_: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_DUMMY, ..*common };
    attr.flags = attr.flags.with(AttrFlags::EXCLUDE_KERNEL);
    attr.sample_period = 1;
    track(&mut attr, opts, offer);
    OpenedEvent {
        name: "dummy:u".to_owned(),
        attr,
        file_event: 0,
        leader: None,
        step: None,
        filter: None,
        aux: false,
        of_tasks: false,
        probe: None,
    }
}

/// The kernel's attributes for an event of the user, except for its snapshots.
pub(super) fn sampling_attr(opts: &RecordOpts, event: &EventRequest, common: &Attr, offer: &Offer) -> Attr {
    if event.aux {
        return tracing_attr(opts, event, common, offer);
    }
    let mut attr = event.attr;
    attr.sample_type |= common.sample_type | PERF_SAMPLE_IP | opts.extra.sample_type;
    attr.flags = attr.flags.with(common.flags);
    if event.no_inherit {
        attr.flags.set(AttrFlags::INHERIT, false);
    }
    attr.clockid = common.clockid;
    attr.flags.set(AttrFlags::INHERIT_STAT, opts.extra.stat);
    set_levels(&mut attr, opts, offer);
    set_rate(&mut attr, opts, event, offer);
    set_group_reads(&mut attr, event);
    if opts.extra.branches != 0 && attr.branch_sample_type == 0 {
        attr.branch_sample_type = opts.extra.branches;
    }
    if attr.branch_sample_type != 0 {
        attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
    }
    if opts.extra.regs_intr != 0 {
        attr.sample_type |= PERF_SAMPLE_REGS_INTR;
        attr.sample_regs_intr = opts.extra.regs_intr;
    }
    if opts.extra.regs_user != 0 {
        attr.sample_type |= PERF_SAMPLE_REGS_USER;
        attr.sample_regs_user = opts.extra.regs_user;
    }
    if attr.type_ == PERF_TYPE_TRACEPOINT {
        attr.sample_type |= PERF_SAMPLE_RAW | PERF_SAMPLE_CPU & common.sample_type;
    }
    set_call_graph(&mut attr, opts, event, offer);
    attr
}

/// An event that writes a trace: it takes no samples, but its period must not be 0.
fn tracing_attr(opts: &RecordOpts, event: &EventRequest, common: &Attr, offer: &Offer) -> Attr {
    let mut attr = event.attr;
    attr.sample_type |= common.sample_type | PERF_SAMPLE_IP;
    attr.flags = attr.flags.with(common.flags);
    if event.no_inherit || opts.trace.per_thread {
        attr.flags.set(AttrFlags::INHERIT, false);
    }
    set_levels(&mut attr, opts, offer);
    (attr.clockid, attr.sample_period) = (common.clockid, 1);
    if opts.trace.snapshot.is_none() {
        // Woken at a quarter, as with rings; the area's final size may be smaller, which only wakes late.
        attr.aux_watermark = u32::try_from(opts.trace.area_bytes() / 4).unwrap_or(u32::MAX);
    }
    attr
}

/// Leaves out the user's side or the kernel's, where that is wanted or not allowed.
fn set_levels(attr: &mut Attr, opts: &RecordOpts, offer: &Offer) {
    if opts.sampling.all_kernel {
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_USER);
    }
    if !offer.kernel || opts.sampling.all_user {
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    }
}

fn set_rate(attr: &mut Attr, opts: &RecordOpts, event: &EventRequest, offer: &Offer) {
    let member_of_sampling_leader = event.leader_samples && event.leader.is_some();
    if member_of_sampling_leader || opts.sampling.no_samples {
        attr.sample_period = 0;
        attr.flags.set(AttrFlags::FREQ, false);
        return;
    }
    attr.sample_type |= PERF_SAMPLE_PERIOD;
    if !(event.own_rate && attr.sample_period != 0) {
        set_period(attr, opts, offer);
    }
    if is_counted_by_kernel(attr) && !attr.flags.has(AttrFlags::FREQ) && attr.sample_period > 1 {
        attr.sample_type &= !PERF_SAMPLE_PERIOD;
    }
}

/// True for events that the kernel itself counts: if their samples hold a period, it takes one each time and does not wait
/// for the period to be full.
// Source: linux v6.18 kernel/events/core.c: perf_swevent_event()
fn is_counted_by_kernel(attr: &Attr) -> bool {
    let is_clock = [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK].contains(&attr.config);
    attr.type_ == PERF_TYPE_TRACEPOINT || attr.type_ == PERF_TYPE_SOFTWARE && !is_clock
}

fn set_period(attr: &mut Attr, opts: &RecordOpts, offer: &Offer) {
    let usual_hz = Rate::usual_hz(opts.off_cpu.is_some()).min(offer.max_rate_hz.max(1));
    let (period, is_frequency) = match opts.sampling.rate {
        Rate::Usual if attr.type_ == PERF_TYPE_TRACEPOINT => (1, false),
        Rate::Usual => (usual_hz, true),
        Rate::Hz(hz) => (hz.min(offer.max_rate_hz.max(1)), true),
        Rate::MaxHz => (offer.max_rate_hz.max(1), true),
        Rate::Period(period) => (period.max(1), false),
    };
    attr.sample_period = period;
    attr.flags.set(AttrFlags::FREQ, is_frequency);
}

fn set_group_reads(attr: &mut Attr, event: &EventRequest) {
    if event.leader_samples {
        attr.sample_type |= PERF_SAMPLE_READ | PERF_SAMPLE_IDENTIFIER;
        attr.read_format |= PERF_FORMAT_ID | PERF_FORMAT_GROUP;
        // Kernels before 6.12 refuse inherited events whose samples hold counter values.
        attr.flags.set(AttrFlags::INHERIT, false);
    }
}

/// How the stacks of one event are had.
#[must_use]
pub fn mode_of(event: &EventRequest, opts: &RecordOpts) -> CallGraph {
    event.call_graph.unwrap_or(opts.stacks.call_graph)
}

fn set_call_graph(attr: &mut Attr, opts: &RecordOpts, event: &EventRequest, offer: &Offer) {
    let mode = mode_of(event, opts);
    if mode == CallGraph::None || attr.sample_period == 0 {
        return;
    }
    attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
    attr.flags.set(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL, opts.stacks.without_kernel_chains);
    attr.flags.set(AttrFlags::EXCLUDE_CALLCHAIN_USER, opts.stacks.without_user_chains);
    match mode {
        CallGraph::Dwarf(bytes) if !opts.stacks.without_user_chains => {
            attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
            attr.sample_regs_user |= offer.unwind_regs;
            attr.sample_stack_user = bytes.next_multiple_of(8).clamp(8, MAX_SNAPSHOT_BYTES);
            attr.flags.set(AttrFlags::EXCLUDE_CALLCHAIN_USER, true);
        }
        CallGraph::Lbr => {
            attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
            attr.branch_sample_type = PERF_SAMPLE_BRANCH_USER
                | PERF_SAMPLE_BRANCH_CALL_STACK
                | PERF_SAMPLE_BRANCH_NO_FLAGS
                | PERF_SAMPLE_BRANCH_NO_CYCLES;
        }
        _ => {}
    }
}

/// The kernel's attributes for a live-unwound event: kernel chain, user registers and a copy of the stack. The chain by
/// frame pointers, which only programs in Go need, costs little next to the copy.
pub(super) fn with_snapshot(mut attr: Attr, bytes: u32, offer: &Offer) -> Attr {
    attr.sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr.sample_regs_user |= offer.unwind_regs;
    attr.sample_stack_user = bytes;
    attr
}
