//! Rules about dependencies between crates.

use crate::repo::File;

/// Crate → the crates of ours that it may use.
const EDGES: &[(&str, &[&str])] = &[
    ("perfdata", &[]),
    ("intelpt", &[]),
    ("dso", &[]),
    ("tracer", &[]),
    ("sched", &[]),
    ("syscalls", &[]),
    ("profile", &["perfdata", "dso", "sched"]),
    ("symbols", &["perfdata", "dso", "profile"]),
    ("calls", &["perfdata", "dso", "intelpt", "tracer", "profile", "symbols"]),
    ("counts", &["perfdata"]),
    ("display", &[]),
    ("tui", &["display", "perfdata", "profile", "symbols"]),
    ("exchange", &["display", "perfdata", "profile"]),
    ("record", &["perfdata", "counts", "dso", "sched", "syscalls", "tracer"]),
    (
        "cli",
        &[
            "perfdata", "dso", "intelpt", "calls", "counts", "display", "exchange", "profile", "record",
            "symbols", "syscalls", "tracer", "tui",
        ],
    ),
];

/// Every external dependency. A new one needs a note in `docs/decisions` and a line in this list.
const LISTED: &[&str] = &[
    "addr2line",
    "anyhow",
    "aya",
    "aya-obj",
    "clap",
    "clap_complete",
    "clap_mangen",
    "cpp_demangle",
    "crossterm",
    "disarm64",
    "flate2",
    "gimli",
    "hashbrown",
    "iced-x86",
    "libc",
    "libfuzzer-sys",
    "lzma-rust2",
    "memchr",
    "memmap2",
    "mimalloc",
    "object",
    "proptest",
    "quick-protobuf",
    "ratatui",
    "rayon",
    "regex-lite",
    "rustc-demangle",
    "rustc-hash",
    "serde_json",
    "smallvec",
    "thiserror",
    "zstd",
];

/// The names in the tables `[head]` and `[head.NAME]` of a manifest.
fn names(manifest: &str, heads: &[&str]) -> Vec<String> {
    let mut within = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            within = heads.contains(&head);
            let table = heads.iter().find_map(|known| head.strip_prefix(known)?.strip_prefix('.'));
            found.extend(table.map(str::to_owned));
        } else if within && !line.starts_with('#') && line.contains('=') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            found.push(name.trim_matches('"').to_owned());
        }
    }
    found
}

/// The crate that a manifest is of: the one at the root is the program's.
fn crate_of(manifest: &File) -> Option<&str> {
    if manifest.path == "Cargo.toml" { Some("cli") } else { manifest.krate() }
}

fn manifests(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml"))
}

/// The arrows of the architecture.
pub fn edges_point_down(files: &[File]) -> Vec<String> {
    let ours: Vec<&str> = EDGES.iter().map(|(name, _)| *name).collect();
    let mut faults = Vec::new();
    for file in manifests(files) {
        let Some(krate) = crate_of(file) else { continue };
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == krate) else {
            faults.push(format!("{} is a crate that ARCHITECTURE.md and tidy do not know", file.path));
            continue;
        };
        let used = names(&file.text, &["dependencies", "build-dependencies"]);
        let wrong =
            used.iter().filter(|name| ours.contains(&name.as_str()) && !allowed.contains(&name.as_str()));
        faults.extend(wrong.map(|name| format!("{krate} must not know {name}")));
    }
    faults
}

/// All dependencies come from one table and are on the list.
pub fn dependencies_are_listed(files: &[File]) -> Vec<String> {
    let Some(root) = files.iter().find(|file| file.path == "Cargo.toml") else {
        return vec!["no Cargo.toml".to_owned()];
    };
    let mut faults: Vec<String> = names(&root.text, &["workspace.dependencies"])
        .into_iter()
        .filter(|name| !LISTED.contains(&name.as_str()) && !EDGES.iter().any(|(ours, _)| ours == name))
        .map(|name| format!("{name} is not on tidy's list: write a decision note and add it"))
        .collect();
    for file in manifests(files) {
        // Only the fuzz driver uses the program as a library.
        if file.path == "fuzz/Cargo.toml" {
            continue;
        }
        let heads = ["[dependencies]", "[dev-dependencies]", "[build-dependencies]"];
        let mut within = false;
        for line in file.text.lines() {
            if line.starts_with('[') {
                within = heads.contains(&line.trim());
            } else if within && line.contains('=') && !line.contains("workspace = true") {
                faults.push(format!("{}: `{line}` does not come from the workspace's table", file.path));
            }
        }
    }
    faults
}

/// Cargo finds the program's tests only by the manifest at the root: each file of tests is listed there.
pub fn tests_are_listed(files: &[File]) -> Vec<String> {
    let Some(root) = files.iter().find(|file| file.path == "Cargo.toml") else { return Vec::new() };
    let is_test = |path: &&str| {
        let name = path.strip_prefix("crates/cli/tests/");
        name.is_some_and(|name| name.ends_with(".rs") && !name.contains('/'))
    };
    let tests = files.iter().map(|file| file.path.as_str()).filter(is_test);
    let unlisted = tests.filter(|path| !root.text.contains(&format!("path = \"{path}\"")));
    unlisted.map(|path| format!("{path} has no [[test]] in Cargo.toml: nobody runs it")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_every_form_of_a_dependency() {
        let manifest = "[dependencies]\na.workspace = true\nb = \"1\"\n# c = 1\n[dependencies.d]\nversion = \"1\"\n\
                        [dev-dependencies]\ne = \"2\"\n";
        assert_eq!(names(manifest, &["dependencies"]), ["a", "b", "d"]);
    }

    #[test]
    fn a_test_file_of_the_program_without_a_line_in_the_manifest_is_named() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let mut files = vec![
            file("Cargo.toml", "[[test]]\npath = \"crates/cli/tests/a.rs\"\n"),
            file("crates/cli/tests/a.rs", ""),
            file("crates/cli/tests/a/part.rs", ""),
        ];
        assert!(tests_are_listed(&files).is_empty());
        files.push(file("crates/cli/tests/b.rs", ""));
        assert_eq!(tests_are_listed(&files).len(), 1);
    }
}
