//! The AUX area, filled by a fake kernel and read, and the contents of the file after that.

use perfdata::record::Auxtrace;

use super::fake_kernel::{FakeKernel, Written};
use super::info::Info;
use super::pieces::{self, Owner};
use super::pmu::PtPmu;
use super::{AuxSnapshot, PtOpts};
use crate::sys::aux_area::TscFactors;
use crate::sys::{AuxMode, Ring};

const AREA: u64 = 8192;

fn rings(overwrite: bool) -> (FakeKernel, Ring) {
    let kernel = FakeKernel::new(2, AREA, overwrite).expect("a file in the folder for such");
    let mut ring = Ring::map_fd(kernel.fd(), 2).expect("maps");
    let mode = if overwrite { AuxMode::Snapshot } else { AuxMode::Full };
    ring.map_aux(kernel.fd(), AREA as usize, mode).expect("maps");
    (kernel, ring)
}

/// Bytes that show their position in the stream, none of them 0.
fn stream(from: u64, len: usize) -> Vec<u8> {
    (from..).map(|at| (at % 251 + 1) as u8).take(len).collect()
}

/// The piece that waits: offset, and trace without padding.
fn taken(ring: &mut Ring) -> Option<(u64, Vec<u8>)> {
    let bytes = pieces::take(ring, 3, Owner::Cpu(7))?;
    let piece = Auxtrace::of_bytes(&bytes).expect("a piece");
    assert_eq!((piece.idx, piece.cpu, piece.tid), (3, 7, u32::MAX));
    assert_eq!(piece.size, piece.data.len().next_multiple_of(8) as u64);
    Some((piece.offset, piece.data.to_vec()))
}

#[test]
fn a_full_trace_is_taken_in_order_across_the_areas_end() {
    let (mut kernel, mut ring) = rings(false);
    let (mut written, mut got) = (0u64, Vec::new());
    for len in [1000, 4000, 3003, 5000, 13, 7000, 7999] {
        let piece = stream(written, len);
        let told = kernel.trace(&piece).expect("writes");
        assert_eq!(told, Written { offset: written, size: len as u64, dropped: 0 });
        written += len as u64;
        let (offset, bytes) = taken(&mut ring).expect("something waits");
        assert_eq!(offset, got.len() as u64);
        got.extend(bytes);
    }
    assert!(got == stream(0, written as usize));
    assert_eq!(taken(&mut ring), None);
}

#[test]
fn a_full_area_drops_what_has_no_room_and_goes_on_once_it_was_read() {
    let (mut kernel, mut ring) = rings(false);
    let told = kernel.trace(&stream(0, 9000)).expect("writes");
    assert_eq!((told.size, told.dropped), (AREA, 9000 - AREA));
    assert_eq!(kernel.trace(&[1]).expect("writes").size, 0);
    assert!(taken(&mut ring) == Some((0, stream(0, AREA as usize))));
    assert_eq!(kernel.trace(&stream(0, 16)).expect("writes").offset, AREA);
    assert_eq!(taken(&mut ring), Some((AREA, stream(0, 16))));
}

fn snapshot(ring: &mut Ring) -> Option<Vec<u8>> {
    let bytes = pieces::take_snapshot(ring, 0, Owner::Thread(9))?;
    let piece = Auxtrace::of_bytes(&bytes).expect("a piece");
    assert_eq!((piece.cpu, piece.tid), (u32::MAX, 9));
    Some(piece.data.to_vec())
}

#[test]
fn a_snapshot_is_what_is_new_since_the_last_or_all_that_is_left() {
    let (mut kernel, mut ring) = rings(true);
    let mut written = 0;
    let mut write = |kernel: &mut FakeKernel, len: usize| {
        kernel.trace(&stream(written, len)).expect("writes");
        written += len as u64;
    };
    assert_eq!(snapshot(&mut ring), None);
    write(&mut kernel, 5000);
    assert!(snapshot(&mut ring) == Some(stream(0, 5000)));
    assert_eq!(snapshot(&mut ring), None);
    // Around the end, but not up to where the last snapshot ended.
    write(&mut kernel, 3500);
    assert!(snapshot(&mut ring) == Some(stream(5000, 3500)));
    // Around and past it: what is left is one area full.
    write(&mut kernel, 20_000);
    assert!(snapshot(&mut ring) == Some(stream(28_500 - AREA, AREA as usize)));
    let (mut kernel, mut ring) = rings(true);
    kernel.trace(&stream(0, 10_000)).expect("writes");
    assert!(snapshot(&mut ring) == Some(stream(10_000 - AREA, AREA as usize)));
}

#[test]
fn records_and_trace_of_one_ring_do_not_mix() {
    let (mut kernel, mut ring) = rings(false);
    let mut read = |kernel: &mut FakeKernel, at: u64| {
        assert!(kernel.record(&stream(at, 48)).expect("writes"));
        kernel.trace(&stream(at * 7, 1024)).expect("writes");
        let mut record = Vec::new();
        ring.read(|span| span.copy_to(0, span.len(), &mut record));
        assert_eq!(record, stream(at, 48));
        assert!(taken(&mut ring) == Some((at * 1024, stream(at * 7, 1024))));
    };
    (0..500).for_each(|at| read(&mut kernel, at));
    let big = vec![0; 9000];
    assert!(!kernel.record(&big).expect("writes"), "the ring is full");
}

#[test]
fn the_clock_is_the_kernels_and_missing_where_it_says_nothing() {
    let (kernel, ring) = rings(false);
    assert_eq!(ring.tsc_factors(), None);
    kernel.set_clock(31, 858_993_459, 77).expect("writes");
    assert_eq!(ring.tsc_factors(), Some(TscFactors { shift: 31, mult: 858_993_459, zero_ns: 77 }));
}

#[test]
fn the_info_record_has_perfs_fields_in_perfs_order() {
    let pmu = PtPmu {
        type_: 8,
        tsc: 0x400,
        mtc: 0x200,
        cyc: 2,
        noretcomp: 0x800,
        mtc_period: 0x3c000,
        tsc_per_crystal: (200, 2),
        max_nonturbo_ratio: 25,
        event_trace: true,
    };
    let clock = Some(TscFactors { shift: 31, mult: 858_993_459, zero_ns: 5 });
    let mut info = Info { pmu, clock, options: PtOpts::default(), system_wide: false, filter: None };
    let front = [8, 31, 858_993_459, 5, 1, 0x400, 0x800];
    let back = [0x200, 0x3c000, 200, 2, 2, 25];
    assert_eq!(info.words(), [&front[..], &[2, 0, 1], &back, &[0, 1]].concat());
    info.system_wide = true;
    info.options.snapshot = Some(AuxSnapshot::default());
    info.filter = Some("filter 0/8@/a".to_owned());
    let text = [u64::from_le_bytes(*b"filter 0"), u64::from_le_bytes(*b"/8@/a\0\0\0")];
    assert_eq!(info.words(), [&front[..], &[3, 1, 1], &back, &[13], &text, &[1]].concat());
    info.options.per_thread = true;
    assert_eq!(info.words()[7..10], [0, 1, 0]);
    info.clock = None;
    assert_eq!(info.words()[1..5], [0; 4]);
}
