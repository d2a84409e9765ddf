//! The data of the page, packed into columns.
//
// Layout: docs/formats/page.md.

mod columns;
mod encode;

pub use columns::deflated;
pub use encode::{Encoded, encode};
