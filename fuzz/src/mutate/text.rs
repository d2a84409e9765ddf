//! Changes of text: lines dropped, doubled and swapped, numbers at their limits, words that control terminals.

use std::ops::Range;

use super::random::Random;

/// Numbers that overflow, and words that aren't numbers.
const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "ffffffffffffffff",
    "7fffffffffff",
    "1e308",
    "",
];

/// Words with a meaning for terminals, documents and paths.
const WORDS: [&str; 10] =
    ["\x1b[2J", "\u{202e}", "\0", "<a&b>", "]]>", "../../x", "/dev/null", "\t", "%s", "\u{fffd}"];

/// Maximum length of all copies of a line together, unless one alone is longer.
const LONGEST_COPY: usize = 1 << 20;

/// Is nearly all of it printable?
pub fn is_one(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(512)];
    let odd = head.iter().filter(|byte| **byte < b' ' && !b"\n\t\r\x1b".contains(byte)).count();
    odd * 16 < head.len()
}

/// Makes one change.
pub fn change(random: &mut Random, bytes: &mut Vec<u8>) {
    let line = line_at(bytes, random.below(bytes.len()));
    match random.below(8) {
        0 => drop(bytes.drain(line)),
        1 => {
            let copy = bytes[line.clone()].to_vec();
            let times = if random.one_in(8) { 1 << random.below(10) } else { 1 };
            // A file may be one line.
            let times = times.min(LONGEST_COPY / copy.len().max(1)).max(1);
            bytes.splice(line.start..line.start, copy.repeat(times));
        }
        2 => {
            let to = line_at(bytes, random.below(bytes.len()));
            let copy = bytes[line].to_vec();
            bytes.splice(to.start..to.start, copy);
        }
        3 => {
            let at = line.start + random.below(line.len());
            bytes.splice(at..at, WORDS[random.below(WORDS.len())].bytes());
        }
        4 => bytes.truncate(line.start + random.below(line.len())),
        _ => {
            let numbers = words_with_digits(bytes, &line);
            if !numbers.is_empty() {
                let number = numbers[random.below(numbers.len())].clone();
                bytes.splice(number, NUMBERS[random.below(NUMBERS.len())].bytes());
            }
        }
    }
}

/// The line around `at`, with its end.
fn line_at(bytes: &[u8], at: usize) -> Range<usize> {
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let end =
        bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |newline| at + newline + 1);
    start..end
}

fn words_with_digits(bytes: &[u8], line: &Range<usize>) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = line.start;
    for at in line.clone() {
        if !bytes[at].is_ascii_alphanumeric() {
            if bytes[start..at].iter().any(u8::is_ascii_digit) {
                words.push(start..at);
            }
            start = at + 1;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_long_line_do_not_multiply() {
        let mut random = Random::new(5);
        for _ in 0..500 {
            let mut line = vec![b'a'; 100 << 10];
            (0..2).for_each(|_| change(&mut random, &mut line));
            assert!(line.len() <= 4 << 20, "{}", line.len());
        }
    }
}
