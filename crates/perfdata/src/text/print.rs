//! Printing records as session text.

use std::fmt::Write;

use crate::abi::*;
use crate::record::{FileId, Mmap, Namespaces, TaskRecord};
use crate::{
    Attr, BranchStack, Callchain, ChainEntry, Context, CpuMode, Event, Item, PerfData, ReadGroup, Record,
    Sample, SampleRegs, UserStack, Weight,
};

/// Appends an event's line, without a line end.
pub fn write_event(out: &mut String, event: &Event) {
    let Attr { type_, config, sample_period, sample_type, read_format, branch_sample_type, .. } = event.attr;
    let a = &event.attr;
    let name = if event.name.is_empty() { "-" } else { &event.name };
    let _ = write!(
        out,
        "event {} type={type_} config={config:#x}",
        clean(name.as_bytes()).replace(' ', "\u{a0}")
    );
    let _ = write!(out, " {}={sample_period}", if a.is_freq() { "freq" } else { "period" });
    let _ = write!(out, " sample_type={sample_type:#x} read_format={read_format:#x}");
    let words = [
        ("branch_sample_type", branch_sample_type),
        ("config1", a.config1),
        ("config2", a.config2),
        ("regs_user", a.sample_regs_user),
        ("regs_intr", a.sample_regs_intr),
        ("stack_user", u64::from(a.sample_stack_user)),
        ("precise", u64::from(a.flags.precise_ip())),
    ];
    for (key, value) in words.into_iter().filter(|(_, v)| *v != 0) {
        let _ = write!(out, " {key}={value:#x}");
    }
    if a.flags.has(crate::AttrFlags::USE_CLOCKID) {
        let _ = write!(out, " clockid={}", a.clockid);
    }
    let flags: Vec<_> =
        crate::AttrFlags::NAMES.iter().filter(|(f, _)| a.flags.has(*f)).map(|(_, n)| *n).collect();
    if !flags.is_empty() {
        let _ = write!(out, " flags={}", flags.join(","));
    }
    list(out, "ids", event.ids.iter().map(u64::to_string));
}

/// Appends one record's line, without a line end. `full`: user stacks with all their bytes, not only their size.
pub fn write_item(out: &mut String, file: &PerfData<'_>, item: &Item<'_>, full: bool) {
    match &item.record {
        Record::Sample(s) => sample(out, s, full),
        Record::FinishedRound => out.push_str("round"),
        record => other(out, item, record),
    }
    let several = file.events().len() > 1 && !matches!(item.record, Record::FinishedRound);
    if let Some(event) = item.event.filter(|_| several) {
        // Before the name, which goes to the line's end: names of tasks and files may hold anything.
        if let Record::Sample(_) = item.record {
            let _ = write!(out, " event={event}");
        }
    }
}

fn other(out: &mut String, item: &Item<'_>, record: &Record<'_>) {
    let id = item.sample_id.unwrap_or_default();
    let head = |out: &mut String, kind: &str, pid_tid: Option<(u32, u32)>| {
        out.push_str(kind);
        if let Some((pid, tid)) = pid_tid {
            let _ = write!(out, " {}/{}", pid.cast_signed(), tid.cast_signed());
        }
        if let Some(t) = id.time_ns {
            let _ = write!(out, " t={t}");
        }
        if let Some(cpu) = id.cpu {
            let _ = write!(out, " cpu={}", cpu.cast_signed());
        }
        if let Some(id) = id.event_id() {
            let _ = write!(out, " id={id}");
        }
    };
    match record {
        Record::Comm(c) => {
            head(out, "comm", Some((c.pid, c.tid)));
            let _ = write!(out, "{} {}", if c.exec { " exec" } else { "" }, clean(c.comm));
        }
        Record::Mmap(m) => {
            head(
                out,
                if m.type_and_misc().0 == PERF_RECORD_MMAP { "mmap" } else { "mmap2" },
                Some((m.pid, m.tid)),
            );
            mmap(out, m);
        }
        Record::Fork(t) => {
            head(out, "fork", Some((t.pid, t.tid)));
            task(out, t, id.time_ns);
        }
        Record::Exit(t) => {
            head(out, "exit", Some((t.pid, t.tid)));
            task(out, t, id.time_ns);
        }
        Record::Switch(s) => {
            head(out, "switch", id.pid_tid);
            out.push_str(if s.out { " out" } else { " in" });
            out.push_str(if s.preempt { " preempt" } else { "" });
            if let Some((pid, tid)) = s.next_prev {
                let key = if s.out { "next" } else { "prev" };
                let _ = write!(out, " {key}={}/{}", pid.cast_signed(), tid.cast_signed());
            }
        }
        Record::Lost(l) => {
            head(out, "lost", id.pid_tid);
            let _ = write!(out, " n={} of={}", l.lost, l.id);
        }
        Record::LostSamples(n) => {
            head(out, "lost_samples", id.pid_tid);
            let _ = write!(out, " n={n}");
        }
        Record::Namespaces(n) => {
            head(out, "namespaces", Some((n.pid, n.tid)));
            for ((device, inode), name) in n.links().zip(Namespaces::NAMES) {
                let _ = write!(out, " {name}={device:#x}:{inode:#x}");
            }
        }
        Record::Ksymbol(k) => {
            head(out, "ksymbol", id.pid_tid);
            let _ = write!(
                out,
                " addr={} len={:#x} kind={} flags={} {}",
                k.addr,
                k.len,
                k.ksym_type,
                k.flags,
                clean(k.name)
            );
        }
        Record::Cgroup(c) => {
            head(out, "cgroup", id.pid_tid);
            let _ = write!(out, " cgroup={} {}", c.id, clean(c.path));
        }
        _ => generic(out, item),
    }
}

/// Type, misc and payload of a record without a form of its own.
fn generic(out: &mut String, item: &Item<'_>) {
    let (type_, misc) = item.record.type_and_misc();
    let _ = write!(out, "record type={type_} misc={misc}");
    hex(out, "bytes", item.raw.get(8..).unwrap_or_default());
}

fn task(out: &mut String, t: &TaskRecord, trailer_time: Option<u64>) {
    let _ = write!(out, " parent={}/{}", t.ppid.cast_signed(), t.ptid.cast_signed());
    if trailer_time.is_none() {
        let _ = write!(out, " t={}", t.time_ns);
    } else if trailer_time != Some(t.time_ns) {
        let _ = write!(out, " own_t={}", t.time_ns);
    }
}

fn mmap(out: &mut String, m: &Mmap<'_>) {
    let _ = write!(out, " [{:#x},{:#x})", m.addr.0, m.addr.0.wrapping_add(m.len));
    if m.pgoff != 0 {
        let _ = write!(out, " off={:#x}", m.pgoff);
    }
    match m.file_id {
        FileId::Inode { major, minor, inode, generation }
            if (major, minor, inode, generation) != (0, 0, 0, 0) =>
        {
            let _ = write!(out, " dev={major:x}:{minor:x} ino={inode} gen={generation}");
        }
        FileId::BuildId(id) => hex(out, "build_id", id),
        _ => {}
    }
    if let Some((prot, flags)) = m.prot_flags {
        let _ = write!(out, " prot={prot:#x} flags={flags:#x}");
    }
    if m.cpu_mode != CpuMode::User {
        let _ = write!(out, " mode={}", mode_name(m.cpu_mode));
    }
    out.push_str(if m.is_data { " data" } else { "" });
    out.push_str(if m.parse_timeout { " timeout" } else { "" });
    let _ = write!(out, " {}", clean(m.filename));
}

/// Words for the CPU modes.
pub(super) const MODES: [(CpuMode, &str); 6] = [
    (CpuMode::Unknown, "unknown"),
    (CpuMode::Kernel, "kernel"),
    (CpuMode::User, "user"),
    (CpuMode::Hypervisor, "hypervisor"),
    (CpuMode::GuestKernel, "guest_kernel"),
    (CpuMode::GuestUser, "guest_user"),
];

fn mode_name(mode: CpuMode) -> &'static str {
    MODES.iter().find(|(m, _)| *m == mode).map_or("unknown", |(_, name)| name)
}

fn sample(out: &mut String, s: &Sample<'_>, full: bool) {
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
        user_stack(out, &stack, full);
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
pub(super) const CONTEXTS: [(Context, &str, u64); 7] = [
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

fn user_stack(out: &mut String, stack: &UserStack<'_>, full: bool) {
    let _ = write!(out, " stack={}/{}", stack.bytes.len(), stack.reserved);
    if full {
        hex(out, "stack_bytes", stack.bytes);
    }
}

fn list(out: &mut String, key: &str, items: impl Iterator<Item = String>) {
    let _ = write!(out, " {key}=");
    for (n, item) in items.enumerate() {
        out.push_str(if n > 0 { "," } else { "" });
        out.push_str(&item);
    }
}

fn hex(out: &mut String, key: &str, bytes: &[u8]) {
    let _ = write!(out, " {key}=");
    for b in bytes {
        let _ = write!(out, "{b:02x}");
    }
}

/// Control characters (C0, DEL, C1), and those that turn the direction of the text around or end a line unseen.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name that keeps to its line: bytes that aren't text and control characters become `\xNN`.
fn clean(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_unseen(c) || c == '\\' {
                let mut buf = [0; 4];
                c.encode_utf8(&mut buf).bytes().for_each(|b| {
                    let _ = write!(out, "\\x{b:02x}");
                });
            } else {
                out.push(c);
            }
        }
        for b in chunk.invalid() {
            let _ = write!(out, "\\x{b:02x}");
        }
    }
    out
}
