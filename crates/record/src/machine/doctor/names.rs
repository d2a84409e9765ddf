//! Where names of functions come from: debug files, and runtimes that make code while they run.

use std::env;
use std::path::{Path, PathBuf};

use dso::system_file;

use super::{Check, DoctorSection, Health};
use crate::runtimes::python::is_possible;

/// Debug information of programs that came without it.
pub(super) fn debug_files() -> Check {
    const NAME: &str = "debug information";
    let urls = env::var("DEBUGINFOD_URLS").unwrap_or_default();
    let is_installed = Path::new("/usr/lib/debug/.build-id").is_dir();
    let found = match (is_installed, urls.trim()) {
        (true, "") => "packages in /usr/lib/debug",
        (false, "") => "in the programs themselves",
        (true, _) => "packages in /usr/lib/debug; report --debuginfod by DEBUGINFOD_URLS",
        (false, _) => "report --debuginfod by DEBUGINFOD_URLS",
    };
    if is_installed && !urls.trim().is_empty() {
        return Check::good(NAME, found).section(DoctorSection::Names);
    }
    let release = system_file::read_text("/etc/os-release").unwrap_or_default();
    let (why, remedy) = match urls.trim() {
        "" => ("stripped programs have no names; DEBUGINFOD_URLS is not set", remedy_of(&release)),
        _ => ("no debug packages are installed", "tally report --debuginfod".to_owned()),
    };
    Check::bad(NAME, Health::Partly, found, why.to_owned(), remedy).section(DoctorSection::Names)
}

/// How a distribution gives debug files, by the text of its os-release.
fn remedy_of(release: &str) -> String {
    let lines = release.lines().filter_map(|line| line.split_once('='));
    let ids: Vec<&str> = lines
        .filter(|(key, _)| ["ID", "ID_LIKE"].contains(key))
        .map(|(_, id)| id.trim_matches('"'))
        .collect();
    let servers = [
        ("ubuntu", "https://debuginfod.ubuntu.com", "apt install PACKAGE-dbgsym"),
        ("debian", "https://debuginfod.debian.net", "apt install PACKAGE-dbgsym"),
        ("fedora", "https://debuginfod.fedoraproject.org", "dnf debuginfo-install PACKAGE"),
        ("arch", "https://debuginfod.archlinux.org", ""),
        ("suse", "https://debuginfod.opensuse.org", "zypper install PACKAGE-debuginfo"),
    ];
    let fits = |name: &str| ids.iter().any(|id| id.contains(name));
    let (_, server, install) = servers.into_iter().find(|(name, ..)| fits(name)).unwrap_or((
        "",
        "https://debuginfod.elfutils.org",
        "",
    ));
    let or = if install.is_empty() { String::new() } else { format!(", or {install}") };
    format!("export DEBUGINFOD_URLS={server}{or}")
}

/// A runtime: its name, its program, and what running ones (`-p`) lack unless they were started with an option.
type KnownRuntime = (&'static str, &'static str, &'static str, &'static str);

const RUNTIMES: [KnownRuntime; 3] = [
    (
        "Node.js",
        "node",
        "a running one (-p) has no names; tally run -- node … has them",
        "start it as node --perf-basic-prof --interpreted-frames-native-stack",
    ),
    (
        "Java",
        "java",
        "a running JVM (-p) has names, but stacks end at methods without frame pointers",
        "start it with java -XX:+PreserveFramePointer",
    ),
    (
        ".NET",
        "dotnet",
        "a running one (-p) has names from .NET 8 on; tally run -- dotnet … has them",
        "start older ones with DOTNET_PerfMapEnabled=1",
    ),
];

/// The runtimes in `PATH`, and how far their functions have names.
pub(super) fn runtimes() -> Vec<Check> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    let is_installed = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    let others = RUNTIMES.into_iter().filter(|(_, program, ..)| is_installed(program));
    let others = others.map(|(name, program, why, remedy)| match program {
        "node" if cfg!(target_arch = "x86_64") => Check::good(name, "functions of Node 18 to 24"),
        "java" if cfg!(target_arch = "x86_64") => Check::good(name, "methods and stacks of JDK 9 and later"),
        _ => Check::bad(name, Health::Partly, "installed", why.to_owned(), remedy.to_owned()),
    });
    let python = is_installed("python3").then(python);
    python.into_iter().chain(others).map(|check| check.section(DoctorSection::Runtimes)).collect()
}

fn python() -> Check {
    const NAME: &str = "Python";
    if is_possible() {
        return Check::good(NAME, "functions of CPython 3.8 to 3.14");
    }
    let partly = |why: &str, remedy: &str| {
        Check::bad(NAME, Health::Partly, "installed", why.to_owned(), remedy.to_owned())
    };
    if cfg!(target_arch = "x86_64") {
        partly("a running one (-p) has no names; tally run -- python3 … has them", "run as root")
    } else {
        partly("its functions are only read on x86-64", "python3 -X perf (3.12 and later)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_files_come_from_the_distributions_server() {
        let mint = "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n";
        let remedy = remedy_of(mint);
        assert!(remedy.contains("debuginfod.ubuntu.com") && remedy.ends_with("-dbgsym"), "{remedy}");
        assert!(remedy_of("ID=arch\n").ends_with("debuginfod.archlinux.org"));
        assert!(remedy_of("").ends_with("debuginfod.elfutils.org"));
    }
}
