//! Clocks of several profilers: one compares with another, though each has a name of its own.

use crate::profile::{EventInfo, Profile};
use crate::view::flame::{Unit, unit_of};

/// Kinds of time that are no CPU time.
const OTHER_TIMES: &[&str] = &["wall", "off_cpu", "off-cpu", "idle"];

/// Gives the only clock of `current` the name of the only clock of `baseline`, if no event of both has the same name.
/// Returns the names before: of the baseline, then of the current side.
pub fn name_clocks_alike(baseline: &[Profile], current: &mut [Profile]) -> Option<(String, String)> {
    let names = |side: &[Profile]| -> Vec<String> {
        side.iter().flat_map(|profile| profile.events.iter().map(|event| event.name.clone())).collect()
    };
    let known = names(baseline);
    if names(current).iter().any(|name| known.contains(name)) {
        return None;
    }
    let (to, from) = (only_clock(baseline)?, only_clock(current)?);
    for event in current.iter_mut().flat_map(|profile| &mut profile.events) {
        if event.name == from {
            event.name.clone_from(&to);
        }
    }
    Some((to, from))
}

fn only_clock(side: &[Profile]) -> Option<String> {
    let events = side.iter().flat_map(|profile| &profile.events);
    let mut names: Vec<&String> = events.filter(|event| is_clock(event)).map(|event| &event.name).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [only] => Some((*only).clone()),
        _ => None,
    }
}

fn is_clock(event: &EventInfo) -> bool {
    unit_of(event) == Unit::Nanoseconds && !OTHER_TIMES.iter().any(|other| event.name.starts_with(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(names: &[&str]) -> Profile {
        let event = |name: &&str| EventInfo { name: (*name).to_owned(), kind: 1, ..EventInfo::default() };
        let mut profile = Profile::default();
        profile.events = names.iter().map(event).collect();
        profile
    }

    #[test]
    fn the_only_clocks_of_two_profilers_get_one_name() {
        let mut current = [with(&["time", "wall"])];
        let before = name_clocks_alike(&[with(&["cpu-clock:ppp"])], &mut current);
        assert_eq!(before, Some(("cpu-clock:ppp".to_owned(), "time".to_owned())));
        assert_eq!(current[0].events[0].name, "cpu-clock:ppp");
        assert_eq!(name_clocks_alike(&[with(&["cpu"])], &mut [with(&["cpu", "time"])]), None);
        assert_eq!(name_clocks_alike(&[with(&["cpu"])], &mut [with(&["a", "time"])]), None);
    }
}
