//! The path of a record from a ring to the file: read, queued, put in order, unwound, written.

pub mod chain_join;
pub mod order;
pub mod queue;
pub mod ring_reader;
pub mod stacks;
pub mod worker;
