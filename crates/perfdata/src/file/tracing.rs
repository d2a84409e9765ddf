//! `TRACING_DATA`: the tracepoint formats of the recording kernel.
//
// Layout: "\x17\x08\x44tracing" "0.6\0" u8 big_endian, u8 long_size, u32 page_size;
//         "header_page\0" u64 size, bytes; "header_event\0" u64 size, bytes;
//         u32 nr, { u64 size, format }[nr] (ftrace);
//         u32 systems, { name\0, u32 nr, { u64 size, format }[nr] };
//         u32 size, kallsyms; u32 size, printk formats; u64 size, saved cmdlines (from version 0.6).
// Source: linux v7.2 tools/perf/util/trace-event-info.c, tracing_data_get().

/// Formats of all tracepoints recorded, and what is needed to print their payloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracingData {
    /// Version, `0.6`.
    pub version: String,
    /// Whether the payloads are big-endian.
    pub big_endian: bool,
    /// Bytes of a `long` of the recording kernel.
    pub long_size: u8,
    /// Its page size.
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
