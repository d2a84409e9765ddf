//! `tally stat`: counts of one run or several, related to each other, in perf's forms.
//!
//! [`run`] runs and reads, the crate `counts` sums up and relates, [`print`] shows it.

pub mod compare;
pub mod metric_only;
pub mod outcome;
pub mod output;
pub mod print;
pub mod run;
#[cfg(test)]
mod tests;
