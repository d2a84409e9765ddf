//! Names shown again: a view that names frames while it reads asks for the same functions many times.

use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// Names kept at a time.
const MOST_NAMES: usize = 1 << 14;

/// A function of an open object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamedCode {
    /// Number of the file: those of two files that are open at once differ.
    pub file: usize,
    /// Stated address.
    pub start: u64,
}

/// How functions are shown, as far as they are shown otherwise than the file names them.
#[derive(Default)]
pub(crate) struct ShownNames {
    known: FxHashMap<NamedCode, Box<str>>,
}

impl ShownNames {
    /// How the function `code`, `found` in its file, is shown; by `show` if it isn't known.
    pub fn of<'f>(
        &mut self,
        code: NamedCode,
        found: &'f str,
        show: impl FnOnce(&'f str) -> Cow<'f, str>,
    ) -> String {
        if let Some(known) = self.known.get(&code) {
            return known.as_ref().to_owned();
        }
        match show(found) {
            Cow::Borrowed(same) => same.to_owned(),
            Cow::Owned(shown) => {
                if self.known.len() >= MOST_NAMES {
                    self.known.clear();
                }
                self.known.insert(code, shown.as_str().into());
                shown
            }
        }
    }
}

/// Names shown before, for threads that ask by turns.
#[derive(Default)]
pub(crate) struct ShownNamesPool(Mutex<Vec<ShownNames>>);

impl ShownNamesPool {
    /// Runs `ask` with names that nobody else uses meanwhile.
    pub fn with<T>(&self, ask: impl FnOnce(&mut ShownNames) -> T) -> T {
        let idle = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = idle().pop().unwrap_or_default();
        let answer = ask(&mut names);
        idle().push(names);
        answer
    }

    /// Forgets all names: a file is replaced by another.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_worked_out_once_a_function() {
        let mut shown = ShownNames::default();
        let mut worked_out = Vec::new();
        let names = [(1, 0x10, "a"), (1, 0x20, "b"), (1, 0x10, "a"), (2, 0x10, "c")];
        let names = names.map(|(file, start, found)| {
            shown.of(NamedCode { file, start }, found, |name| {
                worked_out.push(name);
                Cow::Owned(format!("{name}()"))
            })
        });
        assert_eq!(names, ["a()", "b()", "a()", "c()"]);
        assert_eq!(worked_out, ["a", "b", "c"]);
    }

    #[test]
    fn names_of_a_pool_are_known_until_it_is_cleared() {
        let pool = ShownNamesPool::default();
        let ask = |shown: &'static str| {
            let code = NamedCode { file: 1, start: 0 };
            pool.with(|names| names.of(code, "a", |_| Cow::Owned(shown.to_owned())))
        };
        assert_eq!([ask("first"), ask("second")], ["first", "first"]);
        pool.clear();
        assert_eq!(ask("second"), "second");
    }
}
