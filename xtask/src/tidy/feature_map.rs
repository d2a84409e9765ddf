//! The maps in ARCHITECTURE.md: every file and folder that they name exists, and every crate is on them.

use crate::repo::File;

/// The lines of the section with this heading.
fn section<'t>(text: &'t str, heading: &str) -> impl Iterator<Item = &'t str> {
    let begin = text.find(heading).map_or("", |at| &text[at + heading.len()..]);
    begin.lines().skip(1).take_while(|line| !line.starts_with("## "))
}

/// Code spans of a table's column.
fn code_in_column(row: &str, column: usize) -> Vec<&str> {
    let cell = row.split('|').nth(column).unwrap_or_default();
    cell.split('`').skip(1).step_by(2).collect()
}

/// `a/{b,c}/d` as `a/b/d` and `a/c/d`; the innermost braces first.
fn without_braces(path: &str) -> Vec<String> {
    let braces = path.find('}').and_then(|end| Some((path[..end].rfind('{')?, end)));
    let Some((begin, end)) = braces else { return vec![path.to_owned()] };
    let one = |name: &str| without_braces(&format!("{}{name}{}", &path[..begin], &path[end + 1..]));
    path[begin + 1..end].split(',').flat_map(one).collect()
}

/// Whether a path of the map leads to a file, a module or a folder; most begin at `crates`.
fn exists(files: &[File], path: &str) -> bool {
    let leads_to = |file: &File| {
        let full = file.path.as_str();
        [full, full.strip_prefix("crates/").unwrap_or(full)].into_iter().any(|known| {
            let rest = known.strip_prefix(path);
            rest.is_some_and(|rest| matches!(rest, "" | ".rs") || rest.starts_with('/'))
        })
    };
    files.iter().any(leads_to)
}

/// Names in the maps that are not there, and crates that the code map lacks.
pub fn maps_are_true(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == "ARCHITECTURE.md") else { return Vec::new() };
    let folders = section(&page.text, "## Code map").flat_map(|row| code_in_column(row, 1));
    let features = section(&page.text, "## Features").flat_map(|row| code_in_column(row, 2));
    let named: Vec<String> = folders.chain(features).flat_map(without_braces).collect();
    let gone = named.iter().filter(|path| !exists(files, path)).map(|path| format!("{path} is not there"));
    let crates: std::collections::BTreeSet<&str> = files.iter().filter_map(File::krate).collect();
    let on_it = |krate: &&str| !named.iter().any(|path| path == &format!("crates/{krate}"));
    let missing = crates.into_iter().filter(on_it).map(|krate| format!("crates/{krate} is not on the map"));
    gone.chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn paths_that_lead_nowhere_and_crates_without_a_row_are_named() {
        let page = "## Code map\n\n| folder | is |\n|---|---|\n| `crates/a` | A |\n| `web` | W |\n\
                    ## Features\n| export | `a/src/{x,y/{z,gone}}.rs`, `b/src/m` |\n## Rest\n| x | `nothing` |\n";
        let files = [
            file("ARCHITECTURE.md", page),
            file("crates/a/src/x.rs", ""),
            file("crates/a/src/y/z.rs", ""),
            file("crates/b/src/m/mod.rs", ""),
            file("web/page.ts", ""),
        ];
        assert_eq!(maps_are_true(&files), ["a/src/y/gone.rs is not there", "crates/b is not on the map"]);
    }

    #[test]
    fn a_module_is_found_without_its_ending_but_no_beginning_of_a_name() {
        let files = [file("crates/a/src/report.rs", "")];
        assert!(exists(&files, "a/src/report") && exists(&files, "crates/a") && !exists(&files, "a/src/rep"));
    }
}
