//! Lists of CPUs as the kernel writes them.

use std::collections::BTreeSet;

/// Reads "0,2-3" into ascending CPU numbers; `None` if it is not such a list.
#[must_use]
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    const MANY: u32 = 1 << 16;
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if low > high || high >= MANY {
            return None;
        }
        cpus.extend(low..=high);
    }
    (!cpus.is_empty()).then(|| cpus.into_iter().collect())
}
