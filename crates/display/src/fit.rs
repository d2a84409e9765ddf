//! Text made to fit a number of columns.

use crate::shorten::shorten;
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

/// A path in at most `width` characters: the end, which differs most, stays.
#[must_use]
pub fn cut_path(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return path.to_owned();
    }
    let begin = if term::is_ascii() { "..." } else { "…" };
    let kept = width.saturating_sub(begin.chars().count());
    begin.chars().chain(path.chars().skip(length - kept)).collect()
}

/// A function's name or place in at most `width` characters: the last part, which differs most, stays
/// ([`shorten`]).
#[must_use]
pub fn cut_name(name: &str, width: usize) -> String {
    let spelled = |text: String| if term::is_ascii() { text.replace('…', "...") } else { text };
    let fits = |room: usize| shorten(name, room).map(spelled).filter(|text| text.chars().count() <= width);
    (3..=width.max(3)).rev().find_map(fits).unwrap_or_else(|| cut(name, width))
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

/// As [`wrap`], but no single word or two are left for the last line: the lines before it are broken earlier where that is
/// possible without one line more.
#[must_use]
pub fn wrap_evenly(text: &str, width: usize) -> Vec<String> {
    /// Columns of a last line that is long enough.
    const LEAST: usize = 20;
    let lines = wrap(text, width);
    let ends_well = |lines: &[String]| lines.last().is_none_or(|last| last.chars().count() >= LEAST);
    if lines.len() < 2 || ends_well(&lines) {
        return lines;
    }
    let narrower = (width / 2..width).rev().map(|width| wrap(text, width));
    let same = narrower.take_while(|earlier| earlier.len() == lines.len());
    same.into_iter().find(|earlier| ends_well(earlier)).unwrap_or(lines)
}

/// `text` in which [`wrap`] doesn't part a number from its unit, `12 %`, `1.5 ms`, nor `function 0x8850`.
#[must_use]
pub fn keep_units(text: &str) -> String {
    const UNITS: [&str; 5] = ["%", "s", "ms", "µs", "ns"];
    let is_unit = |word: &str| UNITS.contains(&word.trim_end_matches([',', ';', ':', ')', '.']));
    let mut kept = String::with_capacity(text.len());
    for (at, word) in text.split(' ').enumerate() {
        let is_after_number = kept.ends_with(|last: char| last.is_ascii_digit());
        // `function 0x8850` is one name.
        let is_address = word.starts_with("0x") && kept.ends_with("function");
        if at > 0 {
            kept.push(if is_after_number && is_unit(word) || is_address { '\u{a0}' } else { ' ' });
        }
        kept.push_str(word);
    }
    kept
}

/// `text` broken at blanks to fit `width`; the lines after the first begin with `indent` blanks. The first line keeps its
/// own blanks at the begin.
#[must_use]
pub fn hang(text: &str, indent: usize, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let own = text.chars().take_while(|&c| c == ' ').count();
    let begin: String = text.chars().take(own.max(indent)).collect();
    let rest: String = text.chars().skip(own.max(indent)).collect();
    let lines = wrap(&rest, width.saturating_sub(indent).max(20));
    begin + &lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// Pieces of text of the given widths, with gaps of three spaces, in as few lines as hold them: a piece that is wider than
/// `width` has its own.
#[must_use]
pub fn flow(pieces: Vec<(usize, String)>, width: usize) -> Vec<String> {
    const GAP: &str = "   ";
    let (mut lines, mut used) = (Vec::<String>::new(), 0);
    for (columns, piece) in pieces {
        match lines.last_mut() {
            Some(line) if used + GAP.len() + columns <= width => {
                *line += GAP;
                *line += &piece;
                used += GAP.len() + columns;
            }
            _ => {
                lines.push(piece);
                used = columns;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{hang, keep_units, wrap, wrap_evenly};

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(wrap(&keep_units("killed after 1.478 ms, 3 s"), 18), ["killed after", "1.478 ms, 3 s"]);
        assert_eq!(wrap(&keep_units("has 12 % (5 %) a s"), 6), ["has", "12 %", "(5 %)", "a s"]);
        assert_eq!(wrap(&keep_units("in function 0x8850"), 16), ["in", "function 0x8850"]);
    }

    #[test]
    fn a_last_line_is_no_single_word_if_the_text_can_be_parted_otherwise() {
        let text = "96 % of thread time goes to the lock inside rand() ← draw (rand.c:15)";
        assert_eq!(wrap(text, 60)[1], "(rand.c:15)");
        assert_eq!(wrap_evenly(text, 60)[1], "rand() ← draw (rand.c:15)");
        assert_eq!(wrap_evenly("one two", 40), ["one two"]);
        // Two long words can't be parted otherwise.
        let words = "a".repeat(30) + " (b.c:7)";
        assert_eq!(wrap_evenly(&words, 34), wrap(&words, 34));
    }

    #[test]
    fn a_heading_that_is_too_long_goes_on_below_its_text() {
        let heading = "WAITS        who waited for whom on the way, of the same time";
        assert_eq!(hang(heading, 13, 80), heading);
        let two = "WAITS        who waited for whom on the\n             way, of the same time";
        assert_eq!(hang(heading, 13, 40), two);
        assert!(hang(heading, 13, 40).lines().all(|line| line.chars().count() <= 40));
    }
}
