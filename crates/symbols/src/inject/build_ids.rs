//! Build-ids that a recording lacks, read from the files as they are now.

use perfdata::file::features::BuildIdEntry;
use perfdata::{CpuMode, Order, PerfData, Record, record};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

/// `PERF_RECORD_MISC_USER`.
const USER: u16 = 2;

/// An entry for each mapped file of user space that has no build-id in the recording and has one on this machine.
#[must_use]
pub fn missing_build_ids(file: &PerfData<'_>) -> Vec<BuildIdEntry> {
    let known: BTreeSet<&[u8]> =
        file.features().build_ids.iter().map(|entry| entry.filename.as_slice()).collect();
    let mut paths: BTreeSet<Vec<u8>> = BTreeSet::new();
    file.visit(Order::File, |item| {
        if let Record::Mmap(map) = &item.record {
            let is_file = map.filename.starts_with(b"/") && !map.filename.starts_with(b"//");
            let has_id = matches!(map.file_id, record::FileId::BuildId(_));
            if map.cpu_mode == CpuMode::User && is_file && !has_id && !known.contains(map.filename) {
                paths.insert(map.filename.to_vec());
            }
        }
        ControlFlow::Continue(())
    });
    let entry = |path: Vec<u8>| {
        let id = dso::elf::read_build_id(Path::new(&*String::from_utf8_lossy(&path)))?;
        Some(BuildIdEntry { misc: USER, pid: -1, build_id: id.as_bytes().to_vec(), filename: path })
    };
    paths.into_iter().filter_map(entry).collect()
}
