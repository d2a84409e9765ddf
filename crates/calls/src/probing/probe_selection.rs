//! Functions to probe, from the command line.

use dso::code::flow::Exits;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

use crate::selection::pattern::{self, Pattern};

/// Selection of functions on the command line.
pub struct ProbeSelection {
    /// Patterns of functions, each with the library it is about (`malloc@libc.so.6`); none: all.
    pub patterns: Vec<(Pattern, Option<String>)>,
    /// Functions of source files of these names.
    pub files: Vec<String>,
    /// Also what the chosen functions call, this deep.
    pub callees: u32,
    /// How exits are seen.
    pub exits: Exits,
}

impl ProbeSelection {
    /// From the words after `-P`: names, globs, `/regex/`, `@list` (a file of such words), `file:NAME` (functions of
    /// that source file), each with `@LIBRARY` after.
    ///
    /// # Errors
    /// If a list can't be read.
    pub fn parse(words: &[String], callees: u32, exits: Exits) -> crate::Result<Self> {
        let mut selection = Self { patterns: Vec::new(), files: Vec::new(), callees, exits };
        pattern::words_of(words)?.iter().for_each(|word| selection.add(word));
        Ok(selection)
    }

    fn add(&mut self, word: &str) {
        if let Some(file) = word.strip_prefix("file:") {
            self.files.push(file.to_owned());
        } else if let Some((name, library)) = word.rsplit_once('@').filter(|(name, _)| !name.is_empty()) {
            self.patterns.push((Pattern::new(name), Some(library.to_owned())));
        } else {
            self.patterns.push((Pattern::new(word), None));
        }
    }

    /// The libraries named.
    #[must_use]
    pub fn libraries(&self) -> BTreeSet<&str> {
        self.patterns.iter().filter_map(|(_, library)| library.as_deref()).collect()
    }

    /// All functions of the program.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.patterns.is_empty() && self.files.is_empty()
    }

    /// Whether some function without a symbol is asked for by its address.
    #[must_use]
    pub fn names_nameless(&self) -> bool {
        self.patterns.iter().any(|(pattern, _)| pattern.text().starts_with("function "))
    }

    /// The patterns that mean the function, in the program itself (`library` `None`) or in a library, by their numbers.
    pub fn meaning<'a>(
        &'a self,
        name: &'a str,
        library: Option<&'a str>,
    ) -> impl Iterator<Item = usize> + 'a {
        let here = move |of: &Option<String>| match (of.as_deref(), library) {
            (None, None) => true,
            (Some(wanted), Some(library)) => library == wanted || library.starts_with(&format!("{wanted}.")),
            _ => false,
        };
        let numbered = self.patterns.iter().enumerate();
        numbered.filter(move |(_, (pattern, of))| here(of) && pattern.is(name)).map(|(number, _)| number)
    }

    /// The patterns without these, as they were given.
    #[must_use]
    pub fn without(&self, met: &FxHashSet<usize>) -> Vec<String> {
        let unmet = self.patterns.iter().enumerate().filter(|(number, _)| !met.contains(number));
        let shown = unmet.map(|(_, (pattern, library))| match library {
            Some(library) => format!("{}@{library}", pattern.text()),
            None => pattern.text().to_owned(),
        });
        shown.collect()
    }
}
