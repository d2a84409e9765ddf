//! The AUXTRACE_INFO record: what a decoder must know of processor, clocks and setup.
//
// Layout: u64 private[]: pmu_type, time_shift, time_mult, time_zero, cap_user_time_zero, tsc_bit, noretcomp_bit,
//         have_sched_switch, snapshot_mode, per_cpu_mmaps, mtc_bit, mtc_freq_bits, tsc_ctc_n, tsc_ctc_d, cyc_bit,
//         max_nonturbo_ratio, filter_str_len, filter_str padded to words, cap_event_trace.
// Source: linux v6.18 tools/perf/arch/x86/util/intel-pt.c intel_pt_info_fill().

use perfdata::U64s;
use perfdata::record::AuxtraceInfo;

use super::PtOpts;
use super::pmu::PtPmu;
use crate::sys::aux_area::TscFactors;

/// `PERF_AUXTRACE_INTEL_PT`.
const INTEL_PT: u32 = 1;
/// Switch records of the traced threads.
const SWITCHES_OF_TASKS: u64 = 2;
/// Switch records of all threads of the CPUs.
const SWITCHES_OF_CPUS: u64 = 3;

/// Everything the record is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The PMU.
    pub pmu: PtPmu,
    /// The kernel's clock; `None` where it isn't reported.
    pub clock: Option<TscFactors>,
    /// How the trace is taken.
    pub options: PtOpts,
    /// Whole CPUs are traced.
    pub system_wide: bool,
    /// The kernel's form of the address filter.
    pub filter: Option<String>,
}

impl Info {
    /// The record's private words.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        let Self { pmu, clock, options, .. } = self;
        let switches = match (options.per_thread, self.system_wide) {
            (true, _) => 0,
            (false, true) => SWITCHES_OF_CPUS,
            (false, false) => SWITCHES_OF_TASKS,
        };
        let (shift, mult, zero) = clock.map_or((0, 0, 0), |c| (c.shift.into(), c.mult.into(), c.zero_ns));
        let filter = self.filter.as_deref().unwrap_or_default();
        let mut words = vec![
            pmu.type_.into(),
            shift,
            mult,
            zero,
            clock.is_some().into(),
            pmu.tsc,
            pmu.noretcomp,
            switches,
            options.snapshot.is_some().into(),
            (!options.per_thread).into(),
            pmu.mtc,
            pmu.mtc_period,
            pmu.tsc_per_crystal.0.into(),
            pmu.tsc_per_crystal.1.into(),
            pmu.cyc,
            pmu.max_nonturbo_ratio,
            filter.len() as u64,
        ];
        if !filter.is_empty() {
            // With its NUL, so a filter of eight bytes takes two words.
            let mut bytes = filter.as_bytes().to_vec();
            bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            words.extend(bytes.chunks(8).map(word));
        }
        words.push(pmu.event_trace.into());
        words
    }
}

/// The record around these words.
#[must_use]
pub fn record(words: &[u64]) -> AuxtraceInfo<'_> {
    AuxtraceInfo { type_: INTEL_PT, private: U64s::from(words) }
}
