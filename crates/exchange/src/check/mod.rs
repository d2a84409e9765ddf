//! A check of a program's cost: the stored baseline, and the result for systems that run checks.

pub mod baseline;
pub mod reports;
pub mod wording;
