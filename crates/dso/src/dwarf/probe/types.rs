//! Types of variables: how wide, signed or not, what a member's offset is, how to print their names.

use gimli::{AttributeValue, Dwarf, constants as dw};

use super::tree::{DieId, UnitTree};
use crate::dwarf::resolver::Reader;

/// Unnamed records looked into for a member. One inside the other takes as many levels of recursion.
const MOST_UNNAMED: u32 = 256;

impl UnitTree {
    /// The type that an entry has, typedefs and qualifiers looked through; `None` for `void`.
    pub(super) fn real_type(&self, id: DieId) -> Option<DieId> {
        let mut at = self.type_of(id)?;
        for _ in 0..64 {
            if !is_alias(self.dies[at].tag()) {
                return Some(at);
            }
            at = self.type_of(at)?;
        }
        None
    }

    /// The type as written, through `abstract_origin`.
    fn type_of(&self, id: DieId) -> Option<DieId> {
        let mut id = id;
        for _ in 0..8 {
            if let Some(found) = self.reference(id, dw::DW_AT_type) {
                return Some(found);
            }
            id = self.origin(id)?;
        }
        None
    }

    pub(super) fn is_pointer(&self, ty: DieId) -> bool {
        let tag = self.dies[ty].tag();
        tag == dw::DW_TAG_pointer_type
            || tag == dw::DW_TAG_reference_type
            || tag == dw::DW_TAG_rvalue_reference_type
    }

    pub(super) fn is_array(&self, ty: DieId) -> bool {
        self.dies[ty].tag() == dw::DW_TAG_array_type
    }

    pub(super) fn is_record(&self, ty: DieId) -> bool {
        let tag = self.dies[ty].tag();
        tag == dw::DW_TAG_structure_type || tag == dw::DW_TAG_union_type || tag == dw::DW_TAG_class_type
    }

    /// `DW_AT_byte_size`; pointers without one have that of an address.
    pub(super) fn byte_size(&self, ty: DieId) -> Option<u64> {
        let pointer = self.is_pointer(ty).then(|| u64::from(self.unit.encoding().address_size));
        self.number(ty, dw::DW_AT_byte_size).or(pointer)
    }

    pub(super) fn is_signed(&self, ty: DieId) -> bool {
        let Some(AttributeValue::Encoding(encoding)) = self.dies[ty].attr_value(dw::DW_AT_encoding) else {
            return false;
        };
        [dw::DW_ATE_signed, dw::DW_ATE_signed_char, dw::DW_ATE_signed_fixed].contains(&encoding)
    }

    /// Is it `char` or `unsigned char`?
    pub(super) fn is_char(&self, dwarf: &Dwarf<Reader>, ty: DieId) -> bool {
        matches!(self.name(dwarf, ty).as_deref(), Some("char" | "unsigned char"))
    }

    /// The member `name` of a record and its offset in bytes; members of unnamed records inside count as its own.
    pub(super) fn member(&self, dwarf: &Dwarf<Reader>, record: DieId, name: &str) -> Option<(DieId, u64)> {
        let mut left = MOST_UNNAMED;
        self.member_within(dwarf, record, name, &mut left)
    }

    /// The same; looks into no more than `left` unnamed records, which may hold themselves.
    fn member_within(
        &self,
        dwarf: &Dwarf<Reader>,
        record: DieId,
        name: &str,
        left: &mut u32,
    ) -> Option<(DieId, u64)> {
        *left = left.checked_sub(1)?;
        let members: Vec<DieId> =
            self.children(record).filter(|&m| self.dies[m].tag() == dw::DW_TAG_member).collect();
        let offset = |m: DieId| self.member_offset(m);
        if let Some(&found) = members.iter().find(|&&m| self.name(dwarf, m).as_deref() == Some(name)) {
            return Some((found, offset(found)));
        }
        members.iter().filter(|&&m| self.name(dwarf, m).is_none()).find_map(|&m| {
            let inner = self.real_type(m).filter(|&t| self.is_record(t))?;
            let (found, inside) = self.member_within(dwarf, inner, name, left)?;
            Some((found, offset(m).wrapping_add(inside)))
        })
    }

    /// Names of a record's members, for suggestions.
    pub(super) fn member_names(&self, dwarf: &Dwarf<Reader>, record: DieId) -> Vec<String> {
        self.children(record)
            .filter(|&m| self.dies[m].tag() == dw::DW_TAG_member)
            .filter_map(|m| self.name(dwarf, m))
            .collect()
    }

    /// Width, offset from the lowest bit of its storage, and width of the storage, of a bit field; all in bits.
    pub(super) fn bit_field(&self, member: DieId) -> Option<(u64, u64, u64)> {
        let bits = self.number(member, dw::DW_AT_bit_size)?;
        let storage = self.storage_bits(member);
        let from_low = match self.number(member, dw::DW_AT_data_bit_offset) {
            Some(offset) => offset % storage,
            // DWARF 2 and 3 count from the highest bit of the storage unit.
            None => storage.checked_sub(bits.checked_add(self.number(member, dw::DW_AT_bit_offset)?)?)?,
        };
        Some((bits, from_low, storage))
    }

    /// Offset of a member in bytes; for a bit field that of the storage unit it begins in.
    fn member_offset(&self, member: DieId) -> u64 {
        let bit_offset = self.number(member, dw::DW_AT_data_bit_offset);
        let storage = self.storage_bits(member);
        let of_storage = bit_offset.map(|bit| bit / storage * storage / 8);
        self.number(member, dw::DW_AT_data_member_location).or(of_storage).unwrap_or(0)
    }

    fn storage_bits(&self, member: DieId) -> u64 {
        let bytes = self.real_type(member).and_then(|t| self.byte_size(t)).filter(|&b| b > 0).unwrap_or(4);
        bytes.saturating_mul(8)
    }

    /// The type's name as C writes it: `struct node*`, `long int`.
    pub(super) fn type_name(&self, dwarf: &Dwarf<Reader>, id: DieId) -> String {
        match self.type_of(id) {
            Some(ty) => self.spell(dwarf, ty, 0),
            None => "void".to_owned(),
        }
    }

    fn spell(&self, dwarf: &Dwarf<Reader>, ty: DieId, depth: u8) -> String {
        if depth > 32 {
            return "...".to_owned();
        }
        let inner =
            || self.type_of(ty).map_or_else(|| "void".to_owned(), |t| self.spell(dwarf, t, depth + 1));
        let named = |prefix: &str| {
            let name = self.name(dwarf, ty).unwrap_or_else(|| "(unnamed)".to_owned());
            format!("{prefix}{name}")
        };
        match self.dies[ty].tag() {
            dw::DW_TAG_pointer_type => inner() + "*",
            dw::DW_TAG_reference_type => inner() + "&",
            dw::DW_TAG_rvalue_reference_type => inner() + "&&",
            dw::DW_TAG_array_type => inner() + "*",
            dw::DW_TAG_subroutine_type => "(function_type)".to_owned(),
            dw::DW_TAG_structure_type => named("struct "),
            dw::DW_TAG_union_type => named("union "),
            dw::DW_TAG_enumeration_type => named("enum "),
            dw::DW_TAG_const_type | dw::DW_TAG_volatile_type | dw::DW_TAG_restrict_type => inner(),
            _ => named(""),
        }
    }
}

fn is_alias(tag: gimli::DwTag) -> bool {
    [
        dw::DW_TAG_typedef,
        dw::DW_TAG_const_type,
        dw::DW_TAG_volatile_type,
        dw::DW_TAG_restrict_type,
        dw::DW_TAG_atomic_type,
    ]
    .contains(&tag)
}
