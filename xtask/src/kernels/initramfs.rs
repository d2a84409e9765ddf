//! The files of the emulated machine: busybox, tally, test programs and the libraries they need, as a cpio archive.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::TOOL_LIMIT;
use super::machine::Machine;
use crate::repo::Repo;
use crate::{fixtures, process};

/// Test programs that the checks run.
const PROGRAMS: [&str; 2] = ["split", "deep"];
const FOLDERS: [&str; 7] = ["bin", "proc", "sys", "dev", "tmp", "etc", "root"];
const FILE: u32 = 0o100_755;
const FOLDER: u32 = 0o040_755;
const CHECKS: &[u8] = include_bytes!("checks.sh");
const INIT: &[u8] = include_bytes!("init.sh");

/// Writes the archive with `built` as tally; its path.
pub fn build(machine: &Machine, repo: &Repo, folder: &Path, built: &Path) -> Result<PathBuf> {
    let tally = folder.join("tally");
    let mut strip = Command::new(machine.tool("strip"));
    if !process::capture(strip.arg("-o").arg(&tally).arg(built), TOOL_LIMIT)?.ok() {
        bail!("can't strip {}", built.display());
    }
    let gcc = machine.tool("gcc");
    let mut programs = vec![tally, machine.busybox(folder)?];
    for name in PROGRAMS {
        programs.push(fixtures::build_by(&gcc, repo, name, folder)?);
    }
    for source in ["xtask/src/kernels/as_nobody.c", "tests/programs/as_in_docker.c"] {
        programs.push(compile(&gcc, &repo.root.join(source), folder)?);
    }
    let path = folder.join("initramfs.cpio");
    let mut archive =
        Archive { to: BufWriter::new(std::fs::File::create(&path)?), entries: 0, folders: BTreeSet::new() };
    FOLDERS.iter().try_for_each(|name| archive.folder(name))?;
    archive.file("init", INIT)?;
    archive.file("bin/checks.sh", CHECKS)?;
    let mut libraries = BTreeSet::new();
    for program in &programs {
        let name = program.file_name().context("a name")?.to_string_lossy();
        archive.file(&format!("bin/{name}"), &std::fs::read(program)?)?;
        libraries.extend(machine.libraries(program)?);
    }
    for (there, here) in libraries {
        let content = std::fs::read(&here).with_context(|| here.display().to_string())?;
        archive.file(there.trim_start_matches('/'), &content)?;
    }
    archive.end()?;
    Ok(path)
}

fn compile(gcc: &str, source: &Path, folder: &Path) -> Result<PathBuf> {
    let to = folder.join(source.file_stem().context("a name")?);
    let mut gcc = Command::new(gcc);
    let run = process::capture(gcc.args(["-O1", "-static", "-o"]).arg(&to).arg(source), TOOL_LIMIT)?;
    if !run.ok() {
        bail!("{}: {}", source.display(), run.tail(5));
    }
    Ok(to)
}

/// A cpio archive of the "new" form.
//
// Layout: each entry is a header of 110 bytes, its name with a 0 byte, and its content, the latter two filled up to
// multiples of 4 bytes.
// Source: linux v6.12 Documentation/driver-api/early-userspace/buffer-format.rst; init/initramfs.c reads it.
struct Archive<W: Write> {
    to: W,
    entries: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    fn folder(&mut self, name: &str) -> Result<()> {
        let parent = name.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        if let Some(parent) = parent {
            self.folder(&parent)?;
        }
        if self.folders.insert(name.to_owned()) { self.entry(name, FOLDER, b"") } else { Ok(()) }
    }

    /// A file that everybody may read and run, with the folders it is in.
    fn file(&mut self, name: &str, content: &[u8]) -> Result<()> {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.entry(name, FILE, content)
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entries += 1;
        let (size, name_size) = (u32::try_from(content.len())?, name.len() + 1);
        // inode, mode, uid, gid, links, mtime, size, device (4 numbers), name's size, checksum
        let head = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, u32::try_from(name_size)?, 0];
        self.to.write_all(b"070701")?;
        head.iter().try_for_each(|number| write!(self.to, "{number:08x}"))?;
        self.to.write_all(name.as_bytes())?;
        self.fill(110 + name.len(), 1)?;
        self.to.write_all(content)?;
        self.fill(content.len(), 0)
    }

    /// At least `least` zeros after `bytes` bytes, up to a multiple of 4.
    fn fill(&mut self, bytes: usize, least: usize) -> Result<()> {
        let zeros = (bytes + least).next_multiple_of(4) - bytes;
        Ok(self.to.write_all(&[0; 4][..zeros])?)
    }

    fn end(mut self) -> Result<()> {
        self.entry("TRAILER!!!", 0, b"")?;
        Ok(self.to.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents_begin_at_multiples_of_four() {
        let mut bytes = Vec::new();
        let mut archive = Archive { to: &mut bytes, entries: 0, folders: BTreeSet::new() };
        archive.file("bin/a", b"12345").expect("writes");
        archive.end().expect("writes");
        let at = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text);
        let magics: Vec<usize> = (0..bytes.len() - 6).filter(|&at| &bytes[at..at + 6] == b"070701").collect();
        assert_eq!(magics.len(), 3, "folder, file, end");
        assert!(magics.iter().all(|at| at % 4 == 0) && bytes.len() % 4 == 0, "{magics:?}");
        assert_eq!(at(b"12345").map(|at| at % 4), Some(0));
        assert_eq!(&bytes[magics[1] + 54..magics[1] + 62], b"00000005", "its size");
    }
}
