//! Text of perf's settings file: `[section]`, `[section "subsection"]` and `key = value`, as in git.

/// Names with their values, in the order of the file.
///
/// # Errors
/// The number of the first line that is neither a section, a setting nor a comment.
pub fn parse_settings(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut section = String::new();
    let mut list = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(head) = line.strip_prefix('[') {
            section = section_name(head).ok_or(at + 1)?;
            continue;
        }
        let mut whole = line.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            let Some((_, next)) = lines.next() else { break };
            whole.push_str(next.trim_end());
        }
        let (key, value) = setting(&whole).ok_or(at + 1)?;
        if section.is_empty() {
            return Err(at + 1);
        }
        list.push((format!("{section}.{key}"), value));
    }
    Ok(list)
}

/// The name between the brackets; the subsection keeps its case.
fn section_name(head: &str) -> Option<String> {
    let (inside, _) = head.split_once(']')?;
    let (name, below) = match inside.split_once('"') {
        Some((name, below)) => (name.trim(), below.strip_suffix('"')?),
        None => (inside.trim(), ""),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let name = name.to_ascii_lowercase();
    Some(if below.is_empty() { name } else { format!("{name}.{below}") })
}

/// Key and value of a line; a key alone is `true`.
fn setting(line: &str) -> Option<(String, String)> {
    let (key, value) = match line.split_once('=') {
        Some((key, value)) => (key.trim(), unquoted(value)),
        None => (line.trim(), "true".to_owned()),
    };
    let is_key = |c: char| c.is_ascii_alphanumeric() || "-._*:".contains(c);
    (!key.is_empty() && key.chars().all(is_key)).then(|| (key.to_owned(), value))
}

/// The value without quotes and without the comment after it.
fn unquoted(value: &str) -> String {
    let mut text = String::new();
    let mut is_quoted = false;
    let mut chars = value.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '\\' => text.extend(chars.next().map(|c| if c == 'n' { '\n' } else { c })),
            '#' | ';' if !is_quoted => break,
            _ => text.push(c),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keys_quotes_and_comments_are_read() {
        let text = "# mine\n[Report]\n\tpercent-limit = 1.5 ; small\n children = false\n skip-empty\n\
                    [script \"a b\"]\nrun = \"perf # x\"\n[call-graph]\n order = \\\n caller\n";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = vec![
            pair("report.percent-limit", "1.5"),
            pair("report.children", "false"),
            pair("report.skip-empty", "true"),
            pair("script.a b.run", "perf # x"),
            pair("call-graph.order", "caller"),
        ];
        assert_eq!(parse_settings(text), Ok(expected));
    }

    #[test]
    fn a_damaged_line_is_reported_by_its_number() {
        assert_eq!(parse_settings("[report]\n= 5\n"), Err(2));
        assert_eq!(parse_settings("[report\n"), Err(1));
        assert_eq!(parse_settings("key = 1\n"), Err(1));
        assert_eq!(parse_settings(""), Ok(Vec::new()));
    }
}
