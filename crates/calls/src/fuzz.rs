//! Fuzz entry points: ordinary functions that must return, whatever the bytes.

use crate::model::{
    Asked, CallProfile, FunctionId, RawStep, Replay, ReplayGate, Step, ThreadFile, UftraceValue,
    parse_uftrace,
};
use crate::pt::Sideband;
use perfdata::PerfData;

/// One target.
pub type FuzzTarget = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("thread_file", fuzz_thread_file),
    ("pt_sideband", fuzz_sideband),
    ("uftrace", fuzz_uftrace),
    ("probe_spec", crate::probing::definition::spec::fuzz),
];

/// A thread's call file of these bytes after a good header, replayed. Every call entered is accounted for.
pub fn fuzz_thread_file(bytes: &[u8]) {
    let header = tracer::layout::ThreadHeader { pid: 1, tid: 1, tsc: 1 << 40, monotonic_ns: 0, first: 0 };
    let mut file = header.to_bytes().to_vec();
    file.extend(bytes);
    let Ok(file) = ThreadFile::parse(&file) else { return };
    let mut replay = Replay::new(CallProfile::new(0, 3), ReplayGate::new(None, Asked::default()));
    let mut entered = 0;
    for (tsc, raw) in file.steps() {
        entered += u64::from(matches!(raw, RawStep::Enter(_)));
        if let Some(step) = raw.numbered(|address| FunctionId((address & 0xff) as u32)) {
            replay.step(tsc, step, &mut |_| {});
        }
    }
    let sum = replay.finish(&mut |_| {});
    assert_eq!(entered, sum.calls());
}

/// A thread's file of uftrace; no exit without its entry.
pub fn fuzz_uftrace(bytes: &[u8]) {
    const VALUES: &[UftraceValue] =
        &[UftraceValue::Text, UftraceValue::Auto, UftraceValue::Record(9), UftraceValue::X87];
    let mut open = 0i64;
    for (_, step) in parse_uftrace(bytes, &mut |address, _| VALUES[..address as usize % 5].into()).steps {
        match step {
            RawStep::Enter(_) => open += 1,
            RawStep::Other(Step::Lost(_) | Step::Extra(_)) => {}
            _ => open -= 1,
        }
        assert!(open >= 0);
    }
}

/// The sideband of a recording of these bytes.
pub fn fuzz_sideband(bytes: &[u8]) {
    let Ok(file) = PerfData::open(bytes) else { return };
    if let Ok(side) = Sideband::read(&file) {
        for at in 0..side.buffers.len() {
            let task = side.running(at, 1 << 32);
            let _space = task.and_then(|task| side.code(task.signed_pid(), 1 << 32));
        }
    }
}

#[cfg(test)]
mod tests {
    /// It names times near the largest number.
    #[test]
    fn a_thread_file_of_huge_times_is_summed() {
        super::fuzz_thread_file(include_bytes!("../../../tests/hostile/thread_file_of_huge_times"));
    }
}
