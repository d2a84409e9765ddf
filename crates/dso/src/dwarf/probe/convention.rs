//! Calling conventions: which registers and stack places hold a function's arguments and result.
//
// Source: System V ABI, AMD64 Architecture Processor Supplement, §3.2.3; AAPCS64 §6.8. Rust's own convention
// isn't stable: all but scalars, newtypes and slices count as unknown.

mod slots;

use gimli::{AttributeValue, constants as dw};

use super::shape::{COMPLEX, QUADRUPLE};
use super::signature::{Shape, Signatures};
use super::tree::DieId;
use crate::Machine;
pub(super) use slots::Slots;

/// One place of 8 bytes at a function's entry (or, for results, at its return).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// The general register that holds the n-th such argument (of a result: rax, rdx; x0, x1).
    General(u8),
    /// The vector register of that number.
    Vector(u8),
    /// Bytes above the first argument that is on the stack.
    Stack(u32),
    /// On top of the stack of x87 registers (results only).
    X87,
}

/// Location of a value: a place for each 8 bytes of it; on the stack only the first place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// In order of the value's bytes.
    pub places: Vec<Incoming>,
    /// There is only the value's address.
    pub by_reference: bool,
}

impl Passed {
    pub(super) fn one(place: Incoming) -> Self {
        Self { places: vec![place], by_reference: false }
    }
}

/// Kind of place that 8 bytes of a value take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    General,
    Vector,
}

/// How a value is passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PassedIn {
    /// In registers if enough are left, else on the stack.
    Registers(Vec<Class>),
    /// On the stack: size and alignment in bytes.
    Memory(u64, u64),
    /// On the stack, or as a result in a register of its own: a number of x87's.
    X87,
    /// In two general registers, or on the stack on a multiple of 16.
    Wide,
    /// As its address.
    Reference,
    /// Not at all: it is empty.
    Nothing,
    /// Not known: nor is what follows it.
    Unknown,
}

/// The convention of a unit's functions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Convention {
    pub machine: Machine,
    pub is_rust: bool,
    /// Built by a clang before 18, for which an integer of 16 bytes is but two of 8.
    pub splits_wide: bool,
}

/// The stack pointer's DWARF number on x86-64.
const RSP: u16 = 7;
/// The stack pointer's DWARF number on aarch64.
const SP: u16 = 31;
/// DWARF numbers of x86-64's argument registers, in order.
const GENERAL: [u16; 6] = [5, 4, 1, 2, 8, 9];

/// How many general registers hold a function's first arguments.
// Source: System V ABI AMD64 3.2.3; ARM IHI 0055 "Procedure Call Standard for the Arm 64-bit Architecture" 6.8.2.
#[must_use]
pub fn argument_registers(machine: Machine) -> u8 {
    if machine == Machine::Aarch64 { 8 } else { 6 }
}

impl Convention {
    /// The argument register of a DWARF number.
    pub fn register(&self, number: u16) -> Option<Incoming> {
        if self.machine == Machine::Aarch64 {
            return match number {
                0..=7 => Some(Incoming::General(number as u8)),
                64..=71 => Some(Incoming::Vector((number - 64) as u8)),
                _ => None,
            };
        }
        if (17..25).contains(&number) {
            return Some(Incoming::Vector((number - 17) as u8));
        }
        GENERAL.iter().position(|at| *at == number).map(|at| Incoming::General(at as u8))
    }

    /// An address relative to a register at the entry, if it is above the frame.
    pub fn incoming(&self, register: u16, offset: i64) -> Option<Incoming> {
        // On x86-64 the return address is below the first argument.
        let (pointer, first) = if self.machine == Machine::Aarch64 { (SP, 0) } else { (RSP, 8) };
        let above = offset.checked_sub(first).filter(|_| register == pointer)?;
        u32::try_from(above).ok().map(Incoming::Stack)
    }
}

impl Signatures<'_> {
    pub(super) fn way(&self, ty: DieId) -> PassedIn {
        let bytes = self.tree.byte_size(ty).unwrap_or(0);
        if self.tree.is_record(ty) {
            return self.record_way(ty, bytes);
        }
        if bytes == 32 && self.is_complex(ty) && self.convention.machine != Machine::Aarch64 {
            return PassedIn::Memory(bytes, 16);
        }
        match self.class_of_scalar(ty) {
            None if self.tree.is_array(ty) => PassedIn::Unknown,
            None => PassedIn::X87,
            Some(Class::General) if bytes == 16 && !self.is_slice(ty) => PassedIn::Wide,
            Some(class) if self.shape(ty) == Shape::Record(QUADRUPLE.to_owned()) => {
                PassedIn::Registers(vec![class])
            }
            Some(class) => PassedIn::Registers(vec![class; if bytes > 8 { 2 } else { 1 }]),
        }
    }

    /// `None`: it is passed in memory (x87's numbers).
    pub(super) fn class_of_scalar(&self, ty: DieId) -> Option<Class> {
        match self.shape(ty) {
            Shape::Float { bytes: 16 } => None,
            Shape::Float { .. } => Some(Class::Vector),
            Shape::Record(_) if !self.tree.is_record(ty) && self.tree.is_array(ty) => None,
            Shape::Record(name) if name == COMPLEX || name == QUADRUPLE => Some(Class::Vector),
            _ => Some(Class::General),
        }
    }

    fn record_way(&self, ty: DieId, bytes: u64) -> PassedIn {
        if self.is_declared(ty) {
            return if self.is_string(ty) { PassedIn::Reference } else { PassedIn::Unknown };
        }
        if bytes == 0 {
            return PassedIn::Nothing;
        }
        if self.is_by_reference(ty) {
            return PassedIn::Reference;
        }
        let mut parts = Vec::new();
        let known = self.parts(ty, 0, &mut parts);
        if self.convention.is_rust {
            return rust_way(&parts, known, bytes);
        }
        if bytes > 16 {
            return if self.convention.machine == Machine::Aarch64 {
                PassedIn::Reference
            } else {
                PassedIn::Memory(bytes, 8)
            };
        }
        if !known {
            return PassedIn::Unknown;
        }
        if parts.is_empty() {
            return PassedIn::Nothing;
        }
        let class = |eight: u64| {
            let mut inside = parts.iter().filter(|(offset, _)| offset / 8 == eight);
            if inside.all(|(_, class)| *class == Class::Vector) { Class::Vector } else { Class::General }
        };
        PassedIn::Registers((0..bytes.div_ceil(8)).map(class).collect())
    }

    /// A class that its own code must copy or destroy is passed as an address (Itanium C++ ABI §3.1.2.3).
    fn is_by_reference(&self, ty: DieId) -> bool {
        let tree = self.tree;
        if let Some(AttributeValue::CallingConvention(way)) =
            tree.dies[ty].attr_value(dw::DW_AT_calling_convention)
        {
            return way == dw::DW_CC_pass_by_reference;
        }
        let is_destructor = |id: DieId| {
            tree.dies[id].tag() == dw::DW_TAG_subprogram
                && tree.name(self.dwarf, id).is_some_and(|name| name.starts_with('~'))
        };
        tree.children(ty).any(is_destructor)
    }

    /// The scalars that a record is made of, by offset; false if one is not known.
    pub(super) fn parts(&self, ty: DieId, base: u64, parts: &mut Vec<(u64, Class)>) -> bool {
        const MOST_PARTS: usize = 64;
        let tree = self.tree;
        let mut known = true;
        for id in tree.children(ty) {
            if parts.len() >= MOST_PARTS || !self.look_at(1) {
                return false;
            }
            let tag = tree.dies[id].tag();
            if tag == dw::DW_TAG_variant_part {
                return false;
            }
            let is_part = tag == dw::DW_TAG_member || tag == dw::DW_TAG_inheritance;
            // Static members have no place in the record.
            if !is_part || tree.dies[id].has_attr(dw::DW_AT_external) {
                continue;
            }
            let Some(inner) = tree.real_type(id) else { return false };
            let at = base.wrapping_add(tree.number(id, dw::DW_AT_data_member_location).unwrap_or(0));
            known &= self.part(inner, at, parts);
            if !known {
                return false;
            }
        }
        known
    }

    fn part(&self, ty: DieId, at: u64, parts: &mut Vec<(u64, Class)>) -> bool {
        let tree = self.tree;
        if tree.is_record(ty) {
            return self.parts(ty, at, parts);
        }
        if !tree.is_array(ty) {
            let Some(class) = self.class_of_scalar(ty) else { return false };
            parts.push((at, class));
            if tree.byte_size(ty) == Some(16) && class == Class::General {
                parts.push((at.wrapping_add(8), class));
            }
            return true;
        }
        // An array's elements are alike: one of each eight bytes is enough.
        let (Some(element), Some(bytes)) = (tree.real_type(ty), self.array_bytes(ty)) else { return false };
        let step = tree.byte_size(element).unwrap_or(8).clamp(1, 8) as usize;
        let mut offsets = (0..bytes).step_by(step);
        bytes <= 16
            && offsets.all(|offset| self.look_at(1) && self.part(element, at.wrapping_add(offset), parts))
    }

    pub(super) fn array_bytes(&self, array: DieId) -> Option<u64> {
        let tree = self.tree;
        let element = tree.byte_size(tree.real_type(array)?)?;
        let counts = tree.children(array).map(|id| {
            let count = tree.number(id, dw::DW_AT_count);
            count.or_else(|| tree.number(id, dw::DW_AT_upper_bound)?.checked_add(1))
        });
        counts.flatten().try_fold(element, u64::checked_mul)
    }
}

/// A newtype is passed as what it holds, a pair as its two parts, what is large as its address.
fn rust_way(parts: &[(u64, Class)], known: bool, bytes: u64) -> PassedIn {
    match parts {
        _ if bytes > 16 => PassedIn::Reference,
        [one] if known && bytes <= 8 => PassedIn::Registers(vec![one.1]),
        [first, second] if known => PassedIn::Registers(vec![first.1, second.1]),
        _ => PassedIn::Unknown,
    }
}
