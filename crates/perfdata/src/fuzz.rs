//! Fuzz entry points: ordinary functions that must return, whatever the bytes.

use std::ops::ControlFlow;

use crate::{Order, PerfData};

/// One target.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("perf_data_file_order", fuzz_file_order),
    ("perf_data_time_order", fuzz_time_order),
    ("off_cpu_payload", fuzz_off_cpu_payload),
];

/// Reads one raw payload of an off-CPU sample.
pub fn fuzz_off_cpu_payload(bytes: &[u8]) {
    let _ = crate::off_cpu::Payload::parse(bytes);
}

/// Opens and visits in file order.
pub fn fuzz_file_order(bytes: &[u8]) {
    visit(bytes, Order::File);
}

/// Opens and visits in time order.
pub fn fuzz_time_order(bytes: &[u8]) {
    visit(bytes, Order::Time);
}

fn visit(bytes: &[u8], order: Order) {
    if let Ok(file) = PerfData::open(bytes) {
        file.visit(order, |_| ControlFlow::Continue(()));
    }
}
