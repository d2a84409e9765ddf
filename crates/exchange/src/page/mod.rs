//! The data of the page, packed into columns.
//
// Layout: docs/formats/page.md.

mod columns;
mod encode;
mod first_view;
mod followed;
mod pruning;

pub use columns::{base64, base91, deflated};
pub use encode::{Encoded, encode};
pub use first_view::first_view;
pub use followed::followed;
pub use pruning::most_bytes;

use crate::foreign::harmless;
use serde_json::Value;

/// Makes all text of a value harmless: anybody may have written it.
pub fn harmless_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = harmless(text).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(harmless_all),
        Value::Object(fields) => fields.values_mut().for_each(harmless_all),
        _ => {}
    }
}
