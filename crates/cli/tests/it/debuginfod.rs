//! Files that are missing here are asked for, by debuginfod's own client.

use super::TALLY;
use record::scratch::ScratchFolder;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// A client that only notes what it is asked for.
const CLIENT: &str = "#!/bin/sh\necho \"$@\" >> \"$LOG\"\n";

fn report(folder: &Path, servers: &str) -> Output {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/chains.data");
    let mut report = Command::new(TALLY);
    report.args(["report", "--debuginfod", "--stdio", "-i", recording]);
    report.env("PATH", folder).env("LOG", folder.join("log")).env("HOME", folder);
    report.env("DEBUGINFOD_URLS", servers).output().expect("tally runs")
}

#[test]
fn each_file_of_a_recording_that_is_not_here_is_asked_for_by_its_build_id() {
    let folder = ScratchFolder::private("debuginfod").expect("a folder");
    let folder = folder.path();
    let without_client = report(folder, "http://localhost:1");
    let errors = String::from_utf8_lossy(&without_client.stderr);
    assert!(!without_client.status.success() && errors.contains("install debuginfod"), "{errors}");
    let client = folder.join("debuginfod-find");
    std::fs::write(&client, CLIENT).expect("a folder of ours");
    std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let without_server = report(folder, "");
    assert!(String::from_utf8_lossy(&without_server.stderr).contains("DEBUGINFOD_URLS is not set"));
    let asked = report(folder, "http://localhost:1");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let log = std::fs::read_to_string(folder.join("log")).expect("the client ran");
    let ids = ["d25291846f97a6d103644275069a7a8a8ae490d5", "85baf56d4109208f6c04aeb20401fc7f6c412bfb"];
    let wanted: Vec<String> =
        ids.iter().flat_map(|id| [format!("executable {id}"), format!("debuginfo {id}")]).collect();
    // The kernel has an id, too, but no file that is looked for.
    assert_eq!(log.lines().collect::<Vec<_>>(), wanted);
}
