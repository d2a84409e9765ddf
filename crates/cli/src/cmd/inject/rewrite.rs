//! Copies a recording in order of time, with new mappings at their time.

use super::jit_code::{JitMappings, is_dump};
use anyhow::{Context, bail};
use perfdata::file::features::BuildIdEntry;
use perfdata::{Endian, Features, Item, Mode, Order, PerfData, Record, Writer, WriterOpts};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

/// What a copy has in addition.
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
pub fn rewrite(file: &PerfData<'_>, added: &Added, output: &Path) -> anyhow::Result<()> {
    if file.endian() != Endian::NATIVE {
        bail!("the recording is from a machine of the other byte order, which can't be rewritten here");
    }
    let sink = record::output_file::create_recording(output)
        .with_context(|| format!("can't write {}", output.display()))?;
    let opts = WriterOpts { events: file.events().to_vec(), ..WriterOpts::default() };
    let mut writer = Writer::file(sink, opts)?;
    copy(file, added, &mut writer)?;
    let mut features = Features { compressed: None, ..file.features().clone() };
    features.build_ids.extend(added.build_ids.iter().cloned());
    writer.finish(&features, file.appendix().unwrap_or_default())?;
    Ok(())
}

fn copy(file: &PerfData<'_>, added: &Added, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let mut waiting = added.jit.mappings.iter().peekable();
    let mut result: io::Result<()> = Ok(());
    let mut has_trace = false;
    // A sample of several counters comes once for each.
    let mut last: *const u8 = std::ptr::null();
    file.visit(Order::Time, |item| {
        if matches!(item.record, Record::Auxtrace(_)) {
            has_trace = true;
            return ControlFlow::Break(());
        }
        let mut step = || -> io::Result<()> {
            while let Some(mapping) =
                waiting.next_if(|next| item.time_ns().is_some_and(|time| next.time_ns <= time))
            {
                let path = mapping.file.to_string_lossy();
                writer.write_record(mapping.event, &mapping.record(path.as_bytes()), &mapping.id)?;
            }
            if item.raw.as_ptr() == last || is_left_out(item, file.mode(), added) {
                return Ok(());
            }
            last = item.raw.as_ptr();
            writer.write_raw(item.raw)
        };
        result = step();
        if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if has_trace {
        bail!("recordings with a processor trace can't be rewritten");
    }
    result.context("can't write the copy")
}

/// Records that a sorted file doesn't have, and mappings that the new ones replace.
fn is_left_out(item: &Item<'_>, mode: Mode, added: &Added) -> bool {
    match &item.record {
        Record::FinishedRound | Record::FinishedInit => true,
        // A file has these in its header.
        Record::HeaderAttr(_)
        | Record::HeaderEventType { .. }
        | Record::HeaderTracingData(_)
        | Record::HeaderBuildId(_)
        | Record::HeaderFeature { .. } => mode == Mode::Pipe,
        Record::Mmap(map) if added.jit.processes.contains(&map.pid) => {
            is_dump(map.filename) || map.filename == b"//anon" || map.filename.starts_with(b"[anon")
        }
        _ => false,
    }
}
