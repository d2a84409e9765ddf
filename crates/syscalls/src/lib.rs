//! System calls of Linux: their numbers, names and arguments, and a recorded call as text.
//!
//! [`table`] knows the arguments of each call, [`layout`] reads the records of the kernel side, [`decode`] turns a
//! record into text. Nothing here makes a system call or reads a file.
//!
//! ```
//! let futex = (0..512).find(|&number| syscalls::numbers::name(number) == Some("futex"));
//! assert!(futex.is_some());
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod argument;
pub mod decode;
pub mod errno;
pub mod files;
pub mod filter;
pub mod flags;
pub mod fuzz;
pub mod layout;
pub mod memory;
pub mod numbers;
pub mod table;
