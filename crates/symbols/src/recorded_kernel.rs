//! A file's facts about the kernel it was recorded on.

use dso::{BuildId, RecordedKernel};
use perfdata::{CpuMode, Order, PerfData, Record, record};
use profile::machine::is_kernel_proper;
use std::ops::ControlFlow;

/// Reads `file` up to its first sample: the kernel's mapping comes before.
#[must_use]
pub fn kernel_of(file: &PerfData<'_>) -> RecordedKernel {
    let features = file.features();
    let is_kernel = |name: &[u8]| is_kernel_proper(&String::from_utf8_lossy(name));
    let id = features.build_ids.iter().find(|id| is_kernel(&id.filename)).map(|id| id.build_id.as_slice());
    let mut kernel = RecordedKernel {
        build_id: id.and_then(BuildId::from_bytes),
        release: features.os_release.clone(),
        code: None,
    };
    file.visit(Order::File, |item| match &item.record {
        Record::Mmap(map) if map.cpu_mode == CpuMode::Kernel && is_kernel(map.filename) => {
            if let record::FileId::BuildId(id) = map.file_id {
                kernel.build_id = BuildId::from_bytes(id);
            }
            kernel.code = Some(map.addr.0..map.addr.0.saturating_add(map.len));
            ControlFlow::Break(())
        }
        Record::Sample(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    kernel
}
