//! Parameters and result of a function: the name and shape of each parameter, and where the caller put it.
//!
//! The place comes from the calling convention ([`super::convention`]), because the debug information of
//! unoptimized code only has the place where the function itself stores a parameter. That of optimized code has
//! the place at the entry, which then takes precedence.

use std::cell::Cell;

use gimli::{AttributeValue, constants as dw};

use super::convention::{Convention, Passed, Slots};
use super::place::VariablePlace;
use super::tree::{DieId, UnitTree};
use super::{Cfi, ProbeInfo};
use crate::bounds::justified_by;
use crate::dwarf::resolver::Reader;
use crate::{Machine, Svma};

/// Shape of a value, as far as needed to show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// An integer.
    Integer {
        /// 1, 2, 4, 8 or 16.
        bytes: u8,
        /// Has a sign.
        signed: bool,
    },
    /// `true` or `false`.
    Bool,
    /// One character: of C if 1 byte, of Rust if 4.
    Char {
        /// Width.
        bytes: u8,
    },
    /// A floating-point number of 4 or 8 bytes, or of 16 for x87.
    Float {
        /// Width.
        bytes: u8,
    },
    /// An address of something, or a reference.
    Pointer,
    /// A pointer to text that ends in 0.
    Text,
    /// Two words: where text begins and how long it is (Rust's `&str`).
    Slice,
    /// A pointer to an object of two words: where text begins, how long it is (`std::string`).
    TextObject,
    /// An enumeration: its width, whether it has a sign, its values' names.
    Enum {
        /// Width.
        bytes: u8,
        /// Has a sign.
        signed: bool,
        /// Value and name, in the order written.
        names: Vec<(i64, String)>,
    },
    /// A struct, class or array by value, or a complex number, with what it holds.
    Fields {
        /// Size; at most 64.
        bytes: u8,
        /// In order; none if they are not known.
        fields: Vec<RecordField>,
    },
    /// A struct, union, array or class by value, of this name (empty if it has none).
    Record(String),
}

/// A member of a record, or an element of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordField {
    /// Name; elements and bases have none.
    pub name: String,
    /// Bytes from the record's start.
    pub offset: u32,
    /// Shape; text is only a pointer here.
    pub shape: Shape,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name; empty if it has none.
    pub name: String,
    /// Shape.
    pub shape: Shape,
    /// Where it is at the function's entry; `None` if that is not known, or it was optimized away.
    pub passed: Option<Passed>,
}

/// A function's parameters and result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Entry.
    pub svma: Svma,
    /// The parameters in order, `this` among them.
    pub parameters: Vec<Parameter>,
    /// The result; `None` for `void`.
    pub result: Option<Parameter>,
}

impl ProbeInfo {
    /// Parameters and results of the functions with code whose name `fits`, as `machine` passes them.
    /// `is_changed` reports whether the compiler changed the function's parameters at an entry
    /// (`f.constprop.0`). Then only locations given for the entry count.
    pub fn signatures(
        &mut self,
        fits: &dyn Fn(&str) -> bool,
        machine: Machine,
        is_changed: &dyn Fn(Svma) -> bool,
    ) -> Vec<Signature> {
        let _counted = self.count();
        let mut found = Vec::new();
        let limits = Limits::of(self.bytes);
        for (unit, function) in self.functions_that(fits, None) {
            let Some(tree) = self.trees.get(&unit) else { continue };
            let convention = Convention {
                machine,
                is_rust: is_rust(tree),
                splits_wide: machine == Machine::X86_64 && is_old_clang(&self.dwarf, tree),
            };
            let reader = Signatures { dwarf: &self.dwarf, cfi: &self.cfi, tree, convention, limits: &limits };
            found.extend(tree.instances_of(function).filter_map(|id| reader.of(id, is_changed)));
        }
        found
    }
}

fn is_rust(tree: &UnitTree) -> bool {
    matches!(tree.dies[0].attr_value(dw::DW_AT_language), Some(AttributeValue::Language(dw::DW_LANG_Rust)))
}

/// Whether a clang before 18 built it.
fn is_old_clang(dwarf: &gimli::Dwarf<Reader>, tree: &UnitTree) -> bool {
    let producer = tree.dies[0].attr_value(dw::DW_AT_producer);
    let producer = producer.and_then(|value| dwarf.attr_string(&tree.unit, value).ok());
    let text = producer.as_ref().map(|text| text.text()).unwrap_or_default();
    let version =
        text.split_once("clang version ").and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
    version.is_some_and(|version: u32| version < 18)
}

impl UnitTree {
    /// The function and the out-of-line copies of it.
    fn instances_of(&self, function: DieId) -> impl Iterator<Item = DieId> + '_ {
        let is_copy = |id: &DieId| self.dies[*id].tag() == dw::DW_TAG_subprogram;
        std::iter::once(function).chain(self.instances(function).iter().copied().filter(is_copy))
    }
}

/// Reads the signatures of one unit.
pub(super) struct Signatures<'a> {
    pub dwarf: &'a gimli::Dwarf<Reader>,
    cfi: &'a Cfi,
    pub tree: &'a UnitTree,
    pub convention: Convention,
    limits: &'a Limits,
}

/// Budget for the types of values: types can hold themselves, or two of another that hold two of another.
struct Limits {
    /// Members and elements that may still be looked at for the value at hand.
    looks: Cell<u32>,
    /// Bytes that the names of enumerations may still have.
    names: Cell<u64>,
}

/// Members and elements of one value. Values are described up to 64 bytes.
const MOST_LOOKS: u32 = 4096;

impl Limits {
    fn of(bytes: u64) -> Self {
        Self { looks: Cell::new(MOST_LOOKS), names: Cell::new(justified_by(bytes)) }
    }
}

impl Signatures<'_> {
    /// Begins with another value.
    pub(super) fn look_anew(&self) {
        self.limits.looks.set(MOST_LOOKS);
    }

    /// Counts `members` that are looked at; false if they are too many for one value.
    pub(super) fn look_at(&self, members: usize) -> bool {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let left = self.limits.looks.get().checked_sub(members);
        self.limits.looks.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Counts the bytes of a name that is kept; false if there were too many of them.
    pub(super) fn keep_name(&self, name: &str) -> bool {
        let left = self.limits.names.get().checked_sub(name.len() as u64 + 32);
        self.limits.names.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// The compiler's statement where a parameter is at the function's entry.
enum StatedPlace {
    At(Passed),
    /// The parameter isn't passed, or where nothing can be recorded.
    Omitted,
    /// There is no statement about the entry.
    Unknown,
}

impl Signatures<'_> {
    fn of(&self, function: DieId, is_changed: &dyn Fn(Svma) -> bool) -> Option<Signature> {
        let tree = self.tree;
        let entry = tree.entry_pc(self.dwarf, function)?;
        let mut slots = Slots::new(self.convention.machine);
        let result = self.result(function, &mut slots);
        let declared: Vec<DieId> = tree
            .children(function)
            .filter(|id| tree.dies[*id].tag() == dw::DW_TAG_formal_parameter)
            .collect();
        let is_changed = is_changed(Svma(entry));
        let parameter = |id: &DieId| {
            let (shape, classes) = self.shape_of(*id);
            let by_convention = slots.take(classes, self.convention);
            let told = self.stated_place(*id, function, entry, &shape);
            let passed = match told {
                StatedPlace::At(passed) => Some(passed),
                StatedPlace::Omitted => None,
                StatedPlace::Unknown if is_changed => None,
                StatedPlace::Unknown => by_convention,
            };
            Parameter { name: tree.name(self.dwarf, *id).unwrap_or_default(), shape, passed }
        };
        let parameters = declared.iter().map(parameter).collect();
        Some(Signature { svma: Svma(entry), parameters, result })
    }

    fn result(&self, function: DieId, slots: &mut Slots) -> Option<Parameter> {
        let (shape, classes) = self.returned(function)?;
        let passed = slots.result(&classes, self.convention);
        Some(Parameter { name: String::new(), shape, passed })
    }

    /// Location of a parameter at the function's entry according to the compiler.
    fn stated_place(&self, id: DieId, function: DieId, entry: u64, shape: &Shape) -> StatedPlace {
        let Some(location) = self.tree.attr(id, dw::DW_AT_location) else { return StatedPlace::Unknown };
        let is_list = !matches!(location, AttributeValue::Exprloc(_));
        let one_word = !matches!(shape, Shape::Record(_) | Shape::Fields { .. } | Shape::Slice);
        match self.tree.place(self.dwarf, self.cfi, id, function, entry) {
            Ok(VariablePlace::Register(number)) if is_list && one_word => {
                let place = self.convention.register(number);
                place.map_or(StatedPlace::Omitted, |place| StatedPlace::At(Passed::one(place)))
            }
            // Above the frame: the caller put it there. (A place relative to the stack pointer holds after the
            // prologue.)
            Ok(VariablePlace::Memory(register, offset)) if self.is_relative_to_cfa(function) => {
                let place = self.convention.incoming(register, offset);
                place.map_or(StatedPlace::Unknown, |place| StatedPlace::At(Passed::one(place)))
            }
            Ok(VariablePlace::Constant(_)) => StatedPlace::Omitted,
            _ => StatedPlace::Unknown,
        }
    }
}

impl Signatures<'_> {
    /// Whether places in the function's frame are counted from the address above its return address.
    fn is_relative_to_cfa(&self, function: DieId) -> bool {
        match self.tree.attr(function, dw::DW_AT_frame_base) {
            Some(AttributeValue::Exprloc(expression)) => expression.0.slice() == [dw::DW_OP_call_frame_cfa.0],
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dwarf::probe::convention::Incoming;
    use crate::{DebugSearch, ObjectFile};
    use std::process::Command;

    const SOURCE: &str = "
        enum Color { Red, Green = 5 };
        struct Small { int a, b; };
        struct Mixed { double d; long l; };
        struct Large { long l[3]; };
        int ints(char a, unsigned short b, int c, long d, const char *e, enum Color f, long g, _Bool h)
        { return a + b + c + d + *e + f + g + h; }
        double floats(float a, int b, double c, struct Small s, struct Mixed m, struct Large l, void *p)
        { return a + b + c + s.a + m.d + l.l[0] + (p != 0); }
        struct Large hidden(int a) { struct Large l = {{a, a, a}}; return l; }
        int main(void) { return 0; }";

    fn signatures(level: &str) -> Option<Vec<(String, Signature)>> {
        let dir = std::env::temp_dir().join(format!("tally-signature-{}-{level}", std::process::id()));
        std::fs::create_dir_all(&dir).ok()?;
        let (source, program) = (dir.join("a.c"), dir.join("a"));
        std::fs::write(&source, SOURCE).ok()?;
        let ran = Command::new("gcc").args(["-g", level, "-o"]).arg(&program).arg(&source).status();
        if !ran.is_ok_and(|status| status.success()) {
            println!("skipped: no gcc");
            return None;
        }
        let object = ObjectFile::open(&program).unwrap();
        let mut info = ProbeInfo::open(&object, &DebugSearch::from_env()).unwrap().unwrap();
        let mut named = |name: &str| {
            let found = info.signatures(&|n| n == name, Machine::X86_64, &|_| false).remove(0);
            (name.to_owned(), found)
        };
        let all = ["ints", "floats", "hidden"].map(&mut named).to_vec();
        let _ = std::fs::remove_dir_all(&dir);
        Some(all)
    }

    fn places(signature: &Signature) -> Vec<Vec<Incoming>> {
        let places = |parameter: &Parameter| parameter.passed.as_ref().map(|passed| passed.places.clone());
        signature.parameters.iter().map(|parameter| places(parameter).unwrap_or_default()).collect()
    }

    /// Expected places are those of the System V ABI, AMD64, §3.2.3, worked out by hand.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn parameters_are_where_the_calling_convention_puts_them_whatever_the_optimization() {
        use Incoming::{General, Stack, Vector};
        for level in ["-O0", "-O2"] {
            let Some(all) = signatures(level) else { return };
            let (ints, floats, hidden) = (&all[0].1, &all[1].1, &all[2].1);
            let wanted: Vec<Vec<Incoming>> =
                (0..6).map(General).chain([Stack(0), Stack(8)]).map(|place| vec![place]).collect();
            assert_eq!(places(ints), wanted, "{level}");
            assert_eq!(ints.parameters[4].shape, Shape::Text);
            let names = vec![(0, "Red".to_owned()), (5, "Green".to_owned())];
            assert_eq!(ints.parameters[5].shape, Shape::Enum { bytes: 4, signed: false, names });
            let [a, b, c, small, mixed, large, p] = <[_; 7]>::try_from(places(floats)).unwrap();
            assert_eq!((a, b, c), (vec![Vector(0)], vec![General(0)], vec![Vector(1)]), "{level}");
            assert_eq!(small, [General(1)]);
            assert_eq!(mixed, [Vector(2), General(2)]);
            assert_eq!((large, p), (vec![Stack(0)], vec![General(3)]), "{level}");
            assert_eq!(places(hidden), [vec![General(1)]], "the result's address comes first");
            let result = floats.result.as_ref().unwrap();
            assert_eq!(result.shape, Shape::Float { bytes: 8 });
            assert_eq!(result.passed.as_ref().unwrap().places, [Vector(0)]);
        }
    }
}
