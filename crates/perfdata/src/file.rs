//! The perf.data container: header, features, reader and writer, in file and pipe mode.

pub mod features;
pub mod header;
pub mod reader;
pub mod tracing;
pub mod writer;
