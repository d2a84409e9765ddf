//! Off-CPU records as bytes and back.

use super::*;

#[test]
fn payloads_come_back_as_they_were_written() {
    let interval = OffCpuInterval {
        state: State::Disk,
        flags: flag::WOKEN | flag::OPEN_LEFT,
        since_ns: 17,
        length_ns: 1_234_567,
        syscall: Some(0),
        args: [3, u64::MAX, 4096],
        sums: None,
        other: OtherThread {
            pid: 7,
            tid: 8,
            comm: "kworker/0:1".into(),
            chain: vec![u64::MAX - 127, 0xffff],
        },
        place: "folio_wait_bit_common".into(),
    };
    let raw = interval.to_bytes();
    assert_eq!((raw.len() + 4) % 8, 0);
    assert_eq!(Payload::parse(&raw), Some(Payload::Interval(interval.clone())));
    let nobody = OffCpuInterval {
        other: OtherThread { pid: 7, tid: 8, ..OtherThread::default() },
        place: String::new(),
        ..interval.clone()
    };
    let raw = nobody.to_bytes();
    assert_eq!(raw.len(), 68);
    assert_eq!(Payload::parse(&raw), Some(Payload::Interval(nobody.clone())));
    for other in [&nobody.other, &interval.other] {
        let sums = WaitSums { print: 1, count: 3, longest_ns: 1_300_000, ..WaitSums::default() };
        let summed = OffCpuInterval { sums: Some(Box::new(sums)), other: other.clone(), ..nobody.clone() };
        let raw = summed.to_bytes();
        assert_eq!((raw.len() + 4) % 8, 0);
        assert_eq!(Payload::parse(&raw), Some(Payload::Interval(summed)));
    }
    let totals = OffCpuTotals {
        start_ns: 5,
        end_ns: 105,
        total_ns: [40, 10, 0, 30, 20, 0, 0, 0],
        switches: 9,
        flags: flag::EXITED,
        comm: "main".into(),
        preemptions: 4,
        migrations: 2,
        faults: [70, 1],
        queue: None,
        title: String::new(),
    };
    let mut lengths = QueueLengths::default();
    lengths.add(5000);
    for queue in [None, Some(Box::new([QueueLengths::default(), lengths]))] {
        let totals = OffCpuTotals { queue, ..totals.clone() };
        let raw = totals.to_bytes();
        assert_eq!((raw.len() + 4) % 8, 0);
        assert_eq!(Payload::parse(&raw), Some(Payload::Totals(totals.clone())));
        if totals.queue.is_some() {
            let titled = OffCpuTotals { title: "postgres: checkpointer".into(), ..totals };
            let raw = titled.to_bytes();
            assert_eq!((raw.len() + 4) % 8, 0);
            assert_eq!(Payload::parse(&raw), Some(Payload::Totals(titled)));
        }
    }
}

#[test]
fn foreign_or_cut_bytes_are_no_payload() {
    let raw = OffCpuTotals::default().to_bytes();
    // 112 to 116 bytes are the form of earlier files.
    for len in 0..raw.len() {
        assert_eq!(Payload::parse(&raw[..len]).is_some(), (112..=116).contains(&len), "{len}");
    }
    let woken = OffCpuInterval {
        state: State::Sleep,
        flags: 0,
        since_ns: 0,
        length_ns: 0,
        syscall: None,
        args: [0; 3],
        sums: None,
        other: OtherThread { comm: "x".into(), ..OtherThread::default() },
        place: String::new(),
    };
    let raw = woken.to_bytes();
    for len in 0..88 {
        // Without a byte after the waker's ids it would be a wait without further data.
        assert_eq!(Payload::parse(&raw[..len]).is_some(), (64..72).contains(&len), "{len}");
    }
    assert_eq!(Payload::parse(b"sched_switch data, for one"), None);
}
