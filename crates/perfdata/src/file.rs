//! The perf.data container: header, features, reader and writer, in file and pipe mode.

pub(crate) mod compress;
pub(crate) mod diagnostics;
pub(crate) mod encode;
pub mod features;
mod frames;
pub mod header;
mod layout;
mod names;
mod open;
mod read_split;
pub mod reader;
mod sink;
pub(crate) mod sorter;
pub mod tracing;
mod visit;
pub mod writer;

#[cfg(test)]
mod tests;
