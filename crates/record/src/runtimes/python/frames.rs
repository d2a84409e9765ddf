//! From copied frames to addresses of functions' lines: code objects are read once, and looked at again now and then.

use std::collections::hash_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt;

use dso::system_file;
use perfdata::appendix::python_functions::{PythonFunction, PythonFunctions, address_of};
use rustc_hash::FxHashMap;

use super::binary::Interpreter;
use super::code::{CodeObject, read_code, read_print};
use super::layout::RawFrame;
use super::thread_names::ThreadName;
use super::waiting::{StateReader, waiting_threads};

/// A code object is compared with the process's memory again after this time, ns: it may have been freed. At first
/// often: modules compile text that runs once, and the program's first functions take its place.
const TRUSTED_NS: std::ops::RangeInclusive<u64> = 1_000_000..=200_000_000;
/// Share of the time for which it has been the same object after which it is compared again.
const TRUSTED_SHARE: u64 = 4;

/// A process with an interpreter.
#[derive(Debug)]
pub struct PythonProcess {
    /// Code that runs in it.
    pub interpreter: Interpreter,
    /// The address space that was found to have it; 0 if that is not known.
    pub mm: u64,
    pub(super) memory: Option<File>,
    codes: FxHashMap<u64, KnownCode>,
    /// Threads whose names were asked for, and how often.
    names_asked: FxHashMap<u32, u8>,
    /// Thread states of threads that were read while they did not run.
    states: FxHashMap<u32, u64>,
}

#[derive(Debug)]
struct KnownCode {
    code: CodeObject,
    function: usize,
    /// Lines by position, of those met: a table is read from its begin.
    lines: FxHashMap<i64, u32>,
    since_ns: u64,
    looked_at_ns: u64,
}

impl KnownCode {
    /// True if it need not be compared again now.
    fn is_trusted(&self, now_ns: u64) -> bool {
        let known_ns = self.looked_at_ns.saturating_sub(self.since_ns);
        let trusted_ns = (known_ns / TRUSTED_SHARE).clamp(*TRUSTED_NS.start(), *TRUSTED_NS.end());
        now_ns < self.looked_at_ns.saturating_add(trusted_ns)
    }
}

/// All functions met, in all processes.
#[derive(Debug, Default)]
pub struct FunctionNumbers {
    numbers: FxHashMap<PythonFunction, usize>,
    all: Vec<PythonFunction>,
}

impl FunctionNumbers {
    fn number_of(&mut self, code: &CodeObject) -> usize {
        let function =
            PythonFunction { name: code.name.clone(), file: code.file.clone(), first_line: code.first_line };
        let all = &mut self.all;
        *self.numbers.entry(function).or_insert_with_key(|function| {
            all.push(function.clone());
            all.len() - 1
        })
    }

    /// For the recording.
    #[must_use]
    pub fn to_recording(&self) -> PythonFunctions {
        PythonFunctions { functions: self.all.clone(), ..PythonFunctions::default() }
    }
}

/// Reads memory of a process; `None` if it can't be opened.
#[must_use]
pub fn open_memory(pid: u32) -> Option<File> {
    system_file::open(format!("/proc/{pid}/mem")).ok()
}

/// Fills `into` from the memory at `address`; false if it is not all there.
#[must_use]
pub fn read_memory(memory: &File, address: u64, into: &mut [u8]) -> bool {
    memory.read_exact_at(into, address).is_ok()
}

impl PythonProcess {
    /// Process `pid`, which runs `interpreter`.
    #[must_use]
    pub fn new(pid: u32, interpreter: Interpreter, mm: u64) -> Self {
        Self {
            interpreter,
            mm,
            memory: open_memory(pid),
            codes: FxHashMap::default(),
            names_asked: FxHashMap::default(),
            states: FxHashMap::default(),
        }
    }

    /// Whether its interpreter is initialized: a program may link one and never use it.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let first = self.interpreter.runtime.wrapping_add(self.interpreter.offsets.interpreters.into());
        let mut word = [0; 8];
        self.memory.as_ref().is_some_and(|memory| read_memory(memory, first, &mut word)) && word != [0; 8]
    }

    /// The frames of its threads that wait now.
    pub fn waiting(&self, pid: u32) -> Vec<(u32, Vec<RawFrame>)> {
        self.memory.as_ref().map_or_else(Vec::new, |memory| waiting_threads(pid, memory, &self.interpreter))
    }

    /// The name that the program gave a thread, at its first samples: `None` once it is known, or where it has none.
    pub fn new_name(&mut self, tid: u32) -> Option<String> {
        /// It may change its frames while they are read.
        const MOST_TRIES: u8 = 3;
        let tries = self.names_asked.entry(tid).or_default();
        if *tries == MOST_TRIES {
            return None;
        }
        *tries += 1;
        let name = self.thread_name(tid)?;
        self.names_asked.insert(tid, MOST_TRIES);
        match name {
            ThreadName::Given(name) => Some(name),
            ThreadName::MadeUp => None,
        }
    }

    /// A thread of this id has ended.
    pub fn forget_thread(&mut self, tid: u32) {
        self.names_asked.remove(&tid);
        self.states.remove(&tid);
    }

    /// The frames of a thread that does not run, innermost first; `None` if it runs no Python, or they can't be read.
    pub fn frames_of(&mut self, tid: u32) -> Option<Vec<RawFrame>> {
        let reader = StateReader::new(self.memory.as_ref()?, &self.interpreter);
        let known = self.states.get(&tid).copied().filter(|&state| reader.tid_of(state) == Some(tid));
        let state =
            known.or_else(|| reader.states().into_iter().find(|&state| reader.tid_of(state) == Some(tid)))?;
        let frames = reader.frames_of(state);
        self.states.insert(tid, state);
        frames
    }

    /// Addresses of these frames' lines by C frame, innermost first; false if a function is not known.
    pub fn groups_of(
        &mut self,
        frames: &[RawFrame],
        functions: &mut FunctionNumbers,
        now_ns: u64,
    ) -> (Vec<Vec<u64>>, bool) {
        use super::versions::FrameKind;
        let has_shims = self.interpreter.offsets.kind == FrameKind::Shim;
        let (mut groups, mut group, mut is_whole) = (Vec::new(), Vec::new(), true);
        for frame in frames {
            if !(has_shims && frame.is_entry) {
                match self.address_at(frame, functions, now_ns) {
                    Some(address) => group.push(address),
                    None => is_whole = false,
                }
            }
            if frame.is_entry {
                groups.push(std::mem::take(&mut group));
            }
        }
        if !group.is_empty() {
            groups.push(group);
        }
        (groups, is_whole)
    }

    fn address_at(&mut self, frame: &RawFrame, functions: &mut FunctionNumbers, now_ns: u64) -> Option<u64> {
        let position = self.interpreter.offsets.position(frame.instruction, frame.code);
        let known = self.known(frame.code, functions, now_ns)?;
        let line = *known.lines.entry(position).or_insert_with(|| known.code.line_of(position));
        address_of(known.function, line)
    }

    /// The code object at `address`.
    fn known(
        &mut self,
        address: u64,
        functions: &mut FunctionNumbers,
        now_ns: u64,
    ) -> Option<&mut KnownCode> {
        let memory = self.memory.as_ref();
        let read = |at: u64, into: &mut [u8]| memory.is_some_and(|memory| read_memory(memory, at, into));
        let (offsets, code_type) = (&self.interpreter.offsets, self.interpreter.code_type);
        let read_new = |functions: &mut FunctionNumbers| {
            let code = read_code(&read, offsets, address, code_type)?;
            let (function, lines) = (functions.number_of(&code), FxHashMap::default());
            Some(KnownCode { code, function, lines, since_ns: now_ns, looked_at_ns: now_ns })
        };
        let mut known = match self.codes.entry(address) {
            Entry::Occupied(known) => known,
            Entry::Vacant(place) => return Some(place.insert(read_new(functions)?)),
        };
        if !known.get().is_trusted(now_ns) {
            known.get_mut().looked_at_ns = now_ns;
            let print = read_print(&read, offsets, address, code_type);
            // A process that has ended can't be asked: what was known of it stays.
            if print.is_some_and(|print| print != known.get().code.print) {
                *known.get_mut() = read_new(functions)?;
            }
        }
        Some(known.into_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::python::line_table::LineTable;

    #[test]
    fn code_is_compared_often_at_first_and_seldom_once_it_has_stayed() {
        const MS: u64 = 1_000_000;
        let code = CodeObject {
            name: "napper".to_owned(),
            file: "a.py".to_owned(),
            first_line: 1,
            table: Vec::new(),
            format: LineTable::Locations,
            print: [0; 4],
        };
        let known = |looked_at_ns| KnownCode {
            code: code.clone(),
            function: 0,
            lines: FxHashMap::default(),
            since_ns: 5 * MS,
            looked_at_ns,
        };
        let trusted_ms =
            |known: &KnownCode| (0..1000).find(|ms| !known.is_trusted(known.looked_at_ns + ms * MS));
        let found = [5, 45, 10_000].map(|looked_ms| trusted_ms(&known(looked_ms * MS)));
        assert_eq!(found, [Some(1), Some(10), Some(200)]);
    }
}
