//! The files as they are installed, packed as tarball and Debian package.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Release, Repo, Score, process, score, skip, tool};

/// File, folder below the root, name there.
const SHIPPED: [(&str, &str, &str); 7] = [
    ("target/package/tally", "usr/bin", "tally"),
    ("target/man/completions/tally.bash", "usr/share/bash-completion/completions", "tally"),
    ("target/man/completions/_tally", "usr/share/zsh/vendor-completions", "_tally"),
    ("target/man/completions/tally.fish", "usr/share/fish/vendor_completions.d", "tally.fish"),
    ("README.md", "usr/share/doc/tally", "README.md"),
    ("CHANGELOG.md", "usr/share/doc/tally", "CHANGELOG.md"),
    ("LICENSE-MIT", "usr/share/doc/tally", "copyright"),
];

/// Packs `program` with its manual pages and completions into `to`.
pub fn packages(repo: &Repo, program: &Path, to: &Path, release: &Release) -> Result<Score> {
    let mut all = crate::cargo::man(repo)?;
    let root = to.join("root");
    stage(repo, program, &root)?;
    tarball(&root, to, release)?;
    all += debian(&root, to, release)?;
    fs::remove_dir_all(&root)?;
    sums(to)?;
    Ok(all)
}

fn stage(repo: &Repo, program: &Path, root: &Path) -> Result<()> {
    for (from, folder, name) in SHIPPED {
        let from = match from.strip_prefix("target/") {
            Some("package/tally") => program.to_owned(),
            Some(below) => repo.target().join(below),
            None => repo.root.join(from),
        };
        fs::create_dir_all(root.join(folder))?;
        let to = root.join(folder).join(name);
        fs::copy(&from, &to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    }
    let pages = root.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    for page in fs::read_dir(repo.target().join("man/man1"))? {
        let page = page?;
        fs::copy(page.path(), pages.join(page.file_name()))?;
    }
    tool(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(root))?;
    tool(Command::new("chmod").arg("755").arg(root.join("usr/bin/tally")))
}

/// Files in the order of their names, owned by root, from the time of the commit.
fn tarball(root: &Path, to: &Path, release: &Release) -> Result<()> {
    let file = to.join(release.name() + ".tar.gz");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--use-compress-program=gzip -9n"]);
    tar.arg(format!("--mtime=@{}", release.epoch));
    tar.arg(format!("--transform=s,^./usr,{},", release.name()));
    tool(tar.arg("-C").arg(root).arg("-cf").arg(file).arg("./usr"))
}

/// The Debian package, and what its own tool reads from it.
fn debian(root: &Path, to: &Path, release: &Release) -> Result<Score> {
    if process::find("dpkg-deb").is_none() {
        return Ok(skip("the Debian package", "there is no dpkg-deb"));
    }
    let machine = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" };
    let folder = root.join("DEBIAN");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("control"), control(&release.version, machine))?;
    tool(Command::new("touch").arg("-hd").arg(format!("@{}", release.epoch)).arg(folder.join("control")))?;
    let file = to.join(format!("tally_{}_{machine}.deb", release.version));
    let mut pack = Command::new("dpkg-deb");
    pack.env("SOURCE_DATE_EPOCH", &release.epoch).args(["--root-owner-group", "-Zxz", "--build"]);
    tool(pack.arg(root).arg(&file))?;
    let listed = process::capture(Command::new("dpkg-deb").arg("--contents").arg(&file), super::TOOL_LIMIT)?;
    let has_all = ["./usr/bin/tally", "./usr/share/man/man1/tally-run.1"];
    let complete = has_all.iter().all(|name| listed.text().lines().any(|line| line.ends_with(name)));
    if !complete {
        score::fault(&format!("{} lacks one of {has_all:?}", file.display()));
    }
    Ok(Score::of(complete))
}

fn control(version: &str, machine: &str) -> String {
    format!(
        "Package: tally\nVersion: {version}\nArchitecture: {machine}\nMaintainer: The tally authors\n\
         Section: devel\nPriority: optional\n\
         Description: profiler that accounts for every nanosecond of a program\n \
         One command shows which functions use the CPU, what every thread waited for\n \
         and who woke it, and says in words what makes the program slow. Reads and\n \
         writes perf's files; needs no recompiling and no root.\n"
    )
}

fn sums(to: &Path) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(to)?.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.sort();
    let run = process::capture(Command::new("sha256sum").args(&names).current_dir(to), super::TOOL_LIMIT)?;
    print!("{}", run.text());
    fs::write(to.join("SHA256SUMS"), run.text())?;
    Ok(())
}
