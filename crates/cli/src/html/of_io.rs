//! The page of requests to disks: time in the queue and in the device by the functions that cause them.

use super::about::About;
use display::number::{bytes, count_of, duration_ns};
use profile::view::io::Io;
use profile::view::page::{PageData, of_requests};
use serde_json::Value;

/// Data and text of the page; `numbers` are those of `tally io --json`.
#[must_use]
pub fn of_io(view: &Io, numbers: Value, title: &str) -> (PageData, About) {
    let whole = view.whole;
    let about = About {
        title: title.to_owned(),
        subtitle: format!(
            "{}, {}, in {}",
            count_of(whole.requests, "request", "requests"),
            bytes(whole.bytes),
            duration_ns(view.wall_ns)
        ),
        quality: format!("{} unfinished · {} failed", view.unfinished, view.failed),
        is_good: view.failed == 0,
        io: numbers,
        ..About::default()
    };
    (of_requests(view), about)
}
