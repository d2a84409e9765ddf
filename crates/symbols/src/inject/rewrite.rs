//! Copies a recording in order of time, with new mappings at their time.

use super::jit_code::{JitMappings, NewMapping, is_dump};
use super::{CreateFile, InjectError};
use perfdata::file::features::BuildIdEntry;
use perfdata::{Endian, Features, Item, Order, PerfData, ReadMode, Record, Writer, WriterOpts};
use std::fs::File;
use std::io;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::path::Path;
use std::slice;

/// Records and features that a copy has in addition.
#[derive(Default)]
pub struct Added {
    /// Mappings of JIT code.
    pub jit: JitMappings,
    /// Build-ids of files.
    pub build_ids: Vec<BuildIdEntry>,
}

/// Writes the copy of `file` to `output`.
///
/// # Errors
/// It can't be written, or the recording is of a kind that can't be copied.
pub fn rewrite(
    file: &PerfData<'_>,
    added: &Added,
    output: &Path,
    create: CreateFile<'_>,
) -> Result<(), InjectError> {
    if file.endian() != Endian::NATIVE {
        return Err(InjectError::OtherByteOrder);
    }
    if has_trace(file) {
        return Err(InjectError::ProcessorTrace);
    }
    create(output).and_then(|sink| write(file, added, sink)).map_err(InjectError::at(output))
}

fn write(file: &PerfData<'_>, added: &Added, sink: File) -> io::Result<()> {
    let opts = WriterOpts { events: file.events().to_vec(), ..WriterOpts::default() };
    let mut writer = Writer::file(sink, opts)?;
    copy(file, added, &mut writer)?;
    let mut features = Features { compressed: None, ..file.features().clone() };
    features.build_ids.extend(added.build_ids.iter().cloned());
    writer.finish(&features, file.appendix().unwrap_or_default())
}

fn has_trace(file: &PerfData<'_>) -> bool {
    let mut has_trace = false;
    file.visit(Order::File, |item| {
        has_trace = matches!(item.record, Record::Auxtrace(_));
        if has_trace { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    has_trace
}

fn copy(file: &PerfData<'_>, added: &Added, writer: &mut Writer<'_>) -> io::Result<()> {
    let mut copier = Copier {
        mode: file.mode(),
        added,
        writer,
        waiting: added.jit.mappings.iter().peekable(),
        last: std::ptr::null(),
    };
    let mut result: io::Result<()> = Ok(());
    file.visit(Order::Time, |item| {
        result = copier.copy(item);
        if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    result
}

/// The copy while it is written.
struct Copier<'a, 'w> {
    mode: ReadMode,
    added: &'a Added,
    writer: &'a mut Writer<'w>,
    /// New mappings that are later than all records so far, in the order of time.
    waiting: Peekable<slice::Iter<'a, NewMapping>>,
    /// The bytes of the record before: a sample of several counters comes once for each.
    last: *const u8,
}

impl Copier<'_, '_> {
    /// Writes the new mappings that come before `item`, then `item` itself unless it is left out.
    fn copy(&mut self, item: &Item<'_>) -> io::Result<()> {
        let is_before = |next: &&NewMapping| item.time_ns().is_some_and(|time| next.time_ns <= time);
        while let Some(mapping) = self.waiting.next_if(is_before) {
            let path = mapping.file.to_string_lossy();
            self.writer.write_record(mapping.event, &mapping.record(path.as_bytes()), &mapping.id)?;
        }
        if item.raw.as_ptr() == self.last || is_left_out(item, self.mode, self.added) {
            return Ok(());
        }
        self.last = item.raw.as_ptr();
        self.writer.write_raw(item.raw)
    }
}

/// Records that a sorted file doesn't have, and mappings that the new ones replace.
fn is_left_out(item: &Item<'_>, mode: ReadMode, added: &Added) -> bool {
    match &item.record {
        Record::FinishedRound | Record::FinishedInit => true,
        // A file has these in its header.
        Record::HeaderAttr(_)
        | Record::HeaderEventType { .. }
        | Record::HeaderTracingData(_)
        | Record::HeaderBuildId(_)
        | Record::HeaderFeature { .. } => mode == ReadMode::Pipe,
        Record::Mmap(map) if added.jit.processes.contains(&map.pid) => {
            is_dump(map.filename) || map.filename == b"//anon" || map.filename.starts_with(b"[anon")
        }
        _ => false,
    }
}
