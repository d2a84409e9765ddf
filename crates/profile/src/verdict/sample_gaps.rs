//! Gaps between a thread's samples: it was off the CPU, though no wait of that moment was recorded.
//!
//! Short waits are known only as a sum of many. Their moments show in the samples: a thread that runs without a break
//! has one at each period.

/// Moments at which a thread had a short wait, in order of time, ns of the recording's clock.
///
/// `samples` are the times of its samples, `known` the begins and ends of its recorded waits, both in order of time. A
/// gap with such a wait in it is left out: a thread that lost its CPU goes on with the same call.
pub(super) fn short_waits(samples: &[u64], known: &[(u64, u64)]) -> Vec<u64> {
    let Some(usual_ns) = usual_gap(samples) else { return Vec::new() };
    let mut next = 0;
    let mut found = Vec::new();
    for pair in samples.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        next += known[next..].partition_point(|&(_, end)| end <= from);
        let is_known = known.get(next).is_some_and(|&(begin, _)| begin < to);
        // Half a period more: timers and counters are not exact.
        if to - from > usual_ns.saturating_add(usual_ns / 2) && !is_known {
            found.push(from + 1);
        }
    }
    found
}

/// Time between samples while the thread runs, ns: a quarter of them follow each other sooner. `None` for fewer than
/// four.
fn usual_gap(samples: &[u64]) -> Option<u64> {
    const LEAST: usize = 4;
    let mut gaps: Vec<u64> = samples.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    (gaps.len() >= LEAST).then(|| gaps[gaps.len() / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_sample_is_a_short_wait_unless_a_recorded_wait_is_in_the_gap() {
        let samples = [0, 20, 40, 80, 100, 120, 160, 181];
        assert_eq!(short_waits(&samples, &[]), [41, 121]);
        assert_eq!(short_waits(&samples, &[(5, 8), (125, 150)]), [41]);
        assert_eq!(short_waits(&samples, &[(30, 50)]), [121]);
    }

    #[test]
    fn too_few_samples_show_no_gaps() {
        assert!(short_waits(&[0, 20, 80], &[]).is_empty());
        assert!(short_waits(&[], &[]).is_empty());
    }
}
