//! Hardware cache events: `L1-dcache-load-misses` and all the spellings perf takes for it.
//
// Source: linux v6.18 include/uapi/linux/perf_event.h perf_hw_cache_id: config = cache | op << 8 | result << 16.

use super::error::Fault;

struct Cache {
    /// Perf's name first, then its other spellings.
    names: &'static [&'static str],
    /// Bit per operation that this cache has: 1 load, 2 store, 4 prefetch.
    ops: u8,
}

const CACHES: &[Cache] = &[
    Cache { names: &["L1-dcache", "l1-d", "l1d", "L1-data"], ops: 7 },
    Cache { names: &["L1-icache", "l1-i", "l1i", "L1-instruction"], ops: 5 },
    Cache { names: &["LLC", "L2"], ops: 7 },
    Cache { names: &["dTLB", "d-tlb", "Data-TLB"], ops: 7 },
    Cache { names: &["iTLB", "i-tlb", "Instruction-TLB"], ops: 1 },
    Cache { names: &["branch", "branches", "bpu", "btb", "bpc"], ops: 1 },
    Cache { names: &["node"], ops: 7 },
];

const OPS: &[&[&str]] = &[
    &["load", "loads", "read"],
    &["store", "stores", "write"],
    &["prefetch", "prefetches", "speculative-read", "speculative-load"],
];

const RESULTS: &[&[&str]] = &[&["refs", "Reference", "ops", "access"], &["misses", "miss"]];

/// `attr.config` of a cache event; `None` if the name isn't a cache event at all.
///
/// The default operation is load, the default result is access.
pub(super) fn parse_cache(name: &str) -> Option<Result<u64, Fault>> {
    CACHES.iter().enumerate().find_map(|(id, cache)| {
        let rest = cache.names.iter().filter_map(|n| name.strip_prefix(n)).min_by_key(|rest| rest.len())?;
        let (op, result) = parse_rest(rest)?;
        if cache.ops & (1 << op) == 0 {
            return Some(Err(Fault::CacheOp { cache: cache.names[0], op: OPS[op][0] }));
        }
        Some(Ok(id as u64 | (op as u64) << 8 | (result as u64) << 16))
    })
}

/// `-load-misses`, `-misses`, `-refs-store` or nothing: operation and result in either order.
fn parse_rest(rest: &str) -> Option<(usize, usize)> {
    let (mut op, mut result, mut rest) = (None, None, rest);
    while !rest.is_empty() {
        rest = rest.strip_prefix('-')?;
        let (table, slot) = match find_word(OPS, rest) {
            Some(found) => (found, &mut op),
            None => (find_word(RESULTS, rest)?, &mut result),
        };
        if slot.replace(table.0).is_some() {
            return None;
        }
        rest = &rest[table.1..];
    }
    Some((op.unwrap_or(0), result.unwrap_or(0)))
}

/// Index and length of the longest word of `table` that ends at a `-` or the end of `text`.
fn find_word(table: &[&[&str]], text: &str) -> Option<(usize, usize)> {
    let fits = |word: &str| text.strip_prefix(word).is_some_and(|r| r.is_empty() || r.starts_with('-'));
    let all = table.iter().enumerate().flat_map(|(i, words)| words.iter().map(move |w| (i, *w)));
    all.filter(|(_, w)| fits(w)).max_by_key(|(_, w)| w.len()).map(|(i, w)| (i, w.len()))
}

/// Every cache event in perf's spelling with its `attr.config`, in perf's order.
pub fn cache_events() -> impl Iterator<Item = (String, u64)> {
    let combos =
        (0..CACHES.len()).flat_map(|c| (0..OPS.len()).flat_map(move |o| (0..2).map(move |r| (c, o, r))));
    combos.filter(|&(c, o, _)| CACHES[c].ops & (1 << o) != 0).map(|(c, o, r)| {
        let op = if r == 0 { OPS[o][1.min(OPS[o].len() - 1)] } else { OPS[o][0] };
        let suffix = if r == 0 { "" } else { "-misses" };
        (format!("{}-{op}{suffix}", CACHES[c].names[0]), c as u64 | (o as u64) << 8 | (r as u64) << 16)
    })
}
