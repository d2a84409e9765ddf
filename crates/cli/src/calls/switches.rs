//! Starts the recording of context switches next to that of calls.

use calls::recording::switches::NAME;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// The flags of a recording of nothing but switches.
const FLAGS: [&str; 9] =
    ["record", "-q", "-N", "-e", "dummy", "--switch-events", "-k", "CLOCK_MONOTONIC", "-o"];

/// The beginning of a command that records the switches of the command after it; `None` when this machine or user may
/// not.
#[must_use]
pub fn recorder(folder: &Path) -> Option<Vec<OsString>> {
    let path = folder.join(NAME);
    let mut words = vec![std::env::current_exe().ok()?.into_os_string()];
    words.extend(FLAGS.map(OsString::from));
    words.extend([path.clone().into_os_string(), "--".into()]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let may = command.status().is_ok_and(|status| status.success()) && std::fs::remove_file(&path).is_ok();
    may.then_some(words)
}
