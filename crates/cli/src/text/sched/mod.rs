//! `tally sched`'s views as text, in perf's form, which scripts read.

pub mod latency;
pub mod map;
pub mod timehist;

/// ns as milliseconds with three digits, cut.
fn millis(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}
