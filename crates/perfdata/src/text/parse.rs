//! Reading session text into a perf.data file.

use std::io::Cursor;

use super::print::{CONTEXTS, MODES};
use crate::abi::*;
use crate::record::{Cgroup, Comm, FileId, Ksymbol, Lost, Mmap, Switch, Task};
use crate::{
    Attr, AttrFlags, Avma, BranchStack, Callchain, CpuMode, Event, Features, ReadGroup, ReadValue, Record,
    Regs, Sample, SampleId, UserStack, Weight, Writer, WriterOpts,
};

/// A line of session text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TextError {
    /// 1-based.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// A whole perf.data file (file mode, this machine's byte order) out of session text.
///
/// # Errors
/// The first line that cannot be read.
pub fn to_perf_data(text: &str) -> Result<Vec<u8>, TextError> {
    let lines = || {
        let numbered = text.lines().enumerate().map(|(n, l)| (n + 1, l.trim()));
        numbered.filter(|(_, l)| !l.is_empty() && !l.starts_with('#'))
    };
    let at = |line: usize| move |problem: String| TextError { line, problem };
    let mut events = Vec::new();
    for (n, line) in lines().filter(|(_, l)| l.starts_with("event ")) {
        events.push(parse_event(&Words::split(line)).map_err(at(n))?);
    }
    if events.is_empty() {
        events.push(default_event(text));
    }
    let mut file = Cursor::new(Vec::new());
    let broken = |e: std::io::Error| TextError { line: 0, problem: e.to_string() };
    let mut w = Writer::file(&mut file, WriterOpts { events, ..WriterOpts::default() }).map_err(broken)?;
    for (n, line) in lines().filter(|(_, l)| !l.starts_with("event ")) {
        write_line(&mut w, &Words::split(line)).map_err(at(n))?;
    }
    w.finish(&Features { arch: Some("x86_64".into()), ..Features::default() }, b"").map_err(broken)?;
    Ok(file.into_inner())
}

type Parsed<T> = Result<T, String>;

/// A line's words: kind, `PID/TID`, `KEY=VALUE` and flags, range, name.
#[derive(Default)]
struct Words<'t> {
    kind: &'t str,
    pid_tid: Option<(u32, u32)>,
    range: Option<(u64, u64)>,
    words: Vec<(&'t str, &'t str)>,
    name: Vec<u8>,
}

/// Words without a value that are no name.
const FLAGS: [&str; 8] = ["exec", "in", "out", "preempt", "data", "timeout", "exact", "-"];

impl<'t> Words<'t> {
    fn split(line: &'t str) -> Self {
        let (kind, mut rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut out = Words { kind, ..Words::default() };
        loop {
            rest = rest.trim_start();
            let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some((key, value)) = word.split_once('=').filter(|(k, _)| is_key(k)) {
                out.words.push((key, value));
            } else if FLAGS.contains(&word) {
                out.words.push((word, ""));
            } else if let Some(pair) = pid_tid(word).filter(|_| out.pid_tid.is_none() && out.words.is_empty())
            {
                out.pid_tid = Some(pair);
            } else if let Some(range) = range(word).filter(|_| out.range.is_none()) {
                out.range = Some(range);
            } else if kind == "event" && out.name.is_empty() && !word.is_empty() {
                out.name = word.replace('\u{a0}', " ").into_bytes();
            } else {
                if kind != "event" {
                    out.name = unclean(rest);
                }
                return out;
            }
            rest = tail;
        }
    }

    fn text(&self, key: &str) -> Option<&'t str> {
        self.words.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    fn has(&self, flag: &str) -> bool {
        self.text(flag).is_some()
    }

    fn number(&self, key: &str) -> Parsed<Option<u64>> {
        self.text(key).map(|v| number(v).ok_or_else(|| format!("{key}={v} is no number"))).transpose()
    }

    fn small(&self, key: &str) -> Parsed<Option<u32>> {
        let value = self.number(key)?;
        value
            .map(|v| u32::try_from(v).or(i64_to_u32(v)).map_err(|_| format!("{key}={v} is too large")))
            .transpose()
    }

    fn list<T>(&self, key: &str, f: impl Fn(&str) -> Option<T>) -> Parsed<Option<Vec<T>>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let items = text.split(',').filter(|i| !i.is_empty());
        items
            .map(|i| f(i).ok_or_else(|| format!("{key}: {i} cannot be read")))
            .collect::<Parsed<Vec<T>>>()
            .map(Some)
    }

    fn bytes(&self, key: &str) -> Parsed<Option<Vec<u8>>> {
        self.text(key).map(|v| unhex(v).ok_or_else(|| format!("{key} is not hexadecimal"))).transpose()
    }

    fn mode(&self, default: CpuMode) -> Parsed<CpuMode> {
        let Some(text) = self.text("mode") else { return Ok(default) };
        let found = MODES.iter().find(|(_, name)| *name == text);
        found.map(|(m, _)| *m).ok_or_else(|| format!("{text} is no CPU mode"))
    }

    fn pair(&self, key: &str) -> Parsed<Option<(u32, u32)>> {
        self.text(key).map(|v| pid_tid(v).ok_or_else(|| format!("{key}={v} is no PID/TID"))).transpose()
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn i64_to_u32(v: u64) -> Result<u32, std::num::TryFromIntError> {
    i32::try_from(v.cast_signed()).map(i32::cast_unsigned)
}

/// Decimal, hexadecimal with `0x`, or negative.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned)),
    }
}

fn pid_tid(word: &str) -> Option<(u32, u32)> {
    let (a, b) = word.split_once('/')?;
    let id = |t: &str| t.parse::<u32>().ok().or_else(|| t.parse::<i32>().ok().map(i32::cast_unsigned));
    Some((id(a)?, id(b)?))
}

/// `[start,end)`
fn range(word: &str) -> Option<(u64, u64)> {
    let (a, b) = word.strip_prefix('[')?.strip_suffix(')')?.split_once(',')?;
    Some((number(a)?, number(b)?))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}

/// Takes `\xNN` back.
fn unclean(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let byte = rest
            .strip_prefix(b"\\x")
            .and_then(|r| r.get(..2))
            .and_then(|h| unhex(std::str::from_utf8(h).ok()?));
        match byte {
            Some(b) => {
                out.extend(b);
                rest = rest.get(4..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

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

fn default_event(text: &str) -> Event {
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

fn parse_event(w: &Words<'_>) -> Parsed<Event> {
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

fn write_line(w: &mut Writer<'_>, line: &Words<'_>) -> Parsed<()> {
    let done = |result: std::io::Result<()>| result.map_err(|e| e.to_string());
    match line.kind {
        "round" => return done(w.finish_round()),
        "sample" => return write_sample(w, line),
        _ => {}
    }
    let event = event_index(w, line)?;
    let id = trailer(w, event, line)?;
    let (pid, tid) = line.pid_tid.unwrap_or_default();
    let name = line.name.as_slice();
    let payload;
    let record = match line.kind {
        "comm" => Record::Comm(Comm { pid, tid, comm: name, exec: line.has("exec") }),
        "mmap" | "mmap2" => {
            payload = line.bytes("build_id")?;
            Record::Mmap(mmap(line, payload.as_deref())?)
        }
        "fork" => Record::Fork(task(line)?),
        "exit" => Record::Exit(task(line)?),
        "switch" => {
            let next_prev = line.pair("next")?.or(line.pair("prev")?);
            Record::Switch(Switch { out: line.has("out"), preempt: line.has("preempt"), next_prev })
        }
        "lost" => {
            let of = line.number("of")?.or(id.event_id()).unwrap_or(0);
            Record::Lost(Lost { id: of, lost: line.number("n")?.unwrap_or(1) })
        }
        "lost_samples" => Record::LostSamples(line.number("n")?.unwrap_or(1)),
        "ksymbol" => Record::Ksymbol(Ksymbol {
            addr: Avma(line.number("addr")?.unwrap_or(0)),
            len: line.small("len")?.unwrap_or(0),
            ksym_type: u16::try_from(line.number("kind")?.unwrap_or(0)).unwrap_or(0),
            flags: u16::try_from(line.number("flags")?.unwrap_or(0)).unwrap_or(0),
            name,
        }),
        "cgroup" => Record::Cgroup(Cgroup { id: line.number("cgroup")?.unwrap_or(0), path: name }),
        "namespaces" => return write_namespaces(w, event, line, &id),
        "record" => return write_generic(w, line),
        other => return Err(format!("{other} is no kind of record")),
    };
    done(w.write_record(event, &record, &id))
}

fn write_namespaces(w: &mut Writer<'_>, event: usize, line: &Words<'_>, id: &SampleId) -> Parsed<()> {
    let mut words = Vec::new();
    for name in crate::record::Namespaces::NAMES {
        let Some((device, inode)) = line.text(name).and_then(|v| v.split_once(':')) else { continue };
        words.extend([number(device).unwrap_or(0), number(inode).unwrap_or(0)]);
    }
    let (pid, tid) = line.pid_tid.unwrap_or_default();
    let record = Record::Namespaces(crate::record::Namespaces::from_words(pid, tid, &words));
    w.write_record(event, &record, id).map_err(|e| e.to_string())
}

/// `record type=N misc=N bytes=HEX`
fn write_generic(w: &mut Writer<'_>, line: &Words<'_>) -> Parsed<()> {
    let payload = line.bytes("bytes")?.unwrap_or_default();
    let mut p = crate::wire::Put::new(crate::Endian::NATIVE);
    p.u32(line.small("type")?.ok_or("a record needs its type")?);
    p.u16(u16::try_from(line.number("misc")?.unwrap_or(0)).unwrap_or(0));
    p.u16(u16::try_from(payload.len() + 8).map_err(|_| "the record is too long")?);
    p.raw(&payload);
    w.write_raw(&p.bytes).map_err(|e| e.to_string())
}

/// The event by `event=INDEX`, or by `id=`.
fn event_index(w: &Writer<'_>, line: &Words<'_>) -> Parsed<usize> {
    let index = line.number("event")?.and_then(|e| usize::try_from(e).ok());
    let id = line.number("id")?;
    let by_id = || id.and_then(|id| w.events().iter().position(|e| e.ids.contains(&id)));
    Ok(index.or_else(by_id).unwrap_or(0))
}

fn trailer(w: &Writer<'_>, event: usize, line: &Words<'_>) -> Parsed<SampleId> {
    let first_id = w.events().get(event).and_then(|e| e.ids.first().copied());
    let id = line.number("id")?.or(first_id);
    Ok(SampleId {
        pid_tid: line.pid_tid,
        time_ns: line.number("t")?,
        id,
        stream_id: id,
        cpu: line.small("cpu")?,
        identifier: id,
    })
}

fn task(line: &Words<'_>) -> Parsed<Task> {
    let (pid, tid) = line.pid_tid.unwrap_or_default();
    let (ppid, ptid) = line.pair("parent")?.unwrap_or((pid, pid));
    let time_ns = line.number("own_t")?.or(line.number("t")?).unwrap_or(0);
    Ok(Task { pid, ppid, tid, ptid, time_ns })
}

fn mmap<'a>(line: &'a Words<'_>, build_id: Option<&'a [u8]>) -> Parsed<Mmap<'a>> {
    let (pid, tid) = line.pid_tid.unwrap_or_default();
    let (start, end) = line.range.ok_or("a mapping needs its [start,end)")?;
    let hex = |t: &str| u32::from_str_radix(t, 16).ok();
    let device = line.text("dev").and_then(|d| d.split_once(':')).and_then(|(a, b)| Some((hex(a)?, hex(b)?)));
    let file_id = match (build_id, device, line.kind) {
        (Some(id), _, _) => FileId::BuildId(id),
        (None, Some((major, minor)), _) => FileId::Inode {
            major,
            minor,
            inode: line.number("ino")?.unwrap_or(0),
            generation: line.number("gen")?.unwrap_or(0),
        },
        (None, None, "mmap2") => FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
        _ => FileId::None,
    };
    let prot_flags = (line.small("prot")?.unwrap_or(5), line.small("flags")?.unwrap_or(2));
    Ok(Mmap {
        pid,
        tid,
        addr: Avma(start),
        len: end.wrapping_sub(start),
        pgoff: line.number("off")?.unwrap_or(0),
        filename: &line.name,
        file_id,
        prot_flags: (line.kind == "mmap2").then_some(prot_flags),
        cpu_mode: line.mode(CpuMode::User)?,
        is_data: line.has("data"),
        parse_timeout: line.has("timeout"),
    })
}

/// A chain entry: an address, or a context by name.
fn chain_entry(word: &str) -> Option<u64> {
    CONTEXTS.iter().find(|(_, name, _)| *name == word).map(|(_, _, v)| *v).or_else(|| number(word))
}

/// The parts of a sample that must be owned somewhere.
#[derive(Default)]
struct Owned {
    chain: Option<Vec<u64>>,
    raw: Option<Vec<u8>>,
    branches: Option<Vec<u64>>,
    counters: Option<Vec<u64>>,
    regs_user: Option<Vec<u64>>,
    regs_intr: Option<Vec<u64>>,
    stack: Option<(Vec<u8>, u64)>,
    aux: Option<Vec<u8>>,
    group: Option<Vec<u64>>,
}

fn owned(line: &Words<'_>) -> Parsed<Owned> {
    let branch = |b: &str| {
        let (from, rest) = b.split_once('>')?;
        let (to, flags) = rest.split_once(':').unwrap_or((rest, "0"));
        Some([number(from)?, number(to)?, number(flags)?])
    };
    let sizes = line.text("stack").map(|v| v.split_once('/').unwrap_or((v, v)));
    let size = |v: &str| number(v).filter(|n| *n <= 65_528).ok_or_else(|| format!("stack={v} is no size"));
    let given = line.bytes("stack_bytes")?;
    let stack = match (sizes, given) {
        (Some((valid, reserved)), given) => {
            let valid = usize::try_from(size(valid)?).unwrap_or(0);
            Some((given.unwrap_or_else(|| vec![0; valid]), size(reserved)?))
        }
        (None, Some(bytes)) => Some((bytes, 0)),
        (None, None) => None,
    };
    let values = |v: &str| v.split(':').map(number).collect::<Option<Vec<_>>>();
    Ok(Owned {
        chain: line.list("chain", chain_entry)?,
        raw: line.bytes("raw")?,
        branches: line.list("branches", branch)?.map(|b| b.concat()),
        counters: line.list("branch_counters", number)?,
        regs_user: line.list("regs_user", number)?,
        regs_intr: line.list("regs_intr", number)?,
        stack,
        aux: line.bytes("aux")?,
        group: line.list("group", values)?.map(|g| g.concat()),
    })
}

fn regs<'a>(values: &'a Option<Vec<u64>>, mask: u64) -> Option<Regs<'a>> {
    let (abi, values) = values.as_ref()?.split_first()?;
    Some(Regs { abi: *abi, mask, values: values.into() })
}

fn read<'a>(
    line: &Words<'_>,
    group: &'a Option<Vec<u64>>,
    read_format: u64,
) -> Parsed<Option<ReadGroup<'a>>> {
    let has = |bit| read_format & bit != 0;
    let mut out = match (group, line.text("read")) {
        (Some(words), _) => ReadGroup::group(words, has(PERF_FORMAT_ID), has(PERF_FORMAT_LOST)),
        (None, Some(text)) => {
            let mut parts = text.split(':').map(number);
            let mut next = || parts.next().flatten();
            let value = next().ok_or("read= needs a value")?;
            ReadGroup::one(ReadValue { value, id: next(), lost: next() })
        }
        _ => return Ok(None),
    };
    out.time_enabled_ns = line.number("enabled")?;
    out.time_running_ns = line.number("running")?;
    Ok(Some(out))
}

fn weight(line: &Words<'_>) -> Parsed<Option<Weight>> {
    let Some(text) = line.text("weight") else { return Ok(None) };
    let parts: Vec<u64> = text.split('/').filter_map(number).collect();
    let bad = || format!("weight={text} cannot be read");
    Ok(Some(match parts.as_slice() {
        [w] => Weight::Full(*w),
        [a, b, c] => Weight::Struct {
            var1: u32::try_from(*a).map_err(|_| bad())?,
            var2: u16::try_from(*b).map_err(|_| bad())?,
            var3: u16::try_from(*c).map_err(|_| bad())?,
        },
        _ => return Err(bad()),
    }))
}

fn write_sample(w: &mut Writer<'_>, line: &Words<'_>) -> Parsed<()> {
    let event = event_index(w, line)?;
    let attr = w.events().get(event).ok_or("there is no such event")?.attr;
    let id = trailer(w, event, line)?;
    let o = owned(line)?;
    let first_address = o.chain.iter().flatten().copied().find(|e| *e < PERF_CONTEXT_MAX);
    let ip = line.number("ip")?.or(first_address);
    let default = if ip.unwrap_or(0) >> 63 != 0 { CpuMode::Kernel } else { CpuMode::User };
    let exact = if line.has("exact") { PERF_RECORD_MISC_EXACT_IP } else { 0 };
    let sample = Sample {
        misc: line.mode(default)?.to_misc() | exact,
        identifier: id.identifier,
        ip: ip.map(Avma),
        pid_tid: line.pid_tid,
        time_ns: id.time_ns,
        addr: line.number("addr")?.map(Avma),
        id: id.id,
        stream_id: line.number("stream")?,
        cpu: id.cpu,
        period: Some(line.number("period")?.unwrap_or(1)),
        read: read(line, &o.group, attr.read_format)?,
        callchain: o.chain.as_deref().map(|c| Callchain(c.into())),
        raw: o.raw.as_deref(),
        branches: o.branches.as_deref().map(|b| {
            BranchStack::from_words(line.number("hw_index").ok().flatten(), b, o.counters.as_deref())
        }),
        regs_user: regs(&o.regs_user, attr.sample_regs_user),
        stack_user: o.stack.as_ref().map(|(bytes, reserved)| UserStack { bytes, reserved: *reserved }),
        weight: weight(line)?,
        data_src: line.number("data_src")?,
        transaction: line.number("transaction")?,
        regs_intr: regs(&o.regs_intr, attr.sample_regs_intr),
        phys_addr: line.number("phys_addr")?,
        cgroup: line.number("cgroup")?,
        data_page_size: line.number("data_page_size")?,
        code_page_size: line.number("code_page_size")?,
        aux: o.aux.as_deref(),
    };
    w.write_record(event, &Record::Sample(sample), &SampleId::default()).map_err(|e| e.to_string())
}
