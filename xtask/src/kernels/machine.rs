//! The machines whose kernels can be booted here.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{BUILD_LIMIT, TOOL_LIMIT};
use crate::cargo::cargo;
use crate::process;
use crate::repo::Repo;

/// An architecture, with what builds programs for it and runs them.
#[derive(Debug)]
pub struct Machine {
    /// Debian's name.
    pub name: &'static str,
    /// With what the names of its kernels end.
    pub kernels: &'static str,
    /// Emulator of the whole machine, and the package that has it.
    pub emulator: (&'static str, &'static str),
    /// Options of the emulator that choose the machine.
    pub options: &'static [&'static str],
    /// Device of the serial line.
    pub console: &'static str,
    /// Where the compiler is another than this machine's: its prefix, and Rust's name of the target.
    cross: Option<(&'static str, &'static str)>,
    /// More flags of rustc for such a target.
    rustflags: &'static str,
}

pub const AMD64: Machine = Machine {
    name: "amd64",
    kernels: "amd64",
    emulator: ("qemu-system-x86_64", "qemu-system-x86"),
    // With a thread for each processor, one executes code that the kernel is patching on another, and dies of its int3.
    options: &["-accel", "tcg,thread=single", "-cpu", "max"],
    console: "ttyS0",
    cross: None,
    rustflags: "",
};

pub const ARM64: Machine = Machine {
    name: "arm64",
    kernels: "arm64",
    emulator: ("qemu-system-aarch64", "qemu-system-arm"),
    // Without the slow emulation of signed pointers.
    options: &["-machine", "virt", "-cpu", "max,pauth-impdef=on"],
    console: "ttyAMA0",
    cross: Some(("aarch64-linux-gnu-", "aarch64-unknown-linux-gnu")),
    rustflags: "-C target-feature=+crt-static",
};

/// 32-bit ARM with hardware floats.
pub const ARMHF: Machine = Machine {
    name: "armhf",
    kernels: "armmp",
    emulator: ("qemu-system-arm", "qemu-system-arm"),
    options: &["-machine", "virt,highmem=off", "-cpu", "cortex-a15"],
    console: "ttyAMA0",
    cross: Some(("arm-linux-gnueabihf-", "armv7-unknown-linux-gnueabihf")),
    // With libraries: a static program's functions that are chosen at its start are called in the wrong mode (GNU ld
    // 2.40 drops the Thumb bit of R_ARM_IRELATIVE).
    rustflags: "",
};

impl Machine {
    /// The name of a program of the machine's compiler.
    pub fn tool(&self, name: &str) -> String {
        format!("{}{name}", self.cross.map_or("", |(prefix, _)| prefix))
    }

    /// All programs that the chore runs, with the packages that have them.
    pub fn tools(&self) -> Vec<(String, String)> {
        let of_compiler = |package: &str| match self.cross {
            Some((prefix, _)) => format!("{package}-{}", prefix.trim_end_matches('-')),
            None => package.to_owned(),
        };
        let (emulator, package) = self.emulator;
        let mut tools = vec![
            (emulator.to_owned(), package.to_owned()),
            ("dpkg-deb".to_owned(), "dpkg".to_owned()),
            (self.tool("strip"), of_compiler("binutils")),
            (self.tool("gcc"), of_compiler("gcc")),
        ];
        if self.cross.is_none() {
            tools.push(("busybox".to_owned(), "busybox-static".to_owned()));
        }
        tools
    }

    /// tally for this machine.
    pub fn tally(&self, repo: &Repo) -> Result<PathBuf> {
        let Some((_, target)) = self.cross else {
            return built(cargo(repo, &["build", "--release", "--quiet", "-p", "tally"]))
                .map(|()| repo.target().join("release/tally"));
        };
        let variable = target.replace('-', "_");
        let mut build =
            cargo(repo, &["build", "--profile", "fast", "--quiet", "-p", "tally", "--bin", "tally"]);
        build.args(["--target", target]).env(format!("CC_{variable}"), self.tool("gcc"));
        build.env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), self.tool("gcc"));
        build.env(format!("CARGO_TARGET_{}_RUSTFLAGS", variable.to_uppercase()), self.rustflags);
        built(build)?;
        Ok(repo.target().join(target).join("fast/tally"))
    }

    /// The shared libraries that a program needs, and its loader: the path there, and the file here.
    pub fn libraries(&self, program: &Path) -> Result<Vec<(String, PathBuf)>> {
        let Some((prefix, _)) = self.cross else {
            let libraries = process::libraries(program)?.into_iter();
            return Ok(libraries.map(|path| (path.display().to_string(), path)).collect());
        };
        let mut readelf = Command::new("readelf");
        let text = process::capture(readelf.args(["-ld", "--wide"]).arg(program), TOOL_LIMIT)?.text();
        let folder = PathBuf::from("/usr").join(prefix.trim_end_matches('-')).join("lib");
        let loader =
            text.lines().filter_map(|line| line.trim().strip_prefix("[Requesting program interpreter: "));
        let needed =
            text.lines().filter(|line| line.contains("(NEEDED)")).filter_map(|line| line.split_once('['));
        let names = loader.chain(needed.map(|(_, name)| name)).map(|name| name.trim_end_matches(']'));
        names
            .map(|name| {
                let name = name.rsplit('/').next().context("a name")?;
                Ok((format!("/lib/{name}"), folder.join(name)))
            })
            .collect()
    }

    /// apt-get or apt-cache for this machine's packages. For another machine, lists and packages are kept in `folder`, so
    /// that this system stays as it is.
    pub fn apt(&self, program: &str, folder: &Path) -> Command {
        let mut apt = Command::new(program);
        if self.cross.is_some() {
            let kept = |key: &str, name: &str| format!("{key}={}", folder.join(name).display());
            for option in [
                format!("APT::Architecture={}", self.name),
                format!("APT::Architectures={}", self.name),
                kept("Dir::State::Lists", "lists"),
                kept("Dir::Cache", "cache"),
            ] {
                apt.args(["-o", &option]);
            }
        }
        apt
    }

    /// Fetches another machine's lists of packages, where there are none yet.
    pub fn update_lists(&self, folder: &Path) -> Result<()> {
        if self.cross.is_none() || folder.join("lists").exists() {
            return Ok(());
        }
        for name in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(folder.join(name))?;
        }
        let run = process::capture(self.apt("apt-get", folder).arg("update"), TOOL_LIMIT)?;
        if !run.ok() {
            bail!("apt-get update for {}: {}", self.name, run.tail(3));
        }
        Ok(())
    }

    /// busybox without libraries.
    pub fn busybox(&self, folder: &Path) -> Result<PathBuf> {
        if self.cross.is_none() {
            return process::find("busybox").context("no busybox");
        }
        let package = super::download(self, "busybox-static", folder)?;
        let script = r#"dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards '*bin/busybox'"#;
        let mut unpack = Command::new("sh");
        unpack.args(["-c", script, "sh"]).arg(&package).arg(folder);
        let run = process::capture(&mut unpack, TOOL_LIMIT)?;
        let found = ["bin/busybox", "usr/bin/busybox"]
            .iter()
            .map(|path| folder.join(path))
            .find(|path| path.exists());
        found.with_context(|| format!("{}: no busybox in it: {}", package.display(), run.tail(2)))
    }
}

fn built(mut build: Command) -> Result<()> {
    if !process::passed_on(&mut build, BUILD_LIMIT)? {
        bail!("tally does not build");
    }
    Ok(())
}
