//! Which functions a filter means: by name, or by a pattern with `*` and `?`.

/// One name or pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// From the command line.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a function's shown name is meant: all of it, or all before its parameter list.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        let short = name.split_once('(').map_or(name, |(before, _)| before);
        matches(self.0.as_bytes(), name.as_bytes()) || matches(self.0.as_bytes(), short.as_bytes())
    }
}

/// Whether any of `patterns` means `name`.
#[must_use]
pub fn any(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.is(name))
}

/// Glob matching in linear time: on a mismatch the last `*` takes one byte more.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || Some(&wanted) == text.get(t) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_name_a_glob_and_a_name_without_parameters_match() {
        assert!(Pattern::new("main").is("main"));
        assert!(!Pattern::new("main").is("main2"));
        assert!(Pattern::new("std::*push*").is("std::vector<int>::push_back(int)"));
        assert!(Pattern::new("f?b").is("fib(long)"));
        assert!(!Pattern::new("a*b").is("acbd"));
    }
}
