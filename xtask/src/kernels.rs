//! Boots Debian's kernels in an emulator with this build, runs the checks of `kernels/checks.sh` there, and prints a table
//! of checks and kernels; `--update` writes it to docs/kernels.md.
//!
//! Without arguments the newest package of each version that apt offers is used; others are given as .deb files. With
//! `--program=FILE` a program that was built before is tried, with `--arm64` the kernels of 64-bit ARM, with `--armhf` those of 32-bit ARM.

mod initramfs;
mod machine;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::repo::Repo;
use crate::score::{Score, skip};
use machine::Machine;
use table::KernelResults;

const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
const TOOL_LIMIT: Duration = Duration::from_secs(300);
/// Limit of one kernel: without hardware help, all checks take some two minutes.
const BOOT_LIMIT: Duration = Duration::from_secs(2400);

/// A kernel's image, unpacked.
struct KernelImage {
    /// As `uname -r` prints it.
    version: String,
    path: PathBuf,
}

/// Runs `[--arm64|--armhf] [--update] [--program=FILE] [FILE.deb...]`.
pub fn run(repo: &Repo, args: &[String]) -> Result<Score> {
    const PROGRAM: &str = "--program=";
    let (flags, files): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with("--"));
    let has = |name: &str| flags.iter().any(|flag| *flag == name);
    let given = flags.iter().find_map(|flag| flag.strip_prefix(PROGRAM));
    if flags.iter().any(|flag| {
        !["--update", "--arm64", "--armhf"].contains(&flag.as_str()) && !flag.starts_with(PROGRAM)
    }) {
        bail!("cargo xtask kernels [--arm64|--armhf] [--update] [--program=FILE] [FILE.deb...]");
    }
    let machine = match () {
        () if has("--arm64") => &machine::ARM64,
        () if has("--armhf") => &machine::ARMHF,
        () => &machine::AMD64,
    };
    if let Some((tool, package)) = machine.tools().iter().find(|(tool, _)| process::find(tool).is_none()) {
        return Ok(skip("kernels", &format!("no {tool}: apt-get install {package}")));
    }
    let folder = repo.target().join("kernels").join(machine.name);
    std::fs::create_dir_all(&folder)?;
    let packages =
        if files.is_empty() { offered(machine, &folder)? } else { files.iter().map(PathBuf::from).collect() };
    if packages.is_empty() {
        return Ok(skip("kernels", "apt offers no kernel; give packages: cargo xtask kernels FILE.deb..."));
    }
    let built = given.map_or_else(|| machine.tally(repo), |file| Ok(PathBuf::from(file)))?;
    let archive = initramfs::build(machine, repo, &folder, &built)?;
    let mut results = Vec::new();
    for package in packages {
        let image = unpack(&package, &folder)?;
        println!("booting {}", image.version);
        results.push(boot(machine, &image, &archive)?);
    }
    results.sort_by_key(|result| table::version_key(&result.version));
    print!("{}", table::text(&results));
    if has("--update") {
        table::update(&repo.root.join("docs/kernels.md"), machine.name, &results)?;
    }
    let mut score = Score::default();
    results.iter().for_each(|result| score += Score::of(result.is_good()));
    Ok(score)
}

/// The newest package of each version of the kernel that apt offers, downloaded.
fn offered(machine: &Machine, folder: &Path) -> Result<Vec<PathBuf>> {
    let Some(_) = process::find("apt-get") else { return Ok(Vec::new()) };
    machine.update_lists(folder)?;
    let pattern = format!(r"^linux-image-[0-9]+\.[0-9]+\.[0-9][^ ]*-{}$", machine.kernels);
    let mut search = machine.apt("apt-cache", folder);
    let found = process::capture(search.args(["search", "--names-only", &pattern]), TOOL_LIMIT)?;
    let mut packages: Vec<String> = Vec::new();
    let text = found.text();
    let plain = |name: &&str| !["cloud", "-rt-", "unsigned", "dbg"].iter().any(|part| name.contains(part));
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).filter(plain).collect();
    names.sort_by_key(|name| table::version_key(name));
    for name in names.into_iter().rev() {
        let is_known = |known: &String| table::version_key(known)[..2] == table::version_key(name)[..2];
        if !packages.iter().any(is_known) {
            packages.push(name.to_owned());
        }
    }
    packages.iter().map(|name| download(machine, name, folder)).collect()
}

fn download(machine: &Machine, package: &str, folder: &Path) -> Result<PathBuf> {
    let is_it = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{package}_")))
    };
    let here = || -> Result<Option<PathBuf>> {
        Ok(std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).find(|path| is_it(path)))
    };
    if let Some(path) = here()? {
        return Ok(path);
    }
    let mut apt = machine.apt("apt-get", folder);
    let got = process::capture(apt.args(["download", package]).current_dir(folder), TOOL_LIMIT)?;
    here()?.with_context(|| format!("apt-get download {package}: {}", got.tail(3)))
}

/// The image in a package: `boot/vmlinuz-VERSION`, or since Debian 14 `usr/lib/modules/VERSION/vmlinuz`.
fn unpack(package: &Path, folder: &Path) -> Result<KernelImage> {
    let script = r#"dpkg-deb --fsys-tarfile "$1" | tar -xv -C "$2" --wildcards '*/vmlinuz*'"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(package).arg(folder);
    let unpacked = process::capture(&mut command, TOOL_LIMIT)?;
    let text = unpacked.text();
    let inside = text.lines().find(|line| line.contains("vmlinuz"));
    let inside = inside.with_context(|| format!("{}: no kernel in it", package.display()))?;
    let version = match inside.rsplit_once("vmlinuz-") {
        Some((_, version)) => version.to_owned(),
        None => inside.split('/').rev().nth(1).unwrap_or("kernel").to_owned(),
    };
    Ok(KernelImage { version, path: folder.join(inside) })
}

/// Boots the kernel, and reads what its checks print to the serial line.
fn boot(machine: &Machine, image: &KernelImage, archive: &Path) -> Result<KernelResults> {
    let mut emulator = Command::new(machine.emulator.0);
    emulator.args(machine.options).args(["-smp", "2", "-m", "2048", "-nographic", "-no-reboot"]);
    emulator.arg("-kernel").arg(&image.path).arg("-initrd").arg(archive);
    emulator.args(["-append", &format!("console={} panic=-1 quiet", machine.console)]);
    let run = process::capture(&mut emulator, BOOT_LIMIT)?;
    let results = KernelResults::parse(&image.version, &run.text());
    if !results.has_ended {
        println!("{}: the checks did not end\n{}", image.version, run.tail(10));
    }
    Ok(results)
}
