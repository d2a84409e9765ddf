//! Paths in the repository, and its files as text.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A checked-out repository.
pub struct Repo {
    /// The folder with the workspace's manifest.
    pub root: PathBuf,
}

/// One text file of the repository.
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// Whole text.
    pub text: String,
}

impl Repo {
    /// The repository that this program was built from.
    pub fn here() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        Self { root: root.to_owned() }
    }

    /// Folder of the builds.
    pub fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// The folder of recorded files next to the project; `None` if it does not exist.
    pub fn fixtures(&self) -> Option<PathBuf> {
        let beside = self.root.parent().map(|up| up.join("shared/fixtures"));
        let named = std::env::var_os("TALLY_FIXTURES").map(PathBuf::from);
        [named, beside].into_iter().flatten().find(|dir| dir.is_dir())
    }

    /// Every file that git tracks or would track (not ignored), as text; binary files are left out.
    pub fn files(&self) -> Result<Vec<File>> {
        let listing = std::process::Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output()
            .context("cannot run git ls-files")?;
        let names = String::from_utf8_lossy(&listing.stdout).into_owned();
        let mut files: Vec<File> = names
            .split('\0')
            .filter(|name| !name.is_empty())
            .filter_map(|name| {
                let text = std::fs::read_to_string(self.root.join(name)).ok()?;
                Some(File { path: name.to_owned(), text })
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}

impl File {
    /// Whether this is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate folder's name when the file is source of a crate.
    pub fn krate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// The text before the inline test module.
    pub fn product(&self) -> &str {
        const TESTS: &str = "#[cfg(test)]\nmod ";
        // Not a declaration such as `mod tests;`: the rest of the file is product too.
        let is_inline = |(at, _): &(usize, &str)| {
            self.text[at + TESTS.len()..].lines().next().is_some_and(|line| line.ends_with('{'))
        };
        let cut = self.text.match_indices(TESTS).find(is_inline).map_or(self.text.len(), |(at, _)| at);
        &self.text[..cut]
    }
}
