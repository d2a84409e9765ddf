//! Recordings that show who ran, and records of a guest, which are ignored.

use super::*;
use perfdata::abi::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    PERF_TYPE_TRACEPOINT,
};
use perfdata::file::tracing::TracingData;
use perfdata::record::{Auxtrace, AuxtraceInfo};
use perfdata::{Attr, AttrFlags, Avma, Event, Features, Sample, SampleId, U64s, Writer, WriterOpts};
use std::io::Cursor;

/// A recording of one CPU whose switches are samples of the tracepoint: (time, prev, next).
fn recording(switches: &[(u64, i32, i32)]) -> Vec<u8> {
    const BITS: u64 =
        PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW | PERF_SAMPLE_IDENTIFIER;
    let flags = AttrFlags(0).with(AttrFlags::SAMPLE_ID_ALL);
    let attr = Attr { sample_type: BITS, flags, ..Attr::default() };
    let events = [(10, 0x401, "intel_pt//u"), (PERF_TYPE_TRACEPOINT, 316, "sched:sched_switch")];
    let events = events.iter().enumerate().map(|(n, (type_, config, name))| Event {
        attr: Attr { type_: *type_, config: *config, ..attr },
        ids: vec![n as u64 + 1],
        name: (*name).to_owned(),
    });
    let mut bytes = Cursor::new(Vec::new());
    let opts = WriterOpts { events: events.collect(), ..WriterOpts::default() };
    let mut writer = Writer::file(&mut bytes, opts).expect("memory");
    let words = [10, 31, 858_993_459, 0, 1, 0x400, 0x800, 1, 0, 1, 0x200, 0x3c000, 200, 2, 2, 25, 0];
    let info = Record::AuxtraceInfo(AuxtraceInfo { type_: INTEL_PT, private: U64s::from(&words[..]) });
    writer.write_record(0, &info, &SampleId::default()).expect("memory");
    for cpu_mode in [CpuMode::Kernel, CpuMode::GuestKernel] {
        let filename = format!("{cpu_mode:?}");
        let kernel = Mmap {
            pid: KERNEL.cast_unsigned(),
            tid: 0,
            addr: Avma(0xffff_ffff_8100_0000),
            len: 0x100_0000,
            pgoff: 0,
            filename: filename.as_bytes(),
            file_id: FileId::None,
            prot_flags: None,
            cpu_mode,
            is_data: false,
            parse_timeout: false,
        };
        writer.write_record(0, &Record::Mmap(kernel), &SampleId::default()).expect("memory");
    }
    for (time_ns, prev, next) in switches {
        let raw = [&316u32.to_ne_bytes()[..], &[0; 4], &prev.to_ne_bytes(), &next.to_ne_bytes()].concat();
        let sample = Sample {
            identifier: Some(2),
            pid_tid: Some((prev.cast_unsigned(), prev.cast_unsigned())),
            time_ns: Some(*time_ns),
            cpu: Some(0),
            raw: Some(&raw),
            ..Sample::default()
        };
        writer.write_record(1, &Record::Sample(sample), &SampleId::default()).expect("memory");
    }
    let nobody = u32::MAX;
    let aux = Auxtrace { offset: 0, reference: 0, idx: 0, tid: nobody, cpu: 0, size: 8, data: &[0; 8] };
    writer.write_auxtrace(&aux).expect("memory");
    let format = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:pid_t next_pid;\toffset:12;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
    let tracing = TracingData {
        version: "0.6".to_owned(),
        long_size: 8,
        page_size: 4096,
        formats: vec![("sched".to_owned(), format.as_bytes().to_vec())],
        ..TracingData::default()
    };
    let features = Features { tracing_data: Some(tracing), ..Features::default() };
    writer.finish(&features, &[]).expect("memory");
    bytes.into_inner()
}

#[test]
fn switches_told_by_the_tracepoint_say_who_runs_and_who_waits() {
    let bytes = recording(&[(100, 0, 7), (200, 7, 8), (350, 8, 7), (400, 7, 0)]);
    let file = PerfData::open(&bytes).expect("just written");
    let side = Sideband::read(&file).expect("it has a trace");
    let runs = |time_ns| side.running(0, time_ns).map(|task| task.tid);
    assert_eq!([150, 250, 360, 500].map(runs), [Some(7), Some(8), Some(7), Some(0)]);
    assert_eq!(side.off_cpu_ns(7, 0, 1000), 150);
    assert_eq!(side.off_cpu_ns(7, 300, 1000), 50);
}

#[test]
fn a_guests_kernel_is_not_this_machines() {
    let bytes = recording(&[(100, 0, 7)]);
    let file = PerfData::open(&bytes).expect("just written");
    let side = Sideband::read(&file).expect("it has a trace");
    let names: Vec<&str> = side.all_code().map(|mapping| mapping.name.as_str()).collect();
    assert_eq!(names, ["Kernel"]);
}
