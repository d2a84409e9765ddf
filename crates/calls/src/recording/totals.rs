//! Sums by function that the kernel made (`tally calls record --counts`): the file `totals` of a recording.

use crate::error::{Context, bail};
use crate::model::{CallStats, FunctionTotals};
use std::path::Path;

use super::folder_file;

/// Name in the folder.
pub const NAME: &str = "totals";

/// Reads them: address and stats of each function. `None` if the recording has none.
///
/// # Errors
/// If a line is damaged.
pub fn read(dir: &Path) -> crate::Result<Option<Vec<(u64, CallStats)>>> {
    let path = dir.join(NAME);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = folder_file::read_if_there(&path)?;
    let read = |(at, line)| {
        parse_line(line).with_context(|| format!("{}: line {} is damaged", path.display(), at + 1))
    };
    let functions = text.lines().enumerate().map(read).collect::<crate::Result<Vec<_>>>()?;
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
