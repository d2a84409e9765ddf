//! Unpacks the columns of the page (docs/formats/page.md), independently of the code that writes them.

use std::io::Read;

use anyhow::{Context, Result, bail};
use flate2::read::DeflateDecoder;

/// The rest of the columns.
pub struct Columns {
    bytes: Vec<u8>,
    at: usize,
}

impl Columns {
    /// From base64.
    pub fn unpack(base64: &str) -> Result<Self> {
        Ok(Self { bytes: inflated(base64)?, at: 0 })
    }

    /// The next column as bytes.
    pub fn bytes(&mut self) -> Result<Vec<u8>> {
        let length = usize::try_from(varint(&self.bytes, &mut self.at)?)?;
        let column = self.bytes.get(self.at..self.at + length).context("a column is cut")?.to_vec();
        self.at += length;
        Ok(column)
    }

    /// The next column as numbers.
    pub fn numbers(&mut self) -> Result<Vec<u64>> {
        let (column, mut at, mut numbers) = (self.bytes()?, 0, Vec::new());
        while at < column.len() {
            numbers.push(varint(&column, &mut at)?);
        }
        Ok(numbers)
    }

    /// The next three columns as front-coded texts.
    pub fn texts(&mut self) -> Result<Vec<String>> {
        let (shared, others, bytes) = (self.numbers()?, self.numbers()?, self.bytes()?);
        let (mut at, mut texts, mut before) = (0, Vec::new(), Vec::new());
        for (shared, length) in shared.into_iter().zip(others) {
            let length = usize::try_from(length)?;
            before.truncate(usize::try_from(shared)?);
            before.extend_from_slice(bytes.get(at..at + length).context("a name is cut")?);
            at += length;
            texts.push(String::from_utf8(before.clone())?);
        }
        Ok(texts)
    }
}

/// Bytes of a deflated element in base64.
pub fn inflated(base64: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(from_base64(base64.trim())?.as_slice()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at).context("a number is cut")?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    bail!("a number has too many bytes")
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let (mut bytes, mut word, mut bits) = (Vec::new(), 0u32, 0);
    for digit in text.bytes().filter(|&digit| digit != b'=') {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => bail!("{other:#x} in base64"),
        };
        (word, bits) = (word << 6 | u32::from(value), bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    Ok(bytes)
}
