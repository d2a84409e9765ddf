//! The perfs that tally is compared with: the machine's, and the newest one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::apt::Apt;
use crate::process;
use crate::repo::Repo;

/// Names a newer perf: a program, or a script that runs it.
const VARIABLE: &str = "TALLY_NEWEST_PERF";
const SETUP_LIMIT: Duration = Duration::from_secs(30 * 60);
const LIMIT: Duration = Duration::from_secs(10);

/// One perf.
pub struct Perf {
    /// `perf 7.2.13`
    pub name: String,
    /// The program, or a script that runs it.
    pub program: PathBuf,
}

/// The machine's perf, then the one that [`VARIABLE`] names or [`setup`] has made.
pub fn all(repo: &Repo) -> Vec<Perf> {
    let newest = std::env::var_os(VARIABLE).map_or_else(|| made(repo).join("perf"), PathBuf::from);
    [PathBuf::from("perf"), newest].into_iter().filter_map(Perf::of).collect()
}

impl Perf {
    /// `None` if it doesn't run.
    fn of(program: PathBuf) -> Option<Self> {
        let run =
            process::capture(Command::new(&program).arg("version"), LIMIT).ok().filter(|run| run.ok())?;
        let text = run.text();
        Some(Self { name: format!("perf {}", text.trim().trim_start_matches("perf version ")), program })
    }
}

/// Folder of the newest perf, kept between runs.
fn made(repo: &Repo) -> PathBuf {
    repo.target().join("perf-newest")
}

/// Makes a root folder of Debian sid with its perf, and a script that runs that perf on this machine's files.
pub fn setup(repo: &Repo) -> Result<()> {
    let dir = made(repo);
    if let Some(perf) = Perf::of(dir.join("perf")) {
        println!("{} is in {}", perf.name, dir.display());
        return Ok(());
    }
    if !process::is_root() {
        bail!("debootstrap needs root; or name a newer perf in {VARIABLE}");
    }
    if process::find("debootstrap").is_none() {
        let apt = Apt::start();
        apt.update();
        apt.install(&["debootstrap"]);
    }
    let root = dir.join("root");
    std::fs::create_dir_all(&dir)?;
    if !root.join("usr/bin/perf").is_file() {
        let mut command = Command::new("debootstrap");
        command.args(["--variant=minbase", "--include=linux-perf", "sid"]).arg(&root);
        if !process::passed_on(&mut command, SETUP_LIMIT)? {
            bail!("debootstrap could not make {}", root.display());
        }
    }
    write_script(&dir, &root)?;
    let perf = Perf::of(dir.join("perf")).context("the new perf does not run here")?;
    println!("{} is in {}", perf.name, dir.display());
    Ok(())
}

/// With the root's loader and libraries, but this machine's files.
fn write_script(dir: &Path, root: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let arch = std::env::consts::ARCH;
    let loader = std::fs::read_dir(root.join("usr").join(if arch == "x86_64" { "lib64" } else { "lib" }))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux")))
        .context("the root has no loader")?;
    let text = format!(
        "#!/bin/sh\nexec '{}' --library-path '{1}/usr/lib/{arch}-linux-gnu' '{1}/usr/bin/perf' \"$@\"\n",
        loader.display(),
        root.display(),
    );
    let script = dir.join("perf");
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}
