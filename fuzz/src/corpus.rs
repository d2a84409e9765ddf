//! Seed inputs, and inputs found while fuzzing that reach new code.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use fuzz::parcel::{Parcel, ParcelPart};

/// Bigger files are cut: a mutation near the start matters most. Parcels are never cut.
const LONGEST: usize = 64 << 10;
/// Maximum number of inputs in a grown corpus.
const MOST_GROWN: usize = 4000;
/// Found inputs larger than this are not kept.
const LARGEST_GROWN: usize = 256 << 10;

/// Where seeds come from.
pub struct CorpusPlaces<'p> {
    /// Files recorded on other machines, if this machine has any.
    pub recorded: Option<&'p Path>,
    /// Where inputs that reach new code are kept, if they are.
    pub grown: Option<&'p Path>,
}

/// Seed inputs.
pub struct Seeds {
    /// The repository's come first.
    pub inputs: Vec<Vec<u8>>,
    /// Number of [`Self::inputs`] from the repository. All of them are run, whatever the time limit.
    pub own: usize,
}

impl Seeds {
    /// Small inputs of every kind, the repository's own for `target`, and the recorded files whose names fit it.
    pub fn read(target: &str, places: &CorpusPlaces<'_>) -> Self {
        let mut inputs = vec![Vec::new(), vec![0; 64], vec![0xff; 64], b"PERFILE2".repeat(16)];
        inputs.extend(inputs_in(&own_folder(target)));
        let own = inputs.len();
        inputs.extend(of_this_machine(target));
        let of_program = target.starts_with("program-");
        if let Some(folder) = places.recorded {
            let kind = if wants_text(target) { "folded" } else { "perfdata" };
            let recorded = inputs_in(&folder.join(kind)).into_iter();
            inputs.extend(recorded.map(|bytes| if of_program { alone(bytes) } else { bytes }));
        }
        inputs.extend(places.grown.map(inputs_in).unwrap_or_default());
        Self { inputs, own }
    }
}

/// The repository's inputs for `target`.
pub fn own_folder(target: &str) -> PathBuf {
    PathBuf::from("fuzz/corpus").join(target)
}

/// All inputs of a folder, in the order of their names.
pub fn inputs_in(folder: &Path) -> Vec<Vec<u8>> {
    files(folder).into_iter().filter_map(|file| std::fs::read(file).ok()).map(cut).collect()
}

fn wants_text(target: &str) -> bool {
    let words = ["text", "folded", "script", "spec", "maps", "kallsyms", "map", "filter"];
    words.iter().any(|word| target.contains(word))
}

fn of_this_machine(target: &str) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    if target.contains("maps") {
        inputs.extend(std::fs::read("/proc/self/maps").ok());
    }
    if target.contains("elf") || target.contains("dso") || target.contains("unwind") {
        inputs.extend(std::env::current_exe().ok().and_then(|exe| std::fs::read(exe).ok()).map(cut));
        inputs.extend(std::fs::read("/bin/true").ok().map(cut));
    }
    inputs
}

/// A recording without any of its files, as a parcel: the views of a changed parcel are few.
fn alone(bytes: Vec<u8>) -> Vec<u8> {
    Parcel { parts: vec![ParcelPart { name: "perf.data".to_owned(), bytes }] }.to_bytes()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.retain(|file| file.extension().is_none_or(|ext| ext != "json"));
    files
}

/// Keeps an input found in `folder`. False if there is no more room, or it is there already.
pub fn keep_found(folder: &Path, input: &[u8], grown: usize) -> bool {
    // An input that can't be kept is found again later.
    grown < MOST_GROWN && input.len() <= LARGEST_GROWN && keep(folder, input).unwrap_or(false)
}

/// Writes `input` to `folder` under its hash. False if it is there already.
///
/// # Errors
/// If it can't be written.
pub fn keep(folder: &Path, input: &[u8]) -> std::io::Result<bool> {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let file = folder.join(format!("{:016x}", hasher.finish()));
    if file.exists() {
        return Ok(false);
    }
    std::fs::write(file, input).map(|()| true)
}

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    if !Parcel::is_one(&bytes) {
        bytes.truncate(LONGEST);
    }
    bytes
}
