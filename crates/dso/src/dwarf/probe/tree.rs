//! One compilation unit read whole: its entries as a tree, its lines sorted by address.

use std::collections::HashMap;

use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, UnitOffset, constants as dw};

use crate::dwarf::resolver::Reader;

pub(super) type Die = DebuggingInformationEntry<Reader>;
pub(super) type Unit = gimli::Unit<Reader>;

/// Index of an entry in its [`UnitTree`].
pub(super) type DieId = usize;

pub(super) struct UnitTree {
    pub unit: Unit,
    /// In the order of the file; parents before children.
    pub dies: Vec<Die>,
    index_of: HashMap<usize, DieId>,
    /// Sorted by address; rows of one address in the order of the line program.
    pub lines: Vec<Line>,
    /// Full paths; [`Line::file`] is an index into it.
    pub files: Vec<String>,
}

/// A row of the line table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub address: u64,
    pub file: usize,
    pub line: u32,
    pub is_stmt: bool,
    pub prologue_end: bool,
}

impl UnitTree {
    pub(super) fn read(dwarf: &Dwarf<Reader>, unit: Unit) -> gimli::Result<Self> {
        let mut dies = Vec::new();
        let mut index_of = HashMap::new();
        let mut cursor = unit.entries();
        while let Some(die) = cursor.next_dfs()? {
            index_of.insert(die.offset().0, dies.len());
            dies.push(die.clone());
        }
        let mut files = FileTable::default();
        let lines = read_lines(dwarf, &unit, &mut files)?;
        Ok(Self { unit, dies, index_of, lines, files: files.paths })
    }

    /// Direct children of `id`.
    pub(super) fn children(&self, id: DieId) -> impl Iterator<Item = DieId> + '_ {
        let depth = self.dies[id].depth();
        let below = (id + 1..self.dies.len()).take_while(move |&i| self.dies[i].depth() > depth);
        below.filter(move |&i| self.dies[i].depth() == depth + 1)
    }

    /// The entry that holds `id`; `None` for the unit itself.
    pub(super) fn parent(&self, id: DieId) -> Option<DieId> {
        let depth = self.dies[id].depth();
        (0..id).rev().find(|&i| self.dies[i].depth() < depth)
    }

    /// The entry that a reference attribute points at, if it is in this unit.
    pub(super) fn reference(&self, id: DieId, at: gimli::DwAt) -> Option<DieId> {
        let offset = match self.dies[id].attr_value(at)? {
            AttributeValue::UnitRef(offset) => offset,
            AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&self.unit.header)?,
            _ => return None,
        };
        self.at_offset(offset)
    }

    pub(super) fn at_offset(&self, offset: UnitOffset) -> Option<DieId> {
        self.index_of.get(&offset.0).copied()
    }

    /// The entry's attribute, or that of the entry it is an instance or the definition of.
    pub(super) fn attr(&self, id: DieId, at: gimli::DwAt) -> Option<AttributeValue<Reader>> {
        let mut id = id;
        for _ in 0..8 {
            if let Some(value) = self.dies[id].attr_value(at) {
                return Some(value);
            }
            id = self.origin(id)?;
        }
        None
    }

    /// What the entry is an instance (`abstract_origin`) or the definition (`specification`) of.
    pub(super) fn origin(&self, id: DieId) -> Option<DieId> {
        self.reference(id, dw::DW_AT_abstract_origin).or_else(|| self.reference(id, dw::DW_AT_specification))
    }

    pub(super) fn text(&self, dwarf: &Dwarf<Reader>, value: AttributeValue<Reader>) -> Option<String> {
        Some(dwarf.attr_string(&self.unit, value).ok()?.to_string_lossy().into_owned())
    }

    /// `DW_AT_name`.
    pub(super) fn name(&self, dwarf: &Dwarf<Reader>, id: DieId) -> Option<String> {
        self.text(dwarf, self.attr(id, dw::DW_AT_name)?)
    }

    /// The linker's name, if the entry has one.
    pub(super) fn linkage_name(&self, dwarf: &Dwarf<Reader>, id: DieId) -> Option<String> {
        let value =
            self.attr(id, dw::DW_AT_linkage_name).or_else(|| self.attr(id, dw::DW_AT_MIPS_linkage_name))?;
        self.text(dwarf, value)
    }

    pub(super) fn number(&self, id: DieId, at: gimli::DwAt) -> Option<u64> {
        self.attr(id, at)?.udata_value()
    }

    /// Line of the declaration, from 1.
    pub(super) fn decl_line(&self, id: DieId) -> Option<u32> {
        u32::try_from(self.number(id, dw::DW_AT_decl_line)?).ok()
    }

    /// Full path of the declaring file.
    pub(super) fn decl_file(&self, dwarf: &Dwarf<Reader>, id: DieId) -> Option<String> {
        let index = match self.attr(id, dw::DW_AT_decl_file)? {
            AttributeValue::FileIndex(index) => index,
            other => other.udata_value()?,
        };
        file_path(dwarf, &self.unit, index)
    }

    /// Code of the entry as `[start, end)` pairs.
    pub(super) fn ranges(&self, dwarf: &Dwarf<Reader>, id: DieId) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        if let Ok(mut ranges) = dwarf.die_ranges(&self.unit, &self.dies[id]) {
            while let Ok(Some(range)) = ranges.next() {
                found.push((range.begin, range.end));
            }
        }
        found
    }

    pub(super) fn covers(&self, dwarf: &Dwarf<Reader>, id: DieId, address: u64) -> bool {
        self.ranges(dwarf, id).iter().any(|&(start, end)| (start..end).contains(&address))
    }

    /// Where the entry's code is entered.
    pub(super) fn entry_pc(&self, dwarf: &Dwarf<Reader>, id: DieId) -> Option<u64> {
        let die = &self.dies[id];
        let ranges = self.ranges(dwarf, id);
        let entry = die.attr_value(dw::DW_AT_entry_pc).and_then(|value| match value {
            AttributeValue::Udata(offset) => Some(ranges.first()?.0 + offset),
            value => dwarf.attr_address(&self.unit, value).ok().flatten(),
        });
        entry.or_else(|| ranges.first().map(|r| r.0)).filter(|&pc| pc != 0)
    }

    /// The first statement row at `address`, which gives the line that a person would name it by.
    pub(super) fn line_at(&self, address: u64) -> Option<&Line> {
        let behind = self.lines.partition_point(|l| l.address <= address);
        let last = self.lines[..behind].last()?;
        let first = self.lines.partition_point(|l| l.address < last.address);
        let rows = &self.lines[first..behind];
        rows.iter().find(|l| l.is_stmt).or(rows.first())
    }
}

fn read_lines(dwarf: &Dwarf<Reader>, unit: &Unit, files: &mut FileTable) -> gimli::Result<Vec<Line>> {
    let Some(program) = unit.line_program.clone() else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    let mut rows = program.rows();
    while let Some((_, row)) = rows.next_row()? {
        let line = row.line().and_then(|l| u32::try_from(l.get()).ok());
        // End-of-sequence rows only close a range.
        if let Some(line) = line.filter(|_| !row.end_sequence()) {
            let file = files.index(dwarf, unit, row.file_index());
            let (is_stmt, prologue_end) = (row.is_stmt(), row.prologue_end());
            lines.push(Line { address: row.address(), file, line, is_stmt, prologue_end });
        }
    }
    lines.sort_by_key(|l| l.address);
    Ok(lines)
}

#[derive(Default)]
struct FileTable {
    paths: Vec<String>,
    known: HashMap<u64, usize>,
}

impl FileTable {
    fn index(&mut self, dwarf: &Dwarf<Reader>, unit: &Unit, file: u64) -> usize {
        *self.known.entry(file).or_insert_with(|| {
            let path = file_path(dwarf, unit, file).unwrap_or_default();
            self.paths.iter().position(|p| *p == path).unwrap_or_else(|| {
                self.paths.push(path);
                self.paths.len() - 1
            })
        })
    }
}

/// Full path of a file of the line table.
fn file_path(dwarf: &Dwarf<Reader>, unit: &Unit, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let text = |value| Some(dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned());
    let name = text(file.path_name())?;
    let folder = file.directory(header).and_then(text).unwrap_or_default();
    let base = unit.comp_dir.map(|d| d.to_string_lossy().into_owned()).unwrap_or_default();
    let mut path = String::new();
    for part in [base, folder, name] {
        if part.starts_with('/') {
            path = part;
        } else if !part.is_empty() {
            if !path.is_empty() && !path.ends_with('/') {
                path.push('/');
            }
            path.push_str(&part);
        }
    }
    Some(path)
}
