//! Reasons of waits where the C library has no symbols but those that it exports, as on most systems.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{TALLY, folder, has_bpf, outputs_of, program};

/// The loader that runs a program with the libraries of a folder.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A copy of the C library whose build-id no file with debug information has; `None` where there is none.
fn library_without_symbols(folder: &Path) -> Option<PathBuf> {
    let own = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"]
        .into_iter()
        .find_map(|path| fs::read(path).ok());
    let mut bytes = own.filter(|_| Path::new(LOADER).exists())?;
    // The note: sizes 4 and 20, type 3, "GNU", the id.
    let note = [4u32, 20, 3].map(u32::to_le_bytes).concat();
    let at = bytes.windows(note.len()).position(|words| words == note)? + note.len() + 4;
    bytes[at..at + 20].fill(0x5a);
    let libraries = folder.join("libraries");
    fs::create_dir_all(&libraries).expect("a folder");
    fs::write(libraries.join("libc.so.6"), bytes).expect("a library");
    Some(libraries)
}

#[test]
#[ignore = "live: records with BPF"]
fn a_stripped_c_library_hides_no_reason() {
    let folder = folder("stripped-libc");
    let Some(libraries) = library_without_symbols(&folder) else {
        return println!("skipped: no C library of x86-64 in its usual place");
    };
    if !has_bpf() {
        return;
    }
    let first_screen = |name: &str, args: &[&str]| {
        let program = program(name, &folder)?;
        let mut run = Command::new(TALLY);
        run.current_dir(&folder).args(["run", "-o", "perf.data", "--", LOADER, "--library-path"]);
        run.arg(&libraries).arg(program).args(args);
        Some(outputs_of(run).1)
    };
    // Workers that wait for their next job aren't in a convoy.
    let Some(pool) = first_screen("pool", &["4", "20"]) else { return };
    assert!(!pool.contains("Lock") && pool.contains("(+ idle "), "{pool}");
    let convoy = first_screen("convoy", &["8", "300"]).expect("a compiler");
    assert!(convoy.contains("Lock c") && convoy.contains("taken in\n  work() (convoy.c"), "{convoy}");
    // Threads that share a name are listed with the function in which they began.
    let mut report = Command::new(TALLY);
    report.args(["report", "--wall", "--stdio", "-i"]).arg(folder.join("perf.data"));
    let (threads, _) = outputs_of(report);
    assert!(threads.contains(" work() "), "{threads}");
    // The main thread waits for the others to end.
    let rand = first_screen("rand", &["4", "40"]).expect("a compiler");
    assert!(rand.contains("the lock inside\n  rand() ← draw") && rand.contains("(+ idle "), "{rand}");
}
