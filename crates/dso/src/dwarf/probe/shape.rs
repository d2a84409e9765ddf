//! Shape of a value, from debug information.

use gimli::{AttributeValue, constants as dw};

use super::convention::{Class, PassedIn};
use super::signature::{RecordField, Shape, Signatures};
use super::tree::DieId;
use crate::Machine;

/// How a number of quadruple precision is called; it takes one vector register.
pub(super) const QUADRUPLE: &str = "_Float128";
/// How a number of two parts is called.
pub(super) const COMPLEX: &str = "complex";
/// Larger records have only a name.
const RECORD_BYTES_MAX: u8 = 64;
/// Records and arrays inside one another that are looked into.
const DEPTH_MAX: u8 = 4;
/// Members of one record: as many as it has bits.
const MOST_MEMBERS: usize = 8 * RECORD_BYTES_MAX as usize;

/// A real and an imaginary part; of x87's numbers only the name.
fn complex(name: String, bytes: u64) -> Shape {
    if bytes > 16 {
        return Shape::Record(name);
    }
    let half = (bytes / 2) as u8;
    let part = |name: &str, offset| RecordField {
        name: name.to_owned(),
        offset,
        shape: Shape::Float { bytes: half },
    };
    Shape::Fields { bytes: 2 * half, fields: vec![part("re", 0), part("im", u32::from(half))] }
}

impl Shape {
    /// It and what it holds, at any depth.
    fn members(&self) -> usize {
        let inside = if let Self::Fields { fields, .. } = self { fields.as_slice() } else { &[] };
        1 + inside.iter().map(|field| field.shape.members()).sum::<usize>()
    }
}

impl Signatures<'_> {
    /// Shape of a parameter and how it is passed.
    pub(super) fn shape_of(&self, id: DieId) -> (Shape, PassedIn) {
        self.look_anew();
        match self.tree.real_type(id) {
            Some(ty) => (self.shown(ty), self.way(ty)),
            None => (Shape::Record("void".to_owned()), PassedIn::Unknown),
        }
    }

    /// The same of a function's result; `None` for `void`.
    pub(super) fn returned(&self, function: DieId) -> Option<(Shape, PassedIn)> {
        self.look_anew();
        let ty = self.tree.real_type(function)?;
        // Rust's `()` and `!`.
        let nothing = self.tree.byte_size(ty) == Some(0);
        // Two of x87's registers hold such a one, of which no more is known here.
        let in_x87 = self.is_complex(ty) && self.tree.byte_size(ty) == Some(32);
        (!nothing).then(|| (self.shown(ty), if in_x87 { PassedIn::Nothing } else { self.way(ty) }))
    }

    /// The shape with what a record holds, where that is to be had.
    fn shown(&self, ty: DieId) -> Shape {
        let bytes = self.tree.byte_size(ty).unwrap_or(0);
        match self.shape(ty) {
            Shape::Record(name) if self.is_complex(ty) => complex(name, bytes),
            Shape::Record(name) if self.has_fields(ty, bytes) => {
                let fields = self.fields(ty, 0);
                if fields.is_empty() {
                    Shape::Record(name)
                } else {
                    Shape::Fields { bytes: bytes as u8, fields }
                }
            }
            shape => shape,
        }
    }

    /// Rust's own convention splits records; bytes of large ones are not recorded.
    fn has_fields(&self, ty: DieId, bytes: u64) -> bool {
        let is_small = (1..=u64::from(RECORD_BYTES_MAX)).contains(&bytes);
        let is_struct = self.tree.is_record(ty) && self.tree.dies[ty].tag() != dw::DW_TAG_union_type;
        is_small && is_struct && !self.convention.is_rust && !self.is_declared(ty) && self.is_as_on_x86(ty)
    }

    /// On aarch64 each member of a record of floating-point numbers has a register of its own, and the members
    /// of a mixed record have none: such records are left out.
    fn is_as_on_x86(&self, ty: DieId) -> bool {
        let mut parts = Vec::new();
        self.convention.machine != Machine::Aarch64
            || self.parts(ty, 0, &mut parts) && parts.iter().all(|(_, class)| *class == Class::General)
    }

    /// The members of a record in their order, bases' before its own.
    fn fields(&self, ty: DieId, depth: u8) -> Vec<RecordField> {
        let tree = self.tree;
        let is_field = |id: &DieId| {
            let tag = tree.dies[*id].tag();
            // Static members have no place in the record.
            (tag == dw::DW_TAG_member || tag == dw::DW_TAG_inheritance)
                && !tree.dies[*id].has_attr(dw::DW_AT_external)
        };
        let field = |id: DieId| {
            let offset = tree.number(id, dw::DW_AT_data_member_location).unwrap_or(0) as u32;
            let is_bits = tree.number(id, dw::DW_AT_bit_size).is_some();
            let shape = match tree.real_type(id).filter(|_| !is_bits) {
                Some(ty) => self.field_shape(ty, depth),
                None => Shape::Record(String::new()),
            };
            RecordField { name: tree.name(self.dwarf, id).unwrap_or_default(), offset, shape }
        };
        let members: Vec<DieId> = tree.children(ty).filter(is_field).take(MOST_MEMBERS + 1).collect();
        if members.len() > MOST_MEMBERS || !self.look_at(members.len()) {
            return Vec::new();
        }
        members.into_iter().map(field).collect()
    }

    /// Shape of a member. Data it points at is not read.
    fn field_shape(&self, ty: DieId, depth: u8) -> Shape {
        let bytes = self.tree.byte_size(ty).unwrap_or(0);
        if self.tree.is_array(ty) {
            return self.elements(ty, depth).unwrap_or(Shape::Record(String::new()));
        }
        match self.shape(ty) {
            Shape::Text | Shape::TextObject if self.tree.is_pointer(ty) => Shape::Pointer,
            Shape::Record(name) if self.is_complex(ty) => complex(name, bytes),
            _ if self.tree.is_record(ty) => {
                let fields = if self.has_fields(ty, bytes) && depth < DEPTH_MAX {
                    self.fields(ty, depth + 1)
                } else {
                    Vec::new()
                };
                Shape::Fields { bytes: bytes as u8, fields }
            }
            shape => shape,
        }
    }

    fn elements(&self, array: DieId, depth: u8) -> Option<Shape> {
        let element = self.tree.real_type(array)?;
        let (all, each) =
            (self.array_bytes(array)?, self.tree.byte_size(element).filter(|bytes| *bytes > 0)?);
        if all > u64::from(RECORD_BYTES_MAX) || depth >= DEPTH_MAX {
            return None;
        }
        let shape = self.field_shape(element, depth + 1);
        if !self.look_at(shape.members().saturating_mul((all / each) as usize)) {
            return None;
        }
        let field = |at: u64| RecordField { name: String::new(), offset: at as u32, shape: shape.clone() };
        Some(Shape::Fields { bytes: all as u8, fields: (0..all).step_by(each as usize).map(field).collect() })
    }

    pub(super) fn is_complex(&self, ty: DieId) -> bool {
        let encoding = self.tree.dies[ty].attr_value(dw::DW_AT_encoding);
        encoding == Some(AttributeValue::Encoding(dw::DW_ATE_complex_float))
    }

    pub(super) fn shape(&self, ty: DieId) -> Shape {
        let tree = self.tree;
        let bytes = tree.byte_size(ty).unwrap_or(0) as u8;
        match tree.dies[ty].tag() {
            dw::DW_TAG_base_type => self.base(ty, bytes),
            dw::DW_TAG_enumeration_type => self.enumeration(ty, bytes),
            _ if tree.is_pointer(ty) => self.pointer(ty),
            _ if self.is_slice(ty) => Shape::Slice,
            _ if self.is_string(ty) => Shape::TextObject,
            _ => Shape::Record(tree.name(self.dwarf, ty).unwrap_or_default()),
        }
    }

    fn base(&self, ty: DieId, bytes: u8) -> Shape {
        let Some(AttributeValue::Encoding(encoding)) = self.tree.dies[ty].attr_value(dw::DW_AT_encoding)
        else {
            return Shape::Integer { bytes, signed: false };
        };
        match encoding {
            dw::DW_ATE_boolean => Shape::Bool,
            // Quadruple precision is nothing of x87's.
            dw::DW_ATE_float if bytes == 16 && !self.is_x87(ty) => Shape::Record(QUADRUPLE.to_owned()),
            dw::DW_ATE_float => Shape::Float { bytes },
            dw::DW_ATE_UTF => Shape::Char { bytes },
            dw::DW_ATE_signed_char | dw::DW_ATE_unsigned_char if self.is_text(ty) => Shape::Char { bytes },
            dw::DW_ATE_complex_float => Shape::Record(COMPLEX.to_owned()),
            _ => Shape::Integer { bytes, signed: self.tree.is_signed(ty) },
        }
    }

    /// x86's `long double`.
    fn is_x87(&self, ty: DieId) -> bool {
        let name = self.tree.name(self.dwarf, ty);
        self.convention.machine != Machine::Aarch64 && name.as_deref() == Some("long double")
    }

    fn enumeration(&self, ty: DieId, bytes: u8) -> Shape {
        let tree = self.tree;
        let signed = tree.real_type(ty).is_some_and(|base| tree.is_signed(base));
        let value = |id: DieId| {
            let value = tree.attr(id, dw::DW_AT_const_value)?;
            let name = tree.name(self.dwarf, id).filter(|name| self.keep_name(name))?;
            Some((value.sdata_value().or_else(|| value.udata_value().map(u64::cast_signed))?, name))
        };
        Shape::Enum { bytes, signed, names: tree.children(ty).filter_map(value).collect() }
    }

    fn pointer(&self, ty: DieId) -> Shape {
        let tree = self.tree;
        let Some(to) = tree.real_type(ty) else { return Shape::Pointer };
        // Rust's `*const i8` is C text, too; its `*const u8` most often is not.
        if self.is_text(to) {
            return Shape::Text;
        }
        let is_reference = tree.dies[ty].tag() != dw::DW_TAG_pointer_type;
        if is_reference && self.is_string(to) { Shape::TextObject } else { Shape::Pointer }
    }

    /// `char`: one of `unsigned char` is a small number more often than a letter.
    fn is_text(&self, ty: DieId) -> bool {
        self.tree.name(self.dwarf, ty).as_deref() == Some("char") && self.tree.byte_size(ty) == Some(1)
    }

    /// libstdc++'s `std::string`: begins with a pointer and a length.
    pub(super) fn is_string(&self, ty: DieId) -> bool {
        let name = self.tree.name(self.dwarf, ty);
        let is_named = name.is_some_and(|name| name.starts_with("basic_string<char,"));
        // clang only declares it, because the library has it.
        is_named && (self.tree.byte_size(ty) == Some(32) || self.is_declared(ty))
    }

    pub(super) fn is_declared(&self, ty: DieId) -> bool {
        self.tree.dies[ty].has_attr(dw::DW_AT_declaration)
    }

    /// Rust's `&str`.
    pub(super) fn is_slice(&self, ty: DieId) -> bool {
        self.convention.is_rust
            && matches!(self.tree.name(self.dwarf, ty).as_deref(), Some("&str" | "&mut str"))
    }
}
