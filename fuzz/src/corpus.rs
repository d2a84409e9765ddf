//! Inputs to begin with, and those found on the way that reach new code.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use fuzz::parcel::Parcel;

/// Bigger files are cut: a mutation near the start matters most. Parcels are never cut.
const LONGEST: usize = 64 << 10;
/// A grown corpus holds at most so many inputs.
const MOST_GROWN: usize = 4000;
/// Found inputs larger than this are not kept.
const LARGEST_GROWN: usize = 256 << 10;

/// Where seeds come from.
pub struct CorpusPlaces<'p> {
    /// Recorded files of others, if there are any on this machine.
    pub recorded: Option<&'p Path>,
    /// Where inputs that reach new code are kept, if they are.
    pub grown: Option<&'p Path>,
}

/// Small inputs of every kind, the repository's own for `target`, and the recorded files whose names fit it.
pub fn seeds(target: &str, places: &CorpusPlaces<'_>) -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new(), vec![0; 64], vec![0xff; 64], b"PERFILE2".repeat(16)];
    let wants_text = ["text", "folded", "script", "spec", "maps", "kallsyms", "map", "filter"];
    let text = wants_text.iter().any(|word| target.contains(word));
    if target.contains("maps") {
        seeds.extend(std::fs::read("/proc/self/maps").ok());
    }
    if target.contains("elf") || target.contains("dso") || target.contains("unwind") {
        seeds.extend(std::env::current_exe().ok().and_then(|exe| std::fs::read(exe).ok()).map(cut));
        seeds.extend(std::fs::read("/bin/true").ok().map(cut));
    }
    let own = [PathBuf::from("fuzz/corpus").join(target), PathBuf::from("fuzz/found").join(target)];
    let recorded = places.recorded.map(|folder| folder.join(if text { "folded" } else { "perfdata" }));
    let grown = places.grown.map(Path::to_path_buf);
    for folder in own.into_iter().chain(recorded).chain(grown) {
        seeds.extend(files(&folder).into_iter().filter_map(|file| std::fs::read(file).ok()).map(cut));
    }
    seeds
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.retain(|file| file.extension().is_none_or(|ext| ext != "json"));
    files
}

/// Keeps `input` in `folder` under its hash. False if there is no more room, or it is there already.
pub fn keep(folder: &Path, input: &[u8], grown: usize) -> bool {
    if grown >= MOST_GROWN || input.len() > LARGEST_GROWN {
        return false;
    }
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let file = folder.join(format!("{:016x}", hasher.finish()));
    !file.exists() && std::fs::write(file, input).is_ok()
}

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    if !Parcel::is_one(&bytes) {
        bytes.truncate(LONGEST);
    }
    bytes
}
