//! Errors in the bytes of a recording.

/// Malformed input: what, where, and the value found. Offsets are bytes from the file's beginning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not begin with a perf.data magic.
    #[error("not a perf.data file (it begins with \"{}\")", found.escape_ascii())]
    BadMagic {
        /// The first bytes, at most 8.
        found: Vec<u8>,
    },
    /// The file ends inside a structure.
    #[error("{what} at offset {offset:#x} needs {needed} bytes, the file has {have}")]
    Truncated {
        /// The structure.
        what: &'static str,
        /// Where it begins.
        offset: u64,
        /// Size.
        needed: u64,
        /// Bytes left from there.
        have: u64,
    },
    /// A value that cannot be.
    #[error("{what} at offset {offset:#x} is {value:#x}")]
    BadValue {
        /// Which value.
        what: &'static str,
        /// Offset.
        offset: u64,
        /// The value found.
        value: u64,
    },
    /// A record whose size field is below the 8 bytes of its header.
    #[error("record of type {type_} at offset {offset:#x} has size {size}")]
    BadRecordSize {
        /// Where the record begins.
        offset: u64,
        /// `PERF_RECORD_*`.
        type_: u32,
        /// The size field.
        size: u16,
    },
    /// A record whose content does not fit its size.
    #[error("record of type {type_} at offset {offset:#x} is too short for its content")]
    ShortRecord {
        /// Where the record begins.
        offset: u64,
        /// `PERF_RECORD_*`.
        type_: u32,
    },
    /// A sample whose id belongs to no event of the file.
    #[error("sample at offset {offset:#x} has the id {id}, which no event of the file has")]
    UnknownId {
        /// Where the record begins.
        offset: u64,
        /// The id.
        id: u64,
    },
    /// A bit that changes the layout of samples and that is not known here.
    #[error("event {event} uses {field} bits {bits:#x}, whose layout is not known")]
    UnknownBits {
        /// Index into the file's events.
        event: usize,
        /// `sample_type`, `read_format` or `branch_sample_type`.
        field: &'static str,
        /// The unknown bits.
        bits: u64,
    },
    /// There is a sample, but no event that describes its layout.
    #[error("sample at offset {offset:#x} comes before any event description")]
    NoEvents {
        /// Where the record begins.
        offset: u64,
    },
    /// zstd data that does not decompress.
    #[error("compressed records at offset {offset:#x} do not decompress: {reason}")]
    Decompress {
        /// Where the record begins.
        offset: u64,
        /// The decoder's error message.
        reason: &'static str,
    },
    /// A header feature that could not be read; the others were.
    #[error("header feature {feature} at offset {offset:#x} is damaged")]
    BadFeature {
        /// `HEADER_*` number.
        feature: u32,
        /// Where its section begins.
        offset: u64,
    },
}
