//! Rules about Rust source.

use crate::repo::File;

/// Crates in which the compiler itself must forbid unsafe code.
const PURE: &[&str] = &[
    "crates/perfdata/src/lib.rs",
    "crates/intelpt/src/lib.rs",
    "crates/profile/src/lib.rs",
    "crates/calls/src/lib.rs",
    "crates/sched/src/lib.rs",
    "crates/symbols/src/lib.rs",
    "crates/cli/src/main.rs",
    "fuzz/src/lib.rs",
    "crates/syscalls/src/lib.rs",
    "crates/exchange/src/lib.rs",
    "crates/counts/src/lib.rs",
    "crates/display/src/lib.rs",
    "crates/tui/src/lib.rs",
];

/// Files with unsafe code: the boundaries between safe code and the kernel, the CPU or foreign memory.
const UNSAFE: &[&str] = &[
    "crates/dso/src/files/mmap.rs",
    "crates/dso/src/files/mmap/",
    "crates/record/examples/pt_step/step.rs",
    "crates/record/src/sys/",
    "crates/tracer/",
    // The compiler's coverage counters are raw memory.
    "fuzz/src/coverage.rs",
    // An allocator that counts: the trait is unsafe.
    "fuzz/src/memory.rs",
    "xtask/src/leftovers.rs",
    "xtask/src/usage.rs",
    CHECKER,
];

/// Files that may read bytes as numbers.
const LAYOUTS: &[&str] = &[
    "crates/perfdata/",
    "crates/intelpt/",
    "crates/tracer/src/layout",
    "crates/exchange/src/parquet",
    "crates/dso/",
    "crates/record/src/sys/",
    "crates/record/src/off_cpu/",
    "crates/record/src/calls/",
    // An interpreter's objects in the target's memory.
    "crates/record/src/runtimes/",
    "crates/syscalls/src/",
    // A word of the target's stack.
    "crates/record/src/pipeline/stacks/deeper.rs",
    "fuzz/",
];

/// This file, because it contains the words it looks for.
const CHECKER: &str = "xtask/src/tidy/source.rs";

const JUNK: &[&str] =
    &["utils", "util", "common", "misc", "helpers", "helper", "types", "manager", "handler", "support"];

fn under(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

/// Lines of code with their 1-based numbers; comments and the strings of this checker are not code.
fn code_lines(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
        .filter(|(_, line)| !line.trim().is_empty())
}

fn uses_unsafe(line: &str) -> bool {
    let mut rest = line;
    while let Some(at) = rest.find("unsafe") {
        let before = rest[..at].chars().next_back().unwrap_or(' ');
        let after = rest[at + 6..].chars().next().unwrap_or(' ');
        let word = ![before, after].iter().any(|c| c.is_alphanumeric() || *c == '_' || *c == '"');
        let code = rest[at + 6..].trim_start();
        let opens = code.starts_with('{')
            || code.starts_with("impl")
            || code.starts_with("fn")
            || code.starts_with("extern");
        if word && (opens || code.is_empty() || line.contains("(unsafe(")) {
            return true;
        }
        rest = &rest[at + 6..];
    }
    false
}

/// `#![forbid(unsafe_code)]` in the pure crates.
pub fn pure_crates_forbid_unsafe(files: &[File]) -> Vec<String> {
    let lacks = |root: &&&str| {
        !files.iter().any(|file| file.path == **root && file.text.contains("#![forbid(unsafe_code)]"))
    };
    PURE.iter().filter(lacks).map(|root| format!("{root} has no #![forbid(unsafe_code)]")).collect()
}

/// No unsafe code in other files.
pub fn unsafe_only_in_named_files(files: &[File]) -> Vec<String> {
    let outside = files.iter().filter(|file| file.is_rust() && !under(&file.path, UNSAFE));
    outside.flat_map(|file| lines_with(file, uses_unsafe)).collect()
}

/// No reading of numbers from bytes in other files.
pub fn layouts_only_in_named_places(files: &[File]) -> Vec<String> {
    let words = [concat!("from_le_", "bytes"), concat!("from_be_", "bytes"), concat!("from_ne_", "bytes")];
    let outside = files
        .iter()
        .filter(|file| file.is_rust() && !under(&file.path, LAYOUTS) && !file.path.contains("/tests"));
    outside.flat_map(|file| product_lines_with(file, &words)).collect()
}

/// No thread is started by a call that panics where the system refuses one, as under `ulimit -v`.
pub fn a_refused_thread_is_an_error(files: &[File]) -> Vec<String> {
    let words =
        [concat!("thread::", "spawn("), concat!("scope.", "spawn(||"), concat!("scope.", "spawn(move ||")];
    let shipped = files.iter().filter(|file| {
        file.is_rust()
            && file.path.starts_with("crates/")
            && file.path.contains("/src/")
            && !file.path.contains("/tests")
    });
    shipped.flat_map(|file| product_lines_with(file, &words)).collect()
}

/// Lines of code, those of its tests left out, with one of these words.
fn product_lines_with(file: &File, words: &[&str]) -> Vec<String> {
    let end = file.product().lines().count();
    let hits = code_lines(file)
        .filter(|(number, line)| *number <= end && words.iter().any(|word| line.contains(word)));
    hits.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())).collect()
}

fn lines_with(file: &File, hit: fn(&str) -> bool) -> Vec<String> {
    code_lines(file)
        .filter(|(_, line)| hit(line))
        .map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim()))
        .collect()
}

/// No module with a meaningless name.
pub fn no_junk_drawers(files: &[File]) -> Vec<String> {
    let named = files.iter().filter(|file| file.is_rust() && file.path.contains("/src/"));
    named
        .filter(|file| {
            let inner = file.path.rsplit_once("/src/").map_or("", |(_, inner)| inner);
            // DWARF's own word.
            let inner = inner.trim_start_matches("dwarf/probe/types");
            inner.trim_end_matches(".rs").split('/').any(|part| JUNK.contains(&part))
        })
        .map(|file| file.path.clone())
        .collect()
}

/// A note for later has an issue number.
pub fn todo_has_an_issue(files: &[File]) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let rust = files.iter().filter(|file| file.is_rust());
    rust.flat_map(|file| {
        let lines = file.text.lines().enumerate();
        lines
            .filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)) && !line.contains('#'))
            .map(|(index, line)| format!("{}:{}: {}", file.path, index + 1, line.trim()))
            .collect::<Vec<_>>()
    })
    .collect()
}

/// Every public `parse_*` that takes bytes or text from outside is called by its crate's `fuzz` module.
pub fn parsers_are_fuzzed(files: &[File]) -> Vec<String> {
    let sources = files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/"));
    sources
        .flat_map(|file| {
            let krate = file.krate().unwrap_or_default();
            let fuzzed: String = files
                .iter()
                .filter(|other| {
                    other.krate() == Some(krate)
                        && (other.path.contains("fuzz") || other.text.contains("fn fuzz_"))
                })
                .map(|other| other.text.as_str())
                .collect();
            let names = file.product().lines().filter_map(|line| {
                let rest = line.trim_start().strip_prefix("pub fn parse_")?;
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                Some(format!("parse_{}", &rest[..end]))
            });
            names
                .filter(|name| !fuzzed.contains(name.as_str()))
                .map(|name| format!("{}: {name} is in no fuzz target of {krate}", file.path))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Prints the number of unsafe blocks per file.
pub fn print_unsafe_table(files: &[File]) {
    for file in files.iter().filter(|file| file.is_rust()) {
        let count = code_lines(file).filter(|(_, line)| uses_unsafe(line)).count();
        if count > 0 && file.path != CHECKER {
            println!("unsafe {count:>4}  {}", file.path);
        }
    }
}

/// Prints files that are long enough for two.
pub fn warn_of_sizes(files: &[File]) {
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.product().lines().count();
        if lines > 500 {
            println!("note: {} has {lines} lines before its tests", file.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::uses_unsafe;

    #[test]
    fn unsafe_is_found_as_code_and_not_as_a_word() {
        assert!(uses_unsafe("    let x = unsafe { y() };"));
        assert!(uses_unsafe("unsafe impl Send for A {}"));
        assert!(!uses_unsafe("#![forbid(unsafe_code)]"));
        assert!(!uses_unsafe("println!(\"unsafe {count}\");"));
        assert!(!uses_unsafe("let unsafe_count = 1;"));
    }
}
