//! Rules about all text, and about the documents.

use std::path::Path;

use crate::repo::{File, Repo};

/// Columns of a line in a golden case's command.
const COMMAND_COLUMNS: usize = 200;
/// Bytes of all recordings in the repository.
const RECORDING_BYTES: u64 = 10 << 20;
/// Limits of the fuzz targets' corpus: everybody who clones the repository gets it.
const CORPUS_BYTES: u64 = 2 << 20;
const CORPUS_INPUT_BYTES: u64 = 64 << 10;

/// Words that belong to one machine or one network, cut in two so that this file does not break its own rule.
const MACHINE: &[&str] = &[
    concat!("/wor", "k/"),
    concat!("/tmp/", "wt/"),
    concat!("/tmp/", "tally"),
    concat!("/root/", ".cargo"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("proxy.", "golang"),
    concat!("registry.", "npmjs"),
    concat!("deb.", "debian.org"),
    concat!("repo.", "maven"),
];

/// Nothing names a machine or a registry's host.
pub fn no_machine_names(files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.path != "Cargo.lock") {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(word) = MACHINE.iter().find(|word| line.contains(**word)) {
                faults.push(format!("{}:{}: names {word}", file.path, index + 1));
            }
        }
    }
    faults
}

/// Nobody reads a long overview.
pub fn architecture_is_short(files: &[File]) -> Vec<String> {
    let lines =
        files.iter().find(|file| file.path == "ARCHITECTURE.md").map(|file| file.text.lines().count());
    match lines {
        None => vec!["there is no ARCHITECTURE.md".to_owned()],
        Some(lines) if lines > 200 => vec![format!("it has {lines} lines; 200 are enough")],
        Some(_) => Vec::new(),
    }
}

/// The README is short, and has the commands for a newcomer and for a contributor.
pub fn readme_has_the_two_commands(files: &[File]) -> Vec<String> {
    const COMMANDS: [&str; 2] = ["cargo run --release -- run -- ", "cargo xtask ci"];
    const WORDS: usize = 900;
    let Some(readme) = files.iter().find(|file| file.path == "README.md") else {
        return vec!["there is no README.md".to_owned()];
    };
    let missing = COMMANDS.iter().filter(|command| !readme.text.contains(**command));
    let mut faults: Vec<String> = missing.map(|command| format!("it lacks the command {command}")).collect();
    let words = readme.text.split_whitespace().count();
    if words > WORDS {
        faults.push(format!("it has {words} words; {WORDS} are enough"));
    }
    faults
}

/// Long runs grow the corpus; it is not a store of recordings.
pub fn corpus_is_small(_: &[File]) -> Vec<String> {
    let mut inputs = Vec::new();
    list_sizes(&Repo::here().root.join("fuzz/corpus"), &mut inputs);
    let too_large = inputs.iter().filter(|(_, size)| *size > CORPUS_INPUT_BYTES);
    let mut faults: Vec<String> =
        too_large.map(|(path, size)| format!("{path}: {size} bytes of {CORPUS_INPUT_BYTES}")).collect();
    let whole: u64 = inputs.iter().map(|(_, size)| size).sum();
    if whole > CORPUS_BYTES {
        faults.push(format!("fuzz/corpus: {whole} bytes of {CORPUS_BYTES}"));
    }
    faults
}

fn list_sizes(folder: &Path, sizes: &mut Vec<(String, u64)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => list_sizes(&entry.path(), sizes),
            Ok(meta) => sizes.push((entry.path().display().to_string(), meta.len())),
            Err(_) => {}
        }
    }
}

/// Commands of golden cases are scripts with one command a line.
pub fn golden_commands_are_scripts(files: &[File]) -> Vec<String> {
    let commands =
        files.iter().filter(|file| file.path.starts_with("tests/golden/") && file.path.ends_with("/cmd"));
    let longest = |file: &File| file.text.lines().map(str::len).max().unwrap_or_default();
    let too_long = commands.filter(|file| longest(file) > COMMAND_COLUMNS);
    too_long.map(|file| format!("{}: a line of {} columns", file.path, longest(file))).collect()
}

/// A clone stays small.
pub fn recordings_are_small(_: &[File]) -> Vec<String> {
    let mut sizes = Vec::new();
    list_sizes(&Repo::here().root.join("tests/recordings"), &mut sizes);
    let whole: u64 = sizes.iter().map(|(_, size)| size).sum();
    let is_large = whole > RECORDING_BYTES;
    is_large.then(|| format!("tests/recordings: {whole} bytes of {RECORDING_BYTES}")).into_iter().collect()
}

/// A case is a command and its output.
pub fn golden_cases_are_complete(files: &[File]) -> Vec<String> {
    let has = |path: &str| files.iter().any(|file| file.path == path);
    let commands = files.iter().filter_map(|file| {
        let case = file.path.strip_prefix("tests/golden/")?.strip_suffix("/cmd")?;
        (!has(&format!("tests/golden/{case}/stdout"))).then(|| format!("{case} has no `stdout`"))
    });
    commands.collect()
}
