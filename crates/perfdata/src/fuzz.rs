//! Fuzz entry points: ordinary functions that must return, whatever the bytes.

use std::ops::ControlFlow;

use crate::abi::{PERF_FORMAT_LOST, PERF_SAMPLE_BRANCH_COUNTERS, PERF_SAMPLE_WEIGHT_STRUCT};
use crate::appendix::summed_stacks::SummedStacks;
use crate::{Attr, Endian, Order, PerfData, Sample, SampleFormat};

/// One target.
pub type FuzzTarget = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("perf_data_file_order", fuzz_file_order),
    ("perf_data_time_order", fuzz_time_order),
    ("attr", fuzz_attr),
    ("sample", fuzz_sample),
    ("session_text", fuzz_session_text),
    ("off_cpu_payload", fuzz_off_cpu_payload),
    ("stack_notes", fuzz_stack_notes),
    ("tracepoint_format", fuzz_tracepoint_format),
    ("jitdump", fuzz_jitdump),
    ("summed_stacks", fuzz_summed_stacks),
];

/// Opens, visits in file order and prints every record.
pub fn fuzz_file_order(bytes: &[u8]) {
    visit(bytes, Order::File);
}

/// Opens, visits in time order and prints every record.
pub fn fuzz_time_order(bytes: &[u8]) {
    visit(bytes, Order::Time);
}

fn visit(bytes: &[u8], order: Order) {
    let Ok(file) = PerfData::open(bytes) else { return };
    let mut text = String::new();
    file.events().iter().for_each(|e| crate::text::write_event(&mut text, e));
    file.visit(order, |item| {
        text.clear();
        crate::text::write_item(&mut text, &file, item, crate::text::StackText::Size);
        ControlFlow::Continue(())
    });
}

/// Sums in an appendix, in both byte orders: what was read is written and read again.
pub fn fuzz_summed_stacks(bytes: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        if let Some(stacks) = SummedStacks::read(bytes, endian) {
            assert_eq!(SummedStacks::read(&stacks.to_bytes(endian), endian), Some(stacks));
        }
    }
}

/// A file of code made at run time.
pub fn fuzz_jitdump(bytes: &[u8]) {
    if let Ok(dump) = crate::jitdump::JitDump::parse(bytes) {
        assert!(dump.events.len() <= bytes.len());
    }
}

/// An attribute in both byte orders.
pub fn fuzz_attr(bytes: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        if let Some(attr) = Attr::parse(bytes, endian) {
            let _ = attr.to_bytes();
        }
    }
}

/// A sample whose format is the first words.
pub fn fuzz_sample(bytes: &[u8]) {
    let word =
        |i: usize| bytes.get(i * 8..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
    let format = SampleFormat {
        sample_type: word(0) & ((PERF_SAMPLE_WEIGHT_STRUCT << 1) - 1),
        read_format: word(1) & ((PERF_FORMAT_LOST << 1) - 1),
        branch_sample_type: word(2) & ((PERF_SAMPLE_BRANCH_COUNTERS << 1) - 1),
        regs_user: word(3),
        regs_intr: word(4),
        endian: if word(5) & 1 == 0 { Endian::Little } else { Endian::Big },
    };
    if let Some(sample) = Sample::parse(0, bytes.get(48..).unwrap_or_default(), &format) {
        let _ = format!("{sample:?}");
    }
}

/// Session text, and the file it makes.
pub fn fuzz_session_text(bytes: &[u8]) {
    if let Ok(file) = crate::text::to_perf_data(&String::from_utf8_lossy(bytes)) {
        visit(&file, Order::Time);
    }
}

/// Reads one raw payload of an off-CPU sample.
pub fn fuzz_off_cpu_payload(bytes: &[u8]) {
    let _ = crate::off_cpu::Payload::parse(bytes);
}

/// Reads an appendix, looks a stop up and writes it again.
pub fn fuzz_stack_notes(bytes: &[u8]) {
    for file in
        crate::appendix::archive::split(bytes).1.and_then(crate::appendix::archive::read).unwrap_or_default()
    {
        std::hint::black_box(file.unpack());
    }
    if let Some(text) = crate::appendix::findings_note::read(bytes) {
        std::hint::black_box(crate::appendix::findings_note::to_bytes(text));
    }
    if let Some(maps) = crate::appendix::jit_maps::JitMaps::read(bytes, Endian::Little) {
        std::hint::black_box(maps.to_bytes(Endian::Little));
    }
    if let Some(files) = crate::appendix::same_paths::SamePaths::read(bytes, Endian::Little) {
        std::hint::black_box(files.to_bytes(Endian::Little));
    }
    if let Some(waits) = crate::appendix::go_waits::GoWaits::read(bytes, Endian::Little) {
        let _ = waits.to_bytes(Endian::Little);
    }
    if let Some(labels) = crate::appendix::goroutine_labels::GoroutineLabels::read(bytes, Endian::Little) {
        std::hint::black_box(labels.to_bytes(Endian::Little));
    }
    if let Some(functions) = crate::appendix::python_functions::PythonFunctions::read(bytes, Endian::Little) {
        std::hint::black_box(functions.to_bytes(Endian::Little));
    }
    if let Some(names) = crate::appendix::descriptors::NamedDescriptors::read(bytes, Endian::Little) {
        let call = crate::appendix::descriptors::CallOfWait { pid: 1, syscall: 0, argument: 3 };
        std::hint::black_box(names.name_in(call, 5..=7));
        std::hint::black_box(names.to_bytes(Endian::Little));
    }
    if let Some(contexts) = crate::appendix::thread_contexts::ThreadContexts::read(bytes, Endian::Little) {
        std::hint::black_box(contexts.to_bytes(Endian::Little));
    }
    if let Some(kept) = crate::appendix::kept_window::KeptTime::read(bytes, Endian::Little) {
        std::hint::black_box(kept.to_bytes(Endian::Little));
    }
    if let Some(open) = crate::appendix::open_spans::OpenSpans::read(bytes, Endian::Little) {
        std::hint::black_box(open.to_bytes(Endian::Little));
    }
    if let Some(files) = crate::appendix::disk_files::DiskFiles::read(bytes, Endian::Little) {
        let of = files.parts.first().map(|part| (part.device, part.sector, part.time_ns));
        std::hint::black_box(
            of.map(|(device, sector, time_ns)| files.parts_of(device, sector, time_ns).len()),
        );
        std::hint::black_box(files.newest_of(1, 5..=7));
        std::hint::black_box(files.to_bytes(Endian::Little));
    }
    if let Some(notes) = crate::appendix::stack_notes::StackNotes::read(bytes, Endian::Little) {
        let first = notes.stops.first().map(|s| (s.time_ns, s.tid));
        let _ = first.and_then(|(time_ns, tid)| notes.end_of(time_ns, tid));
        let _ = notes.to_bytes(Endian::Little);
    }
}

/// A tracepoint format, and the same bytes as its payload.
pub fn fuzz_tracepoint_format(bytes: &[u8]) {
    if let Some(format) = crate::tracepoint::Format::parse("s", bytes, Endian::Little, 8) {
        format.print(bytes, &mut String::new());
        let _ = format.values(bytes);
    }
}
