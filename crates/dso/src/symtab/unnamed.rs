//! Names for functions without a symbol: one form for all views and filters.

use crate::Svma;

const BEGIN: &str = "function 0x";

/// The name of the function without a symbol that begins at `start`: `function 0x5d80`.
pub fn unnamed_function(start: Svma) -> String {
    format!("{BEGIN}{:x}", start.0)
}

/// Whether `name` is such a name, or a filter that asks for one.
pub fn is_unnamed_function(name: &str) -> bool {
    name.starts_with(BEGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_without_a_symbol_are_recognized() {
        let name = unnamed_function(Svma(0x5d80));
        assert_eq!(name, "function 0x5d80");
        assert!(is_unnamed_function(&name) && !is_unnamed_function("function"));
    }
}
