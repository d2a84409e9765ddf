//! Where a process keeps its threads' contexts.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use dso::{FileOffset, ThreadLocalAccess, system_file, thread_local_access};

use super::engine::PROCESS_WORDS;
use super::process_context::{read_keys, text_of_key};
use crate::machine::objects::{FileMapping, open_object};
use crate::machine::proc::{self, MapLine};

/// The variable's name. Source: OTEP 4947
const VARIABLE: &str = "otel_thread_ctx_v1";
/// The keys of an unknown attribute are read again after this time at the earliest.
const KEYS_AFTER: Duration = Duration::from_millis(20);
/// Numbers of modules and offsets above these aren't a loader's.
const MOST_MODULES: u64 = 1 << 16;
const MOST_BYTES: u64 = 1 << 30;

/// A process that publishes contexts.
pub(super) struct ContextProcess {
    pid: u32,
    place: Place,
    /// Names of attributes by number.
    keys: Vec<Vec<u8>>,
    read: Option<Instant>,
}

/// Where the variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    offset: i64,
    /// 0: from the thread pointer.
    module: u32,
    /// Bytes of an entry of the table of modules.
    step: u32,
}

impl ContextProcess {
    /// Looks for the variable in the program and its libraries.
    pub(super) fn find(pid: u32) -> Option<Self> {
        let lines = proc::maps(pid)?;
        let memory = system_file::open(format!("/proc/{pid}/mem")).ok()?;
        let is_musl = lines.iter().any(|line| line.name.windows(8).any(|part| part == b"/ld-musl"));
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let program = program.as_ref().map(|path| path.as_os_str().as_encoded_bytes());
        let code = lines.iter().filter(|line| line.prot & libc::PROT_EXEC as u32 != 0);
        for line in code.filter(|line| line.name.starts_with(b"/")) {
            let of =
                ModuleOf { pid, line, memory: &memory, is_program: program == Some(line.name.as_slice()) };
            let Some((offset, module)) = of.variable() else { continue };
            let place = Place { offset, module, step: if is_musl { 8 } else { 16 } };
            return Some(Self { pid, place, keys: Vec::new(), read: None });
        }
        None
    }

    // Layout: struct otel_process. Source: bpf/otel_shared.h
    pub(super) fn value(&self, mm: u64) -> [u64; PROCESS_WORDS] {
        let Place { offset, module, step } = self.place;
        let [low, high] = if cfg!(target_endian = "little") { [module, step] } else { [step, module] };
        [mm, offset.cast_unsigned(), u64::from(low) | u64::from(high) << 32]
    }

    /// Name of an attribute. Programs add some while they run.
    pub(super) fn key(&mut self, number: u8) -> Option<&str> {
        let is_known = self.keys.len() > usize::from(number);
        if !is_known && self.read.is_none_or(|read| read.elapsed() >= KEYS_AFTER) {
            self.read = Some(Instant::now());
            if let Some(keys) = read_keys(self.pid) {
                self.keys = keys;
            }
        }
        text_of_key(self.keys.get(usize::from(number))?)
    }
}

/// A file in a process.
struct ModuleOf<'p> {
    pid: u32,
    line: &'p MapLine,
    memory: &'p File,
    is_program: bool,
}

impl ModuleOf<'_> {
    /// Offset and module of its variable.
    fn variable(&self) -> Option<(i64, u32)> {
        let object = open_object(&[self.pid], &FileMapping::of_line(self.line))?;
        let access = thread_local_access(&object, VARIABLE)?;
        let svma = object.svma_of_mapping(FileOffset(self.line.pgoff), self.line.end - self.line.start)?;
        let bias = self.line.start.wrapping_sub(svma.0);
        let word = |at: u64| {
            let mut bytes = [0; 8];
            self.memory.read_exact_at(&mut bytes, at).ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        let pair = |at: u64| module_of_pair(word(at)?, word(at.wrapping_add(8))?);
        match access {
            ThreadLocalAccess::Fixed(offset) => self.is_program.then_some((offset, 0)),
            ThreadLocalAccess::OffsetAt(at) => fixed(word(at.0.wrapping_add(bias))?),
            ThreadLocalAccess::PairAt(at) => pair(at.0.wrapping_add(bias)),
            ThreadLocalAccess::DescriptorAt(at) => {
                let word = word(at.0.wrapping_add(bias).wrapping_add(8))?;
                fixed(word).or_else(|| pair(word))
            }
        }
    }
}

/// An offset from the thread pointer, below which the blocks of modules are.
fn fixed(word: u64) -> Option<(i64, u32)> {
    let offset = word.cast_signed();
    (offset < 0 && offset.unsigned_abs() < MOST_BYTES).then_some((offset, 0))
}

/// A module's number, and the offset in its block.
fn module_of_pair(module: u64, offset: u64) -> Option<(i64, u32)> {
    let is_one = (1..MOST_MODULES).contains(&module) && offset < MOST_BYTES;
    is_one.then_some((offset.cast_signed(), module as u32))
}

/// True for these processes and all that they started.
pub(super) fn is_below(pid: u32, roots: &[u32]) -> bool {
    /// Processes start one another in no longer chains.
    const LONGEST: usize = 64;
    let parent = |pid: u32| {
        let text = system_file::read_text(format!("/proc/{pid}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse::<u32>().ok().filter(|parent| *parent > 0)
    };
    let own = std::process::id();
    pid != own
        && std::iter::successors(Some(pid), |pid| parent(*pid)).take(LONGEST).any(|of| roots.contains(&of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_no_loader_writes_are_no_place() {
        assert_eq!(fixed((-8i64).cast_unsigned()), Some((-8, 0)));
        assert_eq!((fixed(0), fixed(0x7f00_0000_1000), fixed(i64::MIN.cast_unsigned())), (None, None, None));
        assert_eq!(module_of_pair(2, 16), Some((16, 2)));
        assert_eq!((module_of_pair(0, 16), module_of_pair(2, u64::MAX)), (None, None));
    }

    #[test]
    fn what_this_process_started_is_below_it() {
        let own = std::process::id();
        assert!(!is_below(own, &[own]), "never looked at itself");
        assert!(!is_below(1, &[own]) && !is_below(u32::MAX, &[own]));
    }
}
