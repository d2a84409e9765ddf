//! Which functions a filter means: by name, by a pattern with `*` and `?`, by `/regular expression/`, by their source
//! file (`file:parse.c`); `@LIST` is a file of such words.

use crate::error::Context;
use regex_lite::Regex;
use std::path::Path;

/// One name or pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    glob: String,
    regex: Option<Regex>,
}

/// Before the name of a source file.
const FILE: &str = "file:";

impl Pattern {
    /// From the command line.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let between = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        // Text that isn't a regular expression is taken literally: then it matches nothing, which is reported.
        Self { glob: text.to_owned(), regex: between.and_then(|regex| Regex::new(regex).ok()) }
    }

    /// From the words of the command line, lists split.
    ///
    /// # Errors
    /// If a list can't be read.
    pub fn of_words(words: &[String]) -> crate::Result<Vec<Self>> {
        Ok(words_of(words)?.iter().map(|word| Self::new(word)).collect())
    }

    /// The source file whose functions are selected.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.glob.strip_prefix(FILE)
    }

    /// Whether a function of this name and of this source file, if known, is selected.
    #[must_use]
    pub fn is_of(&self, name: &str, file: Option<&Path>) -> bool {
        match (self.file(), file) {
            (Some(wanted), Some(file)) => file.ends_with(wanted),
            (Some(_), None) => false,
            (None, _) => self.is(name),
        }
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.glob
    }

    /// Whether a function's shown name is selected: all of it, or all before its parameter list.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        if let Some(regex) = &self.regex {
            return regex.is_match(name);
        }
        let short = name.split_once('(').map_or(name, |(before, _)| before);
        matches(self.glob.as_bytes(), name.as_bytes()) || matches(self.glob.as_bytes(), short.as_bytes())
    }
}

/// The words, each `@LIST` replaced by the words in that file: one a line, `#` before remarks.
///
/// # Errors
/// If a list can't be read.
pub fn words_of(words: &[String]) -> crate::Result<Vec<String>> {
    let mut all = Vec::new();
    for word in words {
        let Some(path) = word.strip_prefix('@') else {
            all.push(word.clone());
            continue;
        };
        let text =
            dso::named_file::read_text(Path::new(path)).with_context(|| format!("can't read {path}"))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        all.extend(lines.map(str::to_owned));
    }
    Ok(all)
}

/// Whether any of `patterns` means `name`.
#[must_use]
pub fn any(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.is(name))
}

/// Glob matching in linear time: on a mismatch the last `*` takes one byte more.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || Some(&wanted) == text.get(t) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_name_a_glob_and_a_name_without_parameters_match() {
        assert!(Pattern::new("main").is("main"));
        assert!(!Pattern::new("main").is("main2"));
        assert!(Pattern::new("std::*push*").is("std::vector<int>::push_back(int)"));
        assert!(Pattern::new("f?b").is("fib(long)"));
        assert!(!Pattern::new("a*b").is("acbd"));
        assert!(Pattern::new("/^read_(all|line)$/").is("read_line"));
        assert!(!Pattern::new("/^read_(all|line)$/").is("read_lines"));
    }

    #[test]
    fn functions_of_a_source_file_are_meant_where_that_is_known() {
        let (pattern, file) = (Pattern::new("file:src/parse.c"), std::path::Path::new("/home/a/src/parse.c"));
        assert!(pattern.is_of("any", Some(file)) && !pattern.is_of("any", None) && !pattern.is("file"));
        assert!(!Pattern::new("file:arse.c").is_of("any", Some(file)));
        assert!(Pattern::new("any").is_of("any", Some(file)) && Pattern::new("any").is_of("any", None));
    }
}
