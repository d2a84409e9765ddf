//! Objects that a traced process loaded after it was started: what can be recorded of them is reported to the tracer.
//!
//! The tracer writes its maps and a line `PID N` on the pipe; the answer is a list of sleds, `PID-N.sleds`.

use anyhow::Context;
use record::output_file;
use record::sys::Fifo;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tracer::layout::sleds::{self, Sled};

use crate::terminal::out;
use calls::instrumented::sleds::{Instrumented, look};
use calls::recording::folder_file;
use calls::selection::rules::{Imports, Rules};
use calls::values;

/// `PROT_EXEC`.
const PROT_EXEC: u32 = 4;

/// Answers the tracers of one recording.
pub struct LateObjects<'a> {
    dir: PathBuf,
    fifo: Fifo,
    rules: &'a Rules,
    /// Findings in files, each looked through once; nothing in most.
    found: HashMap<PathBuf, Option<Instrumented>>,
    /// The file that was started, and reported already.
    program: PathBuf,
}

impl<'a> LateObjects<'a> {
    /// Makes the pipe in the recording's folder.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn new(dir: &Path, program: &Path, rules: &'a Rules) -> anyhow::Result<Self> {
        let path = dir.join(sleds::PIPE_NAME);
        let fifo = Fifo::new(&path).with_context(|| format!("can't make the pipe {}", path.display()))?;
        Ok(Self { dir: dir.to_owned(), fifo, rules, found: HashMap::new(), program: program.to_owned() })
    }

    /// Functions recorded.
    #[must_use]
    pub fn rules(&self) -> &'a Rules {
        self.rules
    }

    /// Answers what came since.
    pub fn answer(&mut self) {
        for line in self.fifo.lines().unwrap_or_default() {
            let numbers =
                line.split_once(' ').and_then(|(pid, n)| Some((pid.parse().ok()?, n.parse().ok()?)));
            let Some((pid, number)) = numbers else { continue };
            if let Err(error) = self.answer_one(pid, number) {
                out::note(&format!("tally calls: what process {pid} loaded is not recorded: {error:#}"));
            }
        }
    }

    fn answer_one(&mut self, pid: u32, number: u32) -> anyhow::Result<()> {
        let name = format!("{pid}-{number}");
        let maps =
            folder_file::read(&self.dir.join(format!("{name}.maps"))).context("can't read its maps")?;
        let files = executable_files(&maps);
        for (at, (path, _)) in files.iter().enumerate() {
            self.look_at(path, at == 0);
        }
        let found = |path: &Path| self.found.get(path).and_then(Option::as_ref);
        // Functions that a library records itself are not recorded once more where they are called.
        let known: HashSet<&str> = files
            .iter()
            .skip(1)
            .filter_map(|(path, _)| found(path))
            .flat_map(|library| library.names.iter().map(String::as_str))
            .collect();
        let mut list = sleds::MAGIC.to_vec();
        let mut formats = String::new();
        for (path, start) in &files {
            let Some(object) = found(path) else { continue };
            let imports = object.imports.iter().filter(|(name, _)| !known.contains(name.as_str()));
            let mut patches: Vec<Sled> = imports.map(|(_, sled)| *sled).collect();
            // The program that was started: its own functions are in the list that was there from the beginning.
            if *path != self.program {
                patches.extend(&object.sleds);
                formats.push_str(&object.formats);
            }
            let start = sleds::ObjectStart { path: path.as_os_str().as_bytes(), start: *start };
            sleds::add_object(&mut list, start, &patches, &object.specs);
        }
        let written = self.write(&name, &list, &formats);
        if written.is_err() {
            // A process that waits for an answer looks for the pipe; to take it away takes no space on a full disk.
            let _ = fs::remove_file(self.dir.join(sleds::PIPE_NAME));
        }
        written
    }

    fn write(&self, name: &str, list: &[u8], formats: &str) -> anyhow::Result<()> {
        if !formats.is_empty() {
            append(&self.dir.join(values::NAME), formats)?;
        }
        // Under another name first: the tracer reads the file as soon as it is there.
        let (whole, part) = (self.dir.join(format!("{name}.sleds")), self.dir.join(format!("{name}.part")));
        output_file::write_part(&part, list).context("can't write the answer")?;
        fs::rename(&part, &whole).context("can't write the answer")
    }

    /// Looks through a file, once.
    fn look_at(&mut self, path: &Path, is_program: bool) {
        let rules = self.rules;
        self.found.entry(path.to_owned()).or_insert_with(|| {
            let imports =
                if is_program { rules.imports != Imports::None } else { rules.imports == Imports::All };
            // Unreadable libraries are not recorded; system libraries without a sled are most of them.
            look(path, rules, imports).ok().filter(Instrumented::is_any)
        });
    }
}

fn append(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut file = output_file::append_part(path)?;
    file.write_all(text.as_bytes()).with_context(|| format!("can't write {}", path.display()))
}

/// The files mapped as code, each with its lowest address, in order of those; the program comes first.
fn executable_files(maps: &[u8]) -> Vec<(PathBuf, u64)> {
    let mut files: Vec<(PathBuf, u64, bool)> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n').filter_map(record::proc::parse_map_line) {
        let is_code = line.prot & PROT_EXEC != 0;
        let path = Path::new(OsStr::from_bytes(&line.name));
        match files.iter_mut().find(|(known, ..)| known == path) {
            Some(file) => file.2 |= is_code,
            None if path.is_absolute() => files.push((path.to_owned(), line.start, is_code)),
            None => {}
        }
    }
    let tracer = OsStr::new(super::own_folder::TRACER_FILE);
    files.retain(|(path, _, is_code)| *is_code && path.file_name() != Some(tracer));
    files.into_iter().map(|(path, start, _)| (path, start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_mapped_as_code_are_known_by_their_lowest_address() {
        let maps = b"tsc 1 monotonic_ns 2\n1000-2000 r--p 00000000 00:00 1 /bin/app\n2000-3000 r-xp 00001000 00:00 1 \
            /bin/app\n4000-5000 r--p 00000000 00:00 2 /usr/share/data\n6000-7000 r-xp 00000000 00:00 3 /lib/a.so\n";
        let files = executable_files(maps);
        assert_eq!(files, [(PathBuf::from("/bin/app"), 0x1000), (PathBuf::from("/lib/a.so"), 0x6000)]);
    }
}
