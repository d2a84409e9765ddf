//! Cost of a hit, as measured by the hardware.

/// The hardware-given cost of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// `PERF_SAMPLE_WEIGHT`: one number.
    Full(u64),
    /// `PERF_SAMPLE_WEIGHT_STRUCT`: three numbers whose meaning is the architecture's (x86: latency, instruction latency, retire latency).
    Struct {
        /// `var1_dw`.
        var1: u32,
        /// `var2_w`.
        var2: u16,
        /// `var3_w`.
        var3: u16,
    },
}

/// The struct is declared in both bit orders, so that the word has the same value on all machines.
pub(super) fn parse_weight(word: u64) -> Weight {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    Weight::Struct {
        var1: u32::from_le_bytes([a, b, c, d]),
        var2: u16::from_le_bytes([e, f]),
        var3: u16::from_le_bytes([g, h]),
    }
}

pub(super) fn weight_word(weight: Option<Weight>) -> u64 {
    match weight {
        None => 0,
        Some(Weight::Full(w)) => w,
        Some(Weight::Struct { var1, var2, var3 }) => {
            u64::from(var1) | u64::from(var2) << 32 | u64::from(var3) << 48
        }
    }
}
