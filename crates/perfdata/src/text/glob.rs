//! Patterns as in `block:*`: `*`, `?`, `[a-z]`, `[!x]`.

/// Does this text have pattern characters?
#[must_use]
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Does `pattern` match the whole of `text`? Linear in practice: only the last `*` is ever retried.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(&byte) = text.get(t) {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p, t));
            p += 1;
        } else if let Some(next) = match_one(pattern, p, byte) {
            p = next;
            t += 1;
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            p = star + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern.iter().skip(p).all(|c| *c == b'*')
}

/// The place after the one pattern element at `p` if it matches `byte`.
fn match_one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => match_class(pattern, p + 1, byte).or((byte == b'[').then_some(p + 1)),
        c => (c == byte).then_some(p + 1),
    }
}

fn match_class(pattern: &[u8], from: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(from) == Some(&b'!');
    let from = from + usize::from(negated);
    let length = pattern.get(from + 1..)?.iter().position(|c| *c == b']')? + 1;
    let class = pattern.get(from..from + length)?;
    let mut found = false;
    let mut i = 0;
    while let Some(&first) = class.get(i) {
        let end = class.get(i + 2).filter(|_| class.get(i + 1) == Some(&b'-'));
        found |= (first..=*end.unwrap_or(&first)).contains(&byte);
        i += if end.is_some() { 3 } else { 1 };
    }
    (found != negated).then_some(from + length + 1)
}
