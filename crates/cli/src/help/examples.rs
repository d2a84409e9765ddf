//! Examples at the end of a help text: a command and what it does on each line.

use super::WIDTH;

/// Examples that `-h` shows.
pub(super) const SHORT: usize = 3;
/// Columns before a comment that has a line to itself.
const INDENT: usize = 6;

/// The first `most` examples of a text, without its other paragraphs.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let Some(examples) = text.split("\n\n").find(|paragraph| paragraph.starts_with("Examples:")) else {
        return String::new();
    };
    let mut count = 0;
    let kept = examples.lines().enumerate().take_while(|(at, line)| {
        count += usize::from(line.starts_with("  ") && !line.starts_with("   "));
        *at == 0 || (count <= most && line.starts_with(' '))
    });
    kept.map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

/// The text with comments of examples on lines of their own where both don't fit next to each other.
pub(super) fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("  ").filter(|_| width(line) > WIDTH).and_then(split) {
            Some((command, comment)) => {
                lines.push(format!("  {command}"));
                lines.push(format!("{}{comment}", " ".repeat(INDENT)));
            }
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// Command and comment, which two or more spaces separate.
fn split(example: &str) -> Option<(&str, &str)> {
    let (command, comment) = example.split_once("  ")?;
    Some((command, comment.trim_start())).filter(|(command, _)| !command.is_empty())
}

fn width(line: &str) -> usize {
    line.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_comment_gets_its_own_line() {
        let (command, comment) = ("x".repeat(60), "c".repeat(30));
        let text = wrapped(&format!("Examples:\n  short  fits\n  {command}  {comment}"));
        assert_eq!(text, format!("Examples:\n  short  fits\n  {command}\n      {comment}"));
    }

    #[test]
    fn short_help_has_the_first_examples_only() {
        let text = format!("Before.\n\nExamples:\n{}After.", "  tally run\n".repeat(9));
        assert_eq!(
            shortened(&text, 3),
            format!("Examples:\n{}", "  tally run\n".repeat(3).trim_end_matches('\n'))
        );
    }
}
