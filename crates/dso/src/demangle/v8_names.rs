//! Names that V8 (Node, Chrome) gives its compiled JavaScript functions.
//
// `JS:*name /path/file.js:line:column`; the character before the name is the compiler that made the code.
// Source: V8 src/logging/log.cc (AppendCodeCreateHeader), src/objects/code-kind.h (CodeKindToMarker).

/// The characters for the compilers, before the name.
pub(super) const COMPILERS: [char; 5] = ['~', '^', '+', '\'', '*'];

/// A JavaScript function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V8Function<'n> {
    /// Name; empty for the code of a module and for functions without name.
    pub name: &'n str,
    /// The name of its file, without folder.
    pub file: &'n str,
    /// The line that it begins at, from 1.
    pub line: u32,
    /// It begins with its file: the code of a module outside of its functions.
    pub is_module: bool,
}

impl<'n> V8Function<'n> {
    /// Its name, or in brackets what it is: `(module)`, `(anonymous)`.
    #[must_use]
    pub const fn label(&self) -> &'n str {
        match (self.name.is_empty(), self.is_module) {
            (false, _) => self.name,
            (true, true) => "(module)",
            (true, false) => "(anonymous)",
        }
    }
}

/// The function that a symbol names; `None` for other symbols.
#[must_use]
pub fn v8_function(symbol: &str) -> Option<V8Function<'_>> {
    let rest = symbol.strip_prefix("JS:")?;
    let rest = rest.strip_prefix(COMPILERS).unwrap_or(rest);
    let (rest, column) = rest.rsplit_once(':')?;
    let (rest, line) = rest.rsplit_once(':')?;
    // A path may have blanks: it begins at the first that is not part of an accessor's name.
    let accessor =
        ["get ", "set "].iter().find(|begin| rest.starts_with(*begin)).map_or(0, |begin| begin.len());
    let after_name = accessor + rest[accessor..].find(' ')?;
    let (name, path) = (&rest[..after_name], &rest[after_name + 1..]);
    let file = path.rsplit('/').next().unwrap_or(path);
    let is_module = name.is_empty() && !file.is_empty() && (line, column) == ("1", "1");
    Some(V8Function { name, file, line: line.parse().ok()?, is_module })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_files_and_of_node_itself_are_read() {
        let read = |symbol| v8_function(symbol).map(|f| (f.name, f.file, f.line));
        assert_eq!(read("JS:*fib /tmp/my app/prog.js:1:13"), Some(("fib", "prog.js", 1)));
        assert_eq!(
            read("JS:~Module._compile node:internal/modules/cjs/loader:1549:37"),
            Some(("Module._compile", "loader", 1549))
        );
        assert_eq!(read("JS:~ /tmp/prog.js:1:1"), Some(("", "prog.js", 1)));
        assert_eq!(read("JS:*get v /tmp/my app/prog.js:1:13"), Some(("get v", "prog.js", 1)));
        let label = |symbol| v8_function(symbol).map(|f| f.label());
        assert_eq!(label("JS:~ /tmp/prog.js:1:1"), Some("(module)"));
        assert_eq!(label("JS:~ /tmp/prog.js:2:9"), Some("(anonymous)"));
        assert_eq!(label("JS:~ :1:1"), Some("(anonymous)"));
        assert_eq!(label("JS:fib /tmp/prog.js:1:1"), Some("fib"));
        assert_eq!(read("JS:fib"), None);
        assert_eq!(read("Builtin:ArrayPush"), None);
    }
}
