//! Text of cells in the columns of keys, in perf's words.

use super::field::{MemoryPart, SortKey};
use super::row::SortValue;
use crate::machine::file_name;
use crate::profile::{Profile, WITHOUT_LABELS};
use crate::session::SampleWord;
use crate::table::{DsoId, SymbolId};
use perfdata::DataSource;

/// `PERF_TXN_*`, from the lowest bit on.
const TRANSACTION_WORDS: [&str; 8] =
    ["EL ", "TX ", "SYNC ", "ASYNC ", "RETRY ", "CON ", "CAP-WRITE ", "CAP-READ "];

impl Profile {
    /// Text of a cell of `key` as perf prints it, without padding.
    #[must_use]
    pub fn value_text(&self, key: &SortKey, value: &SortValue) -> String {
        match value {
            SortValue::None => nothing(key).to_owned(),
            SortValue::Text(id) if *key == SortKey::SrcFile => file_name(self.strings.of(*id)).to_owned(),
            SortValue::Text(id) => self.strings.of(*id).to_owned(),
            SortValue::Dso(id) => self.dsos.of(*id).short_name.clone(),
            SortValue::Symbol { dso, symbol, addr } => match key {
                SortKey::SrcLine | SortKey::SrcLineFrom | SortKey::SrcLineTo => {
                    self.place_text(*dso, *symbol, *addr)
                }
                SortKey::AddrFrom | SortKey::AddrTo => self.exact_place_text(*dso, *symbol, *addr),
                _ => self.symbol_text(*dso, *symbol, *addr),
            },
            SortValue::Task { id, comm } => format!("{id:>7}:{}", self.strings.of(*comm)),
            SortValue::Number(number) => number_text(key, *number),
            SortValue::Address(addr) if *key == SortKey::Addr => format!("{addr:#x}"),
            SortValue::Address(addr) => format!("[.] {addr:#018x}"),
            SortValue::Line { file, line } => format!("{}:{line}", file_name(self.strings.of(*file))),
            SortValue::Time(ns) => format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000),
            SortValue::Flag(flag) => flag_text(key, *flag).to_owned(),
        }
    }

    /// perf's text where no line is known: `schedule+12`, or `libfoo.so[1a2b]`.
    fn place_text(&self, dso: DsoId, symbol: Option<SymbolId>, addr: u64) -> String {
        match symbol.map(|id| self.symbols.of(id)) {
            Some(symbol) => format!("{}+{}", self.strings.of(symbol.name), addr.wrapping_sub(symbol.start)),
            None => format!("{}[{addr:x}]", self.dsos.of(dso).short_name),
        }
    }

    /// `[k] schedule+0x1f`, or `[.] 0x0000000000001234`.
    fn exact_place_text(&self, dso: DsoId, symbol: Option<SymbolId>, addr: u64) -> String {
        let level = self.dsos.of(dso).level;
        match symbol.map(|id| self.symbols.of(id)) {
            Some(symbol) => {
                let name = self.strings.of(symbol.name);
                match addr.wrapping_sub(symbol.start) {
                    0 => format!("[{level}] {name}"),
                    offset => format!("[{level}] {name}+{offset:#x}"),
                }
            }
            None => self.symbol_text(dso, None, addr),
        }
    }
}

/// Text for samples without a value for `key`.
fn nothing(key: &SortKey) -> &'static str {
    match key {
        SortKey::SrcFile | SortKey::Transaction => "",
        SortKey::SrcLine | SortKey::SrcLineFrom | SortKey::SrcLineTo => "??:0",
        SortKey::Parent => "[other]",
        SortKey::Label(_) => WITHOUT_LABELS,
        SortKey::Cycles => "-",
        SortKey::SymbolSize | SortKey::DsoSize => "unknown",
        _ => "N/A",
    }
}

fn flag_text(key: &SortKey, flag: bool) -> &'static str {
    match (key, flag) {
        (SortKey::InTx | SortKey::Abort, true) => "T",
        (SortKey::InTx | SortKey::Abort, false) => ".",
        (_, true) => "Y",
        (_, false) => "N",
    }
}

fn number_text(key: &SortKey, number: i64) -> String {
    let bits = number.cast_unsigned();
    match key {
        SortKey::Cpu | SortKey::Socket => three_digits(number),
        SortKey::Transaction => transaction_text(bits),
        SortKey::Memory(part) => part.text(DataSource(bits)),
        SortKey::Word(SampleWord::CodePageSize | SampleWord::DataPageSize) => page_size_text(bits),
        SortKey::Word(SampleWord::PhysicalAddress) if bits == 0 => "[k] 0000000000000000".to_owned(),
        SortKey::Word(SampleWord::PhysicalAddress) => format!("[.] {bits:#018x}"),
        _ => number.to_string(),
    }
}

/// Three digits, the sign extra: `003`, `-001`.
fn three_digits(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{:03}", number.unsigned_abs())
}

/// `TX SYNC  :1f`, the code of the abort last.
fn transaction_text(bits: u64) -> String {
    let words = TRANSACTION_WORDS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
    let mut text: String = words.map(|(_, word)| *word).collect();
    if bits != 0 && bits & 0b1100 == 0 {
        text.push_str("NEITHER ");
    }
    if bits & perfdata::abi::PERF_TXN_ABORT_MASK != 0 {
        text.push_str(&format!(" :{:x}", bits >> perfdata::abi::PERF_TXN_ABORT_SHIFT));
    }
    text
}

/// `4K`, `2M`, `1G`.
fn page_size_text(bytes: u64) -> String {
    const UNITS: [(u64, char); 3] = [(1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{}{letter}", bytes / unit),
        None if bytes == 0 => "N/A".to_owned(),
        None => bytes.to_string(),
    }
}

impl MemoryPart {
    /// Bits of `source` that distinguish accesses.
    #[must_use]
    pub fn bits(self, source: DataSource) -> u64 {
        match self {
            Self::Level => source.level_bits(),
            Self::Tlb => source.tlb_bits(),
            Self::Snoop => source.snoop_bits(),
            Self::Lock => source.lock_bits(),
            Self::Blocked => source.blocked_bits(),
        }
    }

    fn text(self, source: DataSource) -> String {
        match self {
            Self::Level => source.level(),
            Self::Tlb => source.tlb(),
            Self::Snoop => source.snoop(),
            Self::Lock => source.lock().to_owned(),
            Self::Blocked => source.blocked(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_written_in_their_own_unit() {
        assert_eq!(page_size_text(0), "N/A");
        assert_eq!(page_size_text(4096), "4K");
        assert_eq!(page_size_text(2 << 20), "2M");
        assert_eq!(page_size_text(1 << 30), "1G");
    }

    #[test]
    fn transaction_flags_are_perfs_words() {
        assert_eq!(transaction_text(0), "");
        assert_eq!(transaction_text(0x6), "TX SYNC ");
        assert_eq!(transaction_text(0x2), "TX NEITHER ");
        assert_eq!(transaction_text(0x1f_0000_0006), "TX SYNC  :1f");
    }

    #[test]
    fn cpus_have_three_digits_beside_the_sign() {
        assert_eq!(three_digits(3), "003");
        assert_eq!(three_digits(-1), "-001");
    }
}
