//! Numbers of one to ten bytes, seven bits in each, lowest first: of Protocol Buffers, Thrift and the page's columns.

/// Appends a number.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
