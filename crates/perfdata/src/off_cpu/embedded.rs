//! perf's own `offcpu-time` samples (`perf record --off-cpu`, since 6.15): a sample within a sample's raw data.
//!
//! Its BPF program can write to a ring by `bpf_perf_event_output` only, whose samples identify the running
//! thread and not the one that waited. So the waiting thread, the length of the wait and its stack are in the
//! raw data. Before 6.15 all waits were summed up and written at the end as plain samples.

use crate::abi::{
    PERF_CONTEXT_MAX, PERF_COUNT_SW_BPF_OUTPUT, PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_USER,
    PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_RAW, PERF_TYPE_SOFTWARE,
};
use crate::wire::Wire;
use crate::{Avma, Callchain, Endian, Event, Sample};

/// Sums of waits that perf writes at its end have this time or a later one, all out of the order of time: none is known.
//
// Source: linux v7.2 tools/perf/util/bpf_off_cpu.c, OFF_CPU_TIMESTAMP
pub const NO_TIME_NS: u64 = !0 << 32;

/// True if the event's samples are in the raw data of its samples.
pub(crate) fn is_embedded(event: &Event) -> bool {
    let attr = &event.attr;
    let kind = attr.sample_type & (PERF_SAMPLE_RAW | PERF_SAMPLE_CALLCHAIN);
    event.name == super::event_name::OFF_CPU
        && attr.type_ == PERF_TYPE_SOFTWARE
        && attr.config == PERF_COUNT_SW_BPF_OUTPUT
        && kind == PERF_SAMPLE_RAW
}

// Layout: u32 a, b; u64 ns; u64 n; u64 chain[n]; u64 cgroup
//         sums written at the end: a = process, b = thread; single waits: a = thread, b = process
// Source: linux v7.2 tools/perf/util/bpf_off_cpu.c off_cpu_write(), tools/perf/util/bpf_skel/off_cpu.bpf.c off_cpu_dump()
pub(crate) fn unfold<'a>(sample: Sample<'a>, endian: Endian) -> Sample<'a> {
    let Some(raw) = sample.raw else { return sample };
    let parse = |mut read: Wire<'a>| {
        let (ids, ns, frames) = (read.u64()?, read.u64()?, read.u64()?);
        Some((ids, ns, read.u64s(frames)?, read.u64()))
    };
    let Some((ids, ns, chain, cgroup)) = parse(Wire::new(raw, endian)) else { return sample };
    let (low, high) = ((ids & 0xffff_ffff) as u32, (ids >> 32) as u32);
    let ip = chain.iter().find(|&addr| addr < PERF_CONTEXT_MAX).map(Avma).or(sample.ip);
    let is_sum = sample.time_ns.is_some_and(|time_ns| time_ns >= NO_TIME_NS);
    Sample {
        misc: sample.misc & !PERF_RECORD_MISC_CPUMODE_MASK | PERF_RECORD_MISC_USER,
        ip,
        pid_tid: Some(if is_sum { (low, high) } else { (high, low) }),
        period: Some(ns),
        callchain: Some(Callchain(chain)),
        cgroup: cgroup.or(sample.cgroup),
        raw: None,
        ..sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As perf 7.2 wrote it: ids, ns, two entries of the chain, cgroup, padding.
    fn raw(low: u32, high: u32) -> Vec<u8> {
        let mut raw = [low.to_le_bytes(), high.to_le_bytes()].concat();
        for word in [300_106_237, 2, u64::MAX - 511, 0x7f27_a2bc_7545, 7] {
            raw.extend(u64::to_le_bytes(word));
        }
        raw.extend([0; 4]);
        raw
    }

    #[test]
    fn sums_and_single_waits_name_the_thread_in_their_own_order() {
        let raw = raw(23935, 23949);
        for (time_ns, ids) in [(NO_TIME_NS + 3, (23935, 23949)), (39_338_717_154_000, (23949, 23935))] {
            let ran = Sample {
                pid_tid: Some((1, 1)),
                time_ns: Some(time_ns),
                raw: Some(&raw),
                ..Sample::default()
            };
            let sample = unfold(ran, Endian::Little);
            assert_eq!((sample.pid_tid, sample.period), (Some(ids), Some(300_106_237)));
            let chain: Vec<u64> = sample.callchain.expect("a chain").0.iter().collect();
            assert_eq!(chain, [u64::MAX - 511, 0x7f27_a2bc_7545]);
            assert_eq!((sample.ip, sample.cgroup, sample.raw), (Some(Avma(0x7f27_a2bc_7545)), Some(7), None));
            assert_eq!(sample.misc, PERF_RECORD_MISC_USER);
        }
    }

    #[test]
    fn cut_data_stay_as_they_are() {
        let raw = raw(1, 2);
        for len in 0..40 {
            let sample = Sample { raw: raw.get(..len), period: Some(1), ..Sample::default() };
            assert_eq!(unfold(sample, Endian::Little), sample, "{len}");
        }
    }
}
