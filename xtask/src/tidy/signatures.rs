//! Rules about names and parameters. Limits may only fall: whoever lowers a count lowers its limit.

use std::collections::BTreeMap;

use crate::repo::File;

/// Most parameters that are patterns of tuples, `(pid, tid): (i32, i32)`: each is a small struct that has no name.
const TUPLE_PARAMETERS: usize = 30;

/// Most public types whose name is one word that another public type has too.
const SHARED_WORDS: usize = 6;

/// A count so far below its limit asks for a lower limit.
const SLACK: usize = 5;

fn product(files: &[File]) -> impl Iterator<Item = &File> {
    let is_product = |file: &&File| {
        file.path.starts_with("crates/") && file.path.contains("/src/") && !file.path.contains("/tests")
    };
    files.iter().filter(|file| file.is_rust()).filter(is_product)
}

fn above(count: usize, limit: usize, what: &str, which: &str) -> Vec<String> {
    if count + SLACK < limit {
        println!("signatures: {count} {what}: the limit of {limit} can be lowered");
    }
    if count <= limit { Vec::new() } else { vec![format!("{count} {what}, {limit} allowed{which}")] }
}

/// The text between the parenthesis at the beginning of `text` and its partner.
fn within_parentheses(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return &text[1..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    ""
}

/// Pieces between the commas that are in no brackets.
fn pieces(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            // Not the arrow of a function's type.
            '>' if !text[..at].ends_with('-') => depth -= 1,
            ',' if depth == 0 => {
                found.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[from..]);
    found
}

/// Parameters of functions that are tuple patterns.
fn tuple_parameters(text: &str) -> usize {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    let starts = code
        .match_indices("fn ")
        .filter(|(at, _)| code[..*at].chars().next_back().is_none_or(|before| before.is_whitespace()));
    starts
        .map(|(at, _)| {
            let rest = &code[at + 3..];
            let name_end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let rest = &rest[name_end..];
            // Generics may hold parentheses of their own.
            let open = if rest.starts_with('<') { after_generics(rest) } else { 0 };
            let list = rest
                .get(open..)
                .map_or("", |rest| if rest.starts_with('(') { within_parentheses(rest) } else { "" });
            pieces(list)
                .iter()
                .filter(|piece| {
                    piece.trim_start().starts_with(['(', '&'])
                        && piece.trim_start().trim_start_matches('&').starts_with('(')
                })
                .count()
        })
        .sum()
}

/// The position after `<…>`.
fn after_generics(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if text[..at].ends_with('-') => {}
            '>' if depth == 1 => return at + 1,
            '>' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Parameters that are tuple patterns are no more than their limit.
pub fn parameters_have_names(files: &[File]) -> Vec<String> {
    let count = product(files).map(|file| tuple_parameters(file.product())).sum();
    above(count, TUPLE_PARAMETERS, "parameters are tuple patterns", ": give the pair a struct")
}

/// Names of public types in a source text.
fn public_types(text: &str) -> impl Iterator<Item = &str> {
    const KINDS: [&str; 4] = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    text.lines().filter_map(|line| {
        let rest = KINDS.iter().find_map(|kind| line.strip_prefix(kind))?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
}

/// Types that each library (`Error`) or each command (`Args`) has, always under this name.
const ONE_FOR_EACH: [&str; 2] = ["Error", "Args"];

/// Names of one word that several public types have, and how many.
fn shared_words(files: &[File]) -> Vec<(&str, usize)> {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    product(files).flat_map(|file| public_types(file.product())).for_each(|name| {
        *by_name.entry(name).or_default() += 1;
    });
    let is_word = |name: &str| name.chars().filter(|c| c.is_uppercase()).count() == 1;
    let is_shared = |name: &str| is_word(name) && !ONE_FOR_EACH.contains(&name);
    by_name.into_iter().filter(|(name, count)| *count > 1 && is_shared(name)).collect()
}

/// Types named by one word alone, such as `Place`, have the word to themselves, or are no more than their limit.
pub fn short_names_are_unique(files: &[File]) -> Vec<String> {
    let shared = shared_words(files);
    let count = shared.iter().map(|(_, count)| count).sum();
    let names: Vec<String> = shared.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    above(count, SHARED_WORDS, "public types share a name of one word", &format!(": {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuple_patterns_are_counted_in_functions_only() {
        assert_eq!(tuple_parameters("fn f(&mut self, (pid, tid): (i32, i32), x: (u8, u8)) {}"), 1);
        assert_eq!(tuple_parameters("fn f<F: Fn((u8, u8)) -> u8>(f: F, &(a, b): &(u8, u8)) {}"), 1);
        assert_eq!(tuple_parameters("let f = |(a, b): (u8, u8)| a; // fn g((a, b): T)"), 0);
        assert_eq!(tuple_parameters("fn f(a: Vec<(u8, u8)>, b: fn(u8) -> u8, (c, d): T)"), 1);
    }

    #[test]
    fn words_that_two_public_types_have_are_named() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/a/src/x.rs", "pub struct Place {\npub enum CallSite {\npub enum Error {"),
            file(
                "crates/b/src/y.rs",
                "pub type Place<'a> = u8;\npub struct CallSite;\npub enum Error {\nstruct Way;",
            ),
        ];
        assert_eq!(shared_words(&files), [("Place", 2)]);
    }
}
