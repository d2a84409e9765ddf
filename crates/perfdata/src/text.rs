//! The one textual form of records: what `tally dump` prints is what tests write.
//!
//! One record a line: `mmap2 100/100 [0x400000,0x401000) /bin/app`, `sample 100/101 t=7 period=10 chain=0x10,0x20`.

use crate::{Item, PerfData};

/// A line of session text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TextError {
    /// 1-based.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// Appends one record's line, without a line end.
pub fn write_item(out: &mut String, file: &PerfData<'_>, item: &Item<'_>) {
    let _ = (out, file, item);
}

/// A whole perf.data file (file mode) out of session text.
///
/// # Errors
/// The first line that cannot be read.
pub fn to_perf_data(text: &str) -> Result<Vec<u8>, TextError> {
    let _ = text;
    Err(TextError { line: 0, problem: "not yet".into() })
}
