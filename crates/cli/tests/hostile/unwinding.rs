//! Unwind tables and stacks without an end: while recording, and when the copied stacks are read.

use super::{assembled, folder, hostile, outlived};
use std::path::{Path, PathBuf};

/// A program of `tests/hostile`; `None` (and reported) without a compiler for it.
fn program(name: &str, dir: &Path) -> Option<PathBuf> {
    let built = dir.join(name);
    assembled(&hostile(&format!("{name}.s")), &built)?;
    Some(built)
}

/// Records `program` and reports it; `None` (and reported) where that is not allowed.
fn recorded(program: &Path, call_graph: &str) -> Option<(u64, String, String)> {
    let file = program.with_extension(format!("{call_graph}.data"));
    let (data, run) = (file.to_str().expect("ASCII"), program.to_str().expect("ASCII"));
    let (_, notes) =
        outlived(&["record", "-e", "cpu-clock:u", "--call-graph", call_graph, "-o", data, "--", run]);
    let Ok(size) = std::fs::metadata(&file).map(|metadata| metadata.len()) else {
        println!("skipped: can't record here: {notes}");
        return None;
    };
    let (_, reported) = outlived(&["report", "--stdio", "-v", "-i", data]);
    outlived(&["script", "-i", data]);
    Some((size, notes, reported))
}

#[test]
fn a_stack_whose_signal_frames_go_round_is_read_to_the_loop() {
    let path = hostile("sigloop.data");
    let file = path.to_str().expect("ASCII");
    let (table, notes) = outlived(&["report", "--stdio", "-i", file]);
    assert!(table.contains("100.00%"), "{table}");
    assert!(notes.contains("cut short"), "{notes}");
    let (lines, _) = outlived(&["script", "-i", file]);
    assert!(lines.lines().count() < 64, "{lines}");
}

#[test]
fn a_return_address_that_nothing_restores_is_told_as_a_loop_and_costs_no_space() {
    let dir = folder("loop");
    let Some(program) = program("loop", &dir) else { return };
    let Some((size, notes, _)) = recorded(&program, "live") else { return };
    assert!(notes.contains("in an endless loop of frames in"), "{notes}");
    // It was 60 KB a sample.
    assert!(size < 1 << 20, "{size}");
    let Some((_, _, reported)) = recorded(&program, "dwarf") else { return };
    assert!(reported.contains("endless loop of frames"), "{reported}");
}

#[test]
fn hostile_unwind_tables_end() {
    let dir = folder("tables");
    for name in ["signal", "sf2", "skiploop", "minint"] {
        let Some(program) = program(name, &dir) else { continue };
        for call_graph in ["live", "dwarf"] {
            recorded(&program, call_graph);
        }
    }
}
