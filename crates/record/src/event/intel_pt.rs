//! The defaults of `intel_pt//`: as much as the processor can do, chosen as by perf.
//
// Source: linux v6.18 tools/perf/arch/x86/util/intel-pt.c intel_pt_default_config(), intel_pt_pick_bit();
//         caps/ of arch/x86/events/intel/pt.c: numbers in hexadecimal.

use super::source::EventSource;

/// The PMU whose events write a trace to an AUX area.
pub(super) const PMU: &str = "intel_pt";

/// Distance of MTC packets: 2^3 crystal clocks.
const MTC_PERIOD: u32 = 3;
/// Bytes between PSB packets: 2^(3 + 11).
const PSB_PERIOD: u32 = 3;

/// The terms that hold unless the user overrides them.
pub(super) fn default_terms(source: &dyn EventSource) -> String {
    let cap = |name: &str| {
        let text = source.read_pmu(&format!("{PMU}/caps/{name}")).ok()?;
        u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let has = |name: &str| cap(name).is_some_and(|value| value != 0);
    let field = |name: &str| source.read_pmu(&format!("{PMU}/format/{name}")).is_ok();
    let mut terms = "tsc".to_owned();
    if has("mtc")
        && let Some(period) = pick(cap("mtc_periods").unwrap_or(0), MTC_PERIOD)
    {
        terms += &format!(",mtc,mtc_period={period}");
    }
    if has("psb_cyc")
        && let Some(period) = pick(cap("psb_periods").unwrap_or(0), PSB_PERIOD)
    {
        terms += &format!(",psb_period={period}");
    }
    if field("pt") && field("branch") {
        terms += ",pt,branch";
    }
    terms
}

/// The bit of `offered` nearest to `wanted`, from below if there is one.
fn pick(offered: u64, wanted: u32) -> Option<u32> {
    let bits = (0..u64::BITS).filter(|bit| offered >> bit & 1 == 1);
    let below = bits.clone().rfind(|bit| *bit <= wanted);
    below.or_else(|| bits.clone().next())
}

#[cfg(test)]
mod tests {
    use super::pick;

    #[test]
    fn the_nearest_period_offered_is_taken() {
        assert_eq!(pick(0b1001, 3), Some(3));
        assert_eq!(pick(0x249, 3), Some(3));
        assert_eq!(pick(0b100_0001, 3), Some(0));
        assert_eq!(pick(0b100_0000, 3), Some(6));
        assert_eq!(pick(0, 3), None);
    }
}
