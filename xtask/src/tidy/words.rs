//! Plain English: habits that make text hard to read, counted over comments, strings and documents.
//!
//! docs/style.md explains each habit. The limits may only fall: whoever lowers a count lowers its limit.

use crate::repo::File;

/// A habit: its name, the words, and the most uses allowed per 10,000 words.
struct Habit(&'static str, &'static [&'static str], f64);

const HABITS: &[Habit] = &[
    Habit("told, tell, tells", &["told", "tell", "tells", "telling"], 0.9),
    Habit("said, say, says", &["said", "say", "says", "saying"], 0.5),
    Habit("stands, stood", &["stand", "stands", "stood", "standing"], 0.5),
    Habit("behind", &["behind"], 0.4),
    Habit("lies, lay", &["lie", "lies", "lay", "lying"], 0.1),
    Habit("beside, anew, apart", &["beside", "anew", "apart"], 0.6),
    Habit("meant", &["meant"], 0.2),
];

/// A count so far below its limit asks for a lower limit.
const SLACK: f64 = 1.0;

/// No habit is more frequent than its limit.
pub fn text_is_plain(files: &[File]) -> Vec<String> {
    let text: Vec<String> = files.iter().filter(|file| is_ours(file)).map(prose).collect();
    let words: Vec<String> = text.iter().flat_map(|text| words(text)).collect();
    HABITS.iter().filter_map(|habit| fault(habit, &words)).collect()
}

fn fault(Habit(name, forms, limit): &Habit, words: &[String]) -> Option<String> {
    let uses = words.iter().filter(|word| forms.contains(&word.as_str())).count();
    let rate = 10_000.0 * uses as f64 / words.len().max(1) as f64;
    if rate > *limit {
        return Some(format!("`{name}`: {rate:.1} of 10,000 words, {limit:.1} allowed ({uses} uses)"));
    }
    if rate + SLACK < *limit {
        println!("plain words: `{name}`: {rate:.1} of 10,000 words: its limit of {limit:.1} can be lowered");
    }
    None
}

/// Text that we write for readers: not outputs, corpora or the page that lists these words.
fn is_ours(file: &File) -> bool {
    let written = file.is_rust() || file.path.ends_with(".md");
    let apart = ["tests/golden/", "fuzz/corpus/", "docs/style.md", "xtask/src/tidy/words.rs"];
    written && !apart.iter().any(|place| file.path.starts_with(place))
}

/// A document's text; of a source file its comments and strings, which is what people read.
fn prose(file: &File) -> String {
    if !file.is_rust() {
        return file.text.clone();
    }
    let mut text = String::new();
    for line in file.text.lines() {
        if let Some((_, comment)) = line.split_once("//") {
            text.push_str(comment.trim_start_matches(['/', '!']));
        } else {
            // Every second piece between quotes; an escaped quote only moves a word to the other side.
            line.split('"').skip(1).step_by(2).for_each(|string| {
                text.push_str(string);
                text.push(' ');
            });
        }
        text.push('\n');
    }
    text
}

fn words(text: &str) -> Vec<String> {
    let is_word = |word: &&str| word.chars().any(char::is_alphabetic);
    text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '_')
        .filter(is_word)
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn comments_and_strings_are_read_and_code_is_not() {
        let source = file("crates/a/src/lib.rs", "let told = say(\"one two\"); \n// three four\n");
        assert_eq!(words(&prose(&source)), ["one", "two", "three", "four"]);
    }

    #[test]
    fn a_habit_above_its_limit_is_a_fault() {
        let words = words("it is told that nothing is told");
        assert!(fault(&Habit("told", &["told"], 2000.0), &words).is_some());
        assert!(fault(&Habit("told", &["told"], 3000.0), &words).is_none());
    }
}
