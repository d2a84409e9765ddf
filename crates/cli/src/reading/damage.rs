//! One rule for all that read recordings: a damaged or unfinished one is named on standard error, once, in the same
//! words, before messages that may only be a consequence. What could be read is shown.

use perfdata::{Error, Order, PerfData, ReadMode};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::{reading::load, terminal::out};

/// The recordings named so far, by how they are shown.
static NAMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Names an open recording if it is unfinished, or if its header is damaged or describes more than there is.
pub fn warn_of_header(path: &Path, file: &PerfData<'_>) {
    if file.is_unfinished() {
        warn_unfinished(path, "was killed or ran out of space");
    } else {
        warn(path, file.problems());
    }
}

/// Names an open recording of which only the header is wanted. That of a pipe is its records, so they are all read.
pub fn warn_of_features(path: &Path, file: &PerfData<'_>) {
    if file.mode() == ReadMode::Pipe {
        warn_of_records(path, file);
    }
}

/// Reads every record, and names the recording if one of them is damaged.
pub fn warn_of_records(path: &Path, file: &PerfData<'_>) {
    warn(path, &file.visit(Order::File, |_| ControlFlow::Continue(())).problems);
}

/// Names a recording if reading it came across `problems`.
pub fn warn(path: &Path, problems: &[Error]) {
    let Some(first) = problems.first() else { return };
    note(path, &format!("is damaged: {first}; what could be read is shown"));
}

/// Names a folder of calls of which `files` could not be read, each with the reason.
pub fn warn_of_folder(path: &Path, files: &[String]) {
    let Some(first) = files.first() else { return };
    let more = if files.len() > 1 { format!(" (and {} more)", files.len() - 1) } else { String::new() };
    note(path, &format!("is damaged: {first}{more}; what could be read is shown"));
}

/// Names a recording whose recorder did not end it: it `did` something else.
pub fn warn_unfinished(path: &Path, did: &str) {
    note(path, &format!("is unfinished: its recorder {did}; it holds only what was written until then"));
}

/// Whether the recording at `path` was named.
#[must_use]
pub fn is_named(path: &Path) -> bool {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner).contains(&load::name_of(path))
}

/// The error that a recording lacks what was asked for: `what` (`no waits in it`), and what to `record` instead. Of a
/// recording that was named, how it was recorded is not to blame.
#[must_use]
pub fn lacks(path: &Path, what: &str, record: &str) -> anyhow::Error {
    let name = load::name_of(path);
    if is_named(path) {
        anyhow::anyhow!("{name}: {what}, as far as it could be read")
    } else {
        anyhow::anyhow!("{name}: {what}: {record}")
    }
}

fn note(path: &Path, text: &str) {
    let name = load::name_of(path);
    let is_new = NAMED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
    if is_new {
        out::complain(&format!("{name} {text}"));
    }
}
