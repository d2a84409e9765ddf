//! Address filters: `filter main @ /bin/app` with names turned into the offsets that the kernel takes.
//!
//! ```text
//! ACTION PLACE [/ SIZE or LAST PLACE] [@ FILE]     several, with commas or blanks between
//! filter, tracestop: a range; start, stop: one address; PLACE: a number, a symbol (#2: the second of that name) or *
//! ```
//! Without a file the addresses are the kernel's.
//
// Source: linux v6.18 tools/perf/util/auxtrace.c parse_one_filter(), addr_filter__to_str();
//         kernel/events/core.c perf_event_parse_addr_filter().

use std::ops::Range;
use std::path::Path;

use dso::kernel::kallsyms::Kallsyms;
use dso::{DebugSearch, Loader, Svma, Wanted};

/// Why a filter can't be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// There is other text where an action should be.
    #[error("'{0}' is not an action: want filter, start, stop or tracestop")]
    Action(String),
    /// An address or a name is missing.
    #[error("an address or a function is missing after '{0}'")]
    NoPlace(String),
    /// The file has no code or can't be read.
    #[error("{file}: {why}")]
    File {
        /// As given.
        file: String,
        /// The reason.
        why: String,
    },
    /// No symbol of that name.
    #[error("no function '{name}' in {file}")]
    NoSymbol {
        /// As given.
        name: String,
        /// The file that was searched.
        file: String,
    },
    /// Several symbols of that name, and none was chosen.
    #[error("{count} functions '{name}' in {file}: choose one with '{name} #1'")]
    Ambiguous {
        /// As given.
        name: String,
        /// How many.
        count: usize,
        /// Where they are.
        file: String,
    },
}

/// The parts that a filter's actions need.
#[derive(Debug, Clone, PartialEq, Eq)]
struct One<'t> {
    action: &'t str,
    place: FilterAddress<'t>,
    end: Option<FilterAddress<'t>>,
    file: Option<&'t str>,
}

/// A place as written in the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FilterAddress<'t> {
    /// An address of the kernel, or an offset in the file.
    At(u64),
    /// A symbol; with several, which (from 1 on).
    Symbol(&'t str, Option<usize>),
    /// All of it.
    All,
}

/// The filter as the kernel takes it.
///
/// # Errors
/// The part of it that can't be followed.
pub fn to_kernel(text: &str) -> Result<String, FilterError> {
    let mut out: Vec<String> = Vec::new();
    for one in parse(text)? {
        out.push(one.to_kernel(&Names::of(one.file)?)?);
    }
    Ok(out.join(","))
}

/// The words of a filter. Blanks and commas separate words. `/`, `@` and `#` are words of their own, except in a
/// file's name.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let is_file = words.last() == Some(&"@");
        let ends = |c: char| c.is_whitespace() || c == ',' || (!is_file && "/@#".contains(c));
        let len = rest.find(ends).unwrap_or(rest.len()).max(1);
        words.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    words.retain(|word| *word != ",");
    words
}

fn parse(text: &str) -> Result<Vec<One<'_>>, FilterError> {
    let words = words(text);
    let mut words = words.iter().copied().peekable();
    let mut all = Vec::new();
    while let Some(action) = words.next() {
        if !["filter", "start", "stop", "tracestop"].contains(&action) {
            return Err(FilterError::Action(action.to_owned()));
        }
        let place = place(&mut words, action)?;
        let end = match words.next_if_eq(&"/") {
            Some(_) => Some(self::place(&mut words, "/")?),
            None => None,
        };
        let file = match words.next_if_eq(&"@") {
            Some(_) => Some(words.next().ok_or_else(|| FilterError::NoPlace("@".to_owned()))?),
            None => None,
        };
        all.push(One { action, place, end, file });
    }
    if all.is_empty() { Err(FilterError::Action(text.to_owned())) } else { Ok(all) }
}

fn place<'t>(
    words: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>,
    behind: &str,
) -> Result<FilterAddress<'t>, FilterError> {
    let missing = || FilterError::NoPlace(behind.to_owned());
    let word = words.next().filter(|word| !"/@#".contains(word)).ok_or_else(missing)?;
    let hex = word.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    if let Ok(number) = hex.unwrap_or_else(|| word.parse()) {
        return Ok(FilterAddress::At(number));
    }
    let which = match words.next_if_eq(&"#") {
        Some(_) => Some(words.next().and_then(|n| n.parse().ok()).ok_or_else(missing)?),
        None => None,
    };
    Ok(if word == "*" { FilterAddress::All } else { FilterAddress::Symbol(word, which) })
}

impl One<'_> {
    fn to_kernel(&self, names: &Names) -> Result<String, FilterError> {
        let begin = names.range(&self.place)?;
        let range = match &self.end {
            None => begin,
            // A number is a size, a symbol the last one of the range.
            Some(FilterAddress::At(bytes)) => begin.start..begin.start.saturating_add(*bytes),
            Some(last) => begin.start..names.range(last)?.end.max(begin.start),
        };
        let is_range = matches!(self.action, "filter" | "tracestop");
        let action = if self.action == "tracestop" { "stop" } else { self.action };
        let size = if is_range { format!("/{:#x}", range.end - range.start) } else { String::new() };
        let file = self.file.map_or_else(String::new, |file| format!("@{file}"));
        Ok(format!("{action} {:#x}{size}{file}", range.start))
    }
}

/// Where symbols are looked for.
enum Names {
    File { file: String, loaded: Box<dso::Loaded> },
    Kernel(Kallsyms),
}

impl Names {
    fn of(file: Option<&str>) -> Result<Self, FilterError> {
        let Some(file) = file else {
            let fail =
                |why: dso::Missing| FilterError::File { file: "the kernel".into(), why: why.to_string() };
            return Kallsyms::read().map(Self::Kernel).map_err(fail);
        };
        let wanted = Wanted::File { path: Path::new(file), build_id: None };
        let loaded = Loader::new(DebugSearch::from_env()).load(&wanted);
        let file = file.to_owned();
        match loaded {
            Ok(loaded) => Ok(Self::File { file, loaded: Box::new(loaded) }),
            Err(why) => Err(FilterError::File { file, why: why.to_string() }),
        }
    }

    fn range(&self, place: &FilterAddress<'_>) -> Result<Range<u64>, FilterError> {
        let (file, table) = match self {
            Self::File { file, loaded } => (file.as_str(), loaded.symbols()),
            Self::Kernel(kallsyms) => ("the kernel", &kallsyms.kernel),
        };
        match *place {
            FilterAddress::At(at) => Ok(at..at),
            FilterAddress::All => {
                self.all().ok_or_else(|| FilterError::File { file: file.into(), why: "no code".into() })
            }
            FilterAddress::Symbol(name, which) => {
                let mut found: Vec<Range<u64>> =
                    table.by_name(name).filter_map(|symbol| self.offsets(symbol.start, symbol.end)).collect();
                found.sort_by_key(|range| range.start);
                found.dedup();
                let (name, file) = (name.to_owned(), file.to_owned());
                match (which, found.len()) {
                    (_, 0) => Err(FilterError::NoSymbol { name, file }),
                    (None, 1) => Ok(found.swap_remove(0)),
                    (None, count) => Err(FilterError::Ambiguous { name, count, file }),
                    (Some(n), _) => {
                        let at = usize::checked_sub(n, 1);
                        at.and_then(|at| found.get(at).cloned()).ok_or(FilterError::NoSymbol { name, file })
                    }
                }
            }
        }
    }

    /// A file's code by its offset there, the kernel's by its address.
    fn offsets(&self, start: Svma, end: Svma) -> Option<Range<u64>> {
        match self {
            Self::File { loaded, .. } => {
                let from = loaded.object()?.file_offset_of(start)?.0;
                Some(from..from + (end.0 - start.0))
            }
            Self::Kernel(_) => Some(start.0..end.0),
        }
    }

    fn all(&self) -> Option<Range<u64>> {
        match self {
            Self::File { loaded, .. } => Some(0..loaded.object()?.bytes().len() as u64),
            Self::Kernel(kallsyms) => {
                Some(kallsyms.address_of("_stext")?.0..kallsyms.address_of("_etext")?.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_need_no_file_and_actions_say_what_they_take() {
        assert_eq!(to_kernel("filter 0x1000/0x20@/bin/sh").unwrap(), "filter 0x1000/0x20@/bin/sh");
        assert_eq!(
            to_kernel("start 4096 @ /bin/sh , tracestop 0x10 / 8 @/bin/sh").unwrap(),
            "start 0x1000@/bin/sh,stop 0x10/0x8@/bin/sh"
        );
        assert_eq!(to_kernel("only main"), Err(FilterError::Action("only".into())));
        assert_eq!(to_kernel("filter"), Err(FilterError::NoPlace("filter".into())));
        assert!(matches!(to_kernel("filter x @ /no/such/file"), Err(FilterError::File { .. })));
    }

    #[test]
    fn symbols_become_offsets_in_the_file() {
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        let kernel = to_kernel(&format!("filter main @ {own}")).unwrap();
        let object = dso::ObjectFile::open(Path::new(own)).unwrap();
        let table = dso::SymbolTable::load(&object, None);
        let main = table.by_name("main").next().unwrap();
        let offset = object.file_offset_of(main.start).unwrap().0;
        let size = main.end.0 - main.start.0;
        assert_eq!(kernel, format!("filter {offset:#x}/{size:#x}@{own}"));
        let missing = to_kernel(&format!("filter no_such_function @ {own}"));
        assert!(matches!(missing, Err(FilterError::NoSymbol { .. })), "{missing:?}");
    }
}
