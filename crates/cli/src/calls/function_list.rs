//! Writes the names of the functions that uprobes are put on.

use anyhow::Context;
use calls::recording::function_list::NAME;
use record::calls::CallAddresses;
use record::output_file::write_part;
use std::fmt::Write as _;
use std::path::Path;

use calls::probing::ProbePlan;

/// Writes them: a line a function, `address file name`, with tabs between.
///
/// # Errors
/// If the file can't be written.
pub fn write(dir: &Path, addresses: &CallAddresses, chosen: &ProbePlan) -> anyhow::Result<()> {
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
