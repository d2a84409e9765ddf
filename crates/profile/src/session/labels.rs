//! Labels of goroutines: the sets of the recording, by number.

use perfdata::Sample;
use perfdata::appendix::goroutine_labels::{GoroutineLabels, set_of};

use crate::profile::Profile;
use crate::table::StringId;

/// Texts of all sets.
#[derive(Default)]
pub(super) struct SessionLabels(Vec<StringId>);

impl SessionLabels {
    /// Takes the sets of a recording into its profile.
    pub fn new(labels: &GoroutineLabels, profile: &mut Profile) -> Self {
        profile.label_counts = GoroutineLabels { sets: Vec::new(), ..*labels };
        Self(labels.sets.iter().map(|set| profile.name_labels(set)).collect())
    }

    /// Text of the set that a sample's goroutine has.
    pub fn of_sample(&self, sample: &Sample<'_>) -> Option<StringId> {
        self.0.get(set_of(sample)?).copied()
    }
}
