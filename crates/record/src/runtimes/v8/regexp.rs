//! Regular expressions: their code has no `JSFunction`.
//!
//! V8 calls this code like a function of C's with nine arguments. The last three are on the stack, at the end of the
//! frame: where it is called from (0 or 1), the isolate, the `JSRegExp` or, in newer versions, its `IrRegExpData`.
// Source: V8's src/regexp/x64/regexp-macro-assembler-x64.cc, V8 10.2 to 13.6

use std::cell::OnceCell;

use dso::Svma;
use rustc_hash::FxHashMap;

use super::layout::{Look, object};
use super::strings::read_name;
use crate::runtimes::memory::read_u32;
use crate::runtimes::method_addresses::MethodAddresses;

/// The type of each of both, and where its pattern is in it.
const NUMBERS: [[&str; 2]; 2] = [
    ["type_JSRegExp__JS_REG_EXP_TYPE", "class_JSRegExp__source__Object"],
    ["type_IrRegExpData__IR_REG_EXP_DATA_TYPE", "class_RegExpData__source__Tagged_String_"],
];
/// How V8 begins the names of such code in its own map.
const NAME: &str = "RegExp:";

/// The regular expressions of one V8.
#[derive(Debug, Default)]
pub(super) struct RegExps {
    /// Addresses of those [`NUMBERS`] that the program states.
    addresses: Vec<[u64; 2]>,
    layouts: OnceCell<Vec<RegExpLayout>>,
    /// Addresses in chains by the word of the object, since memory was looked at.
    known: FxHashMap<u64, Option<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct RegExpLayout {
    kind: u16,
    source: u64,
}

impl RegExps {
    /// Of a program loaded with this bias that states these numbers.
    pub(super) fn of(stated: &[(String, Svma)], bias: u64) -> Self {
        let find = |name: &str| stated.iter().find(|(stated, _)| stated == name).map(|(_, at)| at.0);
        let both = |names: &[&str; 2]| {
            let [kind, source] = names.map(|name| find(name).map(|at| at.wrapping_add(bias)));
            kind.zip(source).map(<[u64; 2]>::from)
        };
        Self { addresses: NUMBERS.iter().filter_map(both).collect(), ..Self::default() }
    }

    /// That of Node 20, for memory that is made up.
    pub(super) fn of_node_20() -> Self {
        Self { layouts: OnceCell::from(vec![RegExpLayout { kind: 2100, source: 32 }]), ..Self::default() }
    }

    /// From now on memory is looked at again.
    pub(super) fn begin_round(&mut self) {
        self.known.clear();
    }

    /// The address in chains of the regular expression that a word refers to; `None` for other objects.
    pub(super) fn address_of(
        &mut self,
        word: u64,
        look: &mut Look<'_, '_>,
        names: &mut MethodAddresses,
    ) -> Option<u64> {
        if let Some(known) = self.known.get(&word) {
            return *known;
        }
        let read = || self.addresses.iter().filter_map(|at| RegExpLayout::read(*at, look)).collect();
        let name = self.layouts.get_or_init(read).iter().find_map(|layout| layout.name_of(word, look));
        let address = name.and_then(|name| names.of_name(name));
        self.known.insert(word, address);
        address
    }
}

impl RegExpLayout {
    fn read(addresses: [u64; 2], look: &mut Look<'_, '_>) -> Option<Self> {
        let [kind, source] = addresses.map(|at| read_u32(look.memory, at));
        Some(Self { kind: u16::try_from(kind?).ok()?, source: source?.into() })
    }

    fn name_of(self, word: u64, look: &mut Look<'_, '_>) -> Option<String> {
        look.type_of(word).filter(|kind| *kind == self.kind)?;
        let source = look.word(word, self.source)?;
        Some(format!("{NAME}{}", read_name(look, source)?))
    }
}

/// The word that would be the `JSRegExp` of a frame that ends at this stack pointer, read by `stack`; `None` if the
/// arguments are no such code's.
pub(super) fn regexp_of_frame(end: u64, stack: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    let [caller, isolate, regexp] = [0, 8, 16].map(|offset| stack(end.wrapping_add(offset)));
    let is_caller = caller? & u64::from(u32::MAX) <= 1;
    let is_isolate = isolate.is_some_and(|at| at != 0 && at.is_multiple_of(8));
    regexp.filter(|word| is_caller && is_isolate && object(*word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::layout::Layout;

    /// At 0x1000: the map of a text, the map of a regular expression, the text `^(a+)+$`, the expression.
    const HEAP: [u64; 12] = [
        0,
        8 << 32,
        0,
        2100 << 32,
        0x1001,
        7 << 32,
        u64::from_le_bytes(*b"^(a+)+$\0"),
        0x1011,
        0,
        0,
        0,
        0x1021,
    ];

    #[test]
    fn a_regular_expression_is_named_by_its_pattern_as_in_v8_s_map() {
        let bytes: Vec<u8> = HEAP.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut read = |at: u64, into: &mut [u8]| {
            let from = at.checked_sub(0x1000).and_then(|at| bytes.get(at as usize..)).unwrap_or_default();
            let count = from.len().min(into.len());
            into[..count].copy_from_slice(&from[..count]);
            count
        };
        let (mut all, mut names) = (RegExps::of_node_20(), MethodAddresses::default());
        let mut look = Layout::of_node_20().look(&mut read);
        let expression = 0x1039;
        let address = all.address_of(expression, &mut look, &mut names);
        assert!(address.is_some() && address == all.address_of(expression, &mut look, &mut names));
        assert!(names.take_lines().ends_with(" RegExp:^(a+)+$\n"));
        for other in [0x1021, 0x1038, 7, u64::MAX] {
            assert_eq!(all.address_of(other, &mut look, &mut names), None, "{other:#x}");
        }
        // A program that doesn't state the layout.
        let mut unknown = RegExps::of(&[(NUMBERS[0][0].to_owned(), Svma(0x1000))], 0);
        assert_eq!(unknown.address_of(expression, &mut look, &mut names), None);
    }

    #[test]
    fn only_the_arguments_of_such_code_have_one() {
        let of =
            |words: [u64; 3]| regexp_of_frame(0x100, &|at| words.get(((at - 0x100) / 8) as usize).copied());
        // The upper half of a C int is anything.
        assert_eq!(of([0xff00_0000_0000_0001, 0x7000, 0x1039]), Some(0x1039));
        for words in [[2, 0x7000, 0x1039], [1, 0x7001, 0x1039], [1, 0, 0x1039], [1, 0x7000, 0x1038]] {
            assert_eq!(of(words), None, "{words:x?}");
        }
        assert_eq!(regexp_of_frame(0x100, &|_| None), None);
    }
}
