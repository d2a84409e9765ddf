//! Profiles and timelines written in the formats of other programs: pprof, OTLP, Firefox, speedscope,
//! Chrome, Perfetto.

pub mod autofdo;
pub mod callgrind;
pub mod chrome;
pub mod firefox;
pub mod folded;
mod message;
pub mod otlp;
pub mod parquet;
pub mod perfetto;
pub mod pprof;
pub mod samples;
pub mod speedscope;
mod texts;

use perfdata::PidTid;
use std::io;

/// A span's name with its kind, numbered by the caller.
#[derive(Clone, Copy, Debug)]
pub struct NamedSpan<'a> {
    /// The same number for the same name.
    pub number: u64,
    /// The name.
    pub name: &'a str,
    /// Category.
    pub category: &'a str,
    /// Names and values of arguments.
    pub arguments: &'a [(String, String)],
}

/// A timeline of nested spans in a viewer's format. Times are ns since the trace's beginning.
///
/// # Errors
/// Every method fails if writing fails.
#[expect(clippy::missing_errors_doc, reason = "one section serves all methods")]
pub trait TimelineWriter {
    /// Names a thread and its process.
    fn thread(&mut self, task: PidTid, process: &str) -> io::Result<()>;
    /// A span of a thread begins.
    fn begin(&mut self, task: PidTid, named: NamedSpan<'_>, time_ns: u64) -> io::Result<()>;
    /// The innermost open span of a thread ends.
    fn end(&mut self, task: PidTid, time_ns: u64) -> io::Result<()>;
    /// Ends the file.
    fn finish(self) -> io::Result<()>;
}
