//! Protocol buffers, written field by field.
//
// Source: protobuf.dev/programming-guides/encoding.

use crate::varint::push_varint;

/// A message being put together.
#[derive(Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    /// A number of one to ten bytes, seven bits in each, lowest first.
    pub fn varint(&mut self, value: u64) {
        push_varint(&mut self.0, value);
    }

    /// A field of wire type 0.
    #[must_use]
    pub fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// A field of wire type 1.
    #[must_use]
    pub fn fixed64(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A field of wire type 2.
    #[must_use]
    pub fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A field with a message in it.
    #[must_use]
    pub fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

/// Numbers without tags between them: the content of a packed field.
#[must_use]
pub fn packed(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut list = Message::default();
    numbers.into_iter().for_each(|number| list.varint(number));
    list.0
}
