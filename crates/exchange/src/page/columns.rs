//! Bytes of the page's columns: variable-length numbers, front-coded names, deflate, base64.
//
// Layout: docs/formats/page.md.

use crate::varint::push_varint;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::{self, Write};

/// Columns of numbers and names, one after the other, each with its length before it.
#[derive(Debug, Default)]
pub struct Columns {
    bytes: Vec<u8>,
}

impl Columns {
    /// A column of numbers, each in groups of seven bits, lowest first.
    pub fn numbers(&mut self, values: impl Iterator<Item = u64>) {
        let mut column = Vec::new();
        values.for_each(|value| push_varint(&mut column, value));
        self.column(&column);
    }

    /// A column of single bytes.
    pub fn bytes(&mut self, values: impl Iterator<Item = u8>) {
        let column: Vec<u8> = values.collect();
        self.column(&column);
    }

    /// Signed numbers: a number times two, or for a negative one that of its opposite less one, times two, plus one.
    pub fn signed(&mut self, values: impl Iterator<Item = i64>) {
        self.numbers(values.map(|value| ((value << 1) ^ (value >> 63)).cast_unsigned()));
    }

    /// Texts in order, as three columns: numbers of bytes shared with the text before, numbers of other bytes, and those.
    pub fn front_coded<'t>(&mut self, texts: impl Iterator<Item = &'t str>) {
        let (mut shared, mut others, mut bytes, mut before) = (Vec::new(), Vec::new(), Vec::new(), "");
        for text in texts {
            let same = before.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
            shared.push(same as u64);
            others.push((text.len() - same) as u64);
            bytes.extend_from_slice(&text.as_bytes()[same..]);
            before = text;
        }
        self.numbers(shared.into_iter());
        self.numbers(others.into_iter());
        self.column(&bytes);
    }

    fn column(&mut self, column: &[u8]) {
        push_varint(&mut self.bytes, column.len() as u64);
        self.bytes.extend_from_slice(column);
    }

    /// All columns, deflated without a header, as base64.
    ///
    /// # Errors
    /// None: writing to memory.
    pub fn packed(&self) -> io::Result<String> {
        deflated(&self.bytes)
    }
}

/// Bytes deflated without a header, as base64.
///
/// # Errors
/// None: writing to memory.
pub fn deflated(bytes: &[u8]) -> io::Result<String> {
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
    deflate.write_all(bytes)?;
    Ok(base64(&deflate.finish()?))
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let is_padding = digit > chunk.len();
            let index = (word >> (18 - 6 * digit)) as usize & 63;
            text.push(if is_padding { '=' } else { char::from(DIGITS[index]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_a_byte_for_each_seven_bits() {
        let mut columns = Columns::default();
        columns.numbers([0, 127, 128, 300, u64::MAX].into_iter());
        let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(columns.bytes, [&[16, 0, 127, 0x80, 1, 0xac, 2][..], &max].concat());
    }

    #[test]
    fn the_lowest_bit_of_a_signed_number_is_its_sign() {
        let (mut signed, mut numbers) = (Columns::default(), Columns::default());
        signed.signed([0, 1, -1, 64, i64::MIN].into_iter());
        numbers.numbers([0, 2, 1, 128, u64::MAX].into_iter());
        assert_eq!(signed.bytes, numbers.bytes);
    }

    #[test]
    fn a_name_holds_only_the_part_that_is_new_even_inside_a_character() {
        let mut columns = Columns::default();
        columns.front_coded(["drä", "drö", "drö2"].into_iter());
        let wanted = [&[3, 0, 3, 4, 3, 4, 1, 1, 6][..], "drä".as_bytes(), &[0xb6, b'2']].concat();
        assert_eq!(columns.bytes, wanted);
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!(["", "f", "fo", "foo", "foob"].map(of), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
