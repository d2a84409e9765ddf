//! Other programs' formats, written.

pub mod folded;
