//! The events of a recording with time off the CPU, as its file describes them.

use dso::Machine;
use dso::unwind::Regs as UnwindRegs;
use perfdata::abi::*;
use perfdata::off_cpu::{State, event_name};
use perfdata::record::live::LiveFormat;
use perfdata::{Attr, AttrFlags};

use super::super::layout;

/// The events of off-CPU samples, in the file's order.
pub const FILE_EVENTS: [&str; 4] =
    [event_name::OFF_CPU, event_name::RUNNABLE, event_name::PREEMPTED, event_name::TOTALS];

/// The id of the event of this index: far from the kernel's, which count up from 1.
#[must_use]
pub fn event_id(index: usize) -> u64 {
    0x7461_6c6c_7900_0000 + index as u64
}

/// True for a sample of one of these events, as it is in a file of several events.
#[must_use]
pub fn is_of_off_cpu(sample: &[u8]) -> bool {
    /// More than there are events.
    const EVENTS: u64 = 16;
    let ids = event_id(0)..event_id(0) + EVENTS;
    LiveFormat::identifier_of(sample).is_some_and(|id| ids.contains(&id))
}

/// The attribute of off-CPU samples in the file. `common` has the recording's identifying fields and clock.
#[must_use]
pub fn file_attr(common: &Attr) -> Attr {
    let sample_type = PERF_SAMPLE_IDENTIFIER
        | PERF_SAMPLE_IP
        | PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_CPU
        | PERF_SAMPLE_PERIOD
        | PERF_SAMPLE_CALLCHAIN
        | PERF_SAMPLE_RAW;
    let flags = AttrFlags::SAMPLE_ID_ALL | AttrFlags::USE_CLOCKID;
    Attr {
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_BPF_OUTPUT,
        sample_period: 1,
        sample_type,
        flags,
        clockid: common.clockid,
        ..Attr::default()
    }
}

/// The same with what unwinding needs; `regs_mask` in perf's numbers.
#[must_use]
pub fn snapshot_attr(common: &Attr, regs_mask: u64) -> Attr {
    let mut attr = file_attr(common);
    attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr.sample_regs_user = regs_mask;
    attr.sample_stack_user = layout::STACK_MAX_BYTES as u32;
    attr
}

/// Which registers to pass on.
#[must_use]
pub fn regs_mask() -> u64 {
    UnwindRegs::perf_mask(Machine::host())
}

/// The event, of [`FILE_EVENTS`], of a thread that is in this state.
#[must_use]
pub fn event_of(state: State) -> usize {
    match state {
        State::On => 3,
        State::Runnable => 1,
        State::Preempted => 2,
        _ => 0,
    }
}
