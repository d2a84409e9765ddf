//! The perf.data container: header, features, reader and writer, in file and pipe mode.

pub mod features;
mod frames;
pub mod header;
mod layout;
mod names;
mod open;
mod read_split;
pub mod reader;
pub mod tracing;
mod visit;
pub mod writer;

#[cfg(test)]
mod tests;
