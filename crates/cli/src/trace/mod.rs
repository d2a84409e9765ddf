//! `tally trace`: system calls as they happen, with decoded arguments, or their sums.
//!
//! The crate `syscalls` knows the arguments and turns a record into text; [`session`] runs it all.

pub mod by_function;
pub mod follow;
pub mod printer;
pub mod session;
pub mod summary;
