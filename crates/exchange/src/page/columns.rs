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
    Ok(base64(&deflate(bytes)?))
}

fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
    deflate.write_all(bytes)?;
    deflate.finish()
}

/// Digits `(` to `|`, highest first, five for four bytes; the last n bytes have n + 1. Instead of `<`, which could end an
/// element, it is `!`. A sixteenth shorter than base64, which browsers decode faster.
#[must_use]
pub fn base85(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for chunk in bytes.chunks(4) {
        let word = word_of(chunk, 4);
        for power in [52_200_625, 614_125, 7_225, 85, 1].into_iter().take(chunk.len() + 1) {
            let digit = b'(' + (word / power % 85) as u8;
            text.push(if digit == b'<' { '!' } else { char::from(digit) });
        }
    }
    text
}

/// At most `length` bytes as one number, with zeros after them.
fn word_of(bytes: &[u8], length: usize) -> u32 {
    bytes.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (length - bytes.len()))
}

/// RFC 4648, with padding.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = word_of(chunk, 3);
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
    fn base_85_has_a_digit_more_than_bytes_in_its_last_part() {
        assert_eq!(base85(&[0, 0, 0, 0]), "(((((");
        assert_eq!((&base85(&[0xff; 4])[..], &base85(b"tally!")[..]), ("z?^4(", "MJI(,Nw1"));
        assert_eq!([1, 2, 3, 4, 5].map(|length| base85(&vec![7; length]).len()), [2, 3, 4, 5, 7]);
        assert!(!(0..=u8::MAX).any(|byte| base85(&[byte, 60, byte, 20]).contains('<')));
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!(["", "f", "fo", "foo", "foob"].map(of), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
