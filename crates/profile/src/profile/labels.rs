//! Labels that programs gave their goroutines.

use perfdata::appendix::goroutine_labels::LabelSet;

use super::{ExtraDimensions, Profile};
use crate::table::StringId;

/// Text of samples without labels, or without the label asked for.
pub const WITHOUT_LABELS: &str = "[no label]";

/// A set as one text: `route=/pay, user=7`. Texts that would be read wrongly are quoted.
fn text_of(set: &LabelSet) -> String {
    let quoted = |text: &String| {
        let is_plain = !text.is_empty() && !text.contains(['=', ',', '"']);
        if is_plain { text.clone() } else { format!("{text:?}") }
    };
    let label = |(key, value): &(String, String)| format!("{}={}", quoted(key), quoted(value));
    set.iter().map(label).collect::<Vec<_>>().join(", ")
}

impl Profile {
    /// Takes in a set of labels.
    pub fn name_labels(&mut self, set: &LabelSet) -> StringId {
        let text = self.strings.intern(&text_of(set));
        let strings = &mut self.strings;
        let pairs = set.iter().map(|(key, value)| (strings.intern(key), strings.intern(value)));
        self.label_sets.insert(text, pairs.collect());
        text
    }

    /// Keys and values of a set.
    #[must_use]
    pub fn labels_in(&self, set: Option<StringId>) -> &[(StringId, StringId)] {
        set.and_then(|set| self.label_sets.get(&set)).map_or(&[], Vec::as_slice)
    }

    /// Value of one of them.
    #[must_use]
    pub fn label_in(&self, set: Option<StringId>, key: &str) -> Option<StringId> {
        self.labels_in(set).iter().find(|(name, _)| self.strings.of(*name) == key).map(|(_, value)| *value)
    }

    /// Keys and values of a cell's labels.
    #[must_use]
    pub fn labels_of(&self, extra: &ExtraDimensions) -> &[(StringId, StringId)] {
        self.labels_in(extra.labels)
    }

    /// Value of one of them.
    #[must_use]
    pub fn label(&self, extra: &ExtraDimensions, key: &str) -> Option<StringId> {
        self.label_in(extra.labels, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(labels: &[(&str, &str)]) -> LabelSet {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn different_sets_have_different_texts() {
        assert_eq!(text_of(&set(&[("route", "/pay"), ("user", "7")])), "route=/pay, user=7");
        assert_eq!(text_of(&set(&[("route", "/pay, user=7"), ("", "")])), r#"route="/pay, user=7", ""="""#);
    }

    #[test]
    fn the_values_of_a_set_are_found_by_their_keys() {
        let mut profile = Profile::default();
        let labels = Some(profile.name_labels(&set(&[("route", "/pay"), ("user", "7")])));
        let extra = ExtraDimensions { labels, ..ExtraDimensions::default() };
        let value = |key: &str| profile.label(&extra, key).map(|value| profile.strings.of(value));
        assert_eq!([value("user"), value("route"), value("rout")], [Some("7"), Some("/pay"), None]);
        assert!(profile.labels_of(&ExtraDimensions::default()).is_empty());
    }

    #[test]
    fn merged_profiles_have_the_labels_of_both() {
        let profile = |texts: &[&str], value: &str| {
            let mut profile = Profile::default();
            // Other numbers for the same texts.
            for text in texts {
                profile.strings.intern(text);
            }
            profile.name_labels(&set(&[("route", value)]));
            profile
        };
        let mut both = profile(&[], "/a");
        both.merge(&profile(&["x", "/b"], "/b"));
        let value = |text: &str| {
            let set = both.label_sets.iter().find(|(set, _)| both.strings.of(**set) == text);
            set.map(|(_, pairs)| {
                pairs.iter().map(|(key, value)| [*key, *value].map(|id| both.strings.of(id)))
            })
        };
        let of = |text: &str| value(text).map(Iterator::collect::<Vec<_>>);
        assert_eq!(of("route=/a"), Some(vec![["route", "/a"]]));
        assert_eq!(of("route=/b"), Some(vec![["route", "/b"]]));
    }
}
