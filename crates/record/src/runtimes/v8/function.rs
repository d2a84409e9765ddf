//! A function's name and place, from its `JSFunction`.
//!
//! Name and start are in the function's `ScopeInfo`, after its variables. Flags leave parts out, and differ between
//! versions. There is the name (a number if it has none) with a number of its own, perhaps a second text or `undefined`,
//! then the place as two numbers. So the name is the first text, and the place the end of the last run of numbers before
//! something else.
// Source: V8's src/objects/scope-info.tq, V8 10.2 to 13.6

use rustc_hash::FxHashMap;

use super::layout::{Look, small_number};
use super::script::Scripts;
use super::strings::{is_string, read_name};
use crate::runtimes::method_addresses::MethodAddresses;

/// Functions that are known at a time: a closure is a new one at each evaluation.
const MOST_FUNCTIONS: usize = 1 << 16;
/// From this number of variables on their names are in a table of their own.
const VARIABLES_OUTSIDE: u64 = 75;
const MOST_VARIABLES: u64 = 1 << 16;
/// Words after the variables in which name and place are looked for.
const MOST_WORDS_AFTER: u64 = 10;
/// Index of the number of variables among the words of a `ScopeInfo`, after its map.
const VARIABLES_INDEX: u64 = 2;
/// Where the place is among them when it is before the variables.
const PLACE_INDEX: u64 = 3;

/// The functions of one V8 that were met.
#[derive(Debug, Default)]
pub(super) struct Functions {
    known: FxHashMap<u64, Known>,
    shared: FxHashMap<u64, KnownShared>,
    scripts: Scripts,
    /// Known objects are compared with memory once in each round.
    round: u32,
}

/// A `JSFunction`.
#[derive(Clone, Copy, Debug)]
struct Known {
    shared: u64,
    address: Option<u64>,
    round: u32,
}

/// A `SharedFunctionInfo`: what all closures of a function have in common.
#[derive(Clone, Copy, Debug)]
struct KnownShared {
    /// Its words with the name and the script.
    words: [u64; 2],
    address: Option<u64>,
}

impl Functions {
    /// From now on memory is looked at again.
    pub(super) fn begin_round(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// The address in chains of the function that a word refers to. `None` for what has no script, as functions of the
    /// language, and for other objects.
    pub(super) fn address_of(
        &mut self,
        word: u64,
        look: &mut Look<'_, '_>,
        names: &mut MethodAddresses,
    ) -> Option<u64> {
        if let Some(known) = self.known.get(&word).filter(|known| known.round == self.round) {
            return known.address;
        }
        let types = look.layout.types;
        let is_function = look
            .type_of(word)
            .is_some_and(|kind| (types.first_function..=types.last_function).contains(&kind));
        let shared = if is_function { look.word(word, look.layout.shared)? } else { 0 };
        let before = self.known.get(&word).filter(|known| known.shared == shared);
        let address = match before {
            Some(known) => known.address,
            None if is_function => self.address_of_shared(shared, look, names),
            None => None,
        };
        if self.known.len() >= MOST_FUNCTIONS {
            self.known.clear();
        }
        self.known.insert(word, Known { shared, address, round: self.round });
        address
    }

    fn address_of_shared(
        &mut self,
        shared: u64,
        look: &mut Look<'_, '_>,
        names: &mut MethodAddresses,
    ) -> Option<u64> {
        let layout = look.layout;
        let words = [look.word(shared, layout.name_or_scope)?, look.word(shared, layout.script)?];
        if let Some(known) = self.shared.get(&shared).filter(|known| known.words == words) {
            return known.address;
        }
        look.type_of(shared).filter(|kind| *kind == layout.types.shared)?;
        let name = self.name_of(words, look);
        let address = name.and_then(|name| names.of_name(name));
        if self.shared.len() >= MOST_FUNCTIONS {
            self.shared.clear();
        }
        self.shared.insert(shared, KnownShared { words, address });
        address
    }

    /// In the words of V8's own map: `JS:price /srv/shop.js:12:8`.
    fn name_of(&mut self, [scope, script]: [u64; 2], look: &mut Look<'_, '_>) -> Option<String> {
        let script = self.scripts.read(script, look)?;
        let scope = Scope::read(scope, look)?;
        let (line, column) = script.place_of(scope.start);
        Some(format!("JS:{} {}:{line}:{column}", scope.name, script.file))
    }
}

/// The parts of a `ScopeInfo` that are shown.
struct Scope {
    /// Empty for the code of a module and for functions without name.
    name: String,
    /// Index of the function's first character after its name.
    start: u32,
}

impl Scope {
    fn read(word: u64, look: &mut Look<'_, '_>) -> Option<Self> {
        // Text: the function has not been compiled, so it doesn't run.
        look.type_of(word).filter(|kind| !is_string(*kind))?;
        let at = |look: &mut Look<'_, '_>, index: u64| look.word(word, 8 + 8 * index);
        let first = look.layout.first_variable;
        let variables = u64::from(small_number(at(look, VARIABLES_INDEX)?)?);
        let variables = Some(variables).filter(|count| *count < MOST_VARIABLES)?;
        let names = if variables < VARIABLES_OUTSIDE { variables } else { 1 };
        let (mut name, mut numbers, mut after_text) = (String::new(), Vec::new(), false);
        for index in 0..MOST_WORDS_AFTER {
            let Some(word) = at(look, first + names + variables + index) else { break };
            if let Some(number) = small_number(word) {
                numbers.push(number);
                continue;
            }
            let Some(kind) = look.type_of(word) else { break };
            let is_text = is_string(kind) || kind == look.layout.types.missing;
            if !is_text || numbers.len() > 1 && after_text {
                break;
            }
            numbers.clear();
            after_text = true;
            if name.is_empty() && is_string(kind) {
                name = read_name(look, word)?;
            }
        }
        let start = match first > PLACE_INDEX {
            true => small_number(at(look, PLACE_INDEX)?)?,
            false => *numbers.iter().rev().nth(1)?,
        };
        Some(Self { name, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::layout::Layout;

    const ONE_BYTE: u16 = 8;
    const SCOPE: u16 = 261;
    /// The type of `undefined`.
    const ODDBALL: u16 = 131;

    /// Objects in memory, from 0x1000 on.
    #[derive(Default)]
    struct Heap(Vec<u8>);

    impl Heap {
        /// The word of a new object of this type.
        fn object(&mut self, kind: u16, words: &[u64]) -> u64 {
            let map = 0x1000 + self.0.len() as u64;
            self.0.extend([0; 16]);
            let at = self.0.len();
            self.0[at - 4..at - 2].copy_from_slice(&kind.to_le_bytes());
            [&[map | 1], words].concat().iter().for_each(|word| self.0.extend(word.to_le_bytes()));
            (map + 16) | 1
        }

        fn string(&mut self, text: &str) -> u64 {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(text.len().next_multiple_of(8), 0);
            let characters = bytes.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
            let words: Vec<u64> = std::iter::once((text.len() as u64) << 32).chain(characters).collect();
            self.object(ONE_BYTE, &words)
        }

        /// A `JSFunction` with this scope, in a script of these words.
        fn function(&mut self, scope: u64, script: [u64; 2]) -> u64 {
            let script = self.object(167, &[script[1], script[0]]);
            let shared = self.object(262, &[0, scope, 0, script]);
            self.object(2066, &[0, 0, shared])
        }

        fn name_of(&self, layout: Layout, function: u64) -> String {
            let mut read = |at: u64, into: &mut [u8]| {
                let from = at.checked_sub(0x1000).and_then(|at| self.0.get(at as usize..));
                let from = from.unwrap_or_default();
                let count = from.len().min(into.len());
                into[..count].copy_from_slice(&from[..count]);
                count
            };
            let mut names = MethodAddresses::default();
            let mut functions = Functions::default();
            let mut look = Look { layout, memory: &mut read };
            let address = functions.address_of(function, &mut look, &mut names);
            assert_eq!(address, functions.address_of(function, &mut look, &mut names));
            let line = names.take_lines();
            assert_eq!(address.is_some(), !line.is_empty());
            line.splitn(3, ' ').nth(2).unwrap_or_default().trim_end().to_owned()
        }
    }

    fn small(number: u64) -> u64 {
        number << 32
    }

    #[test]
    fn a_function_has_its_name_file_line_and_column() {
        let mut heap = Heap::default();
        let (name, file) = (heap.string("price"), heap.string("/srv/shop.js"));
        let source = heap.string("// a shop\nfunction price(n) {}\n");
        let (variable, missing) = (heap.string("n"), heap.object(ODDBALL, &[]));
        let places = [small(24), small(30), missing];
        let head = [small(7), small(1), small(1), variable, small(0)];
        let scope = [&head[..], &[name, small(9), missing], &places].concat();
        let scope = heap.object(SCOPE, &scope);
        let function = heap.function(scope, [file, source]);
        assert_eq!(heap.name_of(Layout::of_node_20(), function), "JS:price /srv/shop.js:2:15");
        // Its number follows a name at once.
        let scope = heap.object(SCOPE, &[&head[..], &[name, small(9)], &places].concat());
        let function = heap.function(scope, [file, source]);
        assert_eq!(heap.name_of(Layout::of_node_20(), function), "JS:price /srv/shop.js:2:15");
        // Node 24 has the place before the variables.
        let head = [small(7), small(1), small(0), small(3), small(30)];
        let scope = heap.object(SCOPE, &[&head[..], &[name, small(9), missing]].concat());
        let function = heap.function(scope, [file, source]);
        let layout = Layout { first_variable: 5, ..Layout::of_node_20() };
        assert_eq!(heap.name_of(layout, function), "JS:price /srv/shop.js:1:4");
    }

    #[test]
    fn a_source_in_pieces_counts_as_one() {
        let mut heap = Heap::default();
        let pieces = [heap.string("a\nb\n"), heap.string("c\nd")];
        let whole = heap.object(ONE_BYTE | 1, &[small(7), pieces[0], pieces[1]]);
        let part = heap.object(ONE_BYTE | 3, &[small(5), whole, small(2)]);
        let thin = heap.object(ONE_BYTE | 5, &[small(5), part]);
        let outside = 0x1000 + heap.0.len() as u64;
        heap.0.extend(b"x\0\n\0y\0\0\0");
        let resource = outside + 8;
        let external = heap.object(2, &[small(3), resource, outside]);
        let file = heap.string("a.js");
        for (source, place) in [(whole, "4:1"), (part, "3:3"), (thin, "3:3"), (external, "2:5")] {
            let missing = heap.object(ODDBALL, &[]);
            let scope = heap
                .object(SCOPE, &[small(0), 0, 0, small(0), small(0), missing, small(6), small(9), missing]);
            let function = heap.function(scope, [file, source]);
            assert_eq!(heap.name_of(Layout::of_node_20(), function), format!("JS: a.js:{place}"));
        }
    }

    #[test]
    fn what_is_no_function_of_a_script_has_no_name() {
        let mut heap = Heap::default();
        let text = heap.string("push");
        let builtin = heap.function(text, [text, text]);
        assert_eq!(heap.name_of(Layout::of_node_20(), builtin), "");
        assert_eq!(heap.name_of(Layout::of_node_20(), text), "");
        assert_eq!(heap.name_of(Layout::of_node_20(), 0xffff_ffff_ffff_fff1), "");
        let circle = heap.object(ONE_BYTE | 5, &[small(5), 0x1000 + heap.0.len() as u64 + 17]);
        let scope = heap.object(SCOPE, &[0, 0, small(99)]);
        let function = heap.function(scope, [circle, circle]);
        assert_eq!(heap.name_of(Layout::of_node_20(), function), "");
    }
}
