//! Language runtimes by their files.

/// The language runtime that a file belongs to.
pub(crate) fn runtime_of(dso: &str) -> Option<&'static str> {
    const FILES: &[(&str, &str)] = &[
        ("libpython", "python"),
        ("python", "python"),
        ("libjvm.so", "JVM"),
        ("libnode", "node"),
        ("node", "node"),
        ("libruby", "ruby"),
        ("ruby", "ruby"),
        ("libperl", "perl"),
        ("perl", "perl"),
        ("php", "php"),
        ("libcoreclr.so", ".NET"),
        ("libmono", "mono"),
    ];
    let rest_is_version = |rest: &str| {
        rest.is_empty() || rest.starts_with(['.', '-']) || rest.starts_with(|c: char| c.is_ascii_digit())
    };
    let is = |begin: &str| dso.strip_prefix(begin).is_some_and(rest_is_version);
    FILES.iter().find(|(begin, _)| is(begin)).map(|(_, name)| *name)
}

/// True for functions of a runtime's library, by their names, that only lead to a program's: Python's threads and
/// imports, modules of Node itself.
pub(crate) fn leads_to_program(name: &str) -> bool {
    /// How the names of Python's functions in these files end.
    const PYTHON: &[&str] = &[
        " (threading.py)",
        " (runpy.py)",
        " (<frozen runpy>)",
        " (<frozen importlib._bootstrap>)",
        " (<frozen importlib._bootstrap_external>)",
    ];
    PYTHON.iter().any(|end| name.ends_with(end)) || name.starts_with("JS:") && name.contains(" node:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_recognized_by_their_files() {
        let names =
            ["python3.11", "libjvm.so", "node", "nodepad", "libpython3.12.so.1.0", "app"].map(runtime_of);
        assert_eq!(names, [Some("python"), Some("JVM"), Some("node"), None, Some("python"), None]);
    }
}
