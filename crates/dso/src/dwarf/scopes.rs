//! Scopes of functions. Compilers leave out the linkage name of functions that are inlined everywhere, so that DWARF calls
//! `std::sort<…>` just `sort<…>`. The scopes are the entries around the function's declaration:
//!
//! ```text
//!   inlined_subroutine ─ abstract_origin → subprogram ─ specification → subprogram in structure_type in namespace
//! ```

use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_name, DW_AT_specification, DW_TAG_class_type,
    DW_TAG_interface_type, DW_TAG_namespace, DW_TAG_structure_type, DW_TAG_subprogram, DW_TAG_union_type,
    DwTag, UnitOffset, UnitRef,
};
use rustc_hash::FxHashMap;

use super::per_unit::{PerUnit, UnitKey, key_of};
use super::resolver::Reader;

/// Steps from an entry to its declaration. Compilers need two.
const MOST_STEPS: usize = 8;
/// Functions around each other's local classes. Each level of lambdas is one.
const MOST_NESTED: usize = 8;
/// Scopes kept for one file's units; beyond this number all are read again on demand.
const MOST_KEPT: usize = 1 << 20;
/// Bytes of a name with its scopes.
const LONGEST: usize = 64 << 10;

/// An entry that contains others, in the order of the unit.
#[derive(Clone, Copy, Debug)]
struct Scope {
    offset: usize,
    /// Past its last child.
    end: usize,
    tag: DwTag,
    /// Position of the scope around it.
    parent: Option<u32>,
}

/// Names with their scopes, each found once.
#[derive(Default)]
pub(super) struct ScopedNames {
    scopes: PerUnit<Scope, MOST_KEPT>,
    names: FxHashMap<(UnitKey, usize), Option<String>>,
}

impl ScopedNames {
    /// The name of the function at `entry` (an inlined call or a function), with its scopes: `std::sort<…>`. `None` if its
    /// declaration is in another unit.
    pub(super) fn of(&mut self, unit: UnitRef<'_, Reader>, entry: UnitOffset) -> Option<String> {
        let key = key_of(unit);
        if let Some(known) = self.names.get(&(key, entry.0)) {
            return known.clone();
        }
        let scopes = self.scopes.of(unit, read_scopes);
        let name = Unit { unit, scopes: &scopes }.path_of(entry, MOST_NESTED);
        self.names.insert((key, entry.0), name.clone());
        name
    }
}

/// All scopes of a unit that have children, outer ones first.
fn read_scopes(unit: UnitRef<'_, Reader>) -> gimli::Result<Vec<Scope>> {
    let mut scopes: Vec<Scope> = Vec::new();
    // Depth and position of the scopes around the entry at hand.
    let mut open: Vec<(isize, u32)> = Vec::new();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset().0, entries.next_depth());
        while let Some(&(_, ended)) = open.last().filter(|(outer, _)| *outer >= depth) {
            scopes[ended as usize].end = offset;
            open.pop();
        }
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        if abbreviation.has_children() && is_scope(abbreviation.tag()) {
            let parent = open.last().map(|(_, at)| *at);
            let Ok(at) = u32::try_from(scopes.len()) else { break };
            open.push((depth, at));
            scopes.push(Scope { offset, end: usize::MAX, tag: abbreviation.tag(), parent });
        }
        entries.skip_attributes(abbreviation.attributes())?;
    }
    Ok(scopes)
}

fn is_scope(tag: DwTag) -> bool {
    is_type(tag) || tag == DW_TAG_namespace || tag == DW_TAG_subprogram
}

fn is_type(tag: DwTag) -> bool {
    [DW_TAG_class_type, DW_TAG_structure_type, DW_TAG_union_type, DW_TAG_interface_type].contains(&tag)
}

struct Unit<'u> {
    unit: UnitRef<'u, Reader>,
    scopes: &'u [Scope],
}

impl Unit<'_> {
    /// `outer::inner::name` of a function or an inlined call.
    fn path_of(&self, entry: UnitOffset, nested: usize) -> Option<String> {
        let declared = self.declaration_of(entry)?;
        let mut path = self.name_at(declared)?;
        let mut around = self.scope_around(declared.0);
        while let Some(scope) = around.filter(|_| path.len() < LONGEST) {
            if scope.tag == DW_TAG_subprogram {
                // The function's own scopes may be those of its declaration elsewhere.
                let function = self.path_of(UnitOffset(scope.offset), nested.checked_sub(1)?)?;
                return Some(format!("{function}::{path}"));
            }
            let unnamed =
                if scope.tag == DW_TAG_namespace { "(anonymous namespace)" } else { "{unnamed type}" };
            let name = self.name_at(UnitOffset(scope.offset));
            path = format!("{}::{path}", name.as_deref().unwrap_or(unnamed));
            around = scope.parent.and_then(|at| self.scopes.get(at as usize));
        }
        Some(path)
    }

    /// The entry that has the name and is inside the scopes.
    fn declaration_of(&self, mut at: UnitOffset) -> Option<UnitOffset> {
        for _ in 0..MOST_STEPS {
            let entry = self.unit.entry(at).ok()?;
            let next = [DW_AT_abstract_origin, DW_AT_specification];
            at = match next.into_iter().find_map(|attribute| entry.attr_value(attribute)) {
                None => return Some(at),
                Some(AttributeValue::UnitRef(next)) => next,
                Some(_) => return None,
            };
        }
        None
    }

    fn name_at(&self, at: UnitOffset) -> Option<String> {
        let entry = self.unit.entry(at).ok()?;
        let name = self.unit.attr_string(entry.attr_value(DW_AT_name)?).ok()?;
        Some(gimli::Reader::to_string_lossy(&name).ok()?.into_owned())
    }

    /// The innermost scope that contains `offset`.
    fn scope_around(&self, offset: usize) -> Option<&Scope> {
        let before = self.scopes.partition_point(|scope| scope.offset < offset).checked_sub(1)?;
        let mut scope = self.scopes.get(before)?;
        while scope.end <= offset {
            scope = self.scopes.get(scope.parent? as usize)?;
        }
        Some(scope)
    }
}
