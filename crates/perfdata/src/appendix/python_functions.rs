//! Functions of Python programs in a recording: tally's appendix, after the maps of JIT code.
//!
//! A callchain names a line of a Python function by an address that no process can have. Each process with such
//! frames has a mapping of these addresses, called [`MAPPING_NAME`].
//
// Layout: docs/formats/python-functions.md. In the byte order of the file.

use crate::appendix::jit_maps::JitMaps;
use crate::appendix::section::{Section, padded_text, read_section};
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tPY1";

/// Name of the mapping that holds all functions' addresses.
pub const MAPPING_NAME: &str = "[python]";
/// Where it begins: above all addresses of user space, below those of the kernel.
pub const MAPPING_START: u64 = 0x5079_0000_0000_0000;
/// Bytes of it.
pub const MAPPING_BYTES: u64 = 1 << 46;

/// Bytes of one function's addresses.
pub const FUNCTION_BYTES: u64 = 1 << 24;
/// Bytes of one line's addresses.
const LINE_BYTES: u64 = 16;
/// Later lines have no addresses of their own.
const LAST_LINE: u32 = 0xf_ffff;

/// A function, method, module or comprehension.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PythonFunction {
    /// Name, qualified by its class where Python notes that (3.11).
    pub name: String,
    /// Source file, as it was compiled.
    pub file: String,
    /// The line it begins at, 1-based.
    pub first_line: u32,
}

/// The functions in a recording's callchains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PythonFunctions {
    /// By the number in their addresses.
    pub functions: Vec<PythonFunction>,
    /// Files of the interpreters, as mappings name them.
    pub runtimes: Vec<String>,
    /// How many stacks have them.
    pub counts: PythonCounts,
}

/// Stacks of threads that run Python.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PythonCounts {
    /// Samples, and waits with a stack.
    pub stacks: u64,
    /// Those whose Python functions are all known, to the thread's start.
    pub whole: u64,
}

/// The address that a callchain has for a line of function `index`; `None` if there are too many functions. It is
/// found as a return address, too.
#[must_use]
pub fn address_of(index: usize, line: u32) -> Option<u64> {
    let index = u64::try_from(index).ok().filter(|index| *index < MAPPING_BYTES / FUNCTION_BYTES)?;
    let within = u64::from(line.min(LAST_LINE)) * LINE_BYTES + LINE_BYTES / 2;
    Some(MAPPING_START + index * FUNCTION_BYTES + within)
}

/// Number and line of the function at an address; `None` outside of the mapping.
#[must_use]
pub fn function_at(address: u64) -> Option<(usize, u32)> {
    let offset = address.checked_sub(MAPPING_START).filter(|offset| *offset < MAPPING_BYTES)?;
    let line = u32::try_from(offset % FUNCTION_BYTES / LINE_BYTES).ok()?;
    Some((usize::try_from(offset / FUNCTION_BYTES).ok()?, line))
}

impl PythonFunctions {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the maps of JIT code; none without functions.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.functions.is_empty() {
            return p.bytes;
        }
        let len = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        p.raw(&MAGIC);
        p.u32(len(self.runtimes.len()));
        p.u32(len(self.functions.len()));
        p.u32(0);
        p.u64(self.counts.stacks);
        p.u64(self.counts.whole);
        for name in &self.runtimes {
            p.u32(len(name.len()));
            p.u32(0);
            p.raw(name.as_bytes());
            p.pad(8);
        }
        for function in &self.functions {
            p.u32(len(function.name.len()));
            p.u32(len(function.file.len()));
            p.u32(function.first_line);
            p.u32(0);
            for text in [&function.name, &function.file] {
                p.raw(text.as_bytes());
                p.pad(8);
            }
        }
        p.bytes
    }
}

impl Section for PythonFunctions {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = JitMaps;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let (runtimes, functions) = (w.u32()?, w.u32()?);
        let _padding = w.u32()?;
        let counts = PythonCounts { stacks: w.u64()?, whole: w.u64()? };
        let mut all = Self { counts, ..Self::default() };
        for _ in 0..runtimes {
            let (len, _padding) = (w.u32()?, w.u32()?);
            all.runtimes.push(padded_text(w, len.into())?);
        }
        for _ in 0..functions {
            let (name, file, first_line, _padding) = (w.u32()?, w.u32()?, w.u32()?, w.u32()?);
            let (name, file) = (padded_text(w, name.into())?, padded_text(w, file.into())?);
            all.functions.push(PythonFunction { name, file, first_line });
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::appendix::jit_maps::JitMap;
    use crate::appendix::stack_notes::StackNotes;

    fn functions() -> PythonFunctions {
        let function = |name: &str, first_line| PythonFunction {
            name: name.to_owned(),
            file: "/a/app.py".to_owned(),
            first_line,
        };
        PythonFunctions {
            functions: vec![function("main", 1), function("Тест.f", 20)],
            runtimes: vec!["/usr/bin/python3.11".to_owned()],
            counts: PythonCounts { stacks: 9, whole: 8 },
        }
    }

    #[test]
    fn functions_are_read_with_and_without_other_parts_before_them() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = functions().to_bytes(endian);
            assert_eq!(PythonFunctions::read(&bytes, endian), Some(functions()));
            let notes = StackNotes { stacks: 3, complete: 3, ..StackNotes::default() }.to_bytes(endian);
            let maps = JitMaps(vec![JitMap { pid: 7, text: b"1000 10 a\n".to_vec() }]).to_bytes(endian);
            for before in [notes.clone(), maps.clone(), [notes, maps].concat()] {
                let appendix = [before, bytes.clone()].concat();
                assert_eq!(PythonFunctions::read(&appendix, endian), Some(functions()));
            }
        }
        assert!(PythonFunctions::default().to_bytes(Endian::Little).is_empty());
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = functions().to_bytes(Endian::Little);
        for len in 0..bytes.len() {
            assert_eq!(PythonFunctions::read(&bytes[..len], Endian::Little), None, "{len}");
        }
    }

    #[test]
    fn an_address_and_the_one_before_it_name_the_line() {
        for (index, line) in [(0, 0), (5, 31), (4_000_000, 900_000)] {
            let address = address_of(index, line).expect("in the mapping");
            assert_eq!(function_at(address), Some((index, line)));
            assert_eq!(function_at(address - 1), Some((index, line)));
        }
        assert_eq!(u64::from(LAST_LINE), FUNCTION_BYTES / LINE_BYTES - 1);
        assert_eq!(address_of(1 << 22, 1), None);
        assert_eq!(function_at(MAPPING_START - 1), None);
        assert_eq!(function_at(MAPPING_START + MAPPING_BYTES), None);
    }
}
