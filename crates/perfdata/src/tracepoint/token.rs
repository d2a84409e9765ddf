//! The words of the print part of a format: C as far as formats use it.

/// One word of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(u64),
    Text(String),
    Name(String),
    Op(&'static str),
}

/// Longest first, so that `<<` is not two `<`.
const OPS: [&str; 34] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", "[", "]", ",", "?", ":", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", ".", ";", "=", "#",
];

/// The words of an expression; `None` if there is something that no format has.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut out: Vec<Token> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let (s, tail) = string(rest)?;
            match out.last_mut() {
                // Adjacent literals are one.
                Some(Token::Text(before)) => before.push_str(&s),
                _ => out.push(Token::Text(s)),
            }
            rest = tail;
        } else if c == '\'' {
            let inner = rest.get(1..)?;
            let c = inner.chars().next()?;
            rest = inner.get(c.len_utf8()..)?.strip_prefix('\'')?;
            out.push(Token::Number(u64::from(u32::from(c))));
        } else if c.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let (word, tail) = rest.split_at_checked(end)?;
            out.push(Token::Number(number(word)?));
            rest = tail;
        } else if c.is_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let (word, tail) = rest.split_at_checked(end)?;
            out.push(Token::Name(word.to_owned()));
            rest = tail;
        } else {
            let op = OPS.into_iter().find(|op| rest.starts_with(op))?;
            out.push(Token::Op(op));
            rest = rest.get(op.len()..)?;
        }
        rest = rest.trim_start();
    }
    Some(out)
}

fn number(word: &str) -> Option<u64> {
    let word = word.trim_end_matches(['u', 'U', 'l', 'L']);
    match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(word, 8).ok(),
        None => word.parse().ok(),
    }
}

/// A literal with its escapes resolved, and what follows.
fn string(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, text.get(at + 1..)?)),
            '\\' => out.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            c => out.push(c),
        }
    }
    None
}
