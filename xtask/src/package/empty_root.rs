//! A folder in which a program is started as if it were the whole system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Release, process};

/// The folder, and the emulator that starts the program in it.
pub struct EmptyRoot {
    folder: PathBuf,
    /// Path there, for a program of another machine.
    emulator: Option<String>,
}

impl EmptyRoot {
    /// Makes `folder`, with the emulator and its libraries in it if the program is another machine's.
    pub fn make(folder: PathBuf, release: &Release) -> Result<Self> {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let emulator = release.emulator();
        if let Some(file) = &emulator {
            for from in process::libraries(file)?.into_iter().chain([file.clone()]) {
                let to = folder.join(from.strip_prefix("/")?);
                fs::create_dir_all(to.parent().context("a file's folder")?)?;
                fs::copy(&from, &to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
            }
        }
        let emulator = emulator.map(|file| file.display().to_string());
        Ok(Self { folder, emulator })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts `program`, a path there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.folder).args(&self.emulator).arg(program);
        command
    }
}

impl Drop for EmptyRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
