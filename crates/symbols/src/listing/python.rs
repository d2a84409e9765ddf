//! The source of a Python function with the samples of each line. Its machine code is the interpreter's.

use super::{Line, ListedFunction, Listing, Sources, without_code};
use dso::{Missing, Svma};
use perfdata::appendix::python_functions::{PythonFunction, function_at};
use profile::profile::Sums;
use std::collections::BTreeMap;

/// Lines after the last one with samples that are looked through for the function's end.
const MOST_AFTER: u32 = 200;

/// The function's lines, from its first one. Lines whose text is not to be had are there if they have samples.
pub(super) fn listing(of: ListedFunction<'_>, python: &PythonFunction, sources: &Sources) -> Listing {
    let hits = by_line(of);
    let source = sources.of_python(&python.file).file(&python.file);
    let text_of = |line: u32| source.as_ref().and_then(|source| source.line(line));
    // Reached before the function, only where the recording is damaged.
    let first = hits.keys().next().map_or(python.first_line, |hit| python.first_line.min(*hit));
    let last = hits.keys().next_back().map_or(first, |hit| (*hit).max(first));
    let mut lines: Vec<Line> = Vec::new();
    if source.is_none() {
        lines.push(Line::Place { file: python.file.clone(), line: python.first_line });
    }
    let after = lines_after(last, text_of(first), &text_of);
    for (line, text) in (first..=last).map(|line| (line, text_of(line))).chain(after) {
        let (text, sums) = (text.map(str::to_owned), hits.get(&line));
        match (text, sums) {
            (text, Some(sums)) => lines.push(Line::Statement {
                file: python.file.clone(),
                line,
                text: text.unwrap_or_default(),
                sums: sums.clone(),
            }),
            (Some(text), None) => lines.push(Line::Source { line, text }),
            (None, None) => {}
        }
    }
    // With a path: the source is what there is to show.
    Listing {
        dso: profile::machine::file_name(&python.file).to_owned(),
        path: Some(python.file.clone().into()),
        section: String::new(),
        start: Svma(of.function.start),
        no_code: None,
        lines,
        ..without_code(of, Missing::NoFile)
    }
}

/// The rest of a body after its last line with samples: what is indented deeper than `head`, the line of its `def`.
fn lines_after<'s>(
    last: u32,
    head: Option<&'s str>,
    text_of: &impl Fn(u32) -> Option<&'s str>,
) -> Vec<(u32, Option<&'s str>)> {
    let Some(outer) = head.map(indent).filter(|_| head.is_some_and(is_of_block)) else { return Vec::new() };
    let numbered = |line: u32| text_of(line).map(|text| (line, text));
    let is_body = |text: &str| text.trim().is_empty() || indent(text) > outer;
    let candidates = (1..=MOST_AFTER).map_while(|nth| numbered(last.checked_add(nth)?));
    let mut body: Vec<_> =
        candidates.take_while(|(_, text)| is_body(text)).map(|(line, text)| (line, Some(text))).collect();
    while body.last().is_some_and(|(_, text)| text.is_none_or(|text| text.trim().is_empty())) {
        body.pop();
    }
    body
}

/// Does the line begin a block of its own? Modules and comprehensions have none.
fn is_of_block(line: &str) -> bool {
    ["def ", "async ", "class ", "@"].iter().any(|word| line.trim_start().starts_with(word))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn by_line(of: ListedFunction<'_>) -> BTreeMap<u32, Vec<Sums>> {
    let mut lines: BTreeMap<u32, Vec<Sums>> = BTreeMap::new();
    for address in &of.function.addresses {
        let Some((_, line)) = function_at(address.addr) else { continue };
        let known = lines.entry(line).or_insert_with(|| vec![Sums::default(); address.sums.len()]);
        known.iter_mut().zip(&address.sums).for_each(|(sum, more)| sum.add(*more));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: [&str; 8] = [
        "class Shop:",
        "    def price(self):",
        "        total = 0",
        "",
        "        return total",
        "",
        "    def other(self):",
        "        pass",
    ];

    fn text_of(line: u32) -> Option<&'static str> {
        SOURCE.get(line as usize - 1).copied()
    }

    #[test]
    fn a_body_ends_where_the_indentation_of_its_def_comes_back() {
        let after = |last: u32, head: u32| -> Vec<u32> {
            lines_after(last, text_of(head), &text_of).iter().map(|(line, _)| *line).collect()
        };
        assert_eq!(after(3, 2), [4, 5]);
        assert_eq!(after(3, 1), [4, 5, 6, 7, 8]);
        assert_eq!(after(5, 2), [0_u32; 0]);
        assert_eq!(after(3, 3), [0_u32; 0], "a comprehension has only its own lines");
    }
}
