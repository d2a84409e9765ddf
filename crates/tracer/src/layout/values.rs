//! Arguments and results: the spec of where the tracer finds them, and the bytes it writes.
//!
//! A *spec* is two `u32` (how many arguments, how many results), then [`ValueItem`]s of 8 bytes, arguments first.
//! The bytes written are one value an item: its length in a byte, then that many bytes; or one of the `VALUE_*`
//! bytes alone.

/// One value to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueItem {
    /// One of `FROM_*`.
    pub from: u8,
    /// The register: n-th of the argument's (or result's) general or vector registers.
    pub number: u8,
    /// One of `HOW_*`.
    pub how: u8,
    /// Bytes of a plain value.
    pub bytes: u8,
    /// On the stack: bytes above the first argument there. For a slice: the general register with its length.
    /// For a wide value in registers: the general register with its high half. For a pointer: offset from it in
    /// bytes.
    pub offset: u32,
}

/// In a general register.
pub const FROM_GENERAL: u8 = 0;
/// In a vector register.
pub const FROM_VECTOR: u8 = 1;
/// On the stack.
pub const FROM_STACK: u8 = 2;
/// Nowhere that is known.
pub const FROM_NOWHERE: u8 = 3;

/// On top of the stack of x87 registers (results only).
pub const FROM_X87: u8 = 4;

/// The value itself.
pub const HOW_PLAIN: u8 = 0;
/// A pointer to text that ends in 0.
pub const HOW_TEXT: u8 = 1;
/// A pointer to text, its length being in another register.
pub const HOW_SLICE: u8 = 2;
/// A pointer to two words: where text begins, and its length.
pub const HOW_TEXT_OBJECT: u8 = 3;

/// The value itself, of [`WIDE_BYTES`].
pub const HOW_WIDE: u8 = 4;
/// A pointer to the value's bytes, [`ValueItem::offset`] on.
pub const HOW_AT: u8 = 5;
/// Bytes of a wide value; of x87's the upper six mean nothing.
pub const WIDE_BYTES: usize = 16;

/// In a length's place: it can't be read there.
pub const VALUE_UNREADABLE: u8 = 255;
/// In a length's place: a null pointer.
pub const VALUE_NULL: u8 = 254;
/// In a length's place: the values before it left no room.
pub const VALUE_NO_ROOM: u8 = 253;

/// Most bytes of text that are kept; text of this length was truncated.
pub const TEXT_BYTES_MAX: usize = 96;
/// Most bytes of all values of one call.
pub const VALUES_BYTES_MAX: usize = 240;
/// Bytes of a spec's head.
pub const HEAD_BYTES: usize = 8;
/// Bytes of an [`ValueItem`].
pub const ITEM_BYTES: usize = 8;

impl ValueItem {
    /// Decodes the bytes of a spec.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; ITEM_BYTES]) -> Self {
        let [from, number, how, size, a, b, c, d] = *bytes;
        Self { from, number, how, bytes: size, offset: u32::from_le_bytes([a, b, c, d]) }
    }

    /// The bytes to put in a spec.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ITEM_BYTES] {
        let [a, b, c, d] = self.offset.to_le_bytes();
        [self.from, self.number, self.how, self.bytes, a, b, c, d]
    }
}

/// How many arguments and results a spec names; none if it is cut short.
#[must_use]
pub fn counts(spec: &[u8]) -> (usize, usize) {
    let mut counts = spec.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word) as usize);
    (counts.next().unwrap_or(0), counts.next().unwrap_or(0))
}

/// A spec's bytes.
#[cfg(not(any(tally_preload, tally_timers)))]
#[must_use]
pub fn spec(arguments: &[ValueItem], results: &[ValueItem]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((arguments.len() as u32).to_le_bytes());
    bytes.extend((results.len() as u32).to_le_bytes());
    arguments.iter().chain(results).for_each(|item| bytes.extend(item.to_bytes()));
    bytes
}

/// One value as it was written.
#[cfg(not(any(tally_preload, tally_timers)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenValue<'a> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// It could not be read.
    Unreadable,
    /// A null pointer where text was wanted.
    Null,
    /// It did not fit.
    NoRoom,
}

/// The values in the bytes of one call; where they are cut short they end.
#[cfg(not(any(tally_preload, tally_timers)))]
pub fn written(bytes: &[u8]) -> impl Iterator<Item = WrittenValue<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first()?;
        let (value, bytes) = match *length {
            VALUE_UNREADABLE => (WrittenValue::Unreadable, 0),
            VALUE_NULL => (WrittenValue::Null, 0),
            VALUE_NO_ROOM => (WrittenValue::NoRoom, 0),
            length => (WrittenValue::Bytes(after.get(..usize::from(length))?), usize::from(length)),
        };
        rest = &after[bytes..];
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_written_and_end_where_they_are_cut() {
        let bytes = [2, 7, 0, VALUE_NULL, 3, b'a', b'b', b'c', VALUE_UNREADABLE];
        let all = [
            WrittenValue::Bytes(&[7, 0]),
            WrittenValue::Null,
            WrittenValue::Bytes(b"abc"),
            WrittenValue::Unreadable,
        ];
        assert_eq!(written(&bytes).collect::<Vec<_>>(), all);
        assert_eq!(written(&bytes[..6]).collect::<Vec<_>>(), all[..2]);
        let item = ValueItem { from: FROM_STACK, number: 1, how: HOW_TEXT, bytes: 8, offset: 0x1234_5678 };
        assert_eq!(ValueItem::from_bytes(&item.to_bytes()), item);
    }
}
