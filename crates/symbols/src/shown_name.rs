//! Names shown again: addresses are requested in ascending order, most of them after others of their function.

use std::borrow::Cow;

/// The name found last, and how it is shown.
#[derive(Default)]
pub(crate) struct ShownName<'f> {
    found: &'f str,
    shown: String,
}

impl<'f> ShownName<'f> {
    /// How `found` is shown; by `show` if another name was found before.
    pub fn of(&mut self, found: &'f str, show: impl FnOnce(&'f str) -> Cow<'f, str>) -> String {
        if found != self.found {
            *self = Self { found, shown: show(found).into_owned() };
        }
        self.shown.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_worked_out_once_until_another_comes() {
        let mut shown = ShownName::default();
        let mut worked_out = Vec::new();
        let names = ["a", "a", "b", "a"].map(|name| {
            shown.of(name, |name| {
                worked_out.push(name);
                Cow::Owned(format!("{name}()"))
            })
        });
        assert_eq!(names, ["a()", "a()", "b()", "a()"]);
        assert_eq!(worked_out, ["a", "b", "a"]);
    }
}
