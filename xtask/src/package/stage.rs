//! The files as they are installed, packed as tarball and Debian package.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Release, Repo, Score, process, score, skip, tool};

/// File, folder below the root, name there.
const SHIPPED: [(&str, &str, &str); 8] = [
    ("target/package/tally", "usr/bin", "tally"),
    ("target/man/completions/tally.bash", "usr/share/bash-completion/completions", "tally"),
    ("target/man/completions/_tally", "usr/share/zsh/vendor-completions", "_tally"),
    ("target/man/completions/tally.fish", "usr/share/fish/vendor_completions.d", "tally.fish"),
    ("xtask/packaging/tally-agent.service", "usr/lib/systemd/system", "tally-agent.service"),
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
    all += rpm(&root, to, release)?;
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
    let machine = release.debian_machine();
    let folder = root.join("DEBIAN");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("control"), control(&release.version, machine))?;
    tool(Command::new("touch").arg("-hd").arg(format!("@{}", release.epoch)).arg(folder.join("control")))?;
    let file = to.join(format!("tally_{}_{machine}.deb", release.version));
    let mut pack = Command::new("dpkg-deb");
    pack.env("SOURCE_DATE_EPOCH", &release.epoch).args(["--root-owner-group", "-Zxz", "--build"]);
    tool(pack.arg(root).arg(&file))?;
    let listed = process::capture(Command::new("dpkg-deb").arg("--contents").arg(&file), super::TOOL_LIMIT)?;
    Ok(has_all(&file, &listed.text()))
}

/// The list of a package's files has those that people miss most.
fn has_all(package: &Path, listed: &str) -> Score {
    const WANTED: [&str; 4] = [
        "/usr/bin/tally",
        "/usr/share/man/man1/tally-run.1",
        "/usr/share/bash-completion/completions/tally",
        "/usr/lib/systemd/system/tally-agent.service",
    ];
    let missing: Vec<&str> =
        WANTED.into_iter().filter(|name| !listed.lines().any(|line| line.ends_with(name))).collect();
    if !missing.is_empty() {
        score::fault(&format!("{} lacks {}", package.display(), missing.join(", ")));
    }
    Score::of(missing.is_empty())
}

/// The package for Fedora, SUSE and their kind, and what its own tool reads from it.
fn rpm(root: &Path, to: &Path, release: &Release) -> Result<Score> {
    if process::find("rpmbuild").is_none() {
        return Ok(skip("the rpm package", "there is no rpmbuild (apt: rpm)"));
    }
    let folder = to.join("rpmbuild");
    fs::create_dir_all(&folder)?;
    let spec = folder.join("tally.spec");
    fs::write(&spec, rpm_spec(root, release)?)?;
    let mut pack = Command::new("rpmbuild");
    pack.env("SOURCE_DATE_EPOCH", &release.epoch).arg("-bb").arg("--nodeps").arg(&spec);
    pack.args(["--target", &release.machine]);
    for (name, value) in [
        ("_topdir", folder.display().to_string()),
        ("_rpmdir", to.display().to_string()),
        ("_rpmfilename", format!("{}.rpm", release.name())),
        ("_buildhost", "localhost".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ("_binary_payload", "w9.gzdio".to_owned()),
    ] {
        pack.arg("--define").arg(format!("{name} {value}"));
    }
    tool(&mut pack)?;
    fs::remove_dir_all(&folder)?;
    let file = to.join(release.name() + ".rpm");
    let listed = process::capture(Command::new("rpm").args(["-qlp"]).arg(&file), super::TOOL_LIMIT)?;
    Ok(has_all(&file, &listed.text()))
}

/// A description of files that are there already: nothing is built, stripped or compressed again.
fn rpm_spec(root: &Path, release: &Release) -> Result<String> {
    let list = process::capture(
        Command::new("find").args([".", "!", "-type", "d", "-printf", "/%P\\n"]).current_dir(root),
        super::TOOL_LIMIT,
    )?;
    let mut files: Vec<String> = list.text().lines().map(str::to_owned).collect();
    // A folder of its own goes when the package goes.
    files.push("%dir /usr/share/doc/tally".to_owned());
    files.sort();
    Ok(format!(
        "%global __os_install_post %{{nil}}\n%global debug_package %{{nil}}\n%global _build_id_links none\n\
         Name: tally\nVersion: {}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\nAutoReqProv: no\n\
         %description\n{DESCRIPTION}\n%install\nmkdir -p %{{buildroot}}\ncp -a {}/. %{{buildroot}}/\n\
         %files\n%defattr(-,root,root)\n{}\n",
        release.version,
        root.display(),
        files.join("\n")
    ))
}

const SUMMARY: &str = "profiler that accounts for every nanosecond of a program";
const DESCRIPTION: &str = "\
One command shows which functions use the CPU, what every thread waited for
and who woke it, and prints what makes the program slow. Reads and
writes perf's files; needs no recompiling and no root.";

fn control(version: &str, machine: &str) -> String {
    format!(
        "Package: tally\nVersion: {version}\nArchitecture: {machine}\nMaintainer: The tally authors\n\
         Section: devel\nPriority: optional\nDescription: {SUMMARY}\n{}\n",
        DESCRIPTION.lines().map(|line| format!(" {line}")).collect::<Vec<_>>().join("\n")
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
