//! Lines of a method by the positions of its bytecodes, and its source file.

use super::Look;
use super::debug_offsets::LineOffsets;
use super::methods;
use super::number_stream::NumberStream;
use crate::runtimes::memory::read_u16;

/// More than a class file can have in one method: 65,535 lines of at most 11 bytes, and what comes after them.
const MOST_TABLE_BYTES: u64 = 1 << 20;
/// A `ConstMethod` is counted in words.
const WORD_BYTES: u64 = 8;
/// In its flags: it has lines.
// Source: HotSpot's constMethodFlags.hpp and constMethod.hpp, `has_linenumber_table`, JDK 8 to 25
const HAS_LINES: u8 = 1;
/// The first byte of two numbers that don't fit into it.
const TWO_NUMBERS: u8 = 0xff;
/// The lines' bits in a byte with both.
const LINE_BITS: u32 = 3;

/// Where a method's bytecodes are: first address (Avma) and number of bytes. `None` if there is no such memory.
pub(super) fn bytecodes(of: &LineOffsets, const_method: u64, look: &mut Look<'_, '_>) -> Option<(u64, u16)> {
    let bytes = read_u16(look.memory, const_method.wrapping_add(of.code_size))?;
    Some((const_method.wrapping_add(of.header_bytes), bytes))
}

/// The line of the bytecode at `bci`. `None` if the method has none.
pub(super) fn line_of(of: &LineOffsets, const_method: u64, bci: u16, look: &mut Look<'_, '_>) -> Option<u32> {
    let flags = look.u8(const_method.wrapping_add(of.flags))?;
    let (start, code_bytes) = bytecodes(of, const_method, look).filter(|_| flags & HAS_LINES != 0)?;
    let all = u64::from(look.u32(const_method.wrapping_add(of.words))?) * WORD_BYTES;
    let rest = all.checked_sub(of.header_bytes)?.checked_sub(u64::from(code_bytes))?;
    let mut table = vec![0; rest.min(MOST_TABLE_BYTES) as usize];
    let got = (look.memory)(start.wrapping_add(u64::from(code_bytes)), &mut table).min(table.len());
    line_in(NumberStream::new(&table[..got], of.encoding), bci)
}

/// The line of the last bytecode with one, up to `bci`: compilers don't always sort them.
// Source: HotSpot's method.cpp, `line_number_from_bci`, and compressedStream.cpp
fn line_in(mut table: NumberStream<'_>, bci: u16) -> Option<u32> {
    let wanted = i32::from(bci);
    let (mut at, mut line) = (0i32, 0i32);
    let mut best: Option<(i32, i32)> = None;
    loop {
        let (bytes, lines) = match table.byte()? {
            0 => break,
            TWO_NUMBERS => (table.signed()?, table.signed()?),
            both => (i32::from(both >> LINE_BITS), i32::from(both & ((1 << LINE_BITS) - 1))),
        };
        (at, line) = (at.wrapping_add(bytes), line.wrapping_add(lines));
        if at == wanted {
            best = Some((at, line));
            break;
        }
        if at < wanted && best.is_none_or(|(best, _)| at >= best) {
            best = Some((at, line));
        }
    }
    best.and_then(|(_, line)| u32::try_from(line).ok()).filter(|line| *line > 0)
}

/// `app/Shop.java`: the file's name in the folder that the class's package has. `None` if the class doesn't state it.
pub(super) fn file_of(of: &LineOffsets, const_method: u64, look: &mut Look<'_, '_>) -> Option<String> {
    let offsets = look.offsets;
    let pool = look.u64(const_method.wrapping_add(offsets.constants)).filter(|pool| *pool != 0)?;
    let index = read_u16(look.memory, pool.wrapping_add(of.pool_file)).filter(|index| *index != 0)?;
    let file = methods::pool_text(&offsets, pool, index, look.memory)?;
    let class = look.u64(pool.wrapping_add(offsets.holder))?;
    let class = look.u64(class.wrapping_add(offsets.class_name))?;
    let class = methods::read_symbol(&offsets, class, look.memory)?;
    Some(match class.rsplit_once('/') {
        Some((package, _)) => format!("{package}/{file}"),
        None => file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::hotspot::number_stream::NumberEncoding;

    #[test]
    fn a_bytecode_has_the_line_of_the_nearest_before_it() {
        // 0: line 3 and +5 bytes: line 4; then 20 bytes and -2 lines: 1000 lines on.
        let table = [3, 5 << 3 | 1, 0xff, 1 + 40, 1 + 3, 0];
        let line = |bci| line_in(NumberStream::new(&table, NumberEncoding::NoZeros), bci);
        assert_eq!([0, 4, 5, 24, 25, 900].map(line), [3, 3, 4, 4, 2, 2].map(Some));
    }

    #[test]
    fn lines_need_not_be_sorted() {
        // 0: 10, 8: 11, 4: 20.
        let table = [0xff, 0, 20, 8 << 3 | 1, 0xff, 7, 18, 0];
        let line = |bci| line_in(NumberStream::new(&table, NumberEncoding::AllBytes), bci);
        assert_eq!([0, 4, 7, 8, 9].map(line), [10, 20, 20, 11, 11].map(Some));
    }

    #[test]
    fn a_table_without_an_end_has_no_lines() {
        for table in [&[][..], &[3], &[0xff], &[0xff, 1], &[0]] {
            assert_eq!(line_in(NumberStream::new(table, NumberEncoding::AllBytes), 9), None);
        }
    }
}
