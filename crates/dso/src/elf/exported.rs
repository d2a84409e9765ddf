//! The names under which an ELF file offers its code to others.

use std::ops::Range;

use object::{Object, ObjectSymbol, RelocationFlags, SymbolFlags, SymbolKind, elf};

use crate::bounds::Allowance;
use crate::code::reached_end::reached_end;
use crate::{ObjectFile, Svma};

/// A name of code in the dynamic symbol table. Several may have the same address, of which a
/// [`SymbolTable`](crate::SymbolTable) keeps one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The name in the table, without its version.
    pub name: String,
    /// Where its code begins.
    pub start: Svma,
    /// An indirect function: the code there is called once, and returns the address of the function for this
    /// machine.
    pub is_resolver: bool,
}

/// All of them, in the order of the table; none where there is no such table, or none that can be read.
#[must_use]
pub fn exported(object: &ObjectFile) -> Vec<Exported> {
    let Ok(file) = object::File::parse(&**object.bytes()) else { return Vec::new() };
    let mut names = Allowance::of(object.bytes().len());
    let exported = file.dynamic_symbols().filter_map(|symbol| {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return None };
        let kind = st_info.st_type();
        let is_code = symbol.section_index().is_some() && matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let name = symbol.name().ok().filter(|name| is_code && !name.is_empty() && names.take(name.len()))?;
        let start = Svma(symbol.address());
        Some(Exported { name: name.to_owned(), start, is_resolver: kind == elf::STT_GNU_IFUNC })
    });
    exported.collect()
}

/// Names of data in the dynamic symbol table that begin with `prefix`, without it, and their addresses.
#[must_use]
pub fn exported_data(object: &ObjectFile, prefix: &str) -> Vec<(String, Svma)> {
    let Ok(file) = object::File::parse(&**object.bytes()) else { return Vec::new() };
    let mut names = Allowance::of(object.bytes().len());
    let is_data = |symbol: &object::Symbol<'_, '_>| {
        symbol.kind() == SymbolKind::Data && symbol.section_index().is_some()
    };
    // By kind first: most names are functions', and it takes long to find where a name ends.
    let named = file.dynamic_symbols().filter(is_data);
    let named = named.filter_map(|symbol| {
        let name = symbol.name().ok()?.strip_prefix(prefix).filter(|name| names.take(name.len()))?;
        Some((name.to_owned(), Svma(symbol.address())))
    });
    named.collect()
}

/// From the first to past the last function whose name begins with `prefix`, in the table that `strip` removes. `None`
/// if there is none.
#[must_use]
pub fn span_of_functions(object: &ObjectFile, prefix: &str) -> Option<Range<Svma>> {
    let file = object::File::parse(&**object.bytes()).ok()?;
    let begins = |name: &[u8]| name.starts_with(prefix.as_bytes());
    let functions = file.symbols().filter(|symbol| symbol.name_bytes().is_ok_and(begins));
    let ranges = functions.filter_map(range_of);
    let span = ranges.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))?;
    Some(Svma(span.start)..Svma(span.end))
}

/// First address, and past the last, of each exported function with a size.
pub(crate) fn exported_ranges(object: &ObjectFile) -> impl Iterator<Item = Range<u64>> {
    let file = object::File::parse(&**object.bytes());
    let ranges: Vec<Range<u64>> =
        file.iter().flat_map(|file| file.dynamic_symbols()).filter_map(range_of).collect();
    ranges.into_iter()
}

/// The same of exported functions without a size whose code shows their end.
pub(crate) fn exported_unsized_ranges(object: &ObjectFile) -> Vec<Range<u64>> {
    let Ok(file) = object::File::parse(&**object.bytes()) else { return Vec::new() };
    let functions = file.dynamic_symbols().filter(is_function);
    let (mut starts, mut others) = (Vec::new(), Vec::new());
    for symbol in functions {
        if symbol.size() == 0 { &mut starts } else { &mut others }.push(symbol.address());
    }
    others.extend(&starts);
    others.sort_unstable();
    starts.sort_unstable();
    starts.dedup();
    let range = |start: u64| {
        let next = others.get(others.partition_point(|other| *other <= start)).copied().unwrap_or(u64::MAX);
        Some(start..reached_end(object, Svma(start)..Svma(next))?.0)
    };
    starts.into_iter().filter_map(range).collect()
}

/// Addresses that the loader puts into the file's data, without a name (R_X86_64_RELATIVE).
pub(crate) fn relative_addresses(object: &ObjectFile) -> Vec<u64> {
    let Ok(file) = object::File::parse(&**object.bytes()) else { return Vec::new() };
    let relocations = file.dynamic_relocations().into_iter().flatten();
    let is_relative = |flags| matches!(flags, RelocationFlags::Elf { r_type: elf::R_X86_64_RELATIVE });
    let relative = relocations.filter(|(_, relocation)| is_relative(relocation.flags()));
    relative.map(|(_, relocation)| relocation.addend().cast_unsigned()).collect()
}

fn range_of<'d>(symbol: impl ObjectSymbol<'d>) -> Option<Range<u64>> {
    let is_sized = is_function(&symbol) && symbol.size() > 0;
    is_sized.then(|| symbol.address()..symbol.address().saturating_add(symbol.size()))
}

fn is_function<'d>(symbol: &impl ObjectSymbol<'d>) -> bool {
    symbol.section_index().is_some() && symbol.kind() == SymbolKind::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C library that the test itself runs with.
    #[test]
    fn the_c_library_offers_one_function_under_several_names_and_some_by_resolvers() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
        let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let Some(path) = path.into_iter().find(|path| path.contains("/libc.so")) else {
            println!("skipped: no libc.so here");
            return;
        };
        let object = ObjectFile::open(std::path::Path::new(path)).expect("an ELF file");
        let names = exported(&object);
        let of = |name: &str| names.iter().find(|exported| exported.name == name).expect(name);
        assert_eq!(of("strdup").start, of("__strdup").start);
        assert!(!of("strdup").is_resolver && of("strlen").is_resolver && object.is_code(of("strlen").start));
    }
}
