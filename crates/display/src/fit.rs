//! Text made to fit a number of columns.

use crate::term;

/// The first `width` characters of `text`, the last of them `…` if more follow (`...` where there is only ASCII).
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let end = if term::is_ascii() && width > 3 { "..." } else { "…" };
    text.chars().take(width.saturating_sub(end.chars().count())).chain(end.chars()).collect()
}

/// `text` in lines of at most `width` characters, broken at blanks where there are any.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("invariant: there is always a line");
        let (have, more) = (line.chars().count(), word.chars().count());
        if have == 0 {
            line.push_str(word);
        } else if have + 1 + more <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.into_iter().map(|line| line.replace('\u{a0}', " ")).collect()
}
