//! Lines of CPython's code objects: which source line an instruction belongs to.

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineTable {
    /// `co_lnotab`, to 3.9: pairs of bytes; how far the instruction and the line go on.
    Steps,
    /// `co_linetable` of 3.10: pairs of bytes; the length of a range and how far its line is from the one before.
    Ranges,
    /// `co_linetable` since 3.11: entries of several lengths, with columns.
    Locations,
}

impl LineTable {
    /// The line of the instruction at `position` (bytes from the first), 1-based; `None` if it has none. Before
    /// the first instruction the function's first line.
    // Source: CPython 3.9 Objects/lnotab_notes.txt, 3.10 Objects/lnotab_notes.txt, 3.11 Objects/locations.md
    #[must_use]
    pub fn line_of(self, table: &[u8], first_line: u32, position: i64) -> Option<u32> {
        let Ok(position) = u64::try_from(position) else { return Some(first_line) };
        let line = match self {
            Self::Steps => by_steps(table, first_line.into(), position),
            Self::Ranges => by_ranges(table, first_line.into(), position)?,
            Self::Locations => by_locations(table, first_line.into(), position)?,
        };
        u32::try_from(line).ok().filter(|&line| line > 0)
    }
}

fn by_steps(table: &[u8], first: i64, position: u64) -> i64 {
    let (mut line, mut at) = (first, 0u64);
    for pair in table.chunks_exact(2) {
        at += u64::from(pair[0]);
        if at > position {
            break;
        }
        line += i64::from(pair[1].cast_signed());
    }
    line
}

fn by_ranges(table: &[u8], first: i64, position: u64) -> Option<i64> {
    /// In place of a distance: the range has no line.
    const NO_LINE: i8 = -128;
    let (mut line, mut end) = (first, 0u64);
    for pair in table.chunks_exact(2) {
        let distance = pair[1].cast_signed();
        let has_line = distance != NO_LINE;
        line += if has_line { i64::from(distance) } else { 0 };
        end += u64::from(pair[0]);
        if position < end {
            return has_line.then_some(line);
        }
    }
    None
}

fn by_locations(table: &[u8], first: i64, position: u64) -> Option<i64> {
    /// Marks an entry's first byte.
    const FIRST: u8 = 0x80;
    /// Bytes of an instruction's unit.
    const UNIT: u64 = 2;
    let (mut line, mut end, mut rest) = (first, 0u64, table);
    while let Some((&head, tail)) = rest.split_first() {
        let len = tail.iter().position(|byte| byte & FIRST != 0).unwrap_or(tail.len());
        let (entry, after) = tail.split_at(len);
        let has_line = match head >> 3 & 15 {
            code @ 10..=12 => {
                line += i64::from(code - 10);
                true
            }
            13 | 14 => {
                line = line.wrapping_add(signed(entry));
                true
            }
            15 => false,
            _ => true,
        };
        end += (u64::from(head & 7) + 1) * UNIT;
        if position < end {
            return has_line.then_some(line);
        }
        rest = after;
    }
    None
}

/// A number of six bits per byte, the lowest first; its lowest bit is the sign.
fn signed(bytes: &[u8]) -> i64 {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(6).enumerate() {
        value |= u64::from(byte & 63) << (6 * index);
        if byte & 64 == 0 {
            break;
        }
    }
    let size = (value >> 1).cast_signed();
    if value & 1 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `co_firstlineno`, the table, and (position, line) as `co_lines()` of that version gives them, of
    /// `def f(a):` / `    b = a` / `    if b:` / (empty) / `        g(b)` / `    return [c for c in b]`.
    type Case = (LineTable, u32, &'static [u8], &'static [(i64, Option<u32>)]);

    const CASES: [Case; 4] = [
        (
            LineTable::Steps,
            1,
            &[0, 1, 4, 1, 4, 2, 8, 1],
            &[(0, Some(2)), (4, Some(3)), (8, Some(5)), (15, Some(5)), (16, Some(6)), (-1, Some(1))],
        ),
        (
            LineTable::Ranges,
            1,
            &[4, 1, 4, 1, 8, 2, 14, 1, 2, 0x80],
            &[(0, Some(2)), (4, Some(3)), (8, Some(5)), (16, Some(6)), (30, None), (99, None)],
        ),
        (
            LineTable::Locations,
            1,
            &[
                128, 0, 216, 8, 9, 128, 65, 216, 7, 8, 240, 0, 2, 5, 13, 229, 8, 9, 136, 33, 137, 4, 140, 4,
                136, 4, 216, 11, 25, 136, 62, 144, 113, 136, 62, 137, 62, 140, 62, 208, 4, 25,
            ],
            &[
                (0, Some(1)),
                (2, Some(2)),
                (6, Some(3)),
                (8, Some(3)),
                (10, Some(5)),
                (39, Some(5)),
                (40, Some(6)),
            ],
        ),
        (
            LineTable::Locations,
            1,
            &[
                128, 0, 216, 8, 9, 128, 65, 222, 7, 8, 228, 8, 9, 136, 33, 140, 4, 217, 23, 24, 139, 62, 145,
                113, 144, 33, 138, 65, 145, 113, 137, 62, 208, 4, 25, 249, 138, 62,
            ],
            &[
                (0, Some(1)),
                (2, Some(2)),
                (6, Some(3)),
                (20, Some(5)),
                (75, Some(6)),
                (76, None),
                (80, Some(6)),
            ],
        ),
    ];

    #[test]
    fn each_format_gives_the_lines_that_the_interpreter_gives() {
        for (format, first, table, lines) in CASES {
            for &(position, line) in lines {
                assert_eq!(format.line_of(table, first, position), line, "{format:?} at {position}");
            }
        }
    }

    #[test]
    fn any_bytes_end() {
        for format in [LineTable::Steps, LineTable::Ranges, LineTable::Locations] {
            for byte in 0..=255u8 {
                let _ = format.line_of(&[byte; 64], u32::MAX, i64::MAX);
            }
        }
    }
}
