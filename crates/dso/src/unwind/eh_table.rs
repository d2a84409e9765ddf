//! The sorted table of .eh_frame_hdr in the form that linkers write, searched without decoding each number's form.
//!
//! ```text
//!   1  1b  03  3b | .eh_frame (i32, from here) | count (u32) | (function, entry) (i32, i32, from the section's start) …
//! ```
//
// Source: Linux Standard Base 5.0, core generic, "DWARF Extensions", .eh_frame_hdr.

/// Version, encodings of the pointer, of the count and of the table.
const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// Bytes before the table.
const HEADER: usize = 12;

/// A table of a 64-bit little-endian file.
pub(super) struct EhTable<'a> {
    /// Stated address of the section.
    start: u64,
    /// Stated address of .eh_frame.
    eh_frame: u64,
    /// Functions and entries, ascending by function.
    rows: &'a [[u8; 8]],
}

impl<'a> EhTable<'a> {
    /// The table in the section's bytes at its stated address; `None` in another form, and for a table that is empty or cut off.
    pub(super) fn of(bytes: &'a [u8], start: u64) -> Option<Self> {
        let number = |at: usize| Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if bytes.first_chunk() != Some(&FORM) {
            return None;
        }
        let eh_frame = start.wrapping_add(4).wrapping_add_signed(number(4)?.into());
        let count = number(8)?.cast_unsigned() as usize;
        let rows = bytes.get(HEADER..)?.as_chunks().0.get(..count).filter(|rows| !rows.is_empty())?;
        Some(Self { start, eh_frame, rows })
    }

    /// Offset in .eh_frame of the last entry whose function begins at or before `svma`; `None` before the first.
    pub(super) fn entry(&self, svma: u64) -> Option<usize> {
        let wanted = i64::try_from(i128::from(svma) - i128::from(self.start)).ok()?;
        let after = self.rows.partition_point(|row| i64::from(number(row, 0)) <= wanted);
        let entry = number(self.rows.get(after.checked_sub(1)?)?, 4);
        let svma = self.start.wrapping_add_signed(entry.into());
        usize::try_from(svma.checked_sub(self.eh_frame)?).ok()
    }
}

fn number(row: &[u8; 8], at: usize) -> i32 {
    let [a, b, c, d] = [row[at], row[at + 1], row[at + 2], row[at + 3]];
    i32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section at 0x1000 with .eh_frame at 0x2000.
    fn section(rows: &[(i32, i32)]) -> Vec<u8> {
        let numbers = rows.iter().flat_map(|&(function, entry)| [function, entry]);
        let mut bytes = FORM.to_vec();
        bytes.extend([0x1000 - 4, rows.len() as i32].into_iter().chain(numbers).flat_map(i32::to_le_bytes));
        bytes
    }

    #[test]
    fn an_address_has_the_entry_of_the_last_function_before_it() {
        let bytes = section(&[(-0x800, 0x1000), (0x100, 0x1020), (0x200, 0x1048)]);
        let table = EhTable::of(&bytes, 0x1000).expect("a table");
        let entries = [0x7ff, 0x800, 0x10ff, 0x1100, 0x11ff, 0x1200, u64::MAX].map(|svma| table.entry(svma));
        assert_eq!(entries, [None, Some(0), Some(0), Some(0x20), Some(0x20), Some(0x48), None]);
    }

    #[test]
    fn a_table_in_another_form_or_cut_off_is_left_to_others() {
        let bytes = section(&[(0x100, 0x1020)]);
        assert!(EhTable::of(&bytes, 0x1000).is_some());
        assert!(EhTable::of(&bytes[..bytes.len() - 1], 0x1000).is_none());
        assert!(EhTable::of(&section(&[]), 0x1000).is_none());
        let mut other = bytes.clone();
        other[3] = 0x1b;
        assert!(EhTable::of(&other, 0x1000).is_none());
    }
}
