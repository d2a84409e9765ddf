//! perf script's text: which fields of a sample are shown, and how.
//!
//! Rows are made in order on one thread (names and mappings change with time), then written on all cores.

mod digits;
mod fields;
mod json;
mod line;
mod row;

pub use fields::{Field, FieldSet, Fields};
pub use json::write_json;
pub use line::{KernelNames, Style, write_row};
pub use row::{Row, RowMaker};
