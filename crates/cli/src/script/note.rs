//! Records that are no samples as perf script shows them (`--show-task-events` and its like).
//
// Source of the forms: linux v6.1 tools/perf/util/event.c, perf_event__fprintf() and what it calls.

use crate::terminal::out::harmless;
use perfdata::record::{FileId, Mmap, Namespaces, Switch, TaskRecord};
use perfdata::{Item, Record};
use std::fmt::Write;

/// Which records are shown besides samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Names, beginnings and ends of tasks.
    pub tasks: bool,
    /// Mappings.
    pub mmaps: bool,
    /// Context switches.
    pub switches: bool,
    /// Namespaces of tasks.
    pub namespaces: bool,
    /// Cgroups.
    pub cgroups: bool,
    /// Losses.
    pub lost: bool,
    /// Kernel symbols and BPF programs that came or went.
    pub bpf: bool,
}

impl Shown {
    /// The task a record is about as (pid, tid), and its text after the beginning that samples have, too; `None` if
    /// it is not shown.
    pub fn text(self, item: &Item<'_>) -> Option<((u32, u32), String)> {
        let sampled = item.sample_id.and_then(|id| id.pid_tid).unwrap_or_default();
        let (task, text) = match &item.record {
            Record::Comm(c) if self.tasks => {
                let exec = if c.exec { " exec" } else { "" };
                ((c.pid, c.tid), format!("COMM{exec}: {}:{}/{}", name(c.comm), int(c.pid), int(c.tid)))
            }
            Record::Fork(t) if self.tasks => ((t.pid, t.tid), format!("FORK{}", family(t))),
            Record::Exit(t) if self.tasks => ((t.pid, t.tid), format!("EXIT{}", family(t))),
            Record::Mmap(m) if self.mmaps => ((m.pid, m.tid), mapping(m)),
            Record::Switch(s) if self.switches => (sampled, switch(s)),
            Record::Namespaces(n) if self.namespaces => ((n.pid, n.tid), namespaces(n)),
            Record::Cgroup(c) if self.cgroups => {
                (sampled, format!("CGROUP cgroup: {} {}", c.id, name(c.path)))
            }
            Record::Lost(l) if self.lost => (sampled, format!("LOST lost {}", l.lost)),
            _ => return self.bpf_text(item).map(|text| (sampled, text)),
        };
        Some((task, format!("PERF_RECORD_{text}")))
    }

    fn bpf_text(self, item: &Item<'_>) -> Option<String> {
        match &item.record {
            Record::Ksymbol(k) if self.bpf => Some(format!(
                "PERF_RECORD_KSYMBOL addr {:x} len {} type {} flags 0x{:x} name {}",
                k.addr.0,
                k.len,
                k.ksym_type,
                k.flags,
                name(k.name)
            )),
            Record::BpfEvent(b) if self.bpf => {
                Some(format!("PERF_RECORD_BPF_EVENT type {}, flags {}, id {}", b.event_type, b.flags, b.id))
            }
            _ => None,
        }
    }
}

fn name(bytes: &[u8]) -> String {
    harmless(&String::from_utf8_lossy(bytes)).into_owned()
}

/// Ids are signed in the text: the kernel's own mapping has -1.
fn int(id: u32) -> i32 {
    id.cast_signed()
}

fn family(task: &TaskRecord) -> String {
    format!("({}:{}):({}:{})", int(task.pid), int(task.tid), int(task.ppid), int(task.ptid))
}

/// C's `%#lx`, which writes 0 without a prefix.
fn hex(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

fn mapping(map: &Mmap<'_>) -> String {
    let place = format!(
        "{}/{}: [{}({}) @ {}",
        int(map.pid),
        int(map.tid),
        hex(map.addr.0),
        hex(map.len),
        hex(map.pgoff)
    );
    let file = match map.file_id {
        FileId::None => {
            let kind = if map.is_data { 'r' } else { 'x' };
            return format!("MMAP {place}]: {kind} {}", name(map.filename));
        }
        FileId::BuildId(id) => {
            let mut hex = String::new();
            id.iter().for_each(|byte| write!(hex, "{byte:02x}").unwrap_or_default());
            format!("<{hex}>")
        }
        FileId::Inode { major, minor, inode, generation } => {
            format!("{major:02x}:{minor:02x} {inode} {generation}")
        }
    };
    let bit = |on: bool, c: char| if on { c } else { '-' };
    let (prot, flags) = map.prot_flags.unwrap_or_default();
    let shared = if flags & libc::MAP_SHARED as u32 != 0 { 's' } else { 'p' };
    let (r, w, x) = (bit(prot & 1 != 0, 'r'), bit(prot & 2 != 0, 'w'), bit(prot & 4 != 0, 'x'));
    format!("MMAP2 {place} {file}]: {r}{w}{x}{shared} {}", name(map.filename))
}

fn switch(switch: &Switch) -> String {
    let way = match (switch.out, switch.preempt) {
        (false, _) => "IN         ",
        (true, false) => "OUT        ",
        (true, true) => "OUT preempt",
    };
    match switch.next_prev {
        None => format!("SWITCH {way}"),
        Some((pid, tid)) => {
            let other = if switch.out { "next" } else { "prev" };
            format!("SWITCH_CPU_WIDE {way}  {other} pid/tid: {:>5}/{:<5}", int(pid), int(tid))
        }
    }
}

fn namespaces(all: &Namespaces<'_>) -> String {
    let links: Vec<(u64, u64)> = all.links().collect();
    let mut text =
        format!("NAMESPACES {}/{} - nr_namespaces: {}\n\t\t[", int(all.pid), int(all.tid), links.len());
    for (at, (dev, inode)) in links.iter().enumerate() {
        if at > 0 && at % 4 == 0 {
            text.push_str("\n\t\t ");
        }
        let name = Namespaces::NAMES.get(at).copied().unwrap_or("unknown");
        let end = if at + 1 == links.len() { "]" } else { ", " };
        let _ = write!(text, "{at}/{name}: {dev}/{}{end}", hex(*inode));
    }
    text
}
