//! Variables at a point: which can be seen, where one is, what `a->b.c[2]` means.

use gimli::constants as dw;

use super::place::VariablePlace;
use super::point::Point;
use super::tree::{DieId, UnitTree};
use super::{ProbeInfo, Unavailable};

/// In which form a value is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// By its type.
    Plain,
    /// The text that it points to.
    Text,
}

/// A variable that can be seen at a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Type as C writes it.
    pub type_name: String,
    /// Whether it is a parameter.
    pub is_parameter: bool,
    /// True if it has a place at the point (one that is always the same constant has none).
    pub is_available: bool,
}

/// One step from a variable into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessStep {
    /// `.member`
    Member(String),
    /// `->member`
    Arrow(String),
    /// `[index]`
    Index(i64),
}

/// A variable and the steps into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The variable's name.
    pub variable: String,
    /// From the outside in.
    pub steps: Vec<AccessStep>,
}

/// How wide a value is and how to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeShape {
    /// A number that fills whole bytes, signed or not.
    Number {
        /// 8, 16, 32 or 64, or what an odd struct has.
        bits: u64,
        /// Read with its sign.
        signed: bool,
    },
    /// A bit field: its width, its offset from the storage's lowest bit, the storage's width, in bits.
    BitField(u64, u64, u64),
    /// An array of char, or what a pointer to char points at after one more load (see [`Value::loads`]).
    Text,
    /// Arrays, functions, `void`: nothing that a number could show.
    Unsized,
}

/// A value to fetch at a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Where to begin.
    pub place: VariablePlace,
    /// Offsets to load from, one after the other, in bytes: `+8(+0(place))` is `[0, 8]`.
    pub loads: Vec<i64>,
    /// Shape of the value found.
    pub shape: TypeShape,
    /// Name of the variable it began with.
    pub variable: String,
}

impl ProbeInfo {
    /// The variables that can be seen at `point`: the scope's own in order, then those of blocks around the address;
    /// `with_globals` adds the unit's.
    pub fn variables(&mut self, point: &Point, with_globals: bool) -> Vec<Variable> {
        let _counted = self.count();
        let Some(tree) = self.trees.get(&point.unit) else { return Vec::new() };
        let mut ids = self.visible(tree, point);
        if with_globals {
            ids.extend(tree.children(0).filter(|&d| tree.dies[d].tag() == dw::DW_TAG_variable));
        }
        let describe = |&id: &DieId| {
            Some(Variable {
                name: tree.name(&self.dwarf, id)?,
                type_name: tree.type_name(&self.dwarf, id),
                is_parameter: tree.dies[id].tag() == dw::DW_TAG_formal_parameter,
                is_available: self
                    .place_of(tree, id, point)
                    .is_ok_and(|p| !matches!(p, VariablePlace::Constant(_))),
            })
        };
        ids.iter().filter_map(describe).collect()
    }

    /// How to fetch the value of `access`.
    pub fn fetch(&mut self, point: &Point, access: &Access, form: ValueForm) -> Result<Value, Unavailable> {
        let _counted = self.count();
        let tree = self.trees.get(&point.unit).ok_or(Unavailable::Damaged)?;
        let mut ids = self.visible(tree, point);
        let globals = tree.children(0).filter(|&d| tree.dies[d].tag() == dw::DW_TAG_variable);
        ids.extend(globals);
        let named = |&&id: &&DieId| tree.name(&self.dwarf, id).as_deref() == Some(access.variable.as_str());
        let candidates: Vec<DieId> = ids.iter().filter(named).copied().collect();
        let places = candidates.iter().map(|&id| (id, self.place_of(tree, id, point)));
        let mut first_error = None;
        for (id, place) in places {
            match place {
                Ok(place) => return Walk::new(&self.dwarf, tree, id, place).finish(access, form),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| Unavailable::Unknown {
            name: access.variable.clone(),
            known: ids.iter().filter_map(|&id| tree.name(&self.dwarf, id)).collect(),
        }))
    }

    fn place_of(&self, tree: &UnitTree, id: DieId, point: &Point) -> Result<VariablePlace, Unavailable> {
        tree.place(&self.dwarf, &self.cfi, id, point.frame, point.svma.0)
    }

    /// Parameters and variables of the scope and of the blocks in it that hold the address, in order.
    fn visible(&self, tree: &UnitTree, point: &Point) -> Vec<DieId> {
        let mut found = Vec::new();
        let mut scopes = vec![point.scope];
        while let Some(scope) = scopes.pop() {
            for id in tree.children(scope) {
                match tree.dies[id].tag() {
                    dw::DW_TAG_formal_parameter | dw::DW_TAG_variable => found.push(id),
                    dw::DW_TAG_lexical_block if tree.covers(&self.dwarf, id, point.svma.0) => scopes.push(id),
                    _ => {}
                }
            }
        }
        found
    }
}

/// A variable being stepped into.
struct Walk<'a> {
    dwarf: &'a gimli::Dwarf<crate::dwarf::resolver::Reader>,
    tree: &'a UnitTree,
    /// The variable or member we are at; its type is the value's.
    at: DieId,
    /// Set after `[n]`: the element's type, since DWARF has no entry for an element.
    element: Option<DieId>,
    place: VariablePlace,
    loads: Vec<i64>,
}

impl<'a> Walk<'a> {
    fn new(
        dwarf: &'a gimli::Dwarf<crate::dwarf::resolver::Reader>,
        tree: &'a UnitTree,
        at: DieId,
        place: VariablePlace,
    ) -> Self {
        // A place in memory is an address to load from once.
        let (place, loads) = match place {
            VariablePlace::Memory(register, offset) => (VariablePlace::Register(register), vec![offset]),
            VariablePlace::Static(_) => (place, vec![0]),
            other => (other, Vec::new()),
        };
        Self { dwarf, tree, at, element: None, place, loads }
    }

    fn finish(mut self, access: &Access, form: ValueForm) -> Result<Value, Unavailable> {
        let mut said = access.variable.clone();
        for step in &access.steps {
            match step {
                AccessStep::Member(name) | AccessStep::Arrow(name) => self.member(name, &said)?,
                AccessStep::Index(index) => self.index(*index, &said)?,
            }
            match step {
                AccessStep::Member(name) => said = format!("{said}.{name}"),
                AccessStep::Arrow(name) => said = format!("{said}->{name}"),
                AccessStep::Index(index) => said = format!("{said}[{index}]"),
            }
        }
        let shape = match form {
            ValueForm::Text => self.text()?,
            ValueForm::Plain => self.shape(),
        };
        Ok(Value { place: self.place, loads: self.loads, shape, variable: access.variable.clone() })
    }

    fn real_type(&self) -> Option<DieId> {
        match self.element {
            Some(ty) => Some(ty),
            None => self.tree.real_type(self.at),
        }
    }

    /// `.` and `->` alike go through a pointer if there is one.
    fn member(&mut self, name: &str, said: &str) -> Result<(), Unavailable> {
        let no_record = || Unavailable::NoRecord(said.to_owned());
        let mut ty = self.real_type().ok_or_else(no_record)?;
        if self.tree.is_pointer(ty) {
            ty = self.tree.real_type(ty).ok_or_else(no_record)?;
            self.loads.push(0);
        } else if self.loads.is_empty() {
            return Err(Unavailable::RecordInRegister);
        }
        if !self.tree.is_record(ty) {
            return Err(no_record());
        }
        let (found, offset) = self.tree.member(self.dwarf, ty, name).ok_or_else(|| {
            Unavailable::NoMember { name: name.to_owned(), known: self.tree.member_names(self.dwarf, ty) }
        })?;
        self.add(offset.cast_signed());
        (self.at, self.element) = (found, None);
        Ok(())
    }

    fn index(&mut self, index: i64, said: &str) -> Result<(), Unavailable> {
        let no_array = || Unavailable::NoArray(said.to_owned());
        let ty = self.real_type().ok_or_else(no_array)?;
        if self.tree.is_pointer(ty) {
            self.loads.push(0);
        } else if !self.tree.is_array(ty) {
            return Err(no_array());
        } else if self.loads.is_empty() {
            return Err(Unavailable::RecordInRegister);
        }
        let element = self.tree.real_type(ty).ok_or_else(no_array)?;
        let size = self.tree.byte_size(element).ok_or_else(no_array)?;
        self.add(index.wrapping_mul(size.cast_signed()));
        self.element = Some(element);
        Ok(())
    }

    fn add(&mut self, offset: i64) {
        if let Some(last) = self.loads.last_mut() {
            *last = last.wrapping_add(offset);
        }
    }

    fn text(&mut self) -> Result<TypeShape, Unavailable> {
        let ty = self.real_type().ok_or(Unavailable::NoText)?;
        let pointer = self.tree.is_pointer(ty);
        if !pointer && !self.tree.is_array(ty) {
            return Err(Unavailable::NoText);
        }
        let inner = self.tree.real_type(ty).ok_or(Unavailable::NoText)?;
        if !self.tree.is_char(self.dwarf, inner) {
            return Err(Unavailable::NoText);
        }
        if pointer {
            self.loads.push(0);
        }
        Ok(TypeShape::Text)
    }

    fn shape(&self) -> TypeShape {
        if let Some((bits, offset, storage)) = self.tree.bit_field(self.at).filter(|_| self.element.is_none())
        {
            return TypeShape::BitField(bits, offset, storage);
        }
        let Some(ty) = self.real_type().filter(|&t| !self.tree.is_array(t)) else {
            return TypeShape::Unsized;
        };
        match self.tree.byte_size(ty) {
            Some(bytes) if bytes > 0 => {
                TypeShape::Number { bits: bytes.saturating_mul(8), signed: self.tree.is_signed(ty) }
            }
            _ => TypeShape::Unsized,
        }
    }
}
