//! Results of the checks, as the table of docs/kernels.md.

use std::path::Path;

use anyhow::{Context, Result};

/// The end of a table in the document. Its begin has the machine's name.
const END: &str = "<!-- end of the table -->";

/// Results of one kernel's checks, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelResults {
    pub version: String,
    /// Check and result.
    cells: Vec<(String, String)>,
    /// The checks ran to their end.
    pub has_ended: bool,
}

impl KernelResults {
    /// Reads what a kernel printed to its serial line: lines `@ CHECK | RESULT`. Details are passed on.
    pub fn parse(version: &str, printed: &str) -> Self {
        let mut results = Self { version: version.to_owned(), ..Self::default() };
        for line in printed.lines().map(str::trim_end) {
            // The firmware's last line has no end.
            let cell = line.rfind("@ ").map(|at| &line[at + 2..]).and_then(|cell| cell.split_once(" | "));
            match cell {
                Some(("end", _)) => results.has_ended = true,
                Some((check, result)) => results.cells.push((check.to_owned(), result.to_owned())),
                None if line.starts_with("# ") => println!("  {line}"),
                None => {}
            }
        }
        results
    }

    /// All checks ran, and none failed.
    pub fn is_good(&self) -> bool {
        self.has_ended && !self.cells.iter().any(|(_, result)| result.starts_with("FAIL"))
    }

    fn result(&self, check: &str) -> &str {
        self.cells.iter().find(|(name, _)| name == check).map_or("–", |(_, result)| result)
    }
}

/// The numbers of a version, for sorting: `linux-image-6.12.100+deb12` is 6, 12, 100, 12. Two at least.
pub fn version_key(name: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    numbers.resize(numbers.len().max(2), 0);
    numbers
}

/// A line for each check, a column for each kernel.
pub fn text(results: &[KernelResults]) -> String {
    let mut text = String::from("| |");
    results.iter().for_each(|kernel| text.push_str(&format!(" {} |", kernel.version)));
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(results.len())));
    let longest = results.iter().max_by_key(|kernel| kernel.cells.len());
    for (check, _) in longest.into_iter().flat_map(|kernel| &kernel.cells) {
        text.push_str(&format!("| {check} |"));
        results.iter().for_each(|kernel| text.push_str(&format!(" {} |", kernel.result(check))));
        text.push('\n');
    }
    text
}

/// Replaces the table of `machine`'s kernels in the document.
pub fn update(path: &Path, machine: &str, results: &[KernelResults]) -> Result<()> {
    let old = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let begin = format!("<!-- begin of the table: {machine} -->\n");
    let (before, rest) = old.split_once(&begin).context("no begin of the table")?;
    let (_, after) = rest.split_once(END).context("no end of the table")?;
    Ok(std::fs::write(path, format!("{before}{begin}{}{END}{after}", text(results)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_and_a_failure_or_a_missing_end_is_bad() {
        let good = KernelResults::parse("6.1", "Booting@ trace | yes\r\n# detail\n@ end | yes\n");
        assert!(good.is_good() && good.result("trace") == "yes", "{good:?}");
        assert!(!KernelResults::parse("6.1", "@ trace | FAIL: exit 1\n@ end | yes\n").is_good());
        assert!(!KernelResults::parse("6.1", "@ trace | yes\n").is_good());
    }

    #[test]
    fn versions_are_sorted_by_their_numbers() {
        let mut names = ["linux-image-6.12.100+deb12-amd64", "linux-image-6.1.0-50-amd64", "5.10.0"];
        names.sort_by_key(|name| version_key(name));
        assert_eq!(names[0], "5.10.0");
        assert_eq!(names[2], "linux-image-6.12.100+deb12-amd64");
    }
}
