//! Thrift's compact protocol: structures of numbers, texts and lists.
//
// Source: github.com/apache/thrift doc/specs/thrift-compact-protocol.md.

use crate::varint::push_varint;

/// Types of fields.
mod kind {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const STRUCT: u8 = 12;
}

/// Structures within structures that are read.
const MOST_DEPTH: u32 = 12;

/// A structure while it is written. Fields are added in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct ThriftStruct {
    bytes: Vec<u8>,
    last: i16,
}

impl ThriftStruct {
    /// A number of 32 bits.
    #[must_use]
    pub fn i32(self, id: i16, value: i64) -> Self {
        self.with(id, kind::I32, &varint(zigzag(value)))
    }

    /// A number of 64 bits.
    #[must_use]
    pub fn i64(self, id: i16, value: i64) -> Self {
        self.with(id, kind::I64, &varint(zigzag(value)))
    }

    /// A text.
    #[must_use]
    pub fn text(self, id: i16, text: &str) -> Self {
        self.with(id, kind::BINARY, &sized(text))
    }

    /// A structure.
    #[must_use]
    pub fn within(self, id: i16, inner: Self) -> Self {
        self.with(id, kind::STRUCT, &inner.finish())
    }

    /// A list of numbers of 32 bits.
    #[must_use]
    pub fn i32s(self, id: i16, values: &[i64]) -> Self {
        let content: Vec<Vec<u8>> = values.iter().map(|value| varint(zigzag(*value))).collect();
        self.list(id, kind::I32, &content)
    }

    /// A list of texts.
    #[must_use]
    pub fn texts(self, id: i16, texts: &[&str]) -> Self {
        let content: Vec<Vec<u8>> = texts.iter().map(|text| sized(text)).collect();
        self.list(id, kind::BINARY, &content)
    }

    /// A list of structures.
    #[must_use]
    pub fn structs(self, id: i16, structs: Vec<Self>) -> Self {
        let content: Vec<Vec<u8>> = structs.into_iter().map(Self::finish).collect();
        self.list(id, kind::STRUCT, &content)
    }

    /// Its bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn list(self, id: i16, of: u8, content: &[Vec<u8>]) -> Self {
        let mut bytes = match u8::try_from(content.len()) {
            Ok(len) if len < 15 => vec![len << 4 | of],
            _ => [vec![0xf0 | of], varint(content.len() as u64)].concat(),
        };
        content.iter().for_each(|element| bytes.extend(element));
        self.with(id, kind::LIST, &bytes)
    }

    fn with(mut self, id: i16, of: u8, content: &[u8]) -> Self {
        // Numbers of fields rise by less than 16 in Parquet's structures.
        self.bytes.push(((id - self.last) as u8) << 4 | of);
        self.bytes.extend(content);
        self.last = id;
        self
    }
}

fn sized(text: &str) -> Vec<u8> {
    [varint(text.len() as u64), text.as_bytes().to_vec()].concat()
}

/// A number in groups of seven bits, lowest first.
#[must_use]
pub fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_varint(&mut bytes, value);
    bytes
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// A value as read.
#[derive(Clone, Debug, PartialEq)]
pub enum ThriftValue<'a> {
    /// Any number or truth value.
    Number(i64),
    /// A text.
    Bytes(&'a [u8]),
    /// A list.
    List(Vec<Self>),
    /// Fields with their numbers.
    Struct(Vec<(i16, Self)>),
}

impl<'a> ThriftValue<'a> {
    /// The field of this number.
    #[must_use]
    pub fn field(&self, id: i16) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find(|(known, _)| *known == id).map(|(_, value)| value)
    }

    /// The number in a field.
    #[must_use]
    pub fn number(&self, id: i16) -> Option<i64> {
        match self.field(id)? {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The text in a field; empty without one.
    #[must_use]
    pub fn bytes(&self, id: i16) -> &'a [u8] {
        match self.field(id) {
            Some(Self::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }

    /// The list in a field; empty without one.
    #[must_use]
    pub fn list(&self, id: i16) -> &[Self] {
        match self.field(id) {
            Some(Self::List(list)) => list,
            _ => &[],
        }
    }
}

/// A structure at the beginning of `bytes`, which is moved after it; `None` if it is none.
pub fn read_struct<'a>(bytes: &mut &'a [u8]) -> Option<ThriftValue<'a>> {
    strukt(bytes, MOST_DEPTH)
}

fn strukt<'a>(bytes: &mut &'a [u8], depth: u32) -> Option<ThriftValue<'a>> {
    let depth = depth.checked_sub(1)?;
    let mut fields = Vec::new();
    let mut id = 0i16;
    loop {
        let head = byte(bytes)?;
        if head == 0 {
            return Some(ThriftValue::Struct(fields));
        }
        id = match head >> 4 {
            0 => i16::try_from(unzigzag(read_varint(bytes)?)).ok()?,
            step => id.checked_add(i16::from(step))?,
        };
        fields.push((id, value(bytes, head & 15, depth)?));
    }
}

fn value<'a>(bytes: &mut &'a [u8], of: u8, depth: u32) -> Option<ThriftValue<'a>> {
    Some(match of {
        kind::TRUE | kind::FALSE => ThriftValue::Number(i64::from(of == kind::TRUE)),
        kind::BYTE => ThriftValue::Number(i64::from(byte(bytes)?)),
        kind::I16 | kind::I32 | kind::I64 => ThriftValue::Number(unzigzag(read_varint(bytes)?)),
        kind::DOUBLE => ThriftValue::Bytes(take(bytes, 8)?),
        kind::BINARY => {
            let len = read_varint(bytes)?;
            ThriftValue::Bytes(take(bytes, usize::try_from(len).ok()?)?)
        }
        kind::LIST | kind::SET => list(bytes, depth)?,
        kind::STRUCT => strukt(bytes, depth)?,
        _ => return None,
    })
}

fn list<'a>(bytes: &mut &'a [u8], depth: u32) -> Option<ThriftValue<'a>> {
    let depth = depth.checked_sub(1)?;
    let head = byte(bytes)?;
    let len = match head >> 4 {
        15 => read_varint(bytes)?,
        len => u64::from(len),
    };
    // Each element has at least one byte.
    let len = usize::try_from(len).ok().filter(|len| *len <= bytes.len())?;
    let mut elements = Vec::new();
    for _ in 0..len {
        let element = match head & 15 {
            kind::TRUE | kind::FALSE => ThriftValue::Number(i64::from(byte(bytes)? == kind::TRUE)),
            of => value(bytes, of, depth)?,
        };
        elements.push(element);
    }
    Some(ThriftValue::List(elements))
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

/// The next `len` bytes.
pub fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

/// A number in groups of seven bits.
pub fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        value |= u64::from(next & 0x7f) << shift;
        if next < 0x80 {
            return Some(value);
        }
    }
    None
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}
