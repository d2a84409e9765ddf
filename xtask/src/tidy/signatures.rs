//! Rules about names and parameters. Limits may only fall: whoever lowers a count lowers its limit.

use std::collections::BTreeMap;

use crate::repo::File;

/// Most parameters that are patterns of tuples, `(pid, tid): (i32, i32)`: each is a small struct that has no name.
const TUPLE_PARAMETERS: usize = 0;

/// Most public types whose name is one word that another public type has too.
const SHARED_WORDS: usize = 0;

/// Most parameters of a library's public functions that are a `bool`: a format or mode is an enum. What is only a yes
/// or no stays.
const BOOL_PARAMETERS: usize = 44;

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

/// A function of a source text.
struct FunctionHead<'t> {
    is_public: bool,
    /// Each with its pattern and type.
    parameters: Vec<&'t str>,
}

/// The text without comments.
fn code_of(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
}

/// The functions that a text without comments defines.
fn functions(code: &str) -> impl Iterator<Item = FunctionHead<'_>> {
    let starts = code
        .match_indices("fn ")
        .filter(|(at, _)| code[..*at].chars().next_back().is_none_or(|before| before.is_whitespace()));
    starts.map(|(at, _)| {
        let rest = &code[at + 3..];
        let name_end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let rest = &rest[name_end..];
        // Generics may hold parentheses of their own.
        let open = if rest.starts_with('<') { after_generics(rest) } else { 0 };
        let list = rest
            .get(open..)
            .map_or("", |rest| if rest.starts_with('(') { within_parentheses(rest) } else { "" });
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        FunctionHead {
            is_public: before.starts_with("pub "),
            parameters: pieces(list).into_iter().map(str::trim).filter(|one| !one.is_empty()).collect(),
        }
    })
}

/// Parameters of functions that are tuple patterns.
fn tuple_parameters(text: &str) -> usize {
    let is_tuple = |one: &&&str| one.trim_start_matches('&').starts_with('(');
    functions(&code_of(text)).map(|function| function.parameters.iter().filter(is_tuple).count()).sum()
}

fn is_bool(parameter: &str) -> bool {
    parameter.split_once(':').is_some_and(|(_, type_)| type_.trim() == "bool")
}

/// Parameters of public functions that are a `bool`.
fn bool_parameters(text: &str) -> usize {
    let bools = |function: FunctionHead<'_>| function.parameters.iter().filter(|one| is_bool(one)).count();
    functions(&code_of(text)).filter(|function| function.is_public).map(bools).sum()
}

/// Whether a function has two `bool` parameters next to each other: a call can swap them.
fn has_bools_in_a_row(text: &str) -> bool {
    functions(&code_of(text))
        .any(|function| function.parameters.windows(2).any(|two| two.iter().all(|one| is_bool(one))))
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

/// Crates but the program and what it draws with.
fn libraries(files: &[File]) -> impl Iterator<Item = &File> {
    const PROGRAM: [&str; 3] = ["crates/cli/", "crates/display/", "crates/tui/"];
    product(files).filter(|file| !PROGRAM.iter().any(|part| file.path.starts_with(part)))
}

/// Modes of libraries are enums: public functions have no more `bool` parameters than their limit, none two in a row.
pub fn modes_are_enums(files: &[File]) -> Vec<String> {
    let count = libraries(files).map(|file| bool_parameters(file.product())).sum();
    let what = "bool parameters of public functions";
    let mut faults = above(count, BOOL_PARAMETERS, what, ": a format or mode is an enum");
    let in_a_row = libraries(files).filter(|file| has_bools_in_a_row(file.product()));
    faults.extend(in_a_row.map(|file| format!("{}: two bool parameters in a row", file.path)));
    faults
}

/// Whether a line has a `Result` whose error is text, or an `Option` in an `Option`.
fn is_untyped(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.contains("Option<Option<") || has_text_error(code)
}

/// Whether the last argument of a `Result` is `String`.
fn has_text_error(code: &str) -> bool {
    code.match_indices("Result<").any(|(at, name)| {
        let generics = &code[at + name.len() - 1..];
        let arguments = generics.get(1..after_generics(generics).saturating_sub(1)).unwrap_or_default();
        matches!(pieces(arguments).as_slice(), [_, error] if error.trim() == "String")
    })
}

/// Libraries' errors are types, and no option is in another: an enum names what the outer `None` means.
pub fn outcomes_are_typed(files: &[File]) -> Vec<String> {
    let faults = |file: &File| {
        let untyped = file.product().lines().enumerate().filter(|(_, line)| is_untyped(line));
        let path = &file.path;
        untyped
            .map(|(at, _)| format!("{path}:{}: Result<_, String> or Option<Option<_>>", at + 1))
            .collect::<Vec<_>>()
    };
    let of_libraries = product(files).filter(|file| !file.path.starts_with("crates/cli/"));
    of_libraries.flat_map(faults).collect()
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
    fn bools_are_counted_in_public_functions() {
        let text = "    pub const fn f(&self, a: bool, b: u8, c: bool) {}\nfn g(a: bool) {}\npub fn h(d: &[(u8, bool)]) {}";
        assert_eq!((bool_parameters(text), has_bools_in_a_row(text)), (2, false));
        assert!(has_bools_in_a_row("fn f(\n    a: bool, // why\n    b: bool,\n) {}"));
    }

    #[test]
    fn errors_of_text_and_nested_options_are_found() {
        assert!(is_untyped("fn f() -> Result<Vec<(u8, u8)>, String> {"));
        assert!(is_untyped("    a: Option<Option<u8>>,"));
        assert!(!is_untyped("fn f() -> Result<HashMap<u8, String>, Error> { // Option<Option<u8>>"));
        assert!(!is_untyped("fn f() -> io::Result<String>;"));
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
