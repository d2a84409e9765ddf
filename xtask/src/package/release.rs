//! Version and commit of a package, and the machine it is for.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::TOOL_LIMIT;
use crate::cargo;
use crate::process;
use crate::repo::Repo;

/// Parts of a package's name, and of what its program answers.
pub struct Release {
    /// As in the workspace's manifest.
    pub version: String,
    /// `x86_64` or `aarch64`.
    pub machine: String,
    /// The compiler's name of the machine and C library.
    pub target: String,
    /// Abbreviated; empty outside of a git checkout.
    pub commit: String,
    /// Time of the commit, s since 1970.
    pub epoch: String,
}

impl Release {
    /// For `machine`: musl's C library if this compiler has it, else glibc's.
    ///
    /// # Errors
    /// A machine that can't be built for here.
    pub fn new(repo: &Repo, machine: &str) -> Result<Self> {
        let targets = ["musl", "gnu"].map(|library| format!("{machine}-unknown-linux-{library}"));
        let mut target = None;
        for known in targets {
            // zstd is C. For another machine, glibc's headers do for musl, too.
            let has_c = !known.ends_with("musl")
                || machine != std::env::consts::ARCH
                || process::find("musl-gcc").is_some();
            if target.is_none() && has_c && cargo::has_library(&known)? {
                target = Some(known);
            }
        }
        let Some(target) = target else {
            bail!("no standard library for {machine}: rustup target add {machine}-unknown-linux-musl");
        };
        let commit = git(repo, &["rev-parse", "--short=12", "HEAD"]);
        let epoch = Some(git(repo, &["log", "-1", "--format=%ct"])).filter(|time| !time.is_empty());
        let epoch = epoch.unwrap_or_else(|| "0".to_owned());
        Ok(Self { version: version(repo)?, machine: machine.to_owned(), target, commit, epoch })
    }

    /// `tally-0.2.0-x86_64-linux`: the start of each file's name.
    pub fn name(&self) -> String {
        format!("tally-{}-{}-linux", self.version, self.machine)
    }

    /// Output of `tally --version` after the name.
    pub fn build(&self) -> String {
        let library = if self.is_musl() { "musl" } else { "glibc" };
        let parts = [&self.commit, &self.machine, &format!("static {library}")];
        let parts: Vec<&str> =
            parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect();
        format!("{} ({})", self.version, parts.join(", "))
    }

    pub fn is_musl(&self) -> bool {
        self.target.ends_with("musl")
    }

    /// For another processor than this one.
    pub fn is_foreign(&self) -> bool {
        self.machine != std::env::consts::ARCH
    }

    /// The processor's name in Debian's packages.
    pub fn debian_machine(&self) -> &'static str {
        if self.machine == "aarch64" { "arm64" } else { "amd64" }
    }

    /// gcc or one of the binutils, for the machine.
    pub fn tool(&self, name: &str) -> String {
        if self.is_foreign() { format!("{}-linux-gnu-{name}", self.machine) } else { name.to_owned() }
    }

    /// Starts the machine's programs here; `None` if it is this machine, or there is no such emulator.
    pub fn emulator(&self) -> Option<PathBuf> {
        self.is_foreign().then(|| process::find(&format!("qemu-{}", self.machine))).flatten()
    }
}

fn version(repo: &Repo) -> Result<String> {
    let text = std::fs::read_to_string(repo.root.join("Cargo.toml"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("version = \""));
    let version = lines.next().and_then(|rest| rest.strip_suffix('"'));
    version.map(str::to_owned).context("Cargo.toml has no version of the workspace")
}

/// Output of git; empty if it can't.
fn git(repo: &Repo, args: &[&str]) -> String {
    let found = process::capture(Command::new("git").args(args).current_dir(&repo.root), TOOL_LIMIT);
    found.ok().filter(process::Finished::ok).map(|found| found.text().trim().to_owned()).unwrap_or_default()
}
