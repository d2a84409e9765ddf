//! Object files and debug information that this machine lacks, fetched by elfutils' `debuginfod-find` into its cache,
//! where [`dso::DebugSearch`] finds them.
//
// Source: elfutils 0.192 doc/debuginfod-find.1, doc/debuginfod-client-config.7

use dso::{BuildId, DebugSearch, Loader, Wanted};
use perfdata::PerfData;
use std::env;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};

const CLIENT: &str = "debuginfod-find";
/// The servers to ask.
const SERVERS: &str = "DEBUGINFOD_URLS";

/// Why nothing can be fetched here, with the remedy; `None` if all is there.
#[must_use]
pub fn why_not() -> Option<String> {
    if env::var_os(SERVERS).is_none_or(|urls| urls.is_empty()) {
        return Some(format!("{SERVERS} is not set (remedy: tally doctor has your distribution's server)"));
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&folders).any(|folder| folder.join(CLIENT).is_file());
    (!is_there).then(|| format!("there is no {CLIENT} (remedy: install debuginfod)"))
}

/// Fetches what is missing for the files of a recording that have a build-id. A failure leaves them without names, as
/// before.
pub(crate) fn fetch_missing(file: &PerfData<'_>, search: &DebugSearch) {
    let loader = Loader::new(search.clone());
    for recorded in &file.features().build_ids {
        let path = String::from_utf8_lossy(&recorded.filename);
        let Some(id) = BuildId::from_bytes(&recorded.build_id).filter(|_| !path.starts_with('[')) else {
            continue;
        };
        missing(&loader, Path::new(&*path), &id).iter().for_each(|kind| fetch(kind, &id));
    }
}

/// The files that are not here, as the client names them.
fn missing(loader: &Loader, path: &Path, id: &BuildId) -> &'static [&'static str] {
    let Ok(loaded) = loader.load(&Wanted::File { path, build_id: Some(id) }) else {
        return &["executable", "debuginfo"];
    };
    let is_whole = loaded.object().is_some_and(|object| object.has_symtab() && object.has_dwarf());
    let is_found = loaded.debug_files().iter().any(Option::is_some);
    if is_whole || is_found { &[] } else { &["debuginfo"] }
}

/// It shows its progress on a terminal.
fn fetch(kind: &str, id: &BuildId) {
    let shown = if std::io::stderr().is_terminal() { Stdio::inherit() } else { Stdio::null() };
    let mut client = Command::new(CLIENT);
    client.args([kind, &id.to_string()]).env("DEBUGINFOD_PROGRESS", "1");
    let _ = client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(shown).status();
}
