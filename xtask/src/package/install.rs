//! Each package as people use it: installed below an empty folder by its own tool, started there, and removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::empty_root::EmptyRoot;
use super::{Release, Score, TOOL_LIMIT, process, score, skip, smoke, tool};

/// The tool's own notes are below it, and stay when a package is removed.
const NOTES: &str = "var";

/// A package, and how it is installed.
struct Package {
    file: PathBuf,
    tool: &'static str,
    /// Arguments before the file, in a folder as root.
    install: Vec<String>,
    /// Arguments that remove it; empty for an archive, which nobody removes.
    remove: Vec<String>,
    /// Below the folder.
    program: String,
}

/// All packages in `to`; each has to have a program that prints `build` as its version.
pub fn work(to: &Path, release: &Release, build: &str) -> Result<Score> {
    if let Some(why) = smoke::hindrance(release) {
        return Ok(skip("packages installed in an empty folder", why));
    }
    let folder = to.join("installed");
    let mut all = Score::default();
    for package in packages(to, release, &folder) {
        if process::find(package.tool).is_none() || !package.file.exists() {
            all += skip(&format!("{} installed", package.file.display()), &format!("no {}", package.tool));
            continue;
        }
        let fault = fault_of(&package, &EmptyRoot::make(folder.clone(), release)?, build)?;
        if let Some(fault) = &fault {
            score::fault(&format!("{}: {fault}", package.file.display()));
        }
        all += Score::of(fault.is_none());
    }
    Ok(all)
}

fn packages(to: &Path, release: &Release, root: &Path) -> [Package; 3] {
    let machine = release.debian_machine();
    let own = |args: &[&str]| -> Vec<String> { args.iter().map(|arg| (*arg).to_owned()).collect() };
    let at = |option: &str| format!("{option}{}", root.display());
    let rpm = ["--dbpath", "/var/lib/rpm", "--nodeps"];
    [
        Package {
            file: to.join(release.name() + ".tar.gz"),
            tool: "tar",
            install: vec![at("--directory="), "-xzf".to_owned()],
            remove: Vec::new(),
            program: format!("{}/bin/tally", release.name()),
        },
        Package {
            file: to.join(format!("tally_{}_{machine}.deb", release.version)),
            tool: "dpkg",
            install: vec![at("--root="), "--force-architecture".to_owned(), "--install".to_owned()],
            remove: vec![at("--root="), "--purge".to_owned(), "tally".to_owned()],
            program: "usr/bin/tally".to_owned(),
        },
        Package {
            file: to.join(release.name() + ".rpm"),
            tool: "rpm",
            install: [vec![at("--root=")], own(&rpm), own(&["--ignorearch", "--install"])].concat(),
            remove: [vec![at("--root=")], own(&rpm), own(&["--erase", "tally"])].concat(),
            program: "usr/bin/tally".to_owned(),
        },
    ]
}

/// Reason why the package does not work; `None` if it does.
fn fault_of(package: &Package, empty: &EmptyRoot, build: &str) -> Result<Option<String>> {
    let root = empty.folder();
    // dpkg wants its notes to be there; rpm makes its own.
    fs::create_dir_all(root.join("var/lib/dpkg/info"))?;
    fs::create_dir_all(root.join("var/lib/dpkg/updates"))?;
    fs::write(root.join("var/lib/dpkg/status"), "")?;
    let before = own_files(root)?;
    tool(Command::new(package.tool).args(&package.install).arg(&package.file))?;
    let mut start = empty.command(&format!("/{}", package.program));
    start.arg("--version");
    let run = process::capture(&mut start, TOOL_LIMIT)?;
    if !run.ok() || !run.text().contains(&format!("tally {build}")) {
        return Ok(Some(format!("installed, tally --version: {}", run.tail(5))));
    }
    if package.remove.is_empty() {
        return Ok(None);
    }
    tool(Command::new(package.tool).args(&package.remove))?;
    let mut left = own_files(root)?;
    left.retain(|file| !before.contains(file));
    Ok((!left.is_empty()).then(|| format!("removed, it leaves {}", left.join(", "))))
}

/// Files and folders with the program's name, and all other files, but the tool's notes.
fn own_files(root: &Path) -> Result<Vec<String>> {
    let mut find = Command::new("find");
    find.arg(root).args(["-path"]).arg(root.join(NOTES)).args(["-prune", "-o"]);
    find.args(["(", "!", "-type", "d", "-o", "-name", "tally*", ")", "-print"]);
    Ok(process::capture(&mut find, TOOL_LIMIT)?.text().lines().map(str::to_owned).collect())
}
