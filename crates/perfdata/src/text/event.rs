//! The events of session text: given by `event` lines, or made to fit the samples.

use super::words::{Parsed, Words, number};
use crate::abi::*;
use crate::{Attr, AttrFlags, Event};

/// The `PERF_SAMPLE_*` bit that a key of a sample line needs.
const KEY_BITS: [(&str, u64); 20] = [
    (" addr=", PERF_SAMPLE_ADDR),
    (" stream=", PERF_SAMPLE_STREAM_ID),
    (" read=", PERF_SAMPLE_READ),
    (" group=", PERF_SAMPLE_READ),
    (" chain=", PERF_SAMPLE_CALLCHAIN),
    (" raw=", PERF_SAMPLE_RAW),
    (" branches=", PERF_SAMPLE_BRANCH_STACK),
    (" regs_user=", PERF_SAMPLE_REGS_USER),
    (" stack=", PERF_SAMPLE_STACK_USER),
    (" stack_bytes=", PERF_SAMPLE_STACK_USER),
    (" weight=", PERF_SAMPLE_WEIGHT),
    (" data_src=", PERF_SAMPLE_DATA_SRC),
    (" transaction=", PERF_SAMPLE_TRANSACTION),
    (" regs_intr=", PERF_SAMPLE_REGS_INTR),
    (" phys_addr=", PERF_SAMPLE_PHYS_ADDR),
    (" cgroup=", PERF_SAMPLE_CGROUP),
    (" data_page_size=", PERF_SAMPLE_DATA_PAGE_SIZE),
    (" code_page_size=", PERF_SAMPLE_CODE_PAGE_SIZE),
    (" aux=", PERF_SAMPLE_AUX),
    (" period=", PERF_SAMPLE_PERIOD),
];

const BASE_BITS: u64 = PERF_SAMPLE_IDENTIFIER
    | PERF_SAMPLE_IP
    | PERF_SAMPLE_TID
    | PERF_SAMPLE_TIME
    | PERF_SAMPLE_CPU
    | PERF_SAMPLE_PERIOD;

/// The event of a text without any `event` line: its samples have the fields that the lines use.
pub(super) fn default_event(text: &str) -> Event {
    let samples = || text.lines().map(str::trim).filter(|l| l.starts_with("sample"));
    let used = KEY_BITS.into_iter().filter(|(key, _)| samples().any(|l| l.contains(key)));
    let flags = AttrFlags::SAMPLE_ID_ALL | AttrFlags::MMAP2 | AttrFlags::COMM | AttrFlags::TASK;
    let attr = Attr {
        type_: PERF_TYPE_SOFTWARE,
        sample_period: 1,
        sample_type: used.fold(BASE_BITS, |bits, (_, bit)| bits | bit),
        flags: flags | AttrFlags::EXCLUDE_GUEST,
        ..Attr::default()
    };
    Event { attr, ids: vec![1], name: "cpu-clock".into() }
}

/// An `event` line.
pub(super) fn parse_event(w: &Words<'_>) -> Parsed<Event> {
    let mut a = Attr { sample_type: BASE_BITS | PERF_SAMPLE_CALLCHAIN, ..Attr::default() };
    a.type_ = w.small("type")?.unwrap_or(PERF_TYPE_SOFTWARE);
    a.config = w.number("config")?.unwrap_or(0);
    a.sample_period = w.number("period")?.or(w.number("freq")?).unwrap_or(1);
    a.sample_type = w.number("sample_type")?.unwrap_or(a.sample_type);
    a.read_format = w.number("read_format")?.unwrap_or(0);
    a.branch_sample_type = w.number("branch_sample_type")?.unwrap_or(0);
    a.config1 = w.number("config1")?.unwrap_or(0);
    a.config2 = w.number("config2")?.unwrap_or(0);
    a.sample_regs_user = w.number("regs_user")?.unwrap_or(0);
    a.sample_regs_intr = w.number("regs_intr")?.unwrap_or(0);
    a.sample_stack_user = w.small("stack_user")?.unwrap_or(0);
    a.clockid = w.small("clockid")?.unwrap_or(0).cast_signed();
    let name = |n: &str| AttrFlags::NAMES.iter().find(|(_, name)| *name == n).map(|(f, _)| *f);
    a.flags = match w.list("flags", name)? {
        Some(flags) => flags.into_iter().fold(AttrFlags(0), AttrFlags::with),
        None => AttrFlags::SAMPLE_ID_ALL | AttrFlags::EXCLUDE_GUEST,
    };
    a.flags.set(AttrFlags::FREQ, w.has("freq") || a.flags.has(AttrFlags::FREQ));
    a.flags.set_precise_ip(u8::try_from(w.number("precise")?.unwrap_or(0)).unwrap_or(3));
    let ids = w.list("ids", number)?.unwrap_or_default();
    Ok(Event { attr: a, ids, name: String::from_utf8_lossy(&w.name).into_owned() })
}
