//! A check of a program's cost: the stored baseline, and the result as a screen and for systems that run checks.

pub mod baseline;
pub mod reports;
pub mod screen;
pub mod wording;
