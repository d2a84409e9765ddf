//! AUXTRACE_INFO: the recorder's data about the processor, its clocks and its setup.

use intelpt::{Errata, TimeParams};
use perfdata::PerfData;

/// `PERF_AUXTRACE_INTEL_PT`.
pub(super) const INTEL_PT: u32 = 1;

/// Why a recording's trace can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PtError {
    /// The recording has no AUXTRACE_INFO record.
    #[error(
        "no calls in it: record them with tally calls record, or with -e intel_pt//u (Intel PT); tally report shows samples"
    )]
    NoTrace,
    /// The trace is another processor's.
    #[error("its processor trace is of kind {0}, not Intel PT (kind 1)")]
    OtherTrace(u32),
    /// Fields that every version has are missing.
    #[error("its AUXTRACE_INFO record has {0} fields; at least 11 are needed")]
    ShortInfo(usize),
}

/// How TSC values become times of the recording.
// Source: linux tools/perf/util/tsc.c, tsc_to_perf_time().
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscClock {
    /// Right shift of the product.
    pub shift: u32,
    /// Factor.
    pub mult: u64,
    /// Time at TSC 0, ns.
    pub zero_ns: u64,
}

impl TscClock {
    /// From the ratio of TSC to bus clock (100 MHz), if the recording has no conversion: good for durations only.
    fn of_ratio(ratio: u64) -> Self {
        const SHIFT: u32 = 32;
        const NS_PER_BUS_CLOCK: u64 = 10;
        Self { shift: SHIFT, mult: (NS_PER_BUS_CLOCK << SHIFT) / ratio.clamp(1, 1 << 16), zero_ns: 0 }
    }

    /// The time at a TSC value, ns.
    #[must_use]
    pub fn ns_at(&self, tsc: u64) -> u64 {
        self.zero_ns.wrapping_add(self.ns_of(tsc))
    }

    /// Duration of this many ticks, ns.
    #[must_use]
    pub fn ns_of(&self, tsc: u64) -> u64 {
        let (high, low) = (tsc >> self.shift, tsc & ((1 << self.shift) - 1));
        high.wrapping_mul(self.mult).wrapping_add(low.wrapping_mul(self.mult) >> self.shift)
    }
}

/// Settings for every part of the decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSetup {
    /// Clock of the recording.
    pub clock: TscClock,
    /// Whether that clock's times are those of the other records.
    pub joined: bool,
    /// Parameters of the packets' times.
    pub time: TimeParams,
    /// Deviations of the processor from the manual.
    pub errata: Errata,
    /// Requested timing packets.
    pub timing: Timing,
    /// The trace consists of snapshots.
    pub snapshots: bool,
}

/// The finest timing packets of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Core cycles before every packet.
    Cycles,
    /// Steps of the crystal clock.
    Crystal,
    /// The time stamp counter, at boundaries only.
    Tsc,
    /// None.
    No,
}

impl TraceSetup {
    /// Reads the fields of the record, which versions of perf have more or fewer of.
    ///
    /// # Errors
    /// If fields that all have are missing.
    // Source: linux tools/perf/arch/x86/util/intel-pt.c, intel_pt_info_fill(); order of enum in util/intel-pt.h.
    pub(super) fn read(private: &[u64], file: &PerfData<'_>) -> Result<Self, PtError> {
        const PMU_TYPE: usize = 0;
        const TIME_SHIFT: usize = 1;
        const TIME_MULT: usize = 2;
        const TIME_ZERO: usize = 3;
        const CAP_TIME_ZERO: usize = 4;
        const TSC_BIT: usize = 5;
        const SNAPSHOT_MODE: usize = 8;
        const MTC_BIT: usize = 10;
        const MTC_FREQ_BITS: usize = 11;
        const TSC_CTC_N: usize = 12;
        const TSC_CTC_D: usize = 13;
        const CYC_BIT: usize = 14;
        const MAX_NONTURBO: usize = 15;
        if private.len() <= MTC_BIT {
            return Err(PtError::ShortInfo(private.len()));
        }
        let field = |at: usize| private.get(at).copied().unwrap_or(0);
        let small = |at: usize| u32::try_from(field(at)).unwrap_or(0);
        let told = field(CAP_TIME_ZERO) != 0 && field(TIME_MULT) != 0;
        let clock = if told {
            let (shift, mult) = (small(TIME_SHIFT).min(63), field(TIME_MULT));
            TscClock { shift, mult, zero_ns: field(TIME_ZERO) }
        } else {
            TscClock::of_ratio(field(MAX_NONTURBO))
        };
        let event = file.events().iter().find(|event| u64::from(event.attr.type_) == field(PMU_TYPE));
        let config = event.map_or(0, |event| event.attr.config);
        let bits = field(MTC_FREQ_BITS);
        let mtc_shift = if bits == 0 { 0 } else { (config & bits) >> bits.trailing_zeros() };
        let time = TimeParams {
            tsc_per_ctc: (small(TSC_CTC_N), small(TSC_CTC_D)),
            mtc_shift: u8::try_from(mtc_shift).unwrap_or(0).min(15),
            max_nonturbo_ratio: u8::try_from(field(MAX_NONTURBO)).unwrap_or(0),
        };
        let asked = |at: usize| config & field(at) != 0;
        let timing = match () {
            () if !asked(TSC_BIT) => Timing::No,
            () if asked(CYC_BIT) => Timing::Cycles,
            () if asked(MTC_BIT) && time.tsc_per_ctc.1 != 0 => Timing::Crystal,
            () => Timing::Tsc,
        };
        // Without times in the trace there is nothing to join.
        let joined = told && (event.is_none() || timing != Timing::No);
        let errata = errata_of(file.features().cpu_id.as_deref().unwrap_or_default());
        let snapshots = field(SNAPSHOT_MODE) != 0;
        Ok(Self { clock, joined, time, errata, timing, snapshots })
    }
}

/// Errata of the processor that perf's header names as `GenuineIntel,FAMILY,MODEL,STEPPING`, in decimal.
fn errata_of(cpu_id: &str) -> Errata {
    let mut words = cpu_id.split(',');
    let vendor = words.next();
    let mut number = || words.next()?.parse().ok();
    match (vendor, number(), number()) {
        (Some("GenuineIntel"), Some(family), Some(model)) => Errata::of_processor(family, model),
        _ => Errata::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intelpt::Erratum;

    #[test]
    fn the_header_names_the_processor_whose_errata_apply() {
        assert!(errata_of("GenuineIntel,6,94,3").has(Erratum::Skl014));
        assert_eq!(errata_of("AuthenticAMD,25,1,1"), Errata::NONE);
        assert_eq!(errata_of(""), Errata::NONE);
    }

    #[test]
    fn ticks_become_ns_by_the_kernels_factors_or_by_the_nominal_frequency() {
        let clock = TscClock { shift: 31, mult: 858_993_459, zero_ns: 7 };
        assert_eq!(clock.ns_at(10_000_000_000), 4_000_000_000 - 1 + 7);
        assert_eq!(TscClock::of_ratio(25).ns_at(2_500_000), 999_999);
    }
}
