//! One test per `sample_type` and `read_format` bit: bytes laid out by hand as the kernel writes them, and the
//! neighbours on both sides, so that a field moved by one word fails.

use super::*;
use crate::wire::Put;

/// ip before and transaction after the field under test.
fn check(bit: u64, format: SampleFormat, field: &[u64], expected: impl Fn(&Sample<'_>)) {
    let behind_transaction = PERF_SAMPLE_REGS_INTR
        | PERF_SAMPLE_PHYS_ADDR
        | PERF_SAMPLE_CGROUP
        | PERF_SAMPLE_DATA_PAGE_SIZE
        | PERF_SAMPLE_CODE_PAGE_SIZE
        | PERF_SAMPLE_AUX;
    for endian in [Endian::Little, Endian::Big] {
        let sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TRANSACTION | bit;
        let format = SampleFormat { sample_type, endian, ..format };
        let mut p = Put::new(endian);
        let before_ip = bit == PERF_SAMPLE_IDENTIFIER;
        let (ip, transaction) = (0x1111, 0x9999);
        if before_ip {
            field.iter().for_each(|w| p.u64(*w));
        }
        p.u64(ip);
        if bit & behind_transaction != 0 {
            p.u64(transaction);
        }
        if !before_ip {
            field.iter().for_each(|w| p.u64(*w));
        }
        if bit & behind_transaction == 0 {
            p.u64(transaction);
        }
        let s = Sample::parse(0, &p.bytes, &format).unwrap();
        assert_eq!((s.ip, s.transaction), (Some(Avma(ip)), Some(transaction)), "{endian:?}");
        expected(&s);
        let mut again = Put::new(endian);
        s.write(&mut again, &format);
        assert_eq!(again.bytes, p.bytes, "written again, {endian:?}");
        assert_eq!(Sample::parse(0, &p.bytes[..p.bytes.len() - 1], &format), None, "one byte short");
    }
}

/// Fields of whole words.
fn words(bit: u64, field: &[u64], expected: impl Fn(&Sample<'_>)) {
    check(bit, SampleFormat::default(), field, expected);
}

#[test]
fn identifier_comes_first() {
    words(PERF_SAMPLE_IDENTIFIER, &[7], |s| assert_eq!(s.identifier, Some(7)));
}

#[test]
fn time_is_one_word() {
    words(PERF_SAMPLE_TIME, &[7], |s| assert_eq!(s.time_ns, Some(7)));
}

#[test]
fn addr_is_one_word() {
    words(PERF_SAMPLE_ADDR, &[7], |s| assert_eq!(s.addr, Some(Avma(7))));
}

#[test]
fn id_is_one_word() {
    words(PERF_SAMPLE_ID, &[7], |s| assert_eq!((s.id, s.event_id()), (Some(7), Some(7))));
}

#[test]
fn stream_id_is_one_word() {
    words(PERF_SAMPLE_STREAM_ID, &[7], |s| assert_eq!(s.stream_id, Some(7)));
}

#[test]
fn period_is_one_word() {
    words(PERF_SAMPLE_PERIOD, &[7], |s| assert_eq!(s.period, Some(7)));
}

#[test]
fn tid_and_cpu_are_two_halves_of_a_word() {
    for endian in [Endian::Little, Endian::Big] {
        let format = SampleFormat {
            sample_type: PERF_SAMPLE_TID | PERF_SAMPLE_CPU,
            endian,
            ..SampleFormat::default()
        };
        let mut p = Put::new(endian);
        [100, 101, 3, 0].into_iter().for_each(|v| p.u32(v));
        let s = Sample::parse(0, &p.bytes, &format).unwrap();
        assert_eq!((s.pid_tid, s.cpu), (Some((100, 101)), Some(3)));
    }
}

#[test]
fn a_single_read_has_its_times_between_value_and_id() {
    let format = SampleFormat {
        read_format: PERF_FORMAT_TOTAL_TIME_ENABLED
            | PERF_FORMAT_TOTAL_TIME_RUNNING
            | PERF_FORMAT_ID
            | PERF_FORMAT_LOST,
        ..SampleFormat::default()
    };
    check(PERF_SAMPLE_READ, format, &[5, 20, 10, 7, 2], |s| {
        let r = s.read.unwrap();
        assert_eq!((r.time_enabled_ns, r.time_running_ns, r.is_group()), (Some(20), Some(10), false));
        assert_eq!(r.get(0), Some(ReadValue { value: 5, id: Some(7), lost: Some(2) }));
        assert_eq!(r.get(1), None);
    });
}

#[test]
fn a_group_read_has_its_count_then_times_then_values() {
    let format = SampleFormat {
        read_format: PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_ID | PERF_FORMAT_LOST,
        ..SampleFormat::default()
    };
    check(PERF_SAMPLE_READ, format, &[2, 20, 5, 7, 1, 6, 8, 0], |s| {
        let values: Vec<_> = s.read.unwrap().iter().collect();
        assert_eq!(values[0], ReadValue { value: 5, id: Some(7), lost: Some(1) });
        assert_eq!(values[1], ReadValue { value: 6, id: Some(8), lost: Some(0) });
    });
}

#[test]
fn a_group_read_without_ids_is_values_only() {
    let format = SampleFormat { read_format: PERF_FORMAT_GROUP, ..SampleFormat::default() };
    check(PERF_SAMPLE_READ, format, &[3, 5, 6, 7], |s| {
        assert_eq!(s.read.unwrap().iter().map(|v| v.value).collect::<Vec<_>>(), [5, 6, 7]);
    });
}

#[test]
fn callchain_is_leaf_first_with_markers() {
    words(PERF_SAMPLE_CALLCHAIN, &[3, PERF_CONTEXT_USER, 0x10, 0x20], |s| {
        let chain: Vec<_> = s.callchain.unwrap().iter().collect();
        assert_eq!(
            chain,
            [
                ChainEntry::Context(Context::User),
                ChainEntry::Address(Avma(0x10)),
                ChainEntry::Address(Avma(0x20))
            ]
        );
    });
}

#[test]
fn raw_has_a_half_word_of_size() {
    for endian in [Endian::Little, Endian::Big] {
        let format = SampleFormat {
            sample_type: PERF_SAMPLE_RAW | PERF_SAMPLE_WEIGHT,
            endian,
            ..SampleFormat::default()
        };
        let mut p = Put::new(endian);
        p.u32(4);
        p.raw(b"abcd");
        p.u64(9);
        let s = Sample::parse(0, &p.bytes, &format).unwrap();
        assert_eq!((s.raw, s.weight), (Some(b"abcd".as_slice()), Some(Weight::Full(9))));
    }
}

#[test]
fn branch_stack_is_triples() {
    words(PERF_SAMPLE_BRANCH_STACK, &[1, 0x10, 0x20, 0], |s| {
        let b = s.branches.unwrap().get(0).unwrap();
        assert_eq!((b.from, b.to, s.branches.unwrap().hw_index), (Avma(0x10), Avma(0x20), None));
    });
}

#[test]
fn branch_flags_of_a_big_endian_file_are_the_same_fields() {
    // mispred, predicted, in_tx, abort: one bit each from the top; then cycles:16, type:4, …
    let format = SampleFormat {
        sample_type: PERF_SAMPLE_BRANCH_STACK,
        endian: Endian::Big,
        ..SampleFormat::default()
    };
    let mut p = Put::new(Endian::Big);
    let flags = 1 << 62 | 0x1234 << 44 | 6 << 40;
    [1, 0x10, 0x20, flags].into_iter().for_each(|w| p.u64(w));
    let b = Sample::parse(0, &p.bytes, &format).unwrap().branches.unwrap().get(0).unwrap().flags;
    assert!(b.predicted() && !b.mispredicted());
    assert_eq!((b.cycles(), b.type_()), (0x1234, 6));
}

#[test]
fn hw_index_follows_the_count() {
    let branch_sample_type = PERF_SAMPLE_BRANCH_HW_INDEX;
    let format = SampleFormat { branch_sample_type, ..SampleFormat::default() };
    check(PERF_SAMPLE_BRANCH_STACK, format, &[1, 5, 0x10, 0x20, 0], |s| {
        assert_eq!((s.branches.unwrap().hw_index, s.branches.unwrap().len()), (Some(5), 1));
    });
}

#[test]
fn without_a_branch_stack_the_kernel_leaves_out_hw_index() {
    let format = SampleFormat {
        sample_type: PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_TRANSACTION,
        branch_sample_type: PERF_SAMPLE_BRANCH_HW_INDEX,
        ..SampleFormat::default()
    };
    let mut p = Put::new(Endian::Little);
    [0, 0x9999].into_iter().for_each(|w| p.u64(w));
    let s = Sample::parse(0, &p.bytes, &format).unwrap();
    assert_eq!((s.branches.unwrap().hw_index, s.transaction), (None, Some(0x9999)));
}

#[test]
fn branch_counters_follow_the_entries() {
    let format = SampleFormat { branch_sample_type: PERF_SAMPLE_BRANCH_COUNTERS, ..SampleFormat::default() };
    check(PERF_SAMPLE_BRANCH_STACK, format, &[2, 1, 2, 0, 3, 4, 0, 70, 71], |s| {
        let b = s.branches.unwrap();
        assert_eq!(b.counters.unwrap().iter().collect::<Vec<_>>(), [70, 71]);
        assert_eq!(b.get(1).unwrap().from, Avma(3));
    });
}

#[test]
fn user_registers_are_as_many_as_mask_bits() {
    let format = SampleFormat { regs_user: 0b1001_0000_0000, ..SampleFormat::default() };
    check(PERF_SAMPLE_REGS_USER, format, &[2, 8, 11], |s| {
        let r = s.regs_user.unwrap();
        assert_eq!((r.abi, r.reg(8), r.reg(11), r.reg(0)), (2, Some(8), Some(11), None));
    });
}

#[test]
fn a_kernel_thread_has_no_user_registers() {
    let format = SampleFormat { regs_user: 0xff, ..SampleFormat::default() };
    check(PERF_SAMPLE_REGS_USER, format, &[0], |s| assert!(s.regs_user.unwrap().values.is_empty()));
}

#[test]
fn user_stack_is_cut_to_its_dynamic_size() {
    let field = [16, u64::from_le_bytes(*b"abcdefgh"), 0, 8];
    let format = SampleFormat {
        sample_type: PERF_SAMPLE_STACK_USER | PERF_SAMPLE_TRANSACTION,
        ..SampleFormat::default()
    };
    let mut p = Put::new(Endian::Little);
    field.into_iter().chain([0x9999]).for_each(|w| p.u64(w));
    let s = Sample::parse(0, &p.bytes, &format).unwrap();
    assert_eq!(s.stack_user, Some(UserStack { bytes: b"abcdefgh", reserved: 16 }));
    assert_eq!(s.transaction, Some(0x9999));
}

#[test]
fn an_empty_user_stack_is_only_its_size() {
    words(PERF_SAMPLE_STACK_USER, &[0], |s| assert_eq!(s.stack_user.unwrap().bytes, b""));
}

#[test]
fn weight_is_one_word() {
    words(PERF_SAMPLE_WEIGHT, &[7], |s| assert_eq!(s.weight, Some(Weight::Full(7))));
}

#[test]
fn weight_struct_is_three_parts_of_a_word() {
    let word = 1 | 2 << 32 | 3 << 48;
    words(PERF_SAMPLE_WEIGHT_STRUCT, &[word], |s| {
        assert_eq!(s.weight, Some(Weight::Struct { var1: 1, var2: 2, var3: 3 }));
    });
}

#[test]
fn data_src_is_one_word() {
    words(PERF_SAMPLE_DATA_SRC, &[7], |s| assert_eq!(s.data_src, Some(7)));
}

#[test]
fn interrupt_registers_follow_transaction() {
    let format = SampleFormat { regs_intr: 0b11, ..SampleFormat::default() };
    check(PERF_SAMPLE_REGS_INTR, format, &[2, 5, 6], |s| assert_eq!(s.regs_intr.unwrap().reg(1), Some(6)));
}

#[test]
fn phys_addr_is_one_word() {
    words(PERF_SAMPLE_PHYS_ADDR, &[7], |s| assert_eq!(s.phys_addr, Some(7)));
}

#[test]
fn cgroup_is_one_word() {
    words(PERF_SAMPLE_CGROUP, &[7], |s| assert_eq!(s.cgroup, Some(7)));
}

#[test]
fn data_page_size_is_one_word() {
    words(PERF_SAMPLE_DATA_PAGE_SIZE, &[4096], |s| assert_eq!(s.data_page_size, Some(4096)));
}

#[test]
fn code_page_size_is_one_word() {
    words(PERF_SAMPLE_CODE_PAGE_SIZE, &[4096], |s| assert_eq!(s.code_page_size, Some(4096)));
}

#[test]
fn aux_is_written_last() {
    let bits = PERF_SAMPLE_AUX | PERF_SAMPLE_CGROUP | PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE;
    let mut p = Put::new(Endian::Little);
    [7, 4096, 8192, 8].into_iter().for_each(|w| p.u64(w));
    p.raw(b"auxbytes");
    let s =
        Sample::parse(0, &p.bytes, &SampleFormat { sample_type: bits, ..SampleFormat::default() }).unwrap();
    assert_eq!((s.cgroup, s.data_page_size, s.code_page_size), (Some(7), Some(4096), Some(8192)));
    assert_eq!(s.aux, Some(b"auxbytes".as_slice()));
}

#[test]
fn a_length_beyond_the_record_is_refused() {
    for bit in [PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_AUX] {
        for huge in [9, u64::from(u32::MAX), u64::MAX, u64::MAX / 8 + 1, u64::MAX / 24 + 1] {
            let format = SampleFormat { sample_type: bit, ..SampleFormat::default() };
            let mut p = Put::new(Endian::Little);
            [huge, 1].into_iter().for_each(|w| p.u64(w));
            assert_eq!(Sample::parse(0, &p.bytes, &format), None, "{bit:#x} {huge:#x}");
        }
    }
}
