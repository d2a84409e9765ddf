//! Printing records as session text.

mod print_sample;

use std::fmt::Write;

use crate::abi::*;
use crate::record::{FileId, Mmap, Namespaces, TaskRecord};
use crate::{Attr, CpuMode, Event, Item, PerfData, Record};
pub(super) use print_sample::{CONTEXTS, MODES};
use print_sample::{list, mode_name, sample};

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

/// How copied user stacks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackText {
    /// Size alone.
    Size,
    /// All their bytes.
    Bytes,
}

/// Appends one record's line, without a line end.
pub fn write_item(out: &mut String, file: &PerfData<'_>, item: &Item<'_>, stacks: StackText) {
    match &item.record {
        Record::Sample(s) => sample(out, s, stacks),
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
