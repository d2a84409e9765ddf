//! Debian packages with the debug information of others, and how apt gets them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use dso::system_file;

/// Commands that install the debug information of `packages`. `sources` is the text of apt's lists of archives.
pub(super) fn ways(packages: &BTreeSet<String>, sources: &str) -> Vec<String> {
    // Only libc's debug information is in the main archive, too.
    let (main, others): (Vec<_>, Vec<_>) = packages.iter().partition(|package| *package == "libc6");
    let mut ways = Vec::new();
    if !main.is_empty() {
        ways.push("apt install libc6-dbg".to_owned());
    }
    if !others.is_empty() {
        let names: Vec<String> = others.iter().map(|package| format!("{package}-dbgsym")).collect();
        let condition = if has_debug_archive(sources) {
            String::new()
        } else {
            format!(" (after adding the debug archive: {})", page(sources))
        };
        ways.push(format!("apt install {}{condition}", names.join(" ")));
    }
    ways
}

fn has_debug_archive(sources: &str) -> bool {
    let lines = sources.lines().map(str::trim_start).filter(|line| !line.starts_with('#'));
    lines.into_iter().any(|line| line.contains("debian-debug") || line.contains("//ddebs."))
}

/// The distribution's page about its debug archive.
fn page(sources: &str) -> &'static str {
    if sources.contains("ubuntu.com") {
        "ubuntu.com/server/docs/debug-symbol-packages"
    } else {
        "wiki.debian.org/HowToGetABacktrace"
    }
}

/// Texts of all of apt's lists of archives, one after the other.
pub(super) fn apt_sources() -> String {
    let folder = Path::new("/etc/apt/sources.list.d");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let lists = entries.filter(|path| path.extension().is_some_and(|end| end == "list" || end == "sources"));
    let all = std::iter::once(PathBuf::from("/etc/apt/sources.list")).chain(lists);
    all.filter_map(|path| system_file::read_text(path).ok()).collect::<Vec<_>>().join("\n")
}

/// The Debian package that a file is of; on merged systems the package may know it without `/usr`.
pub(super) fn package_of(path: &str) -> Option<String> {
    let paths = [Some(path), path.strip_prefix("/usr").filter(|rest| rest.starts_with('/'))];
    paths.into_iter().flatten().filter(|path| path.starts_with('/')).find_map(|path| {
        let found =
            Command::new("dpkg-query").args(["--search", "--", path]).env("LC_ALL", "C").output().ok()?;
        let line = String::from_utf8(found.stdout).ok()?;
        let package = line.lines().next().filter(|_| found.status.success())?.split([':', ',']).next()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        Some(package.to_owned()).filter(|package| !package.is_empty() && package.chars().all(is_plain))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn apt_alone_is_no_remedy_without_the_debug_archive() {
        let main =
            "deb http://mirror.example/debian bookworm main\n# deb http://mirror.example/debian-debug x\n";
        let both = "deb http://mirror.example/debian-debug bookworm-debug main\n";
        let gzip = packages(&["gzip", "libc6"]);
        assert_eq!(ways(&gzip, both), ["apt install libc6-dbg", "apt install gzip-dbgsym"]);
        let condition = " (after adding the debug archive: wiki.debian.org/HowToGetABacktrace)";
        let expected = ["apt install libc6-dbg".to_owned(), format!("apt install gzip-dbgsym{condition}")];
        assert_eq!(ways(&gzip, main), expected);
    }
}
