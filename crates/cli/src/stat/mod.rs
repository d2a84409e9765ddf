//! `tally stat`: counts of one run or several, related to each other, in perf's forms.
//!
//! [`run`] runs and reads, [`frame`] holds what was read, [`metric`] relates it, [`print`] shows it.

pub mod compare;
pub mod frame;
pub mod metric;
pub mod metric_only;
pub mod outcome;
pub mod output;
pub mod print;
pub mod recorded;
pub mod reread;
pub mod run;
pub mod series;
#[cfg(test)]
mod tests;
pub mod total;
