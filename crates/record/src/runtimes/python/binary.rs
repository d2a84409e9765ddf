//! Finds CPython in a process: the file that holds it, its version, and the addresses of what is read.

use std::sync::Arc;

use dso::unwind::UnwindInfo;
use dso::{FileOffset, ObjectFile, Svma, SymbolTable, function_flow};
use rustc_hash::FxHashMap;

use super::versions::{Offsets, PythonVersion};
use crate::machine::objects::{FileMapping, open_object};
use crate::machine::proc::{self, MapLine};

/// A file with an interpreter, at stated addresses.
#[derive(Debug)]
pub struct PythonBinary {
    /// The name in mappings.
    pub name: String,
    version: PythonVersion,
    object: Arc<ObjectFile>,
    /// `_PyRuntime`.
    runtime: u64,
    /// `PyCode_Type`.
    code_type: u64,
    /// The parts of `_PyEval_EvalFrameDefault`: start and end.
    eval: Vec<(u64, u64)>,
}

/// An interpreter in a process.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// The file.
    pub binary: Arc<PythonBinary>,
    /// Offsets of its version.
    pub offsets: Offsets,
    /// Avma of `_PyRuntime`.
    pub runtime: u64,
    /// Avma of `PyCode_Type`.
    pub code_type: u64,
    /// Avmas of the function that runs frames: start and end of each part.
    pub eval: Vec<(u64, u64)>,
}

/// Python binary found in a process.
#[derive(Debug)]
pub enum FoundPython {
    /// An interpreter that can be read.
    Interpreter(Box<Interpreter>),
    /// One of a version that is not known.
    Unknown(PythonVersion),
    /// None.
    Nothing,
}

/// The files looked at, by name and inode.
#[derive(Debug, Default)]
pub struct PythonBinaries {
    known: FxHashMap<(Vec<u8>, u64), Option<Arc<PythonBinary>>>,
}

impl PythonBinaries {
    /// The interpreter that runs in process `pid` now, `memory` reads it.
    pub fn find_in(&mut self, pid: u32, memory: &dyn Fn(u64, &mut [u8]) -> bool) -> FoundPython {
        let lines = proc::maps(pid).unwrap_or_default();
        let code = lines.iter().filter(|line| line.prot & libc::PROT_EXEC as u32 != 0);
        for line in code.filter(|line| is_python(&line.name)) {
            let key = (line.name.clone(), line.inode);
            let binary = self.known.entry(key).or_insert_with(|| read_binary(pid, line).map(Arc::new));
            let Some(binary) = binary.as_ref() else { continue };
            let Some(offsets) = Offsets::of(binary.version) else {
                return FoundPython::Unknown(binary.version);
            };
            let Some(interpreter) = placed(binary, offsets, line) else { continue };
            return FoundPython::Interpreter(Box::new(interpreter.with_stated_offsets(memory)));
        }
        FoundPython::Nothing
    }
}

/// Interpreters are in files named after them: the program, or the library of programs that embed it.
fn is_python(name: &[u8]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    file.starts_with(b"python") || file.starts_with(b"libpython")
}

fn read_binary(pid: u32, line: &MapLine) -> Option<PythonBinary> {
    let object = Arc::new(open_object(&[pid], &FileMapping::of_line(line))?);
    let symbols = SymbolTable::load(&object, None);
    let named = |name: &str| symbols.by_name(name).next().map(|symbol| symbol.start.0);
    let (runtime, code_type) = (named("_PyRuntime")?, named("PyCode_Type")?);
    let eval = symbols.iter().filter(|symbol| is_eval(symbol.name));
    let eval = with_parts(&object, eval.map(|symbol| (symbol.start.0, symbol.end.0)).collect());
    let name = name_inside(pid, &String::from_utf8_lossy(&line.name));
    let stated = named("Py_Version").and_then(|at| stated_version(&object, at));
    let version = stated.or_else(|| version_in(&name))?;
    Some(PythonBinary { name, version, object, runtime, code_type, eval })
}

/// `_PyEval_EvalFrameDefault` and the parts that compilers split from it.
fn is_eval(name: &str) -> bool {
    name.strip_prefix("_PyEval_EvalFrameDefault").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// These ranges of a function, and those of its parts that a stripped file has no symbol for: ranges of the unwind table
/// that it jumps into the middle of, or conditionally. Debian's 3.14 has nearly all of the function there.
fn with_parts(object: &Arc<ObjectFile>, mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let unwind = UnwindInfo::new(Arc::clone(object));
    for (start, end) in ranges.clone() {
        let Some(flow) = function_flow(object, Svma(start), Svma(end)) else { continue };
        let jumps = flow.jumps.iter().map(|&(_, to)| (to, false));
        for (to, is_conditional) in jumps.chain(flow.conditional.iter().map(|&(_, to, _)| (to, true))) {
            let Some((start, end)) = unwind.function_range(to) else { continue };
            // A jump to a function's start is a call in the place of a return.
            if (is_conditional || start < to) && !ranges.contains(&(start.0, end.0)) {
                ranges.push((start.0, end.0));
            }
        }
    }
    ranges
}

/// The path as the process has it, as in records of mappings: under another root ours is longer.
fn name_inside(pid: u32, name: &str) -> String {
    let root = std::fs::read_link(format!("/proc/{pid}/root")).unwrap_or_default();
    let inside = root.to_str().and_then(|root| name.strip_prefix(root));
    inside.filter(|name| name.starts_with('/')).unwrap_or(name).to_owned()
}

/// `Py_Version`, since 3.11: 0x030b07f0 is 3.11.7.
fn stated_version(object: &ObjectFile, at: u64) -> Option<PythonVersion> {
    let bytes = object.bytes_at(Svma(at), 4)?.first_chunk::<4>()?;
    let [_, _, minor, major] = *bytes;
    Some((major, minor))
}

/// The version in a name like `libpython3.9.so.1.0` or `python3.8`.
fn version_in(name: &str) -> Option<PythonVersion> {
    let (_, rest) = name.rsplit_once("python")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Addresses of a binary whose code is mapped there.
fn placed(binary: &Arc<PythonBinary>, offsets: Offsets, line: &MapLine) -> Option<Interpreter> {
    let svma = binary.object.svma_of_mapping(FileOffset(line.pgoff), line.end - line.start)?;
    let bias = line.start.wrapping_sub(svma.0);
    let at = |svma: u64| svma.wrapping_add(bias);
    Some(Interpreter {
        offsets,
        runtime: at(binary.runtime),
        code_type: at(binary.code_type),
        eval: binary.eval.iter().map(|&(start, end)| (at(start), at(end))).collect(),
        binary: Arc::clone(binary),
    })
}

impl Interpreter {
    /// With the offsets that the process itself states, where it does.
    fn with_stated_offsets(mut self, memory: &dyn Fn(u64, &mut [u8]) -> bool) -> Self {
        let mut bytes = [0; 512];
        if memory(self.runtime, &mut bytes)
            && let Some(offsets) = self.offsets.stated(&bytes)
        {
            self.offsets = offsets;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_file_names() {
        assert_eq!(version_in("/usr/lib/libpython3.9.so.1.0"), Some((3, 9)));
        assert_eq!(version_in("/opt/python3.8/bin/python3.10"), Some((3, 10)));
        assert_eq!(version_in("/usr/bin/python"), None);
        assert!(is_python(b"/usr/bin/python3.11") && is_python(b"/a/libpython3.8.so.1.0"));
        assert!(!is_python(b"/usr/lib/python3/dist-packages/x.so"));
        assert!(is_eval("_PyEval_EvalFrameDefault.cold") && !is_eval("_PyEval_EvalFrameDefaultX"));
    }
}
