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

/// Digits `#` to `}`, two for 13 bits, highest first; up to six bits at the end have one, more have two, with zeros after
/// them. Instead of `<`, which could end an element, it is `!`. An eleventh shorter than base64, which browsers decode
/// faster.
#[must_use]
pub fn base91(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() / 4 * 5);
    let mut push = |digit: u32| {
        let digit = b'#' + (digit % 91) as u8;
        text.push(if digit == b'<' { '!' } else { char::from(digit) });
    };
    let (mut bits, mut count) = (0u32, 0);
    for &byte in bytes {
        bits = bits << 8 | u32::from(byte);
        count += 8;
        if count >= 13 {
            count -= 13;
            push((bits >> count) / 91);
            push(bits >> count);
            bits &= (1 << count) - 1;
        }
    }
    match count {
        0 => {}
        1..=6 => push(bits << (6 - count)),
        _ => {
            push((bits << (13 - count)) / 91);
            push(bits << (13 - count));
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

    /// Digits back to bytes, as the page does it.
    fn of_base91(text: &str) -> Vec<u8> {
        let digits: Vec<u32> =
            text.bytes().map(|byte| u32::from(if byte == b'!' { b'<' } else { byte }) - 35).collect();
        let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
        for pair in digits.chunks(2) {
            (bits, count) = match pair {
                [high, low] => (bits << 13 | (high * 91 + low), count + 13),
                one => (bits << 6 | one[0], count + 6),
            };
            while count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
            bits &= (1 << count) - 1;
        }
        bytes
    }

    #[test]
    fn base_91_gives_back_as_many_bytes_as_it_got() {
        assert_eq!(base91(&[0; 13]), "#".repeat(16));
        for length in 0..40 {
            for step in [0u8, 1, 37, 255] {
                let bytes: Vec<u8> = (0..length).map(|at| step.wrapping_mul(at).wrapping_add(step)).collect();
                let text = base91(&bytes);
                assert_eq!(of_base91(&text), bytes, "{text}");
                assert!(text.len() <= bytes.len() * 16 / 13 + 2 && !text.contains('<'), "{text}");
            }
        }
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!(["", "f", "fo", "foo", "foob"].map(of), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
