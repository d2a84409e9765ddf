//! Writes the sums by function that the kernel made (`tally calls record --counts`).

use anyhow::Context;
use calls::model::{CallStats, FunctionTotals};
use calls::recording::totals::NAME;
use record::calls::{CallAddresses, FunctionSums};
use record::output_file::write_part;
use std::fmt::Write as _;
use std::path::Path;

/// Writes the sums: a line a function, `address count finished total self min max unwound open bucket:count …`, times in ns.
///
/// # Errors
/// If the file can't be written.
pub fn write(
    dir: &Path,
    addresses: &CallAddresses,
    sums: &[(u32, FunctionSums)],
    start_ns: u64,
) -> anyhow::Result<()> {
    let mut text = String::new();
    for (function, sums) in sums {
        let address = addresses.functions.get(*function as usize).copied().unwrap_or(0);
        let FunctionSums { count, finished_ns, total_ns, self_ns, min_ns, max_ns, unwound, open, buckets } =
            sums;
        let min_ns = min_ns.unwrap_or(0);
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "{address:x} {count} {finished_ns} {total_ns} {self_ns} {min_ns} {max_ns} {unwound} {open}"
        );
        for (bucket, calls) in buckets {
            let _ = write!(text, " {bucket}:{calls}");
        }
        text.push('\n');
    }
    write_part(&dir.join(NAME), text).context("can't write the sums")?;
    let head = format!("tsc {start_ns} monotonic_ns {start_ns}\n");
    write_part(&dir.join("0-0.maps"), head + &addresses.maps).context("can't write the maps")
}

/// The sums as the views have them; `None` when a bucket is no bucket.
#[must_use]
pub fn stats_of(sums: FunctionSums) -> Option<CallStats> {
    let FunctionSums { count, finished_ns, total_ns, self_ns, min_ns, max_ns, unwound, open, buckets } = sums;
    let buckets = buckets.into_iter().map(|(bucket, calls)| (bucket as usize, calls)).collect();
    let min_ns = min_ns.unwrap_or(0);
    FunctionTotals { count, finished_ns, total_ns, self_ns, min_ns, max_ns, unwound, open, buckets }
        .into_stats()
}
