//! The parts of `tally check` that run commands and read recordings.

pub mod measuring;
pub mod sampling;
