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

/// Comments begin with a noun, not with one of these: "Name.", not "What it is called.".
const PRONOUNS: Habit = Habit("first word of a comment", &["what", "of", "who", "whose", "whom"], 1.0);

/// No habit is more frequent than its limit.
pub fn text_is_plain(files: &[File]) -> Vec<String> {
    let ours: Vec<&File> = files.iter().filter(|file| is_ours(file)).collect();
    let text: Vec<String> = ours.iter().map(|file| prose(file)).collect();
    let words: Vec<String> = text.iter().flat_map(|text| words(text)).collect();
    let begins: Vec<String> =
        ours.iter().filter(|file| file.is_rust()).flat_map(|file| first_words(&file.text)).collect();
    let faults = HABITS.iter().filter_map(|habit| fault(habit, &words, words.len()));
    faults.chain(fault(&PRONOUNS, &begins, words.len())).collect()
}

/// The first word of each comment, in lower case; the following lines of a comment don't count.
fn first_words(text: &str) -> Vec<String> {
    let comment = |line: &str| {
        line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).to_owned())
    };
    let mut was_comment = false;
    let mut firsts = Vec::new();
    for line in text.lines() {
        let now = comment(line);
        if !was_comment && let Some(now) = &now {
            firsts.extend(words(now).into_iter().next());
        }
        was_comment = now.is_some();
    }
    firsts
}

/// `words` are searched; the rate is of `all` words.
fn fault(Habit(name, forms, limit): &Habit, words: &[String], all: usize) -> Option<String> {
    let uses = words.iter().filter(|word| forms.contains(&word.as_str())).count();
    let rate = 10_000.0 * uses as f64 / all.max(1) as f64;
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
    fn only_the_first_line_of_a_comment_gives_a_first_word() {
        let source = "/// What it is\n/// of all things.\nfn f() {} // Its end.\n    //! Name.\n";
        assert_eq!(first_words(source), ["what", "name"]);
    }

    #[test]
    fn a_habit_above_its_limit_is_a_fault() {
        let words = words("it is told that nothing is told");
        assert!(fault(&Habit("told", &["told"], 2000.0), &words, 7).is_some());
        assert!(fault(&Habit("told", &["told"], 3000.0), &words, 7).is_none());
    }
}
