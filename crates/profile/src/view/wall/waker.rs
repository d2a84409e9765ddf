//! End of a wait: by a thread, or by an interrupt that hit one by chance.

use super::{is_kernel, name_of};
use crate::off_cpu::RelatedThread;
use crate::profile::Profile;
use crate::table::{CallsiteId, FrameId};

/// The waker's name: "irq" for interrupts, else its kernel name, else the name its thread has in this recording.
pub(crate) fn other_name(profile: &Profile, other: RelatedThread) -> String {
    if let Some(irq) = interrupt_of(profile, other) {
        return irq;
    }
    let last = |id: u32| profile.last_comms.get(&i32::try_from(id).ok()?).copied();
    let own = last(other.tid);
    // To the kernel a thread of Python has its process's name, whatever the program calls it.
    let is_of_process = other.tid != other.pid && last(other.pid) == Some(other.comm);
    let name = match profile.strings.of(other.comm) {
        "" => own.map_or("", |own| profile.strings.of(own)),
        name => own.filter(|_| is_of_process).map_or(name, |own| profile.strings.of(own)),
    };
    i32::try_from(other.pid).map_or(name, |pid| profile.with_purpose(pid, name)).to_owned()
}

/// Frames of the code that caused a wake-up, leaf first: those of the waker `name` at `callsite`. Empty for an
/// interrupt, because the thread that it hit isn't the cause, and without a stack.
#[must_use]
pub fn causing_frames(profile: &Profile, name: &str, callsite: Option<CallsiteId>) -> Vec<FrameId> {
    let callsite = callsite.filter(|_| !name.starts_with("irq"));
    callsite.map_or_else(Vec::new, |callsite| waker_frames(profile, callsite))
}

/// The frames of a waker, leaf first, without those of the BPF program that looked at it.
pub fn waker_frames(profile: &Profile, callsite: CallsiteId) -> Vec<FrameId> {
    const LOOKING_ON: [&str; 3] = ["bpf_trace_run", "__bpf_trace_", "__traceiter_"];
    let frames: Vec<FrameId> = profile.callsites.leaf_first(callsite).collect();
    let looks_on = |&frame: &FrameId| {
        name_of(profile, frame).is_some_and(|name| LOOKING_ON.iter().any(|begin| name.starts_with(begin)))
    };
    let own = frames.iter().rposition(looks_on).map_or(0, |at| at + 1);
    frames[own..].to_vec()
}

/// True for the usual threads of the kernel, by name.
pub(crate) fn is_of_kernel(name: &str) -> bool {
    const NAMES: [&str; 8] =
        ["rcu_", "ksoftirqd/", "kworker/", "migration/", "kswapd", "kcompactd", "khugepaged", "kdamond"];
    NAMES.iter().any(|begin| name.starts_with(begin))
}

/// Entries of interrupts in kernel stacks, and what to call them.
const INTERRUPTS: &[(&str, &str)] = &[
    ("asm_sysvec_apic_timer_interrupt", "irq:timer"),
    ("sysvec_apic_timer_interrupt", "irq:timer"),
    ("hrtimer_interrupt", "irq:timer"),
    ("arch_timer_handler", "irq:timer"),
    ("asm_sysvec_call_function", "irq:ipi"),
    ("asm_sysvec_reschedule", "irq:ipi"),
    ("asm_common_interrupt", "irq:device"),
    ("common_interrupt", "irq:device"),
    ("gic_handle_irq", "irq:device"),
    ("irq_exit", "irq:soft"),
    ("__irq_exit_rcu", "irq:soft"),
];

/// True for the kernel's first function in an interrupt.
pub(crate) fn is_interrupt_entry(name: &str) -> bool {
    INTERRUPTS.iter().any(|(entry, _)| name.starts_with(entry))
}

/// Name of the interrupt that the wake-up came from, if any. The thread that it interrupted is unrelated.
pub(crate) fn interrupt_of(profile: &Profile, other: RelatedThread) -> Option<String> {
    let by_stack = other.callsite.and_then(|callsite| {
        // Not only up to the first frame outside the kernel: our own BPF program may be unresolved.
        let frames = profile.callsites.leaf_first(callsite).filter(|&frame| is_kernel(profile, frame));
        let names: Vec<&str> = frames.filter_map(|frame| name_of(profile, frame)).collect();
        INTERRUPTS
            .iter()
            .find(|(entry, _)| names.iter().any(|name| name.starts_with(entry)))
            .map(|(_, irq)| *irq)
    });
    match by_stack {
        Some(irq) => Some(irq.to_owned()),
        None if other.tid == 0 => Some("irq".to_owned()),
        None => None,
    }
}
