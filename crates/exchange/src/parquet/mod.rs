//! Parquet: tables of texts and numbers that DuckDB, ClickHouse, Spark and pandas read.
//!
//! The part of the format that tables of profiles need: flat columns without missing values, texts by dictionary, pages
//! compressed with Zstandard. Files that others wrote are read if they keep to it.
//
// Source: github.com/apache/parquet-format README.md, Encodings.md, src/main/thrift/parquet.thrift.

mod column;
mod pages;
mod read;
mod text_list;
mod thrift;
mod write;

pub use column::{ColumnKind, ColumnSchema, ColumnValues, TextColumn};
pub use read::{ParquetTable, ReadMemory, WantedPart, read, read_part};
pub use text_list::TextList;
pub use write::ParquetWriter;

/// First and last bytes of a file.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// `Type`, `CompressionCodec`, `PageType` and `Encoding` of the format.
mod code {
    pub const INT64: i64 = 2;
    pub const BYTE_ARRAY: i64 = 6;
    pub const UNCOMPRESSED: i64 = 0;
    pub const ZSTD: i64 = 6;
    pub const DATA_PAGE: i64 = 0;
    pub const DICTIONARY_PAGE: i64 = 2;
    pub const PLAIN: i64 = 0;
    pub const PLAIN_DICTIONARY: i64 = 2;
    pub const RLE: i64 = 3;
    pub const RLE_DICTIONARY: i64 = 8;
    pub const UTF8: i64 = 0;
    pub const TIMESTAMP_MICROS: i64 = 10;
}

/// Numbers of fields in the footer and in front of pages.
mod field {
    pub const SCHEMA: i16 = 2;
    pub const GROUPS: i16 = 4;
    pub const CODEC: i16 = 4;
    pub const VALUES: i16 = 5;
    pub const DATA_OFFSET: i16 = 9;
    pub const DICTIONARY_OFFSET: i16 = 11;
    pub const DATA_HEADER: i16 = 5;
    pub const DICTIONARY_HEADER: i16 = 7;
}

#[cfg(test)]
mod tests;
