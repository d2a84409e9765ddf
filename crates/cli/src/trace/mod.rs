//! `tally trace`: system calls as they happen, with decoded arguments, or their sums.
//!
//! [`table`] knows the arguments of each call, [`decode`] turns a record into text, [`session`] runs it all.

pub mod argument;
pub mod decode;
pub mod errno;
pub mod files;
pub mod filter;
pub mod flags;
pub mod follow;
pub mod printer;
pub mod session;
pub mod summary;
pub mod table;
