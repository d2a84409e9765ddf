//! `TRACING_DATA`: the tracepoint formats of the recording kernel.
//
// Layout: "\x17\x08\x44tracing" "0.6\0" u8 big_endian, u8 long_size, u32 page_size;
//         "header_page\0" u64 size, bytes; "header_event\0" u64 size, bytes;
//         u32 nr, { u64 size, format }[nr] (ftrace);
//         u32 systems, { name\0, u32 nr, { u64 size, format }[nr] };
//         u32 size, kallsyms; u32 size, printk formats; u64 size, saved cmdlines (from version 0.6).
// Source: linux v7.2 tools/perf/util/trace-event-info.c, tracing_data_get().

use crate::wire::{Endian, Put, Wire};

/// Formats of all tracepoints recorded, and what is needed to print their payloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracingData {
    /// Version, `0.6`.
    pub version: String,
    /// Whether the payloads are big-endian.
    pub big_endian: bool,
    /// Bytes of a `long` of the recording kernel.
    pub long_size: u8,
    /// Page size.
    pub page_size: u32,
    /// Format of a ring buffer page, as text.
    pub header_page: Vec<u8>,
    /// Format of a ring buffer event, as text.
    pub header_event: Vec<u8>,
    /// Formats of ftrace's own events, as text.
    pub ftrace_formats: Vec<Vec<u8>>,
    /// (system, format text) of every tracepoint.
    pub formats: Vec<(String, Vec<u8>)>,
    /// /proc/kallsyms as recorded (often empty).
    pub kallsyms: Vec<u8>,
    /// Addresses of printk formats, as text.
    pub printk_formats: Vec<u8>,
    /// pid to comm, as text.
    pub saved_cmdlines: Vec<u8>,
}

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

impl TracingData {
    /// Reads the section; `None` if it is damaged before the formats. The parts after them may be missing.
    pub(crate) fn parse(data: &[u8]) -> Option<TracingData> {
        let rest = data.strip_prefix(MAGIC)?;
        let mut w = Wire::new(rest, Endian::Little);
        let version = cstring(&mut w)?;
        let big_endian = w.u8()? != 0;
        let endian = if big_endian { Endian::Big } else { Endian::Little };
        let mut w = Wire::new(w.rest(), endian);
        let (long_size, page_size) = (w.u8()?, w.u32()?);
        let mut t = TracingData { version, big_endian, long_size, page_size, ..TracingData::default() };
        (cstring(&mut w)? == "header_page").then_some(())?;
        t.header_page = sized(&mut w)?;
        (cstring(&mut w)? == "header_event").then_some(())?;
        t.header_event = sized(&mut w)?;
        for _ in 0..w.u32()? {
            t.ftrace_formats.push(sized(&mut w)?);
        }
        for _ in 0..w.u32()? {
            let system = cstring(&mut w)?;
            for _ in 0..w.u32()? {
                t.formats.push((system.clone(), sized(&mut w)?));
            }
        }
        // Whatever follows only helps with printing.
        let _ = t.parse_tail(&mut w);
        Some(t)
    }

    fn parse_tail(&mut self, w: &mut Wire<'_>) -> Option<()> {
        let size = w.u32()?;
        self.kallsyms = w.take(u64::from(size))?.to_vec();
        let size = w.u32()?;
        self.printk_formats = w.take(u64::from(size))?.to_vec();
        self.saved_cmdlines = sized(w)?;
        Some(())
    }

    /// The section's bytes, systems in the order of their first format.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut p = Put::new(if self.big_endian { Endian::Big } else { Endian::Little });
        p.raw(MAGIC);
        put_cstring(&mut p, &self.version);
        p.raw(&[u8::from(self.big_endian), self.long_size]);
        p.u32(self.page_size);
        put_cstring(&mut p, "header_page");
        put_sized(&mut p, &self.header_page);
        put_cstring(&mut p, "header_event");
        put_sized(&mut p, &self.header_event);
        put_count(&mut p, self.ftrace_formats.len());
        self.ftrace_formats.iter().for_each(|f| put_sized(&mut p, f));
        let mut systems: Vec<&String> = Vec::new();
        for (system, _) in &self.formats {
            if !systems.contains(&system) {
                systems.push(system);
            }
        }
        put_count(&mut p, systems.len());
        for system in systems {
            let formats: Vec<_> = self.formats.iter().filter(|(s, _)| s == system).collect();
            put_cstring(&mut p, system);
            put_count(&mut p, formats.len());
            formats.iter().for_each(|(_, f)| put_sized(&mut p, f));
        }
        for blob in [&self.kallsyms, &self.printk_formats] {
            put_count(&mut p, blob.len());
            p.raw(blob);
        }
        put_sized(&mut p, &self.saved_cmdlines);
        p.bytes
    }

    /// `system:name` of the tracepoint with this id (`attr.config`).
    #[must_use]
    pub fn name_of(&self, id: u64) -> Option<String> {
        self.formats.iter().find_map(|(system, format)| {
            let text = String::from_utf8_lossy(format);
            let field = |key: &str| {
                text.lines().find_map(|l| l.trim().strip_prefix(key).map(|v| v.trim().to_owned()))
            };
            (field("ID:")?.parse() == Ok(id)).then(|| field("name:").map(|n| format!("{system}:{n}")))?
        })
    }
}

fn cstring(w: &mut Wire<'_>) -> Option<String> {
    let len = memchr::memchr(0, w.rest())?;
    let text = String::from_utf8_lossy(w.take(len as u64)?).into_owned();
    w.u8()?;
    Some(text)
}

fn sized(w: &mut Wire<'_>) -> Option<Vec<u8>> {
    let size = w.u64()?;
    w.take(size).map(<[u8]>::to_vec)
}

fn put_cstring(p: &mut Put, s: &str) {
    p.raw(s.as_bytes());
    p.raw(&[0]);
}

fn put_sized(p: &mut Put, bytes: &[u8]) {
    p.count(bytes.len());
    p.raw(bytes);
}

fn put_count(p: &mut Put, n: usize) {
    p.u32(u32::try_from(n).unwrap_or(u32::MAX));
}
