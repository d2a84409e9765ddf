//! Lines and inlined functions of JIT code, in a map that tally kept with a recording.
//!
//! A runtime's own map has none. tally adds lines that readers of maps pass over, since they don't begin with a number:
//! `=START STEP FILE` and `@START SIZE ADDRESS…`.
//
// Layout: docs/formats/jit-maps.md.

use std::collections::BTreeMap;

use crate::symtab::SymbolTable;
use crate::symtab::perf_map::parse_line;
use crate::{SourceFrame, Svma};

/// Functions inlined into one another at an address. More are no work of a compiler.
const MOST_INLINED: usize = 128;

/// Lines and inlined functions in a map.
#[derive(Debug, Default)]
pub struct MadeLines {
    /// By their first address.
    scopes: BTreeMap<u64, InlineScope>,
    /// By the first address of the function.
    files: BTreeMap<u64, NumberedLines>,
}

/// Code that is of the same functions, inlined into one another.
#[derive(Debug)]
struct InlineScope {
    end: u64,
    /// Addresses of the functions' lines, innermost first.
    addresses: Box<[u64]>,
}

/// A function without code: each of its lines has an address.
#[derive(Debug)]
struct NumberedLines {
    /// Bytes between the addresses of two lines that follow one another; not 0.
    step: u64,
    file: String,
}

impl MadeLines {
    /// From the text of a map. Lines that don't parse are skipped.
    pub fn parse(text: &[u8]) -> Self {
        let mut lines = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            match line.first() {
                Some(b'@') => drop(lines.add_scope(&line[1..])),
                Some(b'=') => drop(lines.add_file(&line[1..])),
                _ => {
                    if let Some((start, size, _)) = parse_line(line).filter(|_| !lines.scopes.is_empty()) {
                        lines.forget(start, start.saturating_add(size));
                    }
                }
            }
        }
        lines
    }

    fn add_scope(&mut self, line: &[u8]) -> Option<()> {
        let mut numbers = std::str::from_utf8(line).ok()?.split(' ').map(hex);
        let (start, size) = (numbers.next()??, numbers.next()??);
        let end = start.checked_add(size).filter(|end| *end > start)?;
        let addresses: Box<[u64]> = numbers.take(MOST_INLINED).collect::<Option<_>>()?;
        self.forget(start, end);
        self.scopes.insert(start, InlineScope { end, addresses });
        Some(())
    }

    fn add_file(&mut self, line: &[u8]) -> Option<()> {
        let mut words = std::str::from_utf8(line).ok()?.splitn(3, ' ');
        let (start, step) = (hex(words.next()?)?, hex(words.next()?)?);
        let step = Some(step).filter(|step| *step > 0)?;
        self.files.insert(start, NumberedLines { step, file: words.next()?.to_owned() });
        Some(())
    }

    /// Other code is there now.
    fn forget(&mut self, start: u64, end: u64) {
        // Scopes don't overlap each other, so that only the first can begin before.
        let before = self.scopes.range(..start).next_back().filter(|(_, scope)| scope.end > start);
        let after = self.scopes.range(start..end);
        let gone: Vec<u64> = before.into_iter().chain(after).map(|(start, _)| *start).collect();
        for start in gone {
            self.scopes.remove(&start);
        }
    }

    /// Appends the frames at `address`, innermost first, with the names that `symbols` has; false if no line is known.
    pub fn frames(&self, address: Svma, symbols: &SymbolTable, out: &mut Vec<SourceFrame>) -> bool {
        let scope = self.scopes.range(..=address.0).next_back().map(|(_, scope)| scope);
        let Some(scope) = scope.filter(|scope| address.0 < scope.end) else {
            let frame = self.line_at(address.0, symbols).filter(|frame| frame.line.is_some());
            return frame.map(|frame| out.push(frame)).is_some();
        };
        let frames: Option<Vec<_>> = scope.addresses.iter().map(|at| self.line_at(*at, symbols)).collect();
        frames.filter(|frames| !frames.is_empty()).map(|frames| out.extend(frames)).is_some()
    }

    /// The function around an address of a line, and that line. `None` if it has no name.
    fn line_at(&self, address: u64, symbols: &SymbolTable) -> Option<SourceFrame> {
        let function = symbols.find(Svma(address))?;
        let lines = self.files.get(&function.start.0);
        let line = lines.and_then(|lines| u32::try_from((address - function.start.0) / lines.step).ok());
        let line = line.filter(|line| *line > 0);
        Some(SourceFrame {
            function: Some(function.name.to_owned()),
            file: lines.filter(|_| line.is_some()).map(|lines| lines.file.clone()),
            line,
            column: None,
        })
    }
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symtab::perf_map;

    const TEXT: &str = "1000 100 app.Shop.buy()\n\
                        900000 1000 app.Shop.buy()\n=900000 10 app/Shop.java\n\
                        901000 1000 app.Price.of()\n=901000 10 app/Price.java\n\
                        902000 1000 app.Odd.one()\n\
                        @1010 10 901078 900058\n@1020 8 900068\n@1030 8 902008 900078\n@1040 8 777\n@1048 8\n";

    fn at(text: &str, address: u64) -> Vec<String> {
        let (lines, symbols) = (MadeLines::parse(text.as_bytes()), perf_map::parse(text.as_bytes()));
        let mut frames = Vec::new();
        assert_eq!(lines.frames(Svma(address), &symbols, &mut frames), !frames.is_empty());
        let word = |frame: &SourceFrame| {
            let file = frame.file.as_deref().unwrap_or("?");
            format!("{} {file}:{}", frame.function.as_deref().unwrap_or("?"), frame.line.unwrap_or(0))
        };
        frames.iter().map(word).collect()
    }

    #[test]
    fn inlined_functions_come_before_the_one_they_are_in() {
        let inlined = ["app.Price.of() app/Price.java:7", "app.Shop.buy() app/Shop.java:5"];
        assert_eq!(at(TEXT, 0x1010), inlined);
        assert_eq!(at(TEXT, 0x101f), inlined);
        assert_eq!(at(TEXT, 0x1020), ["app.Shop.buy() app/Shop.java:6"]);
        assert_eq!(at(TEXT, 0x1030), ["app.Odd.one() ?:0", "app.Shop.buy() app/Shop.java:7"]);
        assert_eq!(at(TEXT, 0x900058), ["app.Shop.buy() app/Shop.java:5"], "interpreted");
        for nothing in [0x1000, 0x1028, 0x1040, 0x1048, 0x900008, 0x902008, 0, u64::MAX] {
            assert_eq!(at(TEXT, nothing), Vec::<String>::new(), "{nothing:x}");
        }
    }

    #[test]
    fn other_code_in_the_same_place_takes_the_lines_away() {
        let later = format!("{TEXT}1018 20 other\n");
        assert_eq!([at(&later, 0x1010), at(&later, 0x1020)], [const { Vec::<String>::new() }; 2]);
        assert_eq!(at(&later, 0x1032), Vec::<String>::new());
        let again = format!("{later}@1010 10 900098\n");
        assert_eq!(at(&again, 0x1012), ["app.Shop.buy() app/Shop.java:9"]);
    }

    #[test]
    fn lines_that_make_no_sense_are_skipped() {
        let text = "@\n=\n@1\n@1000 0 1\n@ffffffffffffffff 2 1\n=1000 0 a\n=1000 10\n@1000 10 x\n@é\n";
        let lines = MadeLines::parse(text.as_bytes());
        assert!(lines.scopes.is_empty() && lines.files.is_empty());
    }
}
