//! Other programs' formats, written.

pub mod chrome;
pub mod folded;
pub mod perfetto;
