//! The part of the kernel's types that an object's field accesses are relocated by.
//!
//! A kernel has more than 100,000 types; `aya_obj` would read them all.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::kernel_types::{KernelTypes, word};

// Source: linux v6.18 include/uapi/linux/btf.h
const INT: u8 = 1;
const PTR: u8 = 2;
const ARRAY: u8 = 3;
const STRUCT: u8 = 4;
const UNION: u8 = 5;
const ENUM: u8 = 6;
const FWD: u8 = 7;
const TYPEDEF: u8 = 8;
const RESTRICT: u8 = 11;
const FLOAT: u8 = 16;
const TYPE_TAG: u8 = 18;
const ENUM64: u8 = 19;

/// BTF with the kernel's structs, unions and enums that have a name of one of the object's, and all that they hold by
/// value. A pointer points to `void`: an access ends at it. Types have other numbers than in the kernel.
pub fn needed_types(kernel: &KernelTypes, object: &KernelTypes) -> Vec<u8> {
    let has_fields = |kind: u8| matches!(kind, STRUCT | UNION | ENUM | ENUM64);
    let of = |types: &KernelTypes| {
        let numbers = (1u32..).zip(types.kinds()).filter(|(_, kind)| has_fields(**kind));
        numbers.map(|(number, _)| number).collect::<Vec<_>>()
    };
    let names: FxHashSet<&[u8]> = of(object)
        .into_iter()
        .filter_map(|number| Some(without_flavour(object.entry(number)?.name)))
        .collect();
    let begins: FxHashSet<[u8; 2]> = names.iter().map(|name| first_two(name)).collect();
    let mut subset = Subset { kernel, numbers: FxHashMap::default(), left: VecDeque::new(), names: vec![0] };
    // Few of a kernel's names get as far as a look at all of their letters.
    for number in of(kernel).into_iter().filter(|number| begins.contains(&kernel.name_begin(*number))) {
        let name = kernel.entry(number).map_or(&[][..], |entry| entry.name);
        if !name.is_empty() && names.contains(without_flavour(name)) {
            subset.number(number);
        }
    }
    subset.into_bytes()
}

/// The first two letters, or zeros.
fn first_two(name: &[u8]) -> [u8; 2] {
    [0, 1].map(|at| name.get(at).copied().unwrap_or(0))
}

/// `task_struct` of `task_struct___old`, which names fields of other kernels.
fn without_flavour(name: &[u8]) -> &[u8] {
    let end = name.windows(3).position(|three| three == b"___");
    end.map_or(name, |end| &name[..end])
}

struct Subset<'a> {
    kernel: &'a KernelTypes,
    /// Number in the kernel → number here.
    numbers: FxHashMap<u32, u32>,
    /// Numbered, not yet written; in the order of their numbers.
    left: VecDeque<u32>,
    names: Vec<u8>,
}

impl Subset<'_> {
    /// The number here of the kernel's type; 0 for what is none, such as `void`.
    fn number(&mut self, of_kernel: u32) -> u32 {
        let kept = self
            .kernel
            .entry(of_kernel)
            .is_some_and(|entry| matches!(entry.kind, INT..=RESTRICT | FLOAT | TYPE_TAG | ENUM64));
        if !kept {
            return 0;
        }
        let next = self.numbers.len() as u32 + 1;
        let number = *self.numbers.entry(of_kernel).or_insert(next);
        if number == next {
            self.left.push_back(of_kernel);
        }
        number
    }

    fn name(&mut self, offset: u32) -> u32 {
        let name = self.kernel.name(offset);
        if name.is_empty() {
            return 0;
        }
        let at = self.names.len() as u32;
        self.names.extend_from_slice(name);
        self.names.push(0);
        at
    }

    /// The entry with names and numbers of this subset.
    // Layout: see KernelTypes::from_bytes; btf_member { name_off, type, offset }; btf_array { type, index_type, nelems };
    //         btf_enum { name_off, val }; btf_enum64 { name_off, val_lo32, val_hi32 }
    // Source: linux v6.18 include/uapi/linux/btf.h
    fn rewritten(&mut self, number: u32) -> Vec<u32> {
        let Some(entry) = self.kernel.entry(number) else { return Vec::new() };
        let mut words: Vec<u32> =
            (0..entry.bytes.len() / 4).filter_map(|i| word(entry.bytes, i * 4)).collect();
        words[0] = self.name(words[0]);
        match entry.kind {
            PTR => words[2] = 0,
            ARRAY => (words[3], words[4]) = (self.number(words[3]), self.number(words[4])),
            STRUCT | UNION => {
                for member in words[3..].chunks_exact_mut(3) {
                    (member[0], member[1]) = (self.name(member[0]), self.number(member[1]));
                }
            }
            ENUM => words[3..].chunks_exact_mut(2).for_each(|value| value[0] = self.name(value[0])),
            ENUM64 => words[3..].chunks_exact_mut(3).for_each(|value| value[0] = self.name(value[0])),
            INT | FWD | FLOAT => {}
            TYPEDEF..=RESTRICT | TYPE_TAG => words[2] = self.number(words[2]),
            _ => {}
        }
        words
    }

    fn into_bytes(mut self) -> Vec<u8> {
        let mut types: Vec<u32> = Vec::new();
        while let Some(number) = self.left.pop_front() {
            types.extend(self.rewritten(number));
        }
        let len = types.len() as u32 * 4;
        let header = [0x1_eb9f, 24, 0, len, len, self.names.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        words.chain(self.names).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::bpf_object::TypeKind;
    use crate::sys::bpf_object::kernel_types::tests::btf;

    fn types(words: &[u32], names: &[&str]) -> KernelTypes {
        KernelTypes::from_bytes(btf(words, names)).expect("well formed")
    }

    #[test]
    fn a_struct_comes_with_what_it_holds_and_without_what_it_points_to() {
        // 1 INT, 2 STRUCT other, 3 PTR to it, 4 TYPEDEF of 1, 5 STRUCT task { x: 4, p: 3 }
        #[rustfmt::skip]
        let kernel = [
            1, 1 << 24, 4, 32,
            5, 4 << 24, 0,
            0, 2 << 24, 2,
            11, 8 << 24, 1,
            15, 4 << 24 | 2, 16, 20, 4, 0, 22, 3, 64,
        ];
        let kernel = types(&kernel, &["", "int", "other", "u32", "task", "x", "p"]);
        let object = types(&[1, 4 << 24, 0], &["", "task___old"]);
        let subset = KernelTypes::from_bytes(needed_types(&kernel, &object)).expect("well formed");
        assert_eq!(subset.kinds(), [STRUCT, TYPEDEF, PTR, INT]);
        assert_eq!(subset.find(TypeKind::Typedef, "u32"), Some(2));
        let task = subset.entry(1).expect("it is there");
        let member =
            |at: usize| (subset.name(word(task.bytes, at).expect("a name")), word(task.bytes, at + 4));
        assert_eq!((member(12), member(24)), ((&b"x"[..], Some(2)), (&b"p"[..], Some(3))));
        assert_eq!(word(subset.entry(3).expect("the pointer").bytes, 8), Some(0));
    }

    #[test]
    fn damaged_types_end_the_walk_and_no_type_is_followed_for_ever() {
        // A TYPEDEF of itself in a STRUCT, and a member of a type that is not there.
        let kernel = types(&[1, 4 << 24 | 2, 16, 6, 2, 0, 6, 99, 0, 1, 8 << 24, 2], &["", "task", "x"]);
        let object = types(&[1, 4 << 24, 0], &["", "task"]);
        let subset = KernelTypes::from_bytes(needed_types(&kernel, &object)).expect("well formed");
        assert_eq!(subset.kinds(), [STRUCT, TYPEDEF]);
    }
}
