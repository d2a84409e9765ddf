//! Names that a program gave its threads: `threading.Thread(name=…)`. Up to 3.13 the kernel doesn't know them.
//!
//! The outermost Python function of such a thread is `Thread._bootstrap(self)`. Its frame stays where it is as long as
//! the thread lives, and its first variable is the `Thread`. What is read may change meanwhile: each step is checked.

use super::code::{Memory, read_code, read_text};
use super::frames::PythonProcess;
use super::versions::Offsets;
use super::waiting::StateReader;

/// The attribute of `threading.Thread` with the name.
const ATTRIBUTE: &str = "_name";
/// Attributes looked at for it.
const MOST_ATTRIBUTES: u64 = 64;
/// Longest name kept, in characters; the kernel's own have at most 15.
const MOST_CHARACTERS: usize = 31;
/// How the names begin that Python makes up.
const MADE_UP: [&str; 3] = ["Thread-", "MainThread", "Dummy-"];

/// Where an object has its type, and other fields that no version moves.
// Source: CPython 3.8 to 3.14 Include/object.h, cpython/object.h, cpython/dictobject.h
const TYPE: u64 = 8;
const BASICSIZE: u64 = 32;
const DICTOFFSET: u64 = 288;
const DICT_KEYS: u64 = 32;
const DICT_VALUES: u64 = 40;
/// Before an object: its dictionary, and in 3.11 its values.
const MANAGED_DICT: u64 = 24;
const MANAGED_VALUES: u64 = 32;

/// A table of names: where its entries are, how many, how long each is, and where each has its name and its value.
struct Keys {
    entries: u64,
    count: u64,
    bytes: u64,
    key: u64,
}

struct Objects<'m> {
    memory: &'m Memory<'m>,
    offsets: &'m Offsets,
}

impl Objects<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (address != 0 && (self.memory)(address, &mut bytes)).then(|| u64::from_le_bytes(bytes))
    }

    /// The value of an object's attribute.
    // Source: CPython Objects/object.c, _PyObject_ComputedDictPointer(); 3.11 pycore_object.h, _PyObject_ValuesPointer();
    //         3.12 PyDictOrValues, whose lowest bit marks values one byte further; 3.13 _PyObject_InlineValues()
    fn attribute(&self, object: u64, name: &str) -> Option<u64> {
        let of_type = self.word(object + TYPE)?;
        let shared = |at: u64| self.word(of_type + at);
        match self.offsets.version.1 {
            ..=10 => {
                let at = self.word(of_type + DICTOFFSET)?;
                self.in_dict(self.word(object.wrapping_add(at))?, name)
            }
            11 => match self.word(object - MANAGED_VALUES)? {
                0 => self.in_dict(self.word(object - MANAGED_DICT)?, name),
                values => self.in_keys(shared(872)?, values, name),
            },
            12 => match self.word(object - MANAGED_DICT)? {
                values if values & 1 != 0 => self.in_keys(shared(880)?, values + 1, name),
                dict => self.in_dict(dict, name),
            },
            _ => match self.word(object - MANAGED_DICT)? {
                0 => {
                    let values = object.wrapping_add(self.word(of_type + BASICSIZE)?);
                    self.in_keys(shared(880)?, values + self.values_begin(), name)
                }
                dict => self.in_dict(dict, name),
            },
        }
    }

    /// Bytes of a `PyDictValues` before its values.
    fn values_begin(&self) -> u64 {
        if self.offsets.version.1 >= 13 { 8 } else { 0 }
    }

    fn in_dict(&self, dict: u64, name: &str) -> Option<u64> {
        let keys = self.word(dict.checked_add(DICT_KEYS)?)?;
        match self.word(dict + DICT_VALUES)? {
            0 => self.in_keys(keys, 0, name),
            values => self.in_keys(keys, values + self.values_begin(), name),
        }
    }

    /// Looks for a name among keys; its value is among `values`, or next to the key if these are 0.
    fn in_keys(&self, keys: u64, values: u64, name: &str) -> Option<u64> {
        let of = self.keys(keys)?;
        let at = (0..of.count.min(MOST_ATTRIBUTES)).find(|at| {
            let key = self.word(of.entries + at * of.bytes + of.key);
            key.and_then(|key| read_text(self.memory, self.offsets, key)).as_deref() == Some(name)
        })?;
        match values {
            0 => self.word(of.entries + at * of.bytes + of.key + 8),
            values => self.word(values + at * 8),
        }
    }

    // Layout: since 3.11 { refcnt; u8 log2 of size, u8 log2 of the index's bytes, u8 kind; …; nentries at 24; index at 32 };
    //         before { refcnt, size, lookup, usable, nentries; index at 40 }. Entries of kind 0 begin with a hash.
    // Source: CPython Include/internal/pycore_dict.h and Objects/dict-common.h, struct _dictkeysobject
    fn keys(&self, keys: u64) -> Option<Keys> {
        if self.offsets.version.1 <= 10 {
            let size = self.word(keys.checked_add(8)?)?;
            let index = match size {
                ..=0xff => size,
                0x100..=0xffff => size * 2,
                _ => return None,
            };
            let count = self.word(keys + 32)?;
            return Some(Keys { entries: keys + 40 + index, count, bytes: 24, key: 8 });
        }
        let [_, index, kind, ..] = self.word(keys.checked_add(8)?)?.to_le_bytes();
        let entries = keys + 32 + 1u64.checked_shl(index.into()).filter(|bytes| *bytes <= 1 << 16)?;
        let count = self.word(keys + 24)?;
        let (bytes, key) = if kind == 0 { (24, 8) } else { (16, 0) };
        Some(Keys { entries, count, bytes, key })
    }
}

/// Where a frame has its first variable.
// Source: CPython 3.8 to 3.10 cpython/frameobject.h, f_localsplus; 3.11 to 3.13 pycore_frame.h and
//         3.14 pycore_interpframe_structs.h, localsplus
fn first_variable(offsets: &Offsets) -> u64 {
    match offsets.version.1 {
        ..=9 => 360,
        10 => 352,
        11..=13 => 72,
        _ => 80,
    }
}

/// The name of a thread as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ThreadName {
    /// The program gave it.
    Given(String),
    /// Python made it up, or it is empty.
    MadeUp,
}

/// The name of the `Thread` at this address; `None` if it can't be read.
fn name_of(memory: &Memory<'_>, offsets: &Offsets, thread: u64) -> Option<ThreadName> {
    let name = Objects { memory, offsets }.attribute(thread, ATTRIBUTE)?;
    let name = read_text(memory, offsets, name)?;
    let is_made_up = name.is_empty() || MADE_UP.iter().any(|begin| name.starts_with(begin));
    Some(match is_made_up {
        true => ThreadName::MadeUp,
        false => ThreadName::Given(name.chars().take(MOST_CHARACTERS).collect()),
    })
}

impl PythonProcess {
    /// The name of a thread; `None` if it can't be read now, or isn't one that Python began.
    pub(super) fn thread_name(&self, tid: u32) -> Option<ThreadName> {
        let file = self.memory.as_ref()?;
        let memory = |at: u64, into: &mut [u8]| super::frames::read_memory(file, at, into);
        let offsets = &self.interpreter.offsets;
        let reader = StateReader::new(file, &self.interpreter);
        let state = reader.states().into_iter().find(|&state| reader.tid_of(state) == Some(tid))?;
        let frames = reader.frame_addresses(state)?;
        let begins = |code: u64| {
            let code = read_code(&memory, offsets, code, self.interpreter.code_type);
            code.is_some_and(|code| {
                code.name.rsplit('.').next() == Some("_bootstrap") && code.file.ends_with("threading.py")
            })
        };
        let (frame, _) = frames.into_iter().rev().take(3).find(|&(_, code)| begins(code))?;
        let thread = Objects { memory: &memory, offsets }.word(frame + first_variable(offsets))?;
        name_of(&memory, offsets, thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory from 0x1000 on, of words at their addresses and the text `name`.
    fn memory(words: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = vec![0u8; 0x3000];
        for (at, word) in words {
            bytes[*at as usize..*at as usize + 8].copy_from_slice(&word.to_le_bytes());
        }
        for (at, text) in [(0x2000usize, "_name"), (0x2080, "feeder")] {
            bytes[at + 16..at + 24].copy_from_slice(&(text.len() as u64).to_le_bytes());
            bytes[at + 32..at + 36].copy_from_slice(&(1u32 << 2 | 1 << 5 | 1 << 6).to_le_bytes());
            bytes[at + 48..at + 48 + text.len()].copy_from_slice(text.as_bytes());
            bytes[at + 40..at + 40 + text.len()].copy_from_slice(text.as_bytes());
        }
        bytes
    }

    fn name_in(bytes: &[u8], version: u8) -> Option<ThreadName> {
        let read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..at as usize + into.len());
            from.map(|from| into.copy_from_slice(from)).is_some()
        };
        name_of(&read, &Offsets::of((3, version)).expect("known"), 0x1000)
    }

    #[test]
    fn a_name_is_found_where_each_version_keeps_attributes() {
        // The type at 0x1400, keys at 0x1800, a dictionary at 0x1c00, values at 0x1e00.
        let dict = [(0x1c20, 0x1800), (0x1c28, 0x1e00), (0x1e00, 0x2080)];
        let old = [(0x1008, 0x1400), (0x1400 + 288, 16), (0x1010, 0x1c00), (0x1808, 8), (0x1820, 1)];
        let old = memory(&[&old[..], &dict, &[(0x1800 + 48 + 8, 0x2000)]].concat());
        let feeder = Some(ThreadName::Given("feeder".to_owned()));
        assert_eq!(name_in(&old, 8), feeder);
        let keys = [(0x1808, 0x0002_0303), (0x1818, 1), (0x1800 + 32 + 8, 0x2000)];
        let new = [(0x1008, 0x1400), (0x1400 + 880, 0x1800), (0x1000 - 24, 0x1e00 - 1), (0x1e00, 0x2080)];
        assert_eq!(name_in(&memory(&[&new[..], &keys].concat()), 12), feeder);
        let inline = [(0x1008, 0x1400), (0x1400 + 880, 0x1800), (0x1400 + 32, 16), (0x1018, 0x2080)];
        assert_eq!(name_in(&memory(&[&inline[..], &keys].concat()), 13), feeder);
        let mut made_up = memory(&[&inline[..], &keys].concat());
        for at in [0x2080 + 40, 0x2080 + 48] {
            made_up[at..at + 7].copy_from_slice(b"Thread-");
        }
        made_up[0x2080 + 16] = 7;
        assert_eq!(name_in(&made_up, 13), Some(ThreadName::MadeUp));
        assert_eq!(name_in(&memory(&[(0x1008, 0x1400)]), 12), None);
    }
}
