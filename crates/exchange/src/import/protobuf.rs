//! ProtoFields of a protocol buffer, each with its offset.
//
// Source: protobuf.dev/programming-guides/encoding.

use super::error::{ImportError, ImportFormat};

/// A message that is being read.
#[derive(Clone, Copy)]
pub struct ProtoFields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of `bytes` in the file.
    base: usize,
    format: ImportFormat,
}

/// A field's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A number of any width.
    Number(u64),
    /// Text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Number.
    pub number: u64,
    /// Content.
    pub content: Content<'a>,
    /// Where its content is in the file.
    pub offset: usize,
}

impl<'a> ProtoFields<'a> {
    /// Those of a whole file.
    #[must_use]
    pub fn of_file(bytes: &'a [u8], format: ImportFormat) -> Self {
        Self { bytes, at: 0, base: 0, format }
    }

    /// The next field; `None` at the end.
    ///
    /// # Errors
    /// If the bytes are no field, or end inside one.
    pub fn next(&mut self) -> Result<Option<Field<'a>>, ImportError> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let offset = self.base + self.at;
        let content = match tag & 7 {
            0 => Content::Number(self.varint()?),
            1 => Content::Number(lowest_first(self.take(8)?)),
            2 => {
                let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let offset = self.base + self.at;
                let content = Content::Bytes(self.take(len)?);
                return Ok(Some(Field { number: tag >> 3, content, offset }));
            }
            5 => Content::Number(lowest_first(self.take(4)?)),
            _ => return Err(ImportError::at(self.format, "a field of an unknown wire type", offset)),
        };
        Ok(Some(Field { number: tag >> 3, content, offset }))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ImportError> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| {
            ImportError::at(self.format, "a field ends after the file", self.base + self.at)
        })?;
        self.at += len;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ImportError> {
        let start = self.base + self.at;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(ImportError::at(self.format, "a number is cut off", start));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ImportError::at(self.format, "a number of more than ten bytes", start))
    }
}

impl<'a> Field<'a> {
    /// The number.
    ///
    /// # Errors
    /// If it is none.
    pub fn number(&self, format: ImportFormat) -> Result<u64, ImportError> {
        match self.content {
            Content::Number(number) => Ok(number),
            Content::Bytes(_) => Err(ImportError::at(format, "a number is missing", self.offset)),
        }
    }

    /// The bytes.
    ///
    /// # Errors
    /// If it is a number.
    pub fn bytes(&self, format: ImportFormat) -> Result<&'a [u8], ImportError> {
        match self.content {
            Content::Bytes(bytes) => Ok(bytes),
            Content::Number(_) => Err(ImportError::at(format, "a message is missing", self.offset)),
        }
    }

    /// The fields of the message in it.
    ///
    /// # Errors
    /// If it is a number.
    pub fn message(&self, format: ImportFormat) -> Result<ProtoFields<'a>, ImportError> {
        Ok(ProtoFields { bytes: self.bytes(format)?, at: 0, base: self.offset, format })
    }

    /// Adds its number, or its packed numbers, to a list.
    ///
    /// # Errors
    /// If one of them is cut off.
    pub fn numbers(&self, format: ImportFormat, list: &mut Vec<u64>) -> Result<(), ImportError> {
        match self.content {
            Content::Number(number) => list.push(number),
            Content::Bytes(_) => {
                let mut packed = self.message(format)?;
                while packed.at < packed.bytes.len() {
                    list.push(packed.varint()?);
                }
            }
        }
        Ok(())
    }
}

/// The number of a field of fixed width.
fn lowest_first(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
