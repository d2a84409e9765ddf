//! Builds the driver of the fuzz targets, and runs one process of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cargo::cargo;
use crate::process;
use crate::repo::Repo;

const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Limit of a target's address space, including C libraries and mappings.
const MEMORY_KIB: u64 = 4 << 20;
/// The compiler's counters of reached code: one byte for each edge.
const COUNTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters";

/// The built driver.
pub struct Driver {
    program: PathBuf,
    repo_root: PathBuf,
    recorded: Option<PathBuf>,
    /// Folder for inputs that reach new code, with a subfolder per target.
    pub found: Option<PathBuf>,
}

/// One run of one target.
pub struct Slice<'s> {
    /// The target.
    pub target: &'s str,
    /// Duration of the run.
    pub seconds: u64,
    /// Folder of the current input, for this process alone.
    pub keep: &'s Path,
    /// The same seed and corpus give the same inputs.
    pub seed: u64,
}

/// Result of a run of a target.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Inputs run.
    pub inputs: u64,
    /// Size of the corpus at the end.
    pub seeds: u64,
    /// Edges of code reached, in a build that counts them.
    pub edges: u64,
    /// Description of the fault, with the kind in the first line; `None` without a fault.
    pub fault: Option<String>,
}

impl Driver {
    /// Builds the driver with the profile of tests.
    pub fn build(repo: &Repo) -> Result<Self> {
        let args = ["build", "--quiet", "-p", "fuzz", "--bin", "fuzz-smoke"];
        Self::built(repo, &mut cargo(repo, &args), "debug/fuzz-smoke", None)
    }

    /// Builds the driver with coverage counters and optimized; all checks of arithmetic stay.
    pub fn build_counting(repo: &Repo) -> Result<Self> {
        let target = repo.target().join("fuzz/build");
        let rustc = process::capture(Command::new("rustc").arg("-vV"), Duration::from_secs(30))?.text();
        let Some(host) = rustc.lines().find_map(|line| line.strip_prefix("host: ")) else {
            bail!("rustc does not name its host");
        };
        // With a target named, procedural macros are built without the flags.
        let args = ["build", "--quiet", "-p", "fuzz", "--bin", "fuzz-smoke", "--target", host];
        let mut command = cargo(repo, &args);
        command.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", COUNTED);
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        let program = format!("fuzz/build/{host}/debug/fuzz-smoke");
        Self::built(repo, &mut command, &program, Some(repo.target().join("fuzz/found")))
    }

    fn built(repo: &Repo, command: &mut Command, program: &str, found: Option<PathBuf>) -> Result<Self> {
        if !process::passed_on(command, BUILD_LIMIT)? {
            bail!("the fuzz targets do not build");
        }
        let (program, repo_root) = (repo.target().join(program), repo.root.clone());
        Ok(Self { program, repo_root, recorded: repo.fixtures(), found })
    }

    /// Names of all targets.
    pub fn targets(&self) -> Result<Vec<String>> {
        let listed = process::capture(Command::new(&self.program).arg("--list"), Duration::from_secs(10))?;
        Ok(listed.text().lines().map(str::to_owned).collect())
    }

    /// Runs a target in a separate process, bounded in memory and time.
    pub fn run(&self, slice: &Slice<'_>) -> Result<Outcome> {
        let Slice { target, seconds, keep, seed } = slice;
        std::fs::create_dir_all(keep)?;
        let of_target = |ending: &str| keep.join(format!("{target}.{ending}"));
        for stale in ["ran", "why"] {
            let _ = std::fs::remove_file(of_target(stale));
        }
        let mut command = self.limited();
        command.args([*target, &seconds.to_string()]).arg(keep).args(["--seed", &seed.to_string()]);
        if let Some(folder) = &self.recorded {
            command.arg("--recorded").arg(folder);
        }
        if let Some(folder) = &self.found {
            std::fs::create_dir_all(folder.join(target))?;
            command.arg("--grow").arg(folder.join(target));
        }
        // The driver itself ends an input that takes too long; on a busy machine that may be late.
        let ended = process::silently(&mut command, Duration::from_secs(seconds + 1000))?;
        let ran = std::fs::read_to_string(of_target("ran")).unwrap_or_default();
        let mut numbers = ran.split_whitespace().filter_map(|number| number.parse().ok());
        let mut number = || numbers.next().unwrap_or(0);
        let (inputs, seeds, edges) = (number(), number(), number());
        let why = || std::fs::read_to_string(of_target("why")).ok().filter(|why| !why.is_empty());
        let fault = (!ended.ok() && !ended.interrupted).then(|| why().unwrap_or_else(|| ended.how()));
        Ok(Outcome { inputs, seeds, edges, fault })
    }

    /// Adds found inputs that reach new code to the repository's corpus. Returns the number of inputs added.
    pub fn reduce(&self, target: &str, keep: &Path) -> Result<u64> {
        let Some(found) = self.found.as_ref().map(|found| found.join(target)) else { return Ok(0) };
        let mut command = self.limited();
        command.args([target, "--reduce"]).arg(found).arg(keep);
        let ended = process::silently(&mut command, Duration::from_secs(20 * 60))?;
        if !ended.ok() {
            bail!("{target}: the corpus could not be reduced: {}", ended.how());
        }
        let kept = std::fs::read_to_string(keep.join(format!("{target}.kept"))).unwrap_or_default();
        Ok(kept.trim().parse().unwrap_or(0))
    }

    fn limited(&self) -> Command {
        let mut command = Command::new("sh");
        let limits = format!("ulimit -v {MEMORY_KIB}; ulimit -c 0; exec nice -n 10 \"$0\" \"$@\"");
        command.args(["-c", &limits]).arg(&self.program).current_dir(&self.repo_root);
        command
    }
}
