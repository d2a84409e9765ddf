//! /proc/kallsyms: the kernel's own symbols and its modules', at the addresses of this boot.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::error::missing_of_io;
use crate::files::named_file;
use crate::files::system_file;
use crate::symtab::{Binding, SymbolSource, SymbolTable, SymbolTableBuilder};
use crate::{FileRule, Missing, Svma};

/// The running kernel's.
const RUNNING: &str = "/proc/kallsyms";

/// A kernel with all its modules has some 15 MB of symbols.
const MAX_COPY_BYTES: u64 = 256 << 20;

/// The kernel's half of the address space, on all 64-bit machines: symbols below are relative to each CPU's
/// memory and have the same address in every boot.
const KERNEL_HALF: u64 = 1 << 63;

/// The symbols of a running (or recorded) kernel. Addresses are those of that boot: for kallsyms an Svma
/// is an Avma.
#[derive(Clone, Debug)]
pub struct Kallsyms {
    /// The kernel proper: perf's `[kernel.kallsyms]`.
    pub kernel: SymbolTable,
    /// One table per module, by its name without brackets. BPF programs are the module `bpf`.
    pub modules: BTreeMap<String, SymbolTable>,
    /// Addresses of `_etext` and `_edata`, as far as they are there: perf's mapping of the kernel ends at one.
    /// (The table keeps one name an address.)
    pub ends: Vec<Svma>,
}

impl Kallsyms {
    /// This kernel's. `Err(KptrRestrict)` if it shows zeros to us.
    pub fn read() -> Result<Self, Missing> {
        Self::from_read(system_file::read(RUNNING))
    }

    /// Where the running kernel's symbols begin, without reading all of them, which takes long. `None` if addresses
    /// are not shown to us.
    pub fn start_of_running() -> Option<Svma> {
        /// Symbols of CPU-local memory may come first.
        const BEGINNING: u64 = 256 << 10;
        let mut lines = BufReader::new(system_file::open(RUNNING).ok()?.take(BEGINNING));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).ok()? > 0 {
            let start = parse_line(&line).filter(Entry::is_kept).map(|entry| entry.address);
            if let Some(start) = start.filter(|&start| start >= KERNEL_HALF) {
                return Some(Svma(start));
            }
            line.clear();
        }
        None
    }

    /// Where the symbols of `kernel` begin, as [`Self::start_of_running`] has it.
    pub fn start_of(kernel: &SymbolTable) -> Option<Svma> {
        kernel.iter().map(|symbol| symbol.start).find(|start| start.0 >= KERNEL_HALF)
    }

    /// A copy of kallsyms in a build-id cache.
    pub fn read_copy(path: &Path) -> Result<Self, Missing> {
        Self::from_read(FileRule::up_to(MAX_COPY_BYTES).read(path).map_err(io::Error::from))
    }

    /// A copy of kallsyms that the user named; may be a pipe, or /proc/kallsyms itself.
    pub fn read_named(path: &Path) -> Result<Self, Missing> {
        Self::from_read(named_file::read(path))
    }

    fn from_read(text: io::Result<Vec<u8>>) -> Result<Self, Missing> {
        let text = text.map_err(|error| match missing_of_io(&error) {
            Missing::NoFile | Missing::NotElf => Missing::NoKallsyms,
            why => why,
        })?;
        Self::parse(&text)
    }

    /// From the text. Lines that don't parse are skipped.
    pub fn parse(text: &[u8]) -> Result<Self, Missing> {
        let mut kernel = SymbolTableBuilder::new(SymbolSource::Kallsyms);
        let mut modules: BTreeMap<String, SymbolTableBuilder> = BTreeMap::new();
        let mut ends = Vec::new();
        let mut seen_zero = false;
        for line in text.split(|&b| b == b'\n') {
            let Some(entry) = parse_line(line) else { continue };
            seen_zero |= entry.address == 0;
            if !entry.is_kept() {
                continue;
            }
            if entry.module.is_none() && matches!(entry.name, "_etext" | "_edata") {
                ends.push(Svma(entry.address));
            }
            let table = match entry.module {
                None => &mut kernel,
                Some(name) => modules
                    .entry(name.to_owned())
                    .or_insert_with(|| SymbolTableBuilder::new(SymbolSource::Kallsyms)),
            };
            let binding = match entry.kind {
                b'W' | b'w' => Binding::Weak,
                k if k.is_ascii_uppercase() => Binding::Global,
                _ => Binding::Local,
            };
            table.push(Svma(entry.address), 0, entry.name, binding);
        }
        if kernel.is_empty() {
            return Err(if seen_zero { Missing::KptrRestrict } else { Missing::NoKallsyms });
        }
        Ok(Self {
            kernel: kernel.build(),
            modules: modules.into_iter().map(|(name, b)| (name, b.build())).collect(),
            ends,
        })
    }

    /// The address of a kernel symbol: `_text` and `_stext` give the distance between two boots (KASLR).
    pub fn address_of(&self, name: &str) -> Option<Svma> {
        self.kernel.by_name(name).next().map(|s| s.start)
    }
}

struct Entry<'a> {
    address: u64,
    kind: u8,
    name: &'a str,
    module: Option<&'a str>,
}

impl Entry<'_> {
    /// Code and data, but no absolute values and no addresses hidden from us.
    fn is_kept(&self) -> bool {
        self.address != 0 && matches!(self.kind.to_ascii_uppercase(), b'T' | b'W' | b'D' | b'B')
    }
}

/// `ffffffff81000000 T _text` or `ffffffffc0123000 t init\t[module]`.
fn parse_line(line: &[u8]) -> Option<Entry<'_>> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let kind = *fields.next()?.as_bytes().first()?;
    let name = fields.next()?;
    let module = fields.next().and_then(|m| m.strip_prefix('[')?.strip_suffix(']'));
    Some(Entry { address, kind, name, module })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_get_tables_of_their_own_and_data_is_kept() {
        let k = Kallsyms::parse(b"ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000100 t do_one\nffffffff82000000 D jiffies\nffffffff82000000 A abs\nffffffffc0000000 t init_one\t[ext4]\n").unwrap();
        assert_eq!(k.kernel.find(Svma(0xffff_ffff_8100_0150)).unwrap().name, "do_one");
        assert_eq!(k.modules["ext4"].find(Svma(0xffff_ffff_c000_0010)).unwrap().name, "init_one");
        assert_eq!(k.kernel.len(), 3);
    }

    #[test]
    fn zeros_mean_kptr_restrict_and_nothing_means_no_kallsyms() {
        assert_eq!(Kallsyms::parse(b"0000000000000000 T _text\n").unwrap_err(), Missing::KptrRestrict);
        assert_eq!(Kallsyms::parse(b"").unwrap_err(), Missing::NoKallsyms);
    }
}
