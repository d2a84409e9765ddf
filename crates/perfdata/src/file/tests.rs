//! Files of the other byte order, built by hand.

use std::ops::ControlFlow;

use crate::abi::*;
use crate::file::encode::to_bytes;
use crate::record::{Comm, FileId, Lost, Mmap, Switch, TaskRecord};
use crate::wire::Put;
use crate::{
    Attr, AttrFlags, Avma, BranchStack, Callchain, CpuMode, Endian, GroupLayout, Order, PerfData, ReadGroup,
    Record, Sample, SampleFormat, SampleId, SampleRegs, UserStack, Weight,
};

const ID: u64 = 0x0102_0304_0506_0708;

fn attr() -> Attr {
    let bits = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU;
    let parts = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_REGS_USER;
    let tail = PERF_SAMPLE_STACK_USER | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_READ;
    let mut flags = AttrFlags::SAMPLE_ID_ALL | AttrFlags::MMAP2 | AttrFlags::FREQ;
    flags.set_precise_ip(2);
    Attr {
        size: PERF_ATTR_SIZE_VER7,
        sample_period: 4000,
        sample_type: bits | parts | tail,
        read_format: PERF_FORMAT_GROUP | PERF_FORMAT_ID,
        branch_sample_type: PERF_SAMPLE_BRANCH_ANY,
        sample_regs_user: 0b101,
        flags,
        ..Attr::default()
    }
}

/// Header, one attribute with one id, and the records.
fn file(endian: Endian, records: &[Record<'_>], id: &SampleId) -> Vec<u8> {
    let format = SampleFormat::new(&attr(), endian);
    let data: Vec<u8> =
        records.iter().flat_map(|r| to_bytes(&format, attr().flags, r, id).unwrap()).collect();
    let mut p = Put::new(endian);
    p.raw(if endian == Endian::Big { b"2ELIFREP" } else { b"PERFILE2" });
    let (attrs_at, attr_bytes) = (104 + 8, 128 + 16);
    for word in
        [104, attr_bytes, attrs_at, attr_bytes, attrs_at + attr_bytes, data.len() as u64, 0, 0, 0, 0, 0, 0]
    {
        p.u64(word);
    }
    p.u64(ID);
    p.raw(&attr().to_bytes_sized(PERF_ATTR_SIZE_VER7, endian));
    p.u64(104);
    p.u64(8);
    p.raw(&data);
    p.bytes
}

#[test]
fn a_file_of_either_byte_order_reads_the_same() {
    let id = SampleId {
        pid_tid: Some((7, 8)),
        time_ns: Some(5),
        id: Some(ID),
        stream_id: None,
        cpu: Some(3),
        identifier: None,
    };
    let sample = Sample {
        misc: PERF_RECORD_MISC_USER,
        ip: Some(Avma(0x1010)),
        pid_tid: Some((7, 8)),
        time_ns: Some(9),
        id: Some(ID),
        cpu: Some(3),
        read: Some(ReadGroup::group(&[5, ID], GroupLayout { has_id: true, has_lost: false })),
        callchain: Some(Callchain([PERF_CONTEXT_USER, 0x1010, 0x1020].as_slice().into())),
        raw: Some(b"abcd"),
        branches: Some(BranchStack::from_words(None, &[1, 2, 0b10 | 77 << 4], None)),
        regs_user: Some(SampleRegs { abi: 2, mask: 0b101, values: [1, 2].as_slice().into() }),
        stack_user: Some(UserStack { bytes: b"01234567", reserved: 8 }),
        weight: Some(Weight::Struct { var1: 1, var2: 2, var3: 3 }),
        ..Sample::default()
    };
    let records = [
        Record::Comm(Comm { pid: 7, tid: 8, comm: b"app", exec: true }),
        Record::Mmap(Mmap {
            pid: 7,
            tid: 8,
            addr: Avma(0x1000),
            len: 0x1000,
            pgoff: 0x2000,
            filename: b"/bin/app",
            file_id: FileId::Inode { major: 8, minor: 1, inode: 9, generation: 2 },
            prot_flags: Some((5, 2)),
            cpu_mode: CpuMode::User,
            is_data: false,
            parse_timeout: false,
        }),
        Record::Fork(TaskRecord { pid: 9, ppid: 7, tid: 9, ptid: 8, time_ns: 6 }),
        Record::Switch(Switch { out: true, preempt: true, next_prev: Some((1, 2)) }),
        Record::Lost(Lost { id: ID, lost: 3 }),
        Record::Sample(sample),
    ];
    for endian in [Endian::Little, Endian::Big] {
        let bytes = file(endian, &records, &id);
        let file = PerfData::open(&bytes).unwrap();
        assert_eq!((file.problems(), file.endian()), (&[][..], endian));
        assert_eq!((file.events()[0].attr, file.events()[0].ids.as_slice()), (attr(), [ID].as_slice()));
        let mut got = 0;
        let d = file.visit(Order::File, |item| {
            match (&item.record, &records[got]) {
                (Record::Sample(a), Record::Sample(b)) => {
                    // The words of a branch stack keep the file's bit order; its branches do not.
                    let branches = |s: &Sample<'_>| s.branches.unwrap().iter().collect::<Vec<_>>();
                    assert_eq!(branches(a), branches(b));
                    assert_eq!(Sample { branches: None, ..*a }, Sample { branches: None, ..*b });
                }
                (a, b) => {
                    assert_eq!((a, item.sample_id), (b, Some(id)), "{endian:?}");
                }
            }
            got += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((got, d.problem_count), (records.len(), 0), "{endian:?}: {:?}", d.problems);
        assert_eq!(d.lost_total().records, 3);
    }
}
