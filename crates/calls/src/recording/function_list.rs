//! Names of the functions that uprobes were put on: the file `functions` of a recording.
//!
//! Written before the first call, because a file of a container is gone when that ends, and so that a recording can be
//! read elsewhere.

use rustc_hash::FxHashMap;

use super::function::Function;

/// Name in the folder.
pub const NAME: &str = "functions";

/// The functions by address, from the text of that file.
#[must_use]
pub fn parse(text: &str) -> FxHashMap<u64, Function> {
    let line = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        let dso = fields.next()?.to_owned();
        Some((address, Function::new(fields.next()?.to_owned(), dso)))
    };
    text.lines().filter_map(line).collect()
}
