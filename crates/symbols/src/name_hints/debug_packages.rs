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
            format!(" (from the debug archive: {})", page(sources))
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

/// The Debian packages that these files are of. One question for all: the answer takes 0.1 s, and whoever asks waits.
pub(super) fn packages_of(files: &[&str]) -> BTreeSet<String> {
    // On merged systems the package may know a file without `/usr`.
    let absolute = || files.iter().copied().filter(|path| path.starts_with('/'));
    let short = absolute().filter(|path| path.starts_with("/usr/")).map(|path| &path["/usr".len()..]);
    let paths: Vec<&str> = absolute().chain(short).collect();
    if paths.is_empty() {
        return BTreeSet::new();
    }
    let asked = Command::new("dpkg-query").args(["--search", "--"]).args(paths).env("LC_ALL", "C").output();
    asked.map_or_else(|_| BTreeSet::new(), |found| packages_in(&String::from_utf8_lossy(&found.stdout)))
}

/// The packages in the answer of `dpkg-query --search`: a line `gzip: /bin/gzip` or `a:amd64, b: /usr/lib/x` for each
/// file. Paths that no package has are only in its errors.
fn packages_in(answer: &str) -> BTreeSet<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let package = |line: &str| line.split([':', ',']).next().unwrap_or_default().to_owned();
    let is_name = |package: &String| !package.is_empty() && package.chars().all(is_plain);
    answer.lines().filter(|line| line.contains(": /")).map(package).filter(is_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn each_line_of_the_answer_names_a_package() {
        let answer = "python3.11-minimal: /usr/bin/python3.11\nzlib1g:amd64: /lib/x86_64-linux-gnu/libz.so.1\n\
                      a:amd64, b: /usr/lib/shared\ndiversion by dash from: /bin/sh\n";
        assert_eq!(packages_in(answer), packages(&["python3.11-minimal", "zlib1g", "a"]));
        assert_eq!(packages_in(""), packages(&[]));
    }

    #[test]
    fn apt_alone_is_no_remedy_without_the_debug_archive() {
        let main =
            "deb http://mirror.example/debian bookworm main\n# deb http://mirror.example/debian-debug x\n";
        let both = "deb http://mirror.example/debian-debug bookworm-debug main\n";
        let gzip = packages(&["gzip", "libc6"]);
        assert_eq!(ways(&gzip, both), ["apt install libc6-dbg", "apt install gzip-dbgsym"]);
        let condition = " (from the debug archive: wiki.debian.org/HowToGetABacktrace)";
        let expected = ["apt install libc6-dbg".to_owned(), format!("apt install gzip-dbgsym{condition}")];
        assert_eq!(ways(&gzip, main), expected);
    }
}
