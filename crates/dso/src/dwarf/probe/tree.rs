//! One compilation unit read whole: its entries as a tree, its lines sorted by address.

use std::cell::OnceCell;
use std::collections::HashMap;

use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, Reader as _, UnitOffset, constants as dw};

use crate::dwarf::metered::refusal;
use crate::dwarf::resolver::Reader;

pub(super) type Die = DebuggingInformationEntry<Reader>;
pub(super) type Unit = gimli::Unit<Reader>;

/// Index of an entry in its [`UnitTree`].
pub(super) type DieId = usize;

/// Entries inside one another. Compilers nest some hundreds: namespaces, classes, blocks, inlined calls.
const MOST_DEPTH: isize = 4096;
/// Attributes for each byte of a unit: those without bytes of their own are few.
const ATTRIBUTES_A_BYTE: usize = 2;

pub(super) struct UnitTree {
    pub unit: Unit,
    /// In the order of the file; parents before children.
    pub dies: Vec<Die>,
    index_of: HashMap<usize, DieId>,
    /// Parent of each entry; the unit's own is 0.
    parents: Vec<DieId>,
    /// End of each entry's descendants, exclusive.
    ends: Vec<DieId>,
    /// Entries by what they are instances of (`abstract_origin`).
    instances: OnceCell<HashMap<DieId, Vec<DieId>>>,
    /// Code of all functions: (first address, past the last, function), sorted.
    functions: OnceCell<Vec<(u64, u64, DieId)>>,
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
        let mut dies: Vec<Die> = Vec::new();
        let mut index_of = HashMap::new();
        let mut attributes = unit.header.length_including_self().saturating_mul(ATTRIBUTES_A_BYTE);
        let mut cursor = unit.entries();
        while let Some(die) = cursor.next_dfs()? {
            let left = attributes.checked_sub(die.attrs().len());
            attributes = left.filter(|_| die.depth() <= MOST_DEPTH).ok_or_else(refusal)?;
            index_of.insert(die.offset().0, dies.len());
            dies.push(die.clone());
        }
        let (parents, ends) = nesting(&dies);
        let mut files = FileTable::default();
        let lines = read_lines(dwarf, &unit, &mut files)?;
        let (instances, functions) = (OnceCell::new(), OnceCell::new());
        Ok(Self { unit, dies, index_of, parents, ends, instances, functions, lines, files: files.paths })
    }

    /// Direct children of `id`.
    pub(super) fn children(&self, id: DieId) -> impl Iterator<Item = DieId> + '_ {
        let first = Some(id + 1).filter(|&first| first < self.ends[id]);
        std::iter::successors(first, move |&child| {
            Some(self.ends[child]).filter(|&next| next < self.ends[id])
        })
    }

    /// All that `id` holds, at any depth, in the order of the file.
    pub(super) fn inside(&self, id: DieId) -> impl Iterator<Item = DieId> + '_ {
        id + 1..self.ends[id]
    }

    /// The entry that holds `id`; `None` for the unit itself.
    pub(super) fn parent(&self, id: DieId) -> Option<DieId> {
        self.parents.get(id).copied().filter(|_| id != 0)
    }

    /// The out-of-line copies and inlined calls of `function`, in the order of the file.
    pub(super) fn instances(&self, function: DieId) -> &[DieId] {
        let all = self.instances.get_or_init(|| {
            let mut all: HashMap<DieId, Vec<DieId>> = HashMap::new();
            let is_code = |id: &DieId| {
                [dw::DW_TAG_subprogram, dw::DW_TAG_inlined_subroutine].contains(&self.dies[*id].tag())
            };
            for id in (0..self.dies.len()).filter(is_code) {
                if let Some(origin) = self.reference(id, dw::DW_AT_abstract_origin) {
                    all.entry(origin).or_default().push(id);
                }
            }
            all
        });
        all.get(&function).map_or(&[], Vec::as_slice)
    }

    /// The function whose code is at `address`: of several the first in the file.
    pub(super) fn function_at(&self, dwarf: &Dwarf<Reader>, address: u64) -> Option<DieId> {
        let all = self.functions.get_or_init(|| {
            let is_function = |id: &DieId| self.dies[*id].tag() == dw::DW_TAG_subprogram;
            let ranges = |id| self.ranges(dwarf, id).into_iter().map(move |(start, end)| (start, end, id));
            let mut all: Vec<_> = (0..self.dies.len()).filter(is_function).flat_map(ranges).collect();
            all.sort_unstable();
            all
        });
        let behind = all.partition_point(|&(start, ..)| start <= address);
        // Functions do not overlap, but equal code may be shared.
        let start = all[..behind].last()?.0;
        let first = all.partition_point(|range| range.0 < start);
        all[first..behind].iter().filter(|&&(_, end, _)| address < end).map(|&(.., id)| id).min()
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

    /// The entry of which this one is an instance (`abstract_origin`) or the definition (`specification`).
    pub(super) fn origin(&self, id: DieId) -> Option<DieId> {
        self.reference(id, dw::DW_AT_abstract_origin).or_else(|| self.reference(id, dw::DW_AT_specification))
    }

    pub(super) fn text(&self, dwarf: &Dwarf<Reader>, value: AttributeValue<Reader>) -> Option<String> {
        Some(dwarf.attr_string(&self.unit, value).ok()?.text().into_owned())
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
            AttributeValue::Udata(offset) => Some(ranges.first()?.0.wrapping_add(offset)),
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

/// Parent of each entry, and the end of its descendants.
fn nesting(dies: &[Die]) -> (Vec<DieId>, Vec<DieId>) {
    let mut parents = vec![0; dies.len()];
    let mut ends = vec![dies.len(); dies.len()];
    let mut open: Vec<DieId> = Vec::new();
    for (id, die) in dies.iter().enumerate() {
        while let Some(&last) = open.last().filter(|&&last| dies[last].depth() >= die.depth()) {
            ends[last] = id;
            open.pop();
        }
        parents[id] = open.last().copied().unwrap_or(0);
        open.push(id);
    }
    (parents, ends)
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
    by_path: HashMap<String, usize>,
    known: HashMap<u64, usize>,
}

impl FileTable {
    fn index(&mut self, dwarf: &Dwarf<Reader>, unit: &Unit, file: u64) -> usize {
        *self.known.entry(file).or_insert_with(|| {
            let path = file_path(dwarf, unit, file).unwrap_or_default();
            *self.by_path.entry(path).or_insert_with_key(|path| {
                self.paths.push(path.clone());
                self.paths.len() - 1
            })
        })
    }
}

/// Full path of a file of the line table.
fn file_path(dwarf: &Dwarf<Reader>, unit: &Unit, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let text = |value| Some(dwarf.attr_string(unit, value).ok()?.text().into_owned());
    let name = text(file.path_name())?;
    let folder = file.directory(header).and_then(text).unwrap_or_default();
    let base = unit.comp_dir.map(|d| Some(d.to_string_lossy().ok()?.into_owned()));
    let base = base.unwrap_or(Some(String::new()))?;
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
