//! Adds found inputs to the repository's corpus of a target if they reach code that the other inputs do not.

use std::io;
use std::path::Path;

use crate::corpus::{self, CorpusPlaces, Seeds};
use crate::coverage::Coverage;
use crate::watch::Watch;

/// Maximum size of an input in the repository.
const LARGEST: usize = 64 << 10;
/// Maximum size of a parser target's corpus; the few targets of the whole program get more. All targets together stay
/// below the 2 MiB that tidy allows.
const MOST_BYTES: usize = 32 << 10;
const MOST_BYTES_OF_PROGRAM: usize = 224 << 10;

/// Copies inputs from the folder `found` to the target's folder in the repository, small ones first. An input is copied
/// if it reaches code that no other input there does, and if there is room. Returns the number of copies.
///
/// # Errors
/// If this build has no coverage counters, or a file can't be written.
pub fn reduce(target: &str, call: fn(&[u8]), found: &Path, watch: &Watch) -> io::Result<usize> {
    let mut coverage = Coverage::new();
    if !coverage.is_counted() {
        return Err(io::Error::other("this build does not count which code is reached"));
    }
    let known = Seeds::read(target, &CorpusPlaces { recorded: None, grown: None }).inputs;
    for input in &known {
        watch.run(call, input);
        coverage.take();
    }
    let folder = corpus::own_folder(target);
    std::fs::create_dir_all(&folder)?;
    let own: usize = corpus::inputs_in(&folder).iter().map(Vec::len).sum();
    let limit = if target.starts_with("program-") { MOST_BYTES_OF_PROGRAM } else { MOST_BYTES };
    let mut room = limit.saturating_sub(own);
    let mut candidates = corpus::inputs_in(found);
    candidates.sort_by_key(Vec::len);
    let mut kept = 0;
    for input in candidates {
        if input.len() > room.min(LARGEST) {
            break;
        }
        if names_machine(&input) {
            continue;
        }
        watch.run(call, &input);
        if coverage.take() && corpus::keep(&folder, &input)? {
            room -= input.len();
            kept += 1;
        }
    }
    Ok(kept)
}

/// Whether `input` contains a path of this machine. Such inputs don't belong in the repository.
fn names_machine(input: &[u8]) -> bool {
    let here = std::env::current_dir().unwrap_or_default();
    let top = here.components().nth(1).map(|top| format!("/{}/", top.as_os_str().display()));
    let names = |path: &str| input.windows(path.len()).any(|window| window == path.as_bytes());
    ["/root/", "/home/"].iter().any(|path| names(path)) || top.is_some_and(|top| names(&top))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_this_machine_are_seen() {
        assert!(names_machine(b"7f00-7f01 r-xp 0 0:0 0 /home/me/a.out"));
        let here = std::env::current_dir().expect("we are somewhere");
        assert!(names_machine(format!("x{}/y", here.display()).as_bytes()));
        assert!(!names_machine(b"/dev/shm/tally-fuzz.@@@@@@@@/app"));
    }
}
