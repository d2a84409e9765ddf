//! Lines as compilers look them up in a profile: relative to their function, with discriminators.
//
// Source: LLVM's SampleProfileLoader (offset: line of the instruction minus line of the function, 16 bits) and
// Discriminator.h (getBaseDiscriminatorFromDiscriminator).

use gimli::{
    AttributeValue, DW_AT_GNU_discriminator, DW_AT_abstract_origin, DW_AT_decl_line, DW_AT_specification,
    UnitOffset, UnitRef,
};
use std::sync::Arc;

use super::per_unit::PerUnit;
use super::resolver::Reader;

/// Steps from an entry to the one that has its line. Compilers need two.
const MOST_STEPS: usize = 8;
/// Rows kept of one file's line tables; beyond this number all are read again on demand.
const MOST_KEPT: usize = 1 << 22;

/// Place in a function: lines from the function's own, modulo 2^16, and the part of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineOffset {
    /// Lines after the function's declaration.
    pub line: u32,
    /// Number of the basic block on that line; 0 for the only or first one.
    pub discriminator: u32,
}

/// A function that was compiled in, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledFrame {
    /// Linkage name, or the plain name in languages without one.
    pub function: String,
    /// Place of the instruction, or of the inlined call.
    pub at: LineOffset,
}

/// A place in the code, and into how many copies the compiler made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledPlace {
    /// Frames, **innermost first**.
    pub frames: Vec<SampledFrame>,
    /// How often the line ran for each run of this copy: copies share the executions (unrolled and vectorized loops).
    pub copies: u32,
}

/// A stretch of code of one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineStretch {
    pub(super) start: u64,
    /// Address past the last.
    pub(super) end: u64,
    /// Line, from 1; 0 for code of no line.
    pub(super) line: u32,
    pub(super) discriminator: u32,
    pub(super) copies: u32,
}

/// Line tables with discriminators, each unit's read once. Kept by the caller.
#[derive(Default)]
pub struct SampledUnits(PerUnit<LineStretch, MOST_KEPT>);

impl SampledUnits {
    /// All stretches of a unit, by address.
    pub(super) fn of(&mut self, unit: UnitRef<'_, Reader>) -> Arc<[LineStretch]> {
        self.0.of(unit, read)
    }
}

fn read(unit: UnitRef<'_, Reader>) -> gimli::Result<Vec<LineStretch>> {
    let Some(program) = unit.line_program.clone() else { return Ok(Vec::new()) };
    let mut stretches = Vec::new();
    let mut open: Option<LineStretch> = None;
    let mut rows = program.rows();
    while let Some((_, row)) = rows.next_row()? {
        // The last of several rows at an address is right.
        let before = open.take().filter(|open| open.start < row.address());
        stretches.extend(before.map(|open| LineStretch { end: row.address(), ..open }));
        if stretches.len() >= MOST_KEPT {
            break;
        }
        let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
        let packed = u32::try_from(row.discriminator()).unwrap_or(0);
        let (discriminator, copies) = (base_discriminator(packed), copies(packed));
        open = (!row.end_sequence()).then(|| LineStretch {
            start: row.address(),
            end: row.address(),
            line,
            discriminator,
            copies,
        });
    }
    stretches.sort_by_key(|stretch| stretch.start);
    Ok(stretches)
}

/// The second number: into how many copies the code was made; 1 if it wasn't.
fn copies(packed: u32) -> u32 {
    let rest = match packed {
        odd if odd & 1 == 1 => odd >> 1,
        long if long & 0x40 != 0 => long >> 14,
        short => short >> 7,
    };
    base_discriminator(rest).max(1)
}

/// The first of the numbers that LLVM packs into a discriminator.
pub(super) fn base_discriminator(packed: u32) -> u32 {
    match packed {
        odd if odd & 1 == 1 => 0,
        long if long & 0x40 != 0 => (long >> 2 & 0xfe0) | (long >> 1 & 0x1f),
        short => short >> 1 & 0x1f,
    }
}

/// Line of the function at `entry`: its own, or that of the function it was inlined from.
pub(super) fn declared_line(unit: UnitRef<'_, Reader>, mut entry: UnitOffset) -> Option<u32> {
    for _ in 0..MOST_STEPS {
        let found = unit.entry(entry).ok()?;
        if let Some(line) = found.attr_value(DW_AT_decl_line).and_then(|value| value.udata_value()) {
            return u32::try_from(line).ok();
        }
        let next = [DW_AT_abstract_origin, DW_AT_specification];
        entry = match next.into_iter().find_map(|attribute| found.attr_value(attribute))? {
            AttributeValue::UnitRef(next) => next,
            // Go names inlined functions like this; those of other packages are in other units.
            AttributeValue::DebugInfoRef(next) => next.to_unit_offset(&unit.header)?,
            _ => return None,
        };
    }
    None
}

/// Discriminator of the call that was inlined as `entry`.
pub(super) fn call_discriminator(unit: UnitRef<'_, Reader>, entry: UnitOffset) -> u32 {
    let value = unit.entry(entry).ok().and_then(|found| found.attr_value(DW_AT_GNU_discriminator));
    let packed = value.and_then(|value| value.udata_value()).unwrap_or(0);
    base_discriminator(u32::try_from(packed).unwrap_or(0))
}

/// Offset of `line` in a function declared at `declared`.
pub(super) fn line_offset(line: u32, declared: u32) -> u32 {
    line.wrapping_sub(declared) & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_discriminator_is_the_first_packed_number() {
        // As LLVM encodes them: 0 is a set lowest bit, below 32 one byte, else a longer one.
        assert_eq!([0, 1, 2, 4, 62].map(base_discriminator), [0, 0, 1, 2, 31]);
        // 32: low 5 bits 0, the mark of the long form, then 1.
        assert_eq!(base_discriminator(0x80 | 0x40), 32);
    }

    #[test]
    fn the_number_of_copies_is_the_second() {
        assert_eq!([0, 2, 1, 2 | 3 << 8, 1 | 8 << 2].map(copies), [1, 1, 1, 3, 8]);
    }

    #[test]
    fn lines_before_the_function_wrap_as_in_the_compiler() {
        assert_eq!([line_offset(12, 10), line_offset(9, 10)], [2, 0xffff]);
    }
}
