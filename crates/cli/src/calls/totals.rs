//! Sums by function that the kernel made (`tally calls record --counts`): the file `totals` of a recording.

use anyhow::{Context, bail};
use calls::model::{CallStats, FunctionTotals};
use record::calls::{Addresses, Sums};
use record::output_file::write_part;
use std::fmt::Write as _;
use std::path::Path;

use super::folder_file;

/// Its name in the folder.
pub const NAME: &str = "totals";

/// Writes the sums: a line a function, `address count finished total self min max unwound open bucket:count …`, times in ns.
///
/// # Errors
/// If the file can't be written.
pub fn write(dir: &Path, addresses: &Addresses, sums: &[(u32, Sums)], start_ns: u64) -> anyhow::Result<()> {
    let mut text = String::new();
    for (function, sums) in sums {
        let address = addresses.functions.get(*function as usize).copied().unwrap_or(0);
        let Sums { count, finished_ns, total_ns, self_ns, min_ns, max_ns, unwound, open, buckets } = sums;
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
pub fn stats_of(sums: Sums) -> Option<CallStats> {
    let Sums { count, finished_ns, total_ns, self_ns, min_ns, max_ns, unwound, open, buckets } = sums;
    let buckets = buckets.into_iter().map(|(bucket, calls)| (bucket as usize, calls)).collect();
    let min_ns = min_ns.unwrap_or(0);
    FunctionTotals { count, finished_ns, total_ns, self_ns, min_ns, max_ns, unwound, open, buckets }
        .into_stats()
}

/// Reads them: address and stats of each function. `None` if the recording has none.
///
/// # Errors
/// If a line is damaged.
pub fn read(dir: &Path) -> anyhow::Result<Option<Vec<(u64, CallStats)>>> {
    let path = dir.join(NAME);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = folder_file::read_if_there(&path)?;
    let read = |(at, line)| {
        parse_line(line).with_context(|| format!("{}: line {} is damaged", path.display(), at + 1))
    };
    let functions = text.lines().enumerate().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    if functions.is_empty() {
        bail!("{}: no call was recorded", dir.display());
    }
    Ok(Some(functions))
}

fn parse_line(line: &str) -> Option<(u64, CallStats)> {
    let mut words = line.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (count, finished_ns, total_ns, self_ns) = (number()?, number()?, number()?, number()?);
    let (min_ns, max_ns, unwound, open) = (number()?, number()?, number()?, number()?);
    let bucket = |word: &str| {
        let (bucket, calls) = word.split_once(':')?;
        Some((bucket.parse().ok()?, calls.parse().ok()?))
    };
    let buckets = words.map(bucket).collect::<Option<Vec<(usize, u64)>>>()?;
    let totals =
        FunctionTotals { count, finished_ns, total_ns, self_ns, min_ns, max_ns, unwound, open, buckets };
    Some((address, totals.into_stats()?))
}
