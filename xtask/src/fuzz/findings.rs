//! The smallest failing input of each cause.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Failures so far, in a folder that outlives the run.
pub struct Findings {
    folder: PathBuf,
    /// Number of failures by cause, and the file with its smallest input.
    by_cause: BTreeMap<String, (u64, PathBuf)>,
}

impl Findings {
    /// Nothing found yet.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, by_cause: BTreeMap::new() }
    }

    /// Keeps `input` with `why`, unless a smaller one with the same cause is there. True if the cause is new.
    pub fn add(&mut self, target: &str, input: &Path, why: &str) -> Result<bool> {
        let cause = cause_of(target, why);
        let mut hasher = DefaultHasher::new();
        cause.hash(&mut hasher);
        let file = self.folder.join(format!("{target}-{:08x}", hasher.finish() as u32));
        let (times, _) = self.by_cause.entry(cause).or_insert((0, file.clone()));
        *times += 1;
        let size = |path: &Path| std::fs::metadata(path).map_or(u64::MAX, |meta| meta.len());
        if size(input) < size(&file) {
            std::fs::create_dir_all(&self.folder)?;
            std::fs::copy(input, &file)?;
            std::fs::write(file.with_extension("why"), why)?;
        }
        Ok(*times == 1)
    }

    /// Number of causes.
    pub fn causes(&self) -> u32 {
        self.by_cause.len() as u32
    }

    /// A line or two for each cause.
    pub fn text(&self) -> String {
        let lines = self.by_cause.iter().map(|(cause, (times, file))| {
            format!(
                "{times} times: {cause}\n    {}, why: the file next to it ending in .why\n",
                file.display()
            )
        });
        lines.collect()
    }
}

/// The cause of a fault: the target, and the location of its panic or the bound it exceeded. A panic in a library
/// counts for our code that called it.
fn cause_of(target: &str, why: &str) -> String {
    let first = why.lines().next().unwrap_or_default();
    if !first.starts_with("panic") {
        let kind = first.split(" MB ").next().unwrap_or_default();
        let kind = kind.trim_end_matches(|last: char| last.is_ascii_digit() || last == ' ');
        return format!("{target}: {}", kind.trim_end_matches(':'));
    }
    let is_ours = |place: &str| place.starts_with("crates/") || place.starts_with("./crates/");
    if first.strip_prefix("panic: ").is_some_and(is_ours) {
        return format!("{target}: {first}");
    }
    let mut frames = why.lines().filter_map(|line| line.trim().strip_prefix("at "));
    // The panic hook of the program is on every stack.
    match frames.find(|frame| is_ours(frame) && !frame.contains("crates/cli/src/lib.rs")) {
        Some(frame) => format!("{target}: {first}, called at {frame}"),
        None => format!("{target}: {first}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_in_one_place_have_one_cause() {
        let own = |line: u32, text: &str| {
            cause_of(
                "a-b",
                &format!("panic: crates/cli/src/x.rs:{line}:4\n{text}\n  at ./crates/dso/src/z.rs:1:1"),
            )
        };
        assert_eq!(own(6, "index 7"), own(6, "index 8"));
        assert_ne!(own(6, "index 7"), own(7, "index 7"));
        let memory =
            |megabytes: u32| cause_of("a-b", &format!("memory: {megabytes} MB for 9 bytes of input"));
        assert_eq!(memory(400), memory(500));
        assert_ne!(memory(400), cause_of("a-b", "slow: more than 20 s of CPU time"));
    }

    #[test]
    fn a_panic_of_a_library_is_that_of_its_caller() {
        let why = |caller: &str| {
            format!(
                "panic: /rustc/1/alloc/vec.rs:1:2\nno\n  at ./crates/cli/src/lib.rs:8:1\n  at /rustc/1/x.rs:3:3\n  at {caller}"
            )
        };
        assert_ne!(
            cause_of("t", &why("./crates/dso/src/a.rs:3:1")),
            cause_of("t", &why("./crates/dso/src/b.rs:3:1"))
        );
    }

    #[test]
    fn the_smallest_input_of_a_cause_is_kept() {
        let folder = std::env::temp_dir().join(format!("xtask-findings-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, bytes: &[u8]| {
            let file = folder.join(name);
            std::fs::write(&file, bytes).expect("a file");
            file
        };
        let (large, small) = (write("large", &[0; 99]), write("small", &[0; 9]));
        let mut findings = Findings::new(folder.join("findings"));
        assert!(findings.add("t", &large, "slow: 1").expect("kept"));
        assert!(!findings.add("t", &small, "slow: 1").expect("kept"));
        assert!(!findings.add("t", &large, "slow: 1").expect("kept"));
        let (times, file) = findings.by_cause.values().next().expect("one cause");
        assert_eq!((*times, std::fs::read(file).expect("readable").len()), (3, 9));
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
