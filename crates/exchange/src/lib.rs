//! Formats of other profilers: [`export`] writes profiles and timelines, [`import`] reads stacks and settings; [`page`] packs the data
//! of our own page; [`text`] has views as text.
//!
//! Bytes ⇄ [`profile`]'s model: no file is opened here.
//!
//! ```
//! let stacks = exchange::import::folded::read(b"main;parse 2\nmain;work 5\nmain;parse 1\n");
//! assert_eq!(exchange::export::folded::to_text(&stacks.tree), "main;parse 3\nmain;work 5\n");
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod check;
pub mod export;
pub mod fleet;
pub mod foreign;
pub mod fuzz;
pub mod http;
pub mod import;
pub mod mcp;
pub mod page;
pub mod parquet;
pub mod perf_header;
pub mod rows;
pub mod svg;
pub mod text;
mod varint;
