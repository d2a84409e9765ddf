//! Moving through an event text: words, blanks, and the settings between slashes.

use std::ops::Range;

use super::{Fault, FaultSpan, Parser, Term, fault};

impl<'a> Parser<'a> {
    /// Settings between slashes, if there are any here.
    pub(super) fn terms(&mut self) -> Result<Vec<Term>, FaultSpan> {
        let mut terms = Vec::new();
        if self.peek() != Some('/') {
            return Ok(terms);
        }
        let open = self.at;
        self.at += 1;
        loop {
            let start = self.at;
            let name = self.until("=,/").trim().to_owned();
            let name_span = start..self.at;
            let (value, value_span) =
                if self.peek() == Some('=') { self.value()? } else { (None, name_span.clone()) };
            if !name.is_empty() {
                terms.push(Term { name, name_span, value, value_span });
            }
            match self.peek() {
                Some('/') => break,
                Some(',') => self.at += 1,
                _ => return fault(open..self.text.len(), Fault::UnclosedTerms),
            }
        }
        self.at += 1;
        Ok(terms)
    }

    /// `=value`, perhaps in quotes.
    pub(super) fn value(&mut self) -> Result<(Option<String>, Range<usize>), FaultSpan> {
        self.at += 1;
        let start = self.at;
        if let Some(quote) = self.peek().filter(|c| "'\"".contains(*c)) {
            self.at += 1;
            let Some(len) = self.text[self.at..].find(quote) else {
                return fault(start..self.text.len(), Fault::UnclosedTerms);
            };
            let value = self.text[self.at..self.at + len].to_owned();
            self.at += len + 1;
            return Ok((Some(value), start..self.at));
        }
        let value = self.until(",/").trim().to_owned();
        Ok((Some(value), start..self.at))
    }

    /// Range of the modifier letters; empty if there are none.
    pub(super) fn modifiers(&mut self) -> Range<usize> {
        let after_terms = self.text[..self.at].ends_with('/');
        if self.peek() == Some(':') {
            self.at += 1;
        } else if !after_terms {
            return self.at..self.at;
        }
        let start = self.at;
        self.word(",{}");
        start..self.at
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub(super) fn blanks(&mut self) {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
    }

    /// Takes everything before the next of `stops` or blank.
    pub(super) fn word(&mut self, stops: &str) -> &'a str {
        self.take(|c| c.is_whitespace() || stops.contains(c))
    }

    /// Takes everything before the next of `stops`.
    pub(super) fn until(&mut self, stops: &str) -> &'a str {
        self.take(|c| stops.contains(c))
    }

    pub(super) fn take(&mut self, stop: impl Fn(char) -> bool) -> &'a str {
        let text: &'a str = self.text;
        let rest = &text[self.at..];
        let taken = &rest[..rest.find(stop).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// True if a `:` is here, with a word after it that `fits`.
    pub(super) fn after_colon(&self, fits: impl Fn(&str) -> bool) -> bool {
        let rest = self.text[self.at..].strip_prefix(':');
        rest.is_some_and(|r| {
            fits(r.split(|c: char| ",{}/:".contains(c) || c.is_whitespace()).next().unwrap_or(""))
        })
    }
}
