//! Remarks about labels of goroutines.

use display::number::{count_of, noun};
use perfdata::appendix::goroutine_labels::GoroutineLabels;
use profile::Profile;
use profile::view::report::SortKey;

/// Lines about labels that are missing, for a report by these keys.
#[must_use]
pub fn label_notes(profile: &Profile, keys: &[SortKey]) -> Vec<String> {
    if !keys.iter().any(|key| matches!(key, SortKey::Label(_))) {
        return Vec::new();
    }
    let GoroutineLabels { copies, unreadable, cut, .. } = profile.label_counts;
    if copies == 0 {
        let none = "tally report: the recording has no labels: they are those of Go programs that call pprof.Do, \
                    recorded as root on x86-64";
        return vec![none.to_owned()];
    }
    let mut notes = Vec::new();
    if cut > 0 {
        let have = noun(cut, "has", "have");
        notes.push(format!(
            "tally report: {} {have} more labels than tally keeps (16), or longer ones (128 bytes)",
            count_of(cut, "sample", "samples"),
        ));
    }
    if unreadable > 0 {
        let samples = count_of(unreadable, "sample", "samples");
        notes.push(format!("tally report: labels of {samples} can't be read; they count as {NONE}"));
    }
    notes
}

const NONE: &str = profile::profile::WITHOUT_LABELS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_missing_are_counted() {
        let notes = |copies, unreadable, cut| {
            let mut profile = Profile::default();
            profile.label_counts = GoroutineLabels { sets: Vec::new(), copies, unreadable, cut };
            assert_eq!(label_notes(&profile, &[SortKey::Comm]), Vec::<String>::new());
            label_notes(&profile, &[SortKey::Comm, SortKey::Label(None)])
        };
        assert!(notes(0, 0, 0)[0].contains("has no labels"));
        assert_eq!(notes(5, 0, 0), Vec::<String>::new());
        assert_eq!(
            notes(5, 1, 2),
            [
                "tally report: 2 samples have more labels than tally keeps (16), or longer ones (128 bytes)",
                "tally report: labels of 1 sample can't be read; they count as [no label]",
            ]
        );
    }
}
