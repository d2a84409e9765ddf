//! Reading session text into a perf.data file.

use std::io::Cursor;

use super::event::{default_event, parse_event};
use super::sample::write_sample;
use super::words::{Parsed, TextProblem, Words, number};
use crate::record::{Cgroup, Comm, FileId, Ksymbol, Lost, Mmap, Switch, TaskRecord};
use crate::{Avma, CpuMode, Features, Record, SampleId, Writer, WriterOpts};

/// A line of session text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TextError {
    /// 1-based.
    pub line: usize,
    /// Fault.
    pub problem: TextProblem,
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
    let at = |line: usize| move |problem: TextProblem| TextError { line, problem };
    let mut events = Vec::new();
    for (n, line) in lines().filter(|(_, l)| l.starts_with("event ")) {
        events.push(parse_event(&Words::split(line)).map_err(at(n))?);
    }
    if events.is_empty() {
        events.push(default_event(text));
    }
    let mut file = Cursor::new(Vec::new());
    let broken = |e: std::io::Error| TextError { line: 0, problem: e.into() };
    let mut w = Writer::file(&mut file, WriterOpts { events, ..WriterOpts::default() }).map_err(broken)?;
    for (n, line) in lines().filter(|(_, l)| !l.starts_with("event ")) {
        write_line(&mut w, &Words::split(line)).map_err(at(n))?;
    }
    w.finish(&Features { arch: Some("x86_64".into()), ..Features::default() }, b"").map_err(broken)?;
    Ok(file.into_inner())
}

fn write_line(w: &mut Writer<'_>, line: &Words<'_>) -> Parsed<()> {
    match line.kind {
        "round" => return Ok(w.finish_round()?),
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
        other => return Err(TextProblem::bad_word(other, "is not a record type")),
    };
    Ok(w.write_record(event, &record, &id)?)
}

fn write_namespaces(w: &mut Writer<'_>, event: usize, line: &Words<'_>, id: &SampleId) -> Parsed<()> {
    let mut words = Vec::new();
    for name in crate::record::Namespaces::NAMES {
        let Some((device, inode)) = line.text(name).and_then(|v| v.split_once(':')) else { continue };
        words.extend([number(device).unwrap_or(0), number(inode).unwrap_or(0)]);
    }
    let (pid, tid) = line.pid_tid.unwrap_or_default();
    let record = Record::Namespaces(crate::record::Namespaces::from_words(pid, tid, &words));
    Ok(w.write_record(event, &record, id)?)
}

/// `record type=N misc=N bytes=HEX`
fn write_generic(w: &mut Writer<'_>, line: &Words<'_>) -> Parsed<()> {
    let payload = line.bytes("bytes")?.unwrap_or_default();
    let mut p = crate::wire::Put::new(crate::Endian::NATIVE);
    p.u32(line.small("type")?.ok_or(TextProblem::BadLine("a record needs its type"))?);
    p.u16(u16::try_from(line.number("misc")?.unwrap_or(0)).unwrap_or(0));
    p.u16(u16::try_from(payload.len() + 8).map_err(|_| TextProblem::BadLine("the record is too long"))?);
    p.raw(&payload);
    Ok(w.write_raw(&p.bytes)?)
}

/// The event by `event=INDEX`, or by `id=`.
pub(super) fn event_index(w: &Writer<'_>, line: &Words<'_>) -> Parsed<usize> {
    let index = line.number("event")?.and_then(|e| usize::try_from(e).ok());
    let id = line.number("id")?;
    let by_id = || id.and_then(|id| w.events().iter().position(|e| e.ids.contains(&id)));
    Ok(index.or_else(by_id).unwrap_or(0))
}

/// Thread, time and CPU of a line.
pub(super) fn trailer(w: &Writer<'_>, event: usize, line: &Words<'_>) -> Parsed<SampleId> {
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

fn task(line: &Words<'_>) -> Parsed<TaskRecord> {
    let (pid, tid) = line.pid_tid.unwrap_or_default();
    let (ppid, ptid) = line.pair("parent")?.unwrap_or((pid, pid));
    let time_ns = line.number("own_t")?.or(line.number("t")?).unwrap_or(0);
    Ok(TaskRecord { pid, ppid, tid, ptid, time_ns })
}

fn mmap<'a>(line: &'a Words<'_>, build_id: Option<&'a [u8]>) -> Parsed<Mmap<'a>> {
    let (pid, tid) = line.pid_tid.unwrap_or_default();
    let (start, end) = line.range.ok_or(TextProblem::BadLine("a mapping needs its [start,end)"))?;
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
