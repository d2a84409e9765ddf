//! Lines found by what is on them: `FUNC;PATTERN`.

use crate::error::{Context, bail};
use dso::SourceAccess;
use dso::dwarf::probe::SourceLines;
use profile::view::ranking::RankRows as _;
use std::path::Path;

use super::{Found, Program, by_debug_info};
use perfdata::text::glob;

impl Program {
    /// The lines of a function or file, with those that can be probed.
    pub fn source_lines(&mut self, of: &str) -> crate::Result<SourceLines> {
        let (name, file) = of.split_once('@').map_or((of, None), |(n, f)| (n, Some(f)));
        let is_file = file.is_none() && name.contains(['.', '/']);
        let path = self.path.display().to_string();
        let info = self.info()?;
        let found = if is_file { info.file_lines(name) } else { info.function_lines(&|n| n == name, file) };
        found.with_context(|| format!("{path} knows no lines of '{of}'"))
    }

    /// Meaning of `FUNC;PATTERN`, by address.
    pub(super) fn find_matching(&mut self, of: &str, pattern: &str) -> crate::Result<Vec<Found>> {
        let lines = self.source_lines(of)?;
        let source = SourceAccess::for_owner(self.owner())
            .read(Path::new(&lines.file))
            .with_context(|| format!("{of};{pattern}: cannot read {}", lines.file))?;
        let numbers = matching_lines(&String::from_utf8_lossy(&source), pattern);
        let wanted: Vec<u32> =
            numbers.into_iter().filter(|number| lines.probeable.contains(number)).collect();
        if wanted.is_empty() {
            bail!(
                "{of};{pattern}: no line that can be probed looks so; a pattern is of the whole line, such as '*total+=*'"
            );
        }
        let mut found = Vec::new();
        for number in wanted {
            let points = self.info()?.file_line_points(&lines.file, number);
            found.extend(by_debug_info(points.with_context(|| format!("{}:{number}", lines.file))?));
        }
        found.rank_by_key(|f| f.svma);
        found.dedup_by_key(|f| f.svma);
        Ok(found)
    }
}

/// Numbers (from 1) of the lines that `pattern` matches whole, blanks left out of both.
fn matching_lines(source: &str, pattern: &str) -> Vec<u32> {
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let pattern = bare(pattern);
    let fits = |(_, line): &(u32, &str)| glob::matches(&pattern, &bare(line));
    (1..).zip(source.lines()).filter(fits).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_whole_lines_without_their_blanks() {
        let source = "int f() {\n  total += n;\n  return total;\n}\n";
        assert_eq!(matching_lines(source, "total+=n;"), [2]);
        assert_eq!(matching_lines(source, "total += *"), [2]);
        assert_eq!(matching_lines(source, "*total*"), [2, 3]);
        assert!(matching_lines(source, "total").is_empty());
    }
}
