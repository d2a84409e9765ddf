//! Debug information that nests, repeats or expands without measure.

use super::{assembled, folder, hostile, outlived};
use std::path::PathBuf;
use std::process::Command;

/// A program with this kind of debug information; `None` (and reported) where it can't be made.
fn program(kind: &str) -> Option<PathBuf> {
    let dir = folder(kind);
    let written = Command::new("python3").arg(hostile("dwarf-gen.py")).arg(kind).output();
    let Some(text) = written.ok().filter(|output| output.status.success()).map(|output| output.stdout) else {
        println!("skipped: no python3");
        return None;
    };
    let (source, program) = (dir.join("x.s"), dir.join("x"));
    std::fs::write(&source, text).expect("target is writable");
    assembled(&source, &program)?;
    Some(program)
}

#[test]
#[ignore = "live: records on this machine"]
fn calls_inlined_without_end_are_told_and_cost_only_their_names() {
    let Some(program) = program("deepinline") else { return };
    let (data, run) = (program.with_extension("data"), program.to_str().expect("ASCII"));
    let data = data.to_str().expect("ASCII");
    let (_, notes) = outlived(&["record", "-e", "cpu-clock:u", "-o", data, "--", run]);
    if !std::path::Path::new(data).is_file() {
        return println!("skipped: can't record here: {notes}");
    }
    let (table, notes) = outlived(&["report", "--stdio", "-s", "sym,srcline", "-i", data]);
    assert!(table.contains("main"), "{table}");
    assert!(notes.contains("debug information not read in full"), "{notes}");
    outlived(&["script", "-F", "+srcline", "-i", data]);
    outlived(&["probe", "-x", run, "-V", "main"]);
}

#[test]
#[ignore = "live: records on this machine"]
fn types_that_hold_themselves_or_double_at_each_level_end() {
    for kind in ["structself", "exptypes", "widestruct", "arrayself"] {
        let Some(program) = program(kind) else { return };
        let out = program.with_extension("calls");
        let (out, run) = (out.to_str().expect("ASCII"), program.to_str().expect("ASCII"));
        outlived(&["calls", "record", "-a", "-o", out, "--", run]);
        let (variables, _) = outlived(&["probe", "-x", run, "-V", "main"]);
        assert!(variables.contains("v"), "{kind}: {variables}");
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn blocks_in_one_another_without_end_are_refused() {
    let Some(program) = program("deepblocks") else { return };
    let run = program.to_str().expect("ASCII");
    let (_, notes) = outlived(&["probe", "-x", run, "-V", "main"]);
    assert!(notes.contains("debug information not read in full"), "{notes}");
}
