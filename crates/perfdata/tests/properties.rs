//! Properties over generated records and mutated files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::ops::ControlFlow;

use perfdata::abi::*;
use perfdata::record::{Comm, FileId, Mmap, Switch, TaskRecord};
use perfdata::{
    Attr, AttrFlags, Avma, Callchain, CpuMode, Endian, Event, Order, PerfData, Record, Sample, SampleId,
    fuzz, record_to_bytes, text,
};
use proptest::prelude::*;

fn event() -> Event {
    let bits = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
    let flags = AttrFlags::SAMPLE_ID_ALL;
    let attr = Attr { sample_type: bits | PERF_SAMPLE_CALLCHAIN, flags, ..Attr::default() };
    Event { attr, ids: vec![7], name: "e".into() }
}

/// The attribute of any bits that are laid out the same in both byte orders.
fn any_attr() -> impl Strategy<Value = Attr> {
    (any::<[u64; 8]>(), any::<[u32; 5]>(), any::<u16>()).prop_map(|(w, d, h)| Attr {
        type_: d[0],
        size: PERF_ATTR_SIZE_VER9,
        config: w[0],
        sample_period: w[1],
        sample_type: w[2],
        read_format: w[3],
        flags: AttrFlags(w[4]),
        wakeup: d[1],
        bp_type: d[2],
        config1: w[5],
        config2: w[6],
        sample_regs_user: w[7],
        sample_stack_user: d[3],
        clockid: d[4].cast_signed(),
        sample_max_stack: h,
        config4: w[0] ^ 1,
        ..Attr::default()
    })
}

proptest! {
    #[test]
    fn an_attribute_is_read_as_it_was_written(attr in any_attr()) {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = attr.to_bytes_sized(PERF_ATTR_SIZE_VER9, endian);
            prop_assert_eq!(Attr::parse(&bytes, endian), Some(attr));
        }
    }

    #[test]
    fn records_are_read_as_they_were_written(
        pid in any::<u32>(), tid in any::<u32>(), time in 1..u64::MAX - 1, words in any::<[u64; 4]>(),
        chain in prop::collection::vec(any::<u64>(), 0..40), name in "[a-z/]{0,40}", flag in any::<bool>(),
    ) {
        let records = [
            Record::Comm(Comm { pid, tid, comm: name.as_bytes(), exec: flag }),
            Record::Fork(TaskRecord { pid, ppid: tid, tid, ptid: pid, time_ns: words[0] }),
            Record::Switch(Switch { out: flag, preempt: !flag, next_prev: flag.then_some((pid, tid)) }),
            Record::Mmap(Mmap {
                pid, tid, addr: Avma(words[0]), len: words[1], pgoff: words[2], filename: name.as_bytes(),
                file_id: FileId::Inode { major: 1, minor: 2, inode: words[3], generation: 4 },
                prot_flags: Some((5, 2)), cpu_mode: CpuMode::User, is_data: flag, parse_timeout: false,
            }),
            Record::Sample(Sample {
                misc: PERF_RECORD_MISC_USER, identifier: Some(7), ip: Some(Avma(words[0])), pid_tid: Some((pid, tid)),
                time_ns: Some(time), cpu: Some(pid), callchain: Some(Callchain(chain.as_slice().into())),
                ..Sample::default()
            }),
        ];
        let id = SampleId {
            pid_tid: Some((pid, tid)), time_ns: Some(time), id: None, stream_id: None, cpu: Some(1), identifier: Some(7),
        };
        let opts = perfdata::WriterOpts { events: vec![event()], ..Default::default() };
        let mut out = std::io::Cursor::new(Vec::new());
        let mut w = perfdata::Writer::file(&mut out, opts).unwrap();
        for r in &records {
            w.write_raw(&record_to_bytes(&event(), r, &id).unwrap()).unwrap();
        }
        w.finish(&perfdata::Features::default(), b"").unwrap();
        let bytes = out.into_inner();
        let mut n = 0;
        PerfData::open(&bytes).unwrap().visit(Order::File, |item| {
            assert_eq!(item.record, records[n]);
            if !matches!(item.record, Record::Sample(_)) {
                assert_eq!(item.sample_id, Some(id));
            }
            n += 1;
            ControlFlow::Continue(())
        });
        prop_assert_eq!(n, records.len());
    }

    #[test]
    fn any_bytes_return_from_every_target(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz::TARGETS.iter().for_each(|(_, target)| target(&bytes));
    }

    #[test]
    fn a_damaged_file_is_read_without_a_panic(at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<prop::sample::Index>()) {
        let session = "comm 7/7 t=1 exec sh\nmmap2 7/7 t=1 [0x1000,0x2000) /bin/sh\nfork 8/8 t=2 parent=7/7\n\
             sample 7/7 t=3 cpu=0 period=10 chain=user,0x1010,0x1020 raw=0102 stack=64/128 addr=0x5\nround\n\
             sample 7/7 t=4 cpu=0 period=10 chain=user,0x1010,0x1020 raw=0102 stack=64/128 addr=0x5\n";
        let mut bytes = text::to_perf_data(session).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fuzz::fuzz_time_order(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        fuzz::fuzz_file_order(&bytes);
    }
}

#[test]
fn a_length_of_four_gigabytes_in_a_small_file_is_only_a_number() {
    let mut bytes = text::to_perf_data("sample 1/1 t=1 chain=0x10").unwrap();
    let words = bytes.len() / 8;
    for at in 0..words {
        let mut damaged = bytes.clone();
        damaged[at * 8..at * 8 + 8].copy_from_slice(&u64::from(u32::MAX).to_le_bytes());
        fuzz::fuzz_time_order(&damaged);
        damaged[at * 8..at * 8 + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        fuzz::fuzz_time_order(&damaged);
    }
    bytes.clear();
    fuzz::fuzz_time_order(&bytes);
}
