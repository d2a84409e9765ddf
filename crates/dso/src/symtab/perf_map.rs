//! perf-PID.map: the names a JIT compiler writes for its code.
//!
//! One line per function, `START SIZE NAME` in hex without 0x, NAME to the end of the line. A compiler
//! appends as it goes and reuses addresses: a later line replaces the earlier ones it overlaps.

use std::path::Path;

use crate::error::missing_of_io;
use crate::symtab::{Binding, SymbolSource, SymbolTable, SymbolTableBuilder};
use crate::{FileRule, Missing, Svma};

/// Larger files are not read. Runtimes that run for weeks write some 100 MB.
const MAX_BYTES: u64 = 256 << 20;

/// The names in the map file at `path` (`/tmp/perf-PID.map`), which one of `owners` must own; `None`: anybody. A
/// symbolic link is refused. Addresses are those of the process.
pub fn read(path: &Path, owners: Option<Vec<u32>>) -> Result<SymbolTable, Missing> {
    let rule = FileRule::up_to(MAX_BYTES).without_links();
    let rule = owners.into_iter().fold(rule, FileRule::owned_by);
    let text = rule.read(path).map_err(|refused| match missing_of_io(&refused.into()) {
        Missing::NoFile | Missing::NotElf => Missing::NoPerfMap,
        why => why,
    })?;
    Ok(parse(&text))
}

/// From the text. Lines that don't parse (a half-written last one) are skipped.
pub fn parse(text: &[u8]) -> SymbolTable {
    of_code(text.split(|&b| b == b'\n').filter_map(parse_line))
}

/// From start, size and name of pieces of code, in the order in which they were made: a later one replaces those it
/// overlaps.
pub fn of_code<'n>(code: impl IntoIterator<Item = (u64, u64, &'n str)>) -> SymbolTable {
    let mut live: std::collections::BTreeMap<u64, (u64, &str)> = std::collections::BTreeMap::new();
    for (start, size, name) in code {
        let end = start.saturating_add(size.max(1));
        let overlapped: Vec<u64> = live
            .range(..end)
            .rev()
            .take_while(|(s, (len, _))| s.saturating_add(*len) > start)
            .map(|(s, _)| *s)
            .collect();
        for s in overlapped {
            live.remove(&s);
        }
        live.insert(start, (size.max(1), name));
    }
    let mut table = SymbolTableBuilder::new(SymbolSource::PerfMap);
    live.iter().for_each(|(start, (size, name))| table.push(Svma(*start), *size, name, Binding::Global));
    table.build()
}

pub(super) fn parse_line(line: &[u8]) -> Option<(u64, u64, &str)> {
    let line = std::str::from_utf8(line).ok()?.trim_end_matches('\r');
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let hex = |s: &str| u64::from_str_radix(s.strip_prefix("0x").unwrap_or(s), 16).ok();
    Some((hex(start)?, hex(size)?, name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_code_at_the_same_address_takes_its_name() {
        let t = parse(b"1000 100 old one\n1200 10 other\n1080 100 new\nbroken\n1300 1");
        let name = |a| t.find(Svma(a)).map(|s| s.name);
        assert_eq!([0x1010, 0x1090, 0x1205, 0x1300].map(name), [None, Some("new"), Some("other"), None]);
    }
}
