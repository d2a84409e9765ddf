//! Debug information of used code: the units that have it, the units these refer to, their lines and names.

use super::ranges::{KeptRanges, overlaps};
use crate::{Bytes, ObjectFile};
use gimli::{AttributeValue, DebugInfoOffset, EndianSlice, RunTimeEndian, Section, SectionId, UnitHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Unit<'a> = gimli::Unit<Slice<'a>>;

/// Adds what `used` code needs of DWARF. The result names the sections of which no more is needed; none if the DWARF
/// is compressed or damaged, so that it has to be kept whole.
pub(super) fn add_used(object: &ObjectFile, used: &[Range<u64>], kept: &mut KeptRanges) -> Vec<&'static str> {
    let is_compressed = object.sections().iter().any(|s| s.compressed && s.name.contains("debug_"));
    if is_compressed || !object.has_dwarf() {
        return Vec::new();
    }
    let mut added = KeptRanges::default();
    match needed_units(object, used, &mut added) {
        Ok(()) => {
            *kept = std::mem::take(kept).with(added);
            vec![".debug_info", ".debug_line", ".debug_str"]
        }
        Err(_) => Vec::new(),
    }
}

fn needed_units(object: &ObjectFile, used: &[Range<u64>], kept: &mut KeptRanges) -> gimli::Result<()> {
    let endian = if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |id: SectionId| gimli::Result::Ok(object.section_bytes(id.name()).ok().flatten());
    let sections = gimli::DwarfSections::<Option<Bytes>>::load(load)?;
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes.as_deref().unwrap_or_default(), endian));
    let units = UnitMap::read(object, &dwarf, kept)?;
    let mut wanted: Vec<u64> = Vec::new();
    for (start, header) in &units.headers {
        if units.is_used(header, used) {
            wanted.push(*start);
        }
    }
    let mut done = BTreeSet::new();
    while let Some(start) = wanted.pop() {
        if done.insert(start)
            && let Some(header) = units.headers.get(&start)
        {
            wanted.extend(units.keep(header, kept)?);
        }
    }
    Ok(())
}

/// All units of a file by their place in `.debug_info`.
struct UnitMap<'d, 'a> {
    dwarf: &'d gimli::Dwarf<Slice<'a>>,
    headers: BTreeMap<u64, UnitHeader<Slice<'a>>>,
    /// Where `.debug_info`, `.debug_line` and `.debug_str` are in the file.
    info: Range<u64>,
    line: Range<u64>,
    str: Range<u64>,
}

impl<'d, 'a> UnitMap<'d, 'a> {
    /// Adds the headers of all units to `kept`: readers go from one to the next.
    fn read(
        object: &ObjectFile,
        dwarf: &'d gimli::Dwarf<Slice<'a>>,
        kept: &mut KeptRanges,
    ) -> gimli::Result<Self> {
        let place = |name: &str| object.section(name).and_then(|s| s.file.clone()).unwrap_or_default();
        let (info, line, str) = (place(".debug_info"), place(".debug_line"), place(".debug_str"));
        let mut headers = BTreeMap::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let Some(start) = header.debug_info_offset().map(|offset| offset.0 as u64) else { continue };
            kept.add(info.start + start..info.start + start + header.header_size() as u64);
            headers.insert(start, header);
        }
        Ok(Self { dwarf, headers, info, line, str })
    }

    /// A unit whose ranges can't be read is taken as used.
    fn is_used(&self, header: &UnitHeader<Slice<'a>>, used: &[Range<u64>]) -> bool {
        let hit = || {
            let unit = self.dwarf.unit(*header)?;
            let mut ranges = self.dwarf.unit_ranges(&unit)?;
            while let Some(range) = ranges.next()? {
                if overlaps(used, &(range.begin..range.end)) {
                    return Ok(true);
                }
            }
            gimli::Result::Ok(false)
        };
        hit().unwrap_or(true)
    }

    /// Keeps a unit with its lines and names. The result are the starts of units it refers to.
    fn keep(&self, header: &UnitHeader<Slice<'a>>, kept: &mut KeptRanges) -> gimli::Result<Vec<u64>> {
        let unit = self.dwarf.unit(*header)?;
        let start = header.debug_info_offset().map_or(0, |offset| offset.0 as u64);
        kept.add(self.info.start + start..self.info.start + start + header.length_including_self() as u64);
        if let Some(program) = &unit.line_program {
            let line = program.header();
            // The length field is 4 bytes, or 12 in 64-bit DWARF.
            let field = if line.format() == gimli::Format::Dwarf64 { 12 } else { 4 };
            let start = self.line.start + line.offset().0 as u64;
            kept.add(start..start + field + line.unit_length() as u64);
        }
        self.names_and_references(&unit, kept)
    }

    fn names_and_references(&self, unit: &Unit<'a>, kept: &mut KeptRanges) -> gimli::Result<Vec<u64>> {
        let mut starts = Vec::new();
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            for spec in abbreviation.attributes() {
                match entries.read_attribute(*spec)?.value() {
                    AttributeValue::DebugStrRef(offset) => self.keep_text(offset.0, kept),
                    AttributeValue::DebugStrOffsetsIndex(index) => {
                        let base = unit.str_offsets_base;
                        let format = unit.encoding().format;
                        let offset = self.dwarf.debug_str_offsets.get_str_offset(format, base, index)?;
                        self.keep_text(offset.0, kept);
                    }
                    AttributeValue::DebugInfoRef(offset) => starts.extend(self.unit_at(offset)),
                    _ => {}
                }
            }
        }
        Ok(starts)
    }

    fn keep_text(&self, offset: usize, kept: &mut KeptRanges) {
        let text = self.dwarf.debug_str.reader().slice().get(offset..).unwrap_or_default();
        let len = memchr::memchr(0, text).map_or(text.len(), |nul| nul + 1);
        let start = self.str.start + offset as u64;
        kept.add(start..start + len as u64);
    }

    /// The start of the unit that an entry is in.
    fn unit_at(&self, entry: DebugInfoOffset) -> Option<u64> {
        self.headers.range(..=entry.0 as u64).next_back().map(|(start, _)| *start)
    }
}
