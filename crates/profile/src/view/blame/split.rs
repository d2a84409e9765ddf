//! Exact division of nanoseconds: the parts always add up to the whole.

/// Divides `whole` in proportion to `weights`; equally if all are 0. Empty for no weights.
pub(crate) fn split(whole: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let (sum, at_least) = if sum == 0 { (weights.len() as u128, 1) } else { (sum, 0) };
    let mut seen = 0u128;
    let mut given = 0u64;
    let part = |&weight: &u64| {
        seen += u128::from(weight) + at_least;
        // `seen` is at most `sum`, so this is at most `whole`. Shifted where the product would not fit.
        let shift = (128 - sum.leading_zeros()).saturating_sub(64);
        let upto = u128::from(whole) * (seen >> shift) / (sum >> shift).max(1);
        let upto = if seen == sum { whole } else { u64::try_from(upto).unwrap_or(whole).min(whole) };
        let part = upto.saturating_sub(given);
        given = given.max(upto);
        part
    };
    weights.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_whatever_the_weights_are() {
        assert_eq!(split(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(split(10, &[0, 0]), [5, 5]);
        assert_eq!(split(7, &[0, 3, 0]), [0, 7, 0]);
        assert_eq!(split(7, &[]), [0u64; 0]);
        let huge = split(u64::MAX, &[u64::MAX; 5]);
        assert_eq!(huge.iter().map(|&ns| u128::from(ns)).sum::<u128>(), u128::from(u64::MAX));
    }
}
