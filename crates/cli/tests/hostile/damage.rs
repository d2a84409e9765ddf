//! Recordings that lack what the rest of them refers to.

use super::{hostile, outlived};

#[test]
fn records_of_a_file_without_events_are_shown() {
    let path = hostile("script-panic-min.data");
    let file = path.to_str().expect("ASCII");
    for options in [&["--show-mmap-events"][..], &["--show-task-events", "--show-mmap-events", "--json"]] {
        let args = [&["script"], options, &["-i", file]].concat();
        let (shown, notes) = outlived(&args);
        assert!(shown.contains("PERF_RECORD_MMAP"), "{args:?}: {shown}");
        assert!(notes.contains("attribute size"), "{args:?}: {notes}");
    }
}
