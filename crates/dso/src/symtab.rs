//! Symbols: names of code by stated address.
//!
//! A table is one block of bytes (see `Layout` below) whether it was just built or comes from the on-disk
//! index: looking up reads the block in place, so that opening an indexed table costs nothing.
//!
//! The symbol that perf shows is kept of several at one address: sized before unsized, strong before weak,
//! global before local, fewer leading underscores, longer name; in kallsyms the last.
//
// Layout: header  magic [u8; 8], count u32, names_len u32, source u32, zero u32
//         entry   start u64, size u64 (0: reaches to the next start), name_at u32, name_len u32   × count, by start
//         names   UTF-8, not terminated
//         all little-endian
// Source: ours, this file.

mod elf_symbols;
pub mod index;
pub(crate) mod made_lines;
pub(crate) mod pclntab;
pub mod perf_map;
pub(crate) mod unnamed;

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

use crate::{Bytes, Svma};

pub(crate) const MAGIC: &[u8; 8] = b"TALSYM02";
const HEADER: usize = 24;
const ENTRY: usize = 24;
/// perf gives a last, unsized symbol the rest of its page and one more.
const PAGE: u64 = 4096;

/// One symbol of a [`SymbolTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// First address.
    pub start: Svma,
    /// Address past the last; for an unsized symbol that of the next one.
    pub end: Svma,
    /// The name as in the file (mangled); PLT stubs are `name@plt`. See [`crate::demangle()`].
    pub name: &'a str,
}

/// Where a table's symbols came from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SymbolSource {
    /// The full table, of the file or of its debug file.
    Symtab,
    /// The dynamic table together with the xz-compressed one of `.gnu_debugdata`, or with Go's own.
    DebugData,
    /// Exported names only: an unsized symbol reaches to the end of its function or, if the code does not show that, no
    /// further than a page, as what follows may be anything.
    Dynsym,
    /// /proc/kallsyms or a copy of it.
    Kallsyms,
    /// /tmp/perf-PID.map.
    PerfMap,
    /// No symbols at all.
    None,
}

impl SymbolSource {
    const ALL: [Self; 6] =
        [Self::Symtab, Self::DebugData, Self::Dynsym, Self::Kallsyms, Self::PerfMap, Self::None];
}

/// Symbols sorted by address, one per address, looked up by binary search. Cheap to clone.
#[derive(Clone)]
pub struct SymbolTable {
    bytes: Bytes,
    count: usize,
    source: SymbolSource,
}

impl SymbolTable {
    /// A table without symbols.
    pub fn empty() -> Self {
        SymbolTableBuilder::new(SymbolSource::None).build()
    }

    /// A table in its byte form, as [`SymbolTable::as_bytes`] gave it; `None` if it is damaged.
    pub fn from_bytes(bytes: Bytes) -> Option<Self> {
        let head = bytes.get(..HEADER)?;
        let count = u32_at(head, 8)? as usize;
        let names = u32_at(head, 12)? as usize;
        let source = *SymbolSource::ALL.get(u32_at(head, 16)? as usize)?;
        let expected = count.checked_mul(ENTRY)?.checked_add(HEADER)?.checked_add(names)?;
        (head.starts_with(MAGIC) && bytes.len() == expected).then_some(Self { bytes, count, source })
    }

    /// Byte form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where they came from.
    pub fn source(&self) -> SymbolSource {
        self.source
    }

    /// The symbol covering `svma`: the innermost where ranges overlap.
    pub fn find(&self, svma: Svma) -> Option<Symbol<'_>> {
        let after = self.partition_point(svma.0);
        // An enclosing symbol may start several entries earlier (labels inside a function).
        (after.saturating_sub(16)..after)
            .rev()
            .filter_map(|i| self.at(i))
            .find(|s| s.start <= svma && svma < s.end)
    }

    /// The last symbol that starts at or below `svma`, even if it ends before it.
    pub fn find_before(&self, svma: Svma) -> Option<Symbol<'_>> {
        self.at(self.partition_point(svma.0).checked_sub(1)?)
    }

    /// All symbols of exactly that (mangled) name, by address.
    pub fn by_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Symbol<'a>> {
        self.iter().filter(move |s| s.name == name)
    }

    /// All symbols by address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        (0..self.count).filter_map(|i| self.at(i))
    }

    /// The symbol at position `i` by address.
    pub fn at(&self, i: usize) -> Option<Symbol<'_>> {
        let e = self.entry(i)?;
        let (start, size) = (u64_at(e, 0)?, u64_at(e, 8)?);
        let end = match (size, self.entry(i + 1)) {
            (0, Some(next)) => u64_at(next, 0)?,
            (0, None) => (start & !(PAGE - 1)).saturating_add(2 * PAGE),
            (size, _) => start.saturating_add(size),
        };
        let names = HEADER + self.count * ENTRY;
        let at = names.checked_add(u32_at(e, 16)? as usize)?;
        let name = self.bytes.get(at..at.checked_add(u32_at(e, 20)? as usize)?)?;
        // In a damaged index the next one may start lower.
        Some(Symbol {
            start: Svma(start),
            end: Svma(end.max(start)),
            name: std::str::from_utf8(name).unwrap_or("?"),
        })
    }

    fn entry(&self, i: usize) -> Option<&[u8]> {
        if i >= self.count {
            return None;
        }
        self.bytes.get(HEADER + i * ENTRY..HEADER + (i + 1) * ENTRY)
    }

    /// Number of symbols that start at or below `addr`.
    fn partition_point(&self, addr: u64) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let mid = low + (high - low) / 2;
            match self.entry(mid).and_then(|e| u64_at(e, 0)) {
                Some(start) if start <= addr => low = mid + 1,
                _ => high = mid,
            }
        }
        low
    }
}

impl fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SymbolTable({} symbols, {:?})", self.count, self.source)
    }
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?))
}

/// How strongly a name claims its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Binding {
    /// `STB_WEAK`.
    Weak,
    /// `STB_LOCAL`.
    Local,
    /// `STB_GLOBAL`.
    Global,
}

/// A symbol on its way into a table.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    start: u64,
    size: u64,
    name_at: u32,
    name_len: u32,
    binding: Binding,
    underscores: u32,
}

impl Candidate {
    /// Greater is the one to keep of two at one address.
    fn rank(&self) -> (bool, bool, Binding, std::cmp::Reverse<u32>, u32) {
        (
            self.size > 0,
            self.binding > Binding::Weak,
            self.binding,
            std::cmp::Reverse(self.underscores),
            self.name_len,
        )
    }
}

/// Ends unsized symbols a page after their start at the latest: functions without an exported name follow. Those of
/// assembly code, in a library of codecs, were all named like the last exported one, 50 KiB before them.
fn bound_unsized(sorted: &mut [Candidate]) {
    for at in 0..sorted.len() {
        let next = sorted.get(at + 1).map_or(u64::MAX, |next| next.start);
        let this = &mut sorted[at];
        if this.size == 0 && next - this.start > PAGE {
            this.size = PAGE;
        }
    }
}

/// Collects symbols in any order into a [`SymbolTable`].
pub struct SymbolTableBuilder {
    source: SymbolSource,
    candidates: Vec<Candidate>,
    names: Vec<u8>,
}

impl SymbolTableBuilder {
    /// Nothing yet, of this origin.
    pub fn new(source: SymbolSource) -> Self {
        Self { source, candidates: Vec::new(), names: Vec::new() }
    }

    /// Adds a symbol; `size` 0 means that it reaches to the next one. Names past 4 GB in sum are dropped, and a
    /// symbol at the last of all addresses, whose end can't be expressed.
    pub fn push(&mut self, start: Svma, size: u64, name: &str, binding: Binding) {
        if start.0 == u64::MAX {
            return;
        }
        let Ok(name_at) = u32::try_from(self.names.len()) else { return };
        let (Ok(name_len), false) = (u32::try_from(name.len()), self.candidates.len() >= u32::MAX as usize)
        else {
            return;
        };
        let underscores = name.bytes().take_while(|&b| b == b'_').count() as u32;
        self.names.extend_from_slice(name.as_bytes());
        self.candidates.push(Candidate { start: start.0, size, name_at, name_len, binding, underscores });
    }

    /// Adds all of `table` whose address has no symbol here yet.
    pub fn extend_missing(&mut self, table: &SymbolTable) {
        let known: rustc_hash::FxHashSet<u64> = self.candidates.iter().map(|c| c.start).collect();
        for s in table.iter().filter(|s| !known.contains(&s.start.0)) {
            self.push(s.start, s.end.0 - s.start.0, s.name, Binding::Global);
        }
    }

    /// Number of symbols so far.
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Whether there are none so far.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Ends symbols without a size where `end_of` the room up to the next one is, if it knows.
    pub(crate) fn end_unsized(&mut self, mut end_of: impl FnMut(Range<Svma>) -> Option<Svma>) {
        self.keep_one_each();
        let mut next = u64::MAX;
        for this in self.candidates.iter_mut().rev() {
            if this.size == 0 {
                let end = end_of(Svma(this.start)..Svma(next));
                this.size = end.map_or(0, |end| end.0.saturating_sub(this.start));
            }
            next = this.start;
        }
    }

    /// Sorts, and keeps one symbol per address.
    fn keep_one_each(&mut self) {
        if self.source == SymbolSource::Kallsyms {
            // None has a size: perf gives every symbol the room up to the next address, which of several at one
            // address only the last gets, and a symbol with a size is what it keeps.
            self.candidates.reverse();
            self.candidates.sort_by_key(|c| c.start);
        } else {
            // Stable, so that of equals the first in the file is kept, whatever the machine.
            self.candidates.sort_by(|a, b| match a.start.cmp(&b.start) {
                Ordering::Equal => b.rank().cmp(&a.rank()),
                other => other,
            });
        }
        self.candidates.dedup_by_key(|c| c.start);
    }

    /// Sorts, keeps one symbol per address, and packs.
    pub fn build(mut self) -> SymbolTable {
        self.keep_one_each();
        if self.source == SymbolSource::Dynsym {
            bound_unsized(&mut self.candidates);
        }
        let count = self.candidates.len();
        let names_len: usize = self.candidates.iter().map(|c| c.name_len as usize).sum();
        let source = SymbolSource::ALL.iter().position(|&s| s == self.source).unwrap_or(0) as u32;
        let mut out = Vec::with_capacity(HEADER + count * ENTRY + names_len);
        out.extend_from_slice(MAGIC);
        for word in [count as u32, names_len as u32, source, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let mut name_at = 0u32;
        for c in &self.candidates {
            out.extend_from_slice(&c.start.to_le_bytes());
            out.extend_from_slice(&c.size.to_le_bytes());
            out.extend_from_slice(&name_at.to_le_bytes());
            out.extend_from_slice(&c.name_len.to_le_bytes());
            name_at += c.name_len;
        }
        for c in &self.candidates {
            out.extend_from_slice(&self.names[c.name_at as usize..][..c.name_len as usize]);
        }
        SymbolTable { bytes: Bytes::from_vec(out), count, source: self.source }
    }
}

#[cfg(test)]
mod tests;
