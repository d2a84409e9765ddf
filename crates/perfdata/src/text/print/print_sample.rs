//! A sample as session text.

use std::fmt::Write;

use super::{StackText, hex};
use crate::abi::*;
use crate::{
    BranchStack, Callchain, ChainEntry, Context, CpuMode, ReadGroup, Sample, SampleRegs, UserStack, Weight,
};

/// Words for the CPU modes.
pub(in crate::text) const MODES: [(CpuMode, &str); 6] = [
    (CpuMode::Unknown, "unknown"),
    (CpuMode::Kernel, "kernel"),
    (CpuMode::User, "user"),
    (CpuMode::Hypervisor, "hypervisor"),
    (CpuMode::GuestKernel, "guest_kernel"),
    (CpuMode::GuestUser, "guest_user"),
];

pub(super) fn mode_name(mode: CpuMode) -> &'static str {
    MODES.iter().find(|(m, _)| *m == mode).map_or("unknown", |(_, name)| name)
}

pub(super) fn sample(out: &mut String, s: &Sample<'_>, stacks: StackText) {
    out.push_str("sample");
    if let Some((pid, tid)) = s.pid_tid {
        let _ = write!(out, " {}/{}", pid.cast_signed(), tid.cast_signed());
    }
    let decimal =
        [("t", s.time_ns), ("cpu", s.cpu.map(u64::from)), ("id", s.event_id()), ("stream", s.stream_id)];
    for (key, value) in decimal.into_iter().chain([("period", s.period)]) {
        if let Some(v) = value {
            let _ = write!(out, " {key}={v}");
        }
    }
    let _ = write!(out, " mode={}", mode_name(s.cpu_mode()));
    out.push_str(if s.misc & PERF_RECORD_MISC_EXACT_IP != 0 { " exact" } else { "" });
    for (key, value) in [("ip", s.ip), ("addr", s.addr)] {
        if let Some(v) = value {
            let _ = write!(out, " {key}={v}");
        }
    }
    if let Some(read) = s.read {
        reads(out, &read);
    }
    if let Some(chain) = s.callchain {
        callchain(out, chain);
    }
    if let Some(raw) = s.raw {
        hex(out, "raw", raw);
    }
    if let Some(b) = s.branches {
        branches(out, &b);
    }
    regs(out, "regs_user", s.regs_user);
    if let Some(stack) = s.stack_user {
        user_stack(out, &stack, stacks);
    }
    tail(out, s);
    regs(out, "regs_intr", s.regs_intr);
}

fn tail(out: &mut String, s: &Sample<'_>) {
    match s.weight {
        Some(Weight::Full(w)) => {
            let _ = write!(out, " weight={w}");
        }
        Some(Weight::Struct { var1, var2, var3 }) => {
            let _ = write!(out, " weight={var1}/{var2}/{var3}");
        }
        None => {}
    }
    let words = [
        ("data_src", s.data_src),
        ("transaction", s.transaction),
        ("phys_addr", s.phys_addr),
        ("cgroup", s.cgroup),
        ("data_page_size", s.data_page_size),
        ("code_page_size", s.code_page_size),
    ];
    for (key, value) in words {
        if let Some(v) = value {
            let _ = write!(out, " {key}={v:#x}");
        }
    }
    if let Some(aux) = s.aux {
        hex(out, "aux", aux);
    }
}

fn reads(out: &mut String, read: &ReadGroup<'_>) {
    if let Some(t) = read.time_enabled_ns {
        let _ = write!(out, " enabled={t}");
    }
    if let Some(t) = read.time_running_ns {
        let _ = write!(out, " running={t}");
    }
    let number = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
    list(
        out,
        if read.is_group() { "group" } else { "read" },
        read.iter().map(|v| {
            format!("{}:{}:{}", v.value, number(v.id), number(v.lost)).trim_end_matches(':').to_owned()
        }),
    );
}

fn callchain(out: &mut String, chain: Callchain<'_>) {
    list(
        out,
        "chain",
        chain.iter().map(|e| match e {
            ChainEntry::Address(a) => a.to_string(),
            ChainEntry::Context(c) => context_name(c),
        }),
    );
}

/// Words for the context markers.
pub(in crate::text) const CONTEXTS: [(Context, &str, u64); 7] = [
    (Context::Hypervisor, "hypervisor", PERF_CONTEXT_HV),
    (Context::Kernel, "kernel", PERF_CONTEXT_KERNEL),
    (Context::User, "user", PERF_CONTEXT_USER),
    (Context::UserDeferred, "user_deferred", PERF_CONTEXT_USER_DEFERRED),
    (Context::Guest, "guest", PERF_CONTEXT_GUEST),
    (Context::GuestKernel, "guest_kernel", PERF_CONTEXT_GUEST_KERNEL),
    (Context::GuestUser, "guest_user", PERF_CONTEXT_GUEST_USER),
];

fn context_name(context: Context) -> String {
    match context {
        Context::Other(value) => format!("{value:#x}"),
        known => CONTEXTS.iter().find(|(c, _, _)| *c == known).map_or("", |(_, name, _)| name).to_owned(),
    }
}

fn branches(out: &mut String, b: &BranchStack<'_>) {
    if let Some(index) = b.hw_index {
        let _ = write!(out, " hw_index={}", index.cast_signed());
    }
    list(out, "branches", b.iter().map(|b| format!("{}>{}:{:#x}", b.from, b.to, b.flags.0)));
    if let Some(counters) = b.counters {
        list(out, "branch_counters", counters.iter().map(|c| format!("{c:#x}")));
    }
}

fn regs(out: &mut String, key: &str, regs: Option<SampleRegs<'_>>) {
    if let Some(r) = regs {
        let values = r.values.iter().map(|v| format!("{v:#x}"));
        list(out, key, std::iter::once(r.abi.to_string()).chain(values));
    }
}

fn user_stack(out: &mut String, stack: &UserStack<'_>, text: StackText) {
    let _ = write!(out, " stack={}/{}", stack.bytes.len(), stack.reserved);
    if text == StackText::Bytes {
        hex(out, "stack_bytes", stack.bytes);
    }
}

pub(super) fn list(out: &mut String, key: &str, items: impl Iterator<Item = String>) {
    let _ = write!(out, " {key}=");
    for (n, item) in items.enumerate() {
        out.push_str(if n > 0 { "," } else { "" });
        out.push_str(&item);
    }
}
