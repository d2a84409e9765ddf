//! Boots Debian's kernels in an emulator with this build, runs the checks of `kernels/checks.sh` there, and prints a table
//! of checks and kernels; `--update` writes it to docs/kernels.md.
//!
//! Without arguments the newest package of each version that apt offers is used; others are given as .deb files. With
//! `--program=FILE` a program that was built before is tried.

mod initramfs;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::repo::Repo;
use crate::score::{Score, skip};
use crate::{fixtures, process};
use table::KernelResults;

const EMULATOR: &str = "qemu-system-x86_64";
/// All programs that the chore runs, with the packages that have them.
const TOOLS: [(&str, &str); 5] = [
    (EMULATOR, "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("dpkg-deb", "dpkg"),
    ("strip", "binutils"),
    ("gcc", "gcc"),
];
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

/// Runs `[--update] [--program=FILE] [FILE.deb...]`.
pub fn run(repo: &Repo, args: &[String]) -> Result<Score> {
    const PROGRAM: &str = "--program=";
    let (flags, files): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with("--"));
    let is_update = flags.iter().any(|flag| *flag == "--update");
    let given = flags.iter().find_map(|flag| flag.strip_prefix(PROGRAM));
    if flags.iter().any(|flag| *flag != "--update" && !flag.starts_with(PROGRAM)) {
        bail!("cargo xtask kernels [--update] [--program=FILE] [FILE.deb...]");
    }
    if let Some((tool, package)) = TOOLS.iter().find(|(tool, _)| process::find(tool).is_none()) {
        return Ok(skip("kernels", &format!("no {tool}: apt-get install {package}")));
    }
    let folder = repo.target().join("kernels");
    std::fs::create_dir_all(&folder)?;
    let packages =
        if files.is_empty() { offered(&folder)? } else { files.iter().map(PathBuf::from).collect() };
    if packages.is_empty() {
        return Ok(skip("kernels", "apt offers no kernel; give packages: cargo xtask kernels FILE.deb..."));
    }
    let built = given.map_or_else(|| built(repo), |file| Ok(PathBuf::from(file)))?;
    fixtures::run(repo)?;
    let archive = initramfs::build(repo, &folder, &built)?;
    let mut results = Vec::new();
    for package in packages {
        let image = unpack(&package, &folder)?;
        println!("booting {}", image.version);
        results.push(boot(&image, &archive)?);
    }
    results.sort_by_key(|result| table::version_key(&result.version));
    print!("{}", table::text(&results));
    if is_update {
        table::update(&repo.root.join("docs/kernels.md"), &results)?;
    }
    let mut score = Score::default();
    results.iter().for_each(|result| score += Score::of(result.is_good()));
    Ok(score)
}

fn built(repo: &Repo) -> Result<PathBuf> {
    let mut build = cargo(repo, &["build", "--release", "--quiet", "-p", "tally"]);
    if !process::passed_on(&mut build, BUILD_LIMIT)? {
        bail!("tally does not build");
    }
    Ok(repo.target().join("release/tally"))
}

/// The newest package of each version of the kernel that apt offers, downloaded.
fn offered(folder: &Path) -> Result<Vec<PathBuf>> {
    let Some(_) = process::find("apt-get") else { return Ok(Vec::new()) };
    let pattern = r"^linux-image-[0-9]+\.[0-9]+\.[0-9][^ ]*-amd64$";
    let found =
        process::capture(Command::new("apt-cache").args(["search", "--names-only", pattern]), TOOL_LIMIT)?;
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
    packages.iter().map(|name| download(name, folder)).collect()
}

fn download(package: &str, folder: &Path) -> Result<PathBuf> {
    let is_it = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{package}_")))
    };
    let here = || -> Result<Option<PathBuf>> {
        Ok(std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).find(|path| is_it(path)))
    };
    if let Some(path) = here()? {
        return Ok(path);
    }
    let got = process::capture(
        Command::new("apt-get").args(["download", package]).current_dir(folder),
        TOOL_LIMIT,
    )?;
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
fn boot(image: &KernelImage, archive: &Path) -> Result<KernelResults> {
    let mut emulator = Command::new(EMULATOR);
    // With a thread for each processor, one executes code that the kernel is patching on another, and dies of its int3.
    emulator.args(["-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "2048"]);
    emulator.args(["-nographic", "-no-reboot", "-kernel"]).arg(&image.path).arg("-initrd").arg(archive);
    emulator.args(["-append", "console=ttyS0 panic=-1 quiet"]);
    let run = process::capture(&mut emulator, BOOT_LIMIT)?;
    let results = KernelResults::parse(&image.version, &run.text());
    if !results.has_ended {
        println!("{}: the checks did not end\n{}", image.version, run.tail(10));
    }
    Ok(results)
}
