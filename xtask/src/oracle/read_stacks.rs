//! Stacks as another program reads them from an export: the value of each kind and path.

use std::collections::{BTreeMap, BTreeSet};

/// Between a line's value, kind and stack; no name has one.
pub const SEPARATOR: char = '\t';

/// Values by kind and stack, root first, with `;` between functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadStacks(BTreeMap<(String, String), u64>);

impl ReadStacks {
    /// From lines `VALUE`, kind and stack, with tabs between them; other lines are left out.
    pub fn of_lines(text: &str) -> Self {
        let mut read = Self::default();
        for line in text.lines() {
            let mut parts = line.splitn(3, SEPARATOR);
            let value = parts.next().and_then(|value| value.parse().ok());
            if let (Some(value), Some(kind), Some(stack)) = (value, parts.next(), parts.next()) {
                read.add(kind, stack.to_owned(), value);
            }
        }
        read
    }

    /// From folded lines of one kind, without the process that each begins with.
    pub fn of_folded(kind: &str, text: &str) -> Self {
        let mut read = Self::default();
        for (path, value) in text.lines().filter_map(|line| line.rsplit_once(' ')) {
            let stack = path.split_once(';').map_or("", |(_, stack)| stack);
            read.add(kind, stack.to_owned(), value.parse().unwrap_or(0));
        }
        read
    }

    /// Adds a value; 0 makes no stack.
    pub fn add(&mut self, kind: &str, stack: String, value: u64) {
        if value > 0 {
            *self.0.entry((kind.to_owned(), stack)).or_default() += value;
        }
    }

    /// Adds functions, root first, as folded text has them.
    pub fn add_path<'n>(&mut self, kind: &str, path: impl Iterator<Item = &'n str>, value: u64) {
        let names: Vec<String> = path.map(|name| name.replace(';', ":")).collect();
        self.add(kind, names.join(";"), value);
    }

    /// Without kinds that the recording does not have as such.
    pub fn without(mut self, is_left_out: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|(kind, _), _| !is_left_out(kind));
        self
    }

    /// The kinds with a value.
    pub fn kinds(&self) -> BTreeSet<&str> {
        self.0.keys().map(|(kind, _)| kind.as_str()).collect()
    }

    /// Sums of kinds but the wall clock, smallest first.
    pub fn sums_of_events(&self) -> Vec<u64> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for ((kind, _), value) in self.0.iter().filter(|((kind, _), _)| kind != "wall") {
            *sums.entry(kind).or_default() += value;
        }
        let mut sums: Vec<u64> = sums.into_values().collect();
        sums.sort_unstable();
        sums
    }

    /// The first stack that differs in one of this one's kinds, with both values.
    pub fn first_difference(&self, recorded: &Self) -> Option<String> {
        let kinds = self.kinds();
        let of_kinds = recorded.0.keys().filter(|(kind, _)| kinds.contains(kind.as_str()));
        let value = |of: &Self, key| of.0.get(key).copied().unwrap_or(0);
        let differing =
            self.0.keys().chain(of_kinds).find(|&key| value(self, key) != value(recorded, key))?;
        let (kind, stack) = differing;
        let [read, recorded] = [value(self, differing), value(recorded, differing)];
        Some(format!("{read} instead of {recorded} of {kind} in {stack}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_with_another_frame_or_value_differs_and_one_of_another_kind_does_not() {
        let recorded = ReadStacks::of_folded("cpu", "app;main;f 3\napp;main;g 4\n");
        let read = |text: &str| ReadStacks::of_lines(text).first_difference(&recorded);
        assert_eq!(read("3\tcpu\tmain;f\n4\tcpu\tmain;g\n"), None);
        assert_eq!(read("1\tcpu\tmain;f\nnote\n2\tcpu\tmain;f\n4\tcpu\tmain;g\n"), None);
        assert_eq!(
            read("3\tcpu\tmain;h\n4\tcpu\tmain;g\n").as_deref(),
            Some("3 instead of 0 of cpu in main;h")
        );
        assert_eq!(read("3\tcpu\tmain;f\n").as_deref(), Some("0 instead of 4 of cpu in main;g"));
        let more = ReadStacks::of_lines("3\tcpu\tmain;f\n4\tcpu\tmain;g\n9\twall\tmain\n");
        assert_eq!((more.sums_of_events(), more.kinds().len()), (vec![7], 2));
        assert!(more.clone().without(|kind| kind == "wall").first_difference(&recorded).is_none());
    }

    #[test]
    fn names_are_written_as_in_folded_text() {
        let mut read = ReadStacks::default();
        read.add_path("cpu", ["main", "a;b"].into_iter(), 2);
        assert_eq!(read, ReadStacks::of_folded("cpu", "app;main;a:b 2"));
    }
}
