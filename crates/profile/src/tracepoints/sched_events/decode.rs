//! Samples of the scheduler's tracepoints as events.

use super::{SchedAction, TaskState};
use perfdata::tracepoint::{Format, TracepointField};
use rustc_hash::FxHashMap;

/// Decodes the tracepoints of one recording.
#[derive(Clone, Debug)]
pub struct SchedDecoder {
    /// The tracepoint of each event of the file.
    kinds: Vec<Option<Kind>>,
    /// Letters of the states seen, by event and the number in the payload.
    letters: FxHashMap<(usize, u64), char>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Wake,
    Ran,
    Migrate,
}

impl SchedDecoder {
    /// For events with these names, without their system; `None` for other events.
    #[must_use]
    pub fn new(names: &[Option<&str>]) -> Self {
        // Both report the same wake-up; the earlier one is where the wait for a CPU begins.
        let has_waking = names.contains(&Some("sched_waking"));
        let kind = |name: &str| match name {
            "sched_switch" => Some(Kind::Switch),
            "sched_wakeup" if has_waking => None,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Some(Kind::Wake),
            "sched_stat_runtime" => Some(Kind::Ran),
            "sched_migrate_task" => Some(Kind::Migrate),
            _ => None,
        };
        Self { kinds: names.iter().map(|name| name.and_then(kind)).collect(), letters: FxHashMap::default() }
    }

    /// Indexes of the events that are switches.
    pub fn switches(&self) -> impl Iterator<Item = usize> {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter(|(_, kind)| **kind == Some(Kind::Switch)).map(|(at, _)| at)
    }

    /// The action of a sample of the event with this index; `None` for other events and incomplete payloads.
    pub fn decode(&mut self, event: usize, format: &Format, raw: &[u8]) -> Option<SchedAction> {
        let kind = (*self.kinds.get(event)?)?;
        let number = |name: &str| Some(format.number(format.field(name)?, raw));
        let thread = |name: &str| i32::try_from(number(name)?.cast_signed()).ok();
        Some(match kind {
            Kind::Switch => {
                let field = format.field("prev_state")?;
                let value = format.number(field, raw);
                let letter = self.letters.entry((event, value));
                let state = TaskState(*letter.or_insert_with(|| letter_of(format, field, raw)));
                SchedAction::Switch { prev: thread("prev_pid")?, state, next: thread("next_pid")? }
            }
            Kind::Wake => SchedAction::Wake { tid: thread("pid")? },
            Kind::Ran => SchedAction::Ran { tid: thread("pid")?, ns: number("runtime")? },
            Kind::Migrate => SchedAction::Migrate { tid: thread("pid")? },
        })
    }
}

/// A state's letter as the kernel prints it: kernels number states in different ways.
fn letter_of(format: &Format, field: &TracepointField, raw: &[u8]) -> char {
    let mut text = String::new();
    format.print(raw, &mut text);
    let printed = text.split(' ').find_map(|word| word.strip_prefix(field.name.as_str())?.strip_prefix('='));
    let letter = printed.and_then(|state| state.chars().next()).filter(char::is_ascii_alphabetic);
    letter.unwrap_or(if format.number(field, raw) == 0 { 'R' } else { '?' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_that_two_tracepoints_report_counts_at_the_earlier_one() {
        let kinds = |names: &[Option<&str>]| SchedDecoder::new(names).kinds;
        assert_eq!(kinds(&[Some("sched_wakeup"), None]), [Some(Kind::Wake), None]);
        assert_eq!(kinds(&[Some("sched_wakeup"), Some("sched_waking")]), [None, Some(Kind::Wake)]);
        let decoder = SchedDecoder::new(&[Some("sched_waking"), Some("sched_switch")]);
        assert_eq!(decoder.switches().collect::<Vec<_>>(), [1]);
    }
}
