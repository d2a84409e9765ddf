//! Rules about all text, and about the documents.

use crate::repo::File;

/// Words that belong to one machine or one network, cut in two so that this file is not its own fault.
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

/// An overview that nobody reads is none.
pub fn architecture_is_short(files: &[File]) -> Vec<String> {
    let lines =
        files.iter().find(|file| file.path == "ARCHITECTURE.md").map(|file| file.text.lines().count());
    match lines {
        None => vec!["there is no ARCHITECTURE.md".to_owned()],
        Some(lines) if lines > 200 => vec![format!("it has {lines} lines; 200 are enough")],
        Some(_) => Vec::new(),
    }
}

/// A case is a command and what it prints.
pub fn golden_cases_are_complete(files: &[File]) -> Vec<String> {
    let has = |path: &str| files.iter().any(|file| file.path == path);
    let commands = files.iter().filter_map(|file| {
        let case = file.path.strip_prefix("tests/golden/")?.strip_suffix("/cmd")?;
        (!has(&format!("tests/golden/{case}/stdout"))).then(|| format!("{case} has no `stdout`"))
    });
    commands.collect()
}
