//! perf script's text: which fields of a sample are shown, and how.
//!
//! Rows are made in order on one thread (names and mappings change with time), then written on all cores.

mod branches;
mod clock;
mod fields;
mod frame;
mod json;
mod line;
mod note;
mod pick;
mod row;

pub use clock::TimeZero;
pub use fields::{FieldSet, Fields, ScriptField};
pub use frame::{FrameTexts, own_name};
pub use json::write_json;
pub use line::{KernelNames, LineStyle, write_row};
pub use note::Shown;
pub use pick::Picks;
pub use row::{Row, RowMaker};
