//! Views as text: requests to disks, and those that follow waits (blame, the critical path, the calls of spans).

pub mod blame;
pub mod critical;
pub mod evidence;
pub mod goroutines;
pub mod histogram;
pub mod io;
pub mod label_times;
mod labels;
pub mod routes;
pub mod rule_lines;
pub mod sample_json;
pub mod shown_time;
pub mod spans;
pub mod timeline;

pub use labels::label_notes;

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct FollowedTextOpts {
    /// Columns.
    pub width: usize,
    /// With colours.
    pub colour: bool,
    /// Rows per list.
    pub rows: usize,
}

/// ` in FUNCTION (LINE)`; empty without a function.
fn place_words(function: &str, line: Option<&str>) -> String {
    match (function, line) {
        ("", _) => String::new(),
        (function, Some(line)) => format!(" in {function} ({line})"),
        (function, None) => format!(" in {function}"),
    }
}

fn share(ns: u64, total: u64) -> String {
    format!("{:.1}%", ns as f64 * 100.0 / total.max(1) as f64)
}
