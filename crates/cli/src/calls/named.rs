//! Names of the functions that uprobes were put on: the file `functions` of a recording.
//!
//! Written before the first call, because a file of a container is gone when that ends, and so that a recording can be
//! read elsewhere.

use anyhow::Context;
use record::calls::Addresses;
use record::output_file::write_part;
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::path::Path;

use super::choose::Chosen;
use super::names::Function;

/// Its name in the folder.
pub const NAME: &str = "functions";

/// Writes them: a line a function, `address file name`, with tabs between.
///
/// # Errors
/// If the file can't be written.
pub fn write(dir: &Path, addresses: &Addresses, chosen: &Chosen) -> anyhow::Result<()> {
    let mut text = String::new();
    for ((address, name), function) in addresses.functions.iter().zip(&chosen.names).zip(&chosen.functions) {
        let file = chosen.objects.get(function.object).and_then(|object| object.path.file_name());
        let file = file.unwrap_or_default().to_string_lossy();
        // Writing to a String does not fail.
        let _ =
            writeln!(text, "{address:x}\t{}\t{}", file.replace(['\t', '\n'], " "), name.replace('\n', " "));
    }
    write_part(&dir.join(NAME), text).context("can't write the functions' names")
}

/// The functions by address, from the text that [`write`] wrote.
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
