//! Paths of modules in Rust source: `use crate::a::{b, c::D}`, `super::x()`, and `use child::T`.

/// Words and signs of source text without comments and strings' contents kept as words.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        let mut rest = code;
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let len = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            if !first.is_whitespace() {
                found.push(&rest[..len]);
            }
            rest = &rest[len..];
        }
    }
    found
}

/// Every path that `text`, the source of `module`, uses: its parts from the crate's root on.
pub fn used(text: &str, module: &[&str]) -> Vec<Vec<String>> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map_or("", |before| tokens[before]);
        let is_path = tokens.get(at + 1) == Some(&"::") && before != "::";
        let is_exported = before == "use" && at >= 2 && (tokens[at - 2] == "pub" || tokens[at - 2] == ")");
        let base: Option<Vec<&str>> = match tokens[at] {
            _ if !is_path || is_exported => None,
            "crate" => Some(Vec::new()),
            "self" => Some(module.to_vec()),
            "super" => {
                let ups = tokens[at..].iter().step_by(2).take_while(|token| **token == "super").count();
                at += (ups - 1) * 2;
                Some(module[..module.len().saturating_sub(ups)].to_vec())
            }
            child if before == "use" => Some([module, &[child]].concat()),
            _ => None,
        };
        match base {
            Some(base) => {
                let base = base.into_iter().map(str::to_owned).collect();
                at = collect(&tokens, at + 2, base, &mut found);
            }
            None => at += 1,
        }
    }
    found
}

/// Adds the paths that go on at `at`, after a `::`; returns the position after them.
fn collect(tokens: &[&str], mut at: usize, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = match tokens[at] {
                        "," => at + 1,
                        _ => collect(tokens, at, path.clone(), found),
                    };
                }
                return at + 1;
            }
            Some(word) if word.starts_with(|c: char| c.is_alphabetic() || c == '_') && *word != "self" => {
                path.push((*word).to_owned());
                at += 1;
            }
            _ => at += 1,
        }
        if tokens.get(at) != Some(&"::") {
            found.push(path);
            // `as name`
            while tokens.get(at) == Some(&"as") {
                at += 2;
            }
            return at;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::used;

    #[test]
    fn paths_in_groups_start_at_the_root_or_above() {
        let text =
            "use crate::a::{b, c::{D, self}, e as f};\nlet x = super::g(1); super::super::h::I;\nuse k::L;\n";
        let joined: Vec<String> = used(text, &["m", "n"]).iter().map(|path| path.join("::")).collect();
        assert_eq!(joined, ["a::b", "a::c::D", "a::c", "a::e", "m::g", "h::I", "m::n::k::L"]);
    }

    #[test]
    fn reexports_and_comments_use_nothing() {
        assert!(used("pub use a::B;\npub(crate) use crate::c::D;\n// crate::e::F\n", &[]).is_empty());
    }
}
